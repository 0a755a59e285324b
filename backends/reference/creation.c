/* Rows that create tensors from attributes. */
#include "backends/reference/element.h"
#include "backends/reference/reference.h"

int reference_full(const struct eo_launch *l, struct eo_error *err)
{
    (void)err;
    const struct eo_tensor_desc *y = l->node->out[0];
    int64_t n = eo_tensor_desc_count(y);
    struct element value = element_from_double(eo_attr_float(l->node->op, l->node->attrs, "value"), y->dtype);
    for (int64_t i = 0; i < n; i++)
        element_set(l->out[0], y->dtype, i, value);
    return EO_OK;
}

int reference_eye(const struct eo_launch *l, struct eo_error *err)
{
    (void)err;
    const struct eo_tensor_desc *y = l->node->out[0];
    int64_t k = eo_attr_int(l->node->op, l->node->attrs, "k");
    for (int64_t r = 0; r < y->shape[0]; r++)
        for (int64_t c = 0; c < y->shape[1]; c++)
            element_set(l->out[0], y->dtype, r * y->shape[1] + c, element_from_double(c - r == k, y->dtype));
    return EO_OK;
}

int reference_arange(const struct eo_launch *l, struct eo_error *err)
{
    (void)err;
    const struct eo_tensor_desc *y = l->node->out[0];
    double start = eo_attr_float(l->node->op, l->node->attrs, "start");
    double step = eo_attr_float(l->node->op, l->node->attrs, "step");
    for (int64_t i = 0; i < y->shape[0]; i++)
        element_set(l->out[0], y->dtype, i, element_from_double(start + (double)i * step, y->dtype));
    return EO_OK;
}

int reference_linspace(const struct eo_launch *l, struct eo_error *err)
{
    (void)err;
    const struct eo_tensor_desc *y = l->node->out[0];
    double start = eo_attr_float(l->node->op, l->node->attrs, "start");
    double stop = eo_attr_float(l->node->op, l->node->attrs, "stop");
    int64_t last = y->shape[0] - 1;
    double step = last > 0 ? (stop - start) / (double)last : 0;
    for (int64_t i = 0; i <= last; i++)
        element_set(l->out[0], y->dtype, i,
                    element_from_double(i == last && last > 0 ? stop : start + (double)i * step, y->dtype));
    return EO_OK;
}
