/* full, eye, arange and linspace: tensors from attributes. */
#include "backends/cpu/cpu.h"
#include "backends/cpu/parallel.h"

#include <stdlib.h>
#include <string.h>

struct creation {
    struct cpu_node node;
    enum eo_dtype dtype;
    int64_t size, count;    /* bytes of an element; elements */
    unsigned char value[8]; /* of full, of the diagonal of eye */
    int64_t diagonal;       /* of eye */
    double start, step, stop;
    bool ends; /* the last element is stop */
    vector_map_fn fill, convert;
};

struct job {
    const struct creation *p;
    const struct eo_launch *l;
};

static void fill_range(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const struct job *j = context;
    j->p->fill(end - begin, (char *)j->l->out[0] + begin * j->p->size, (const void *const[]){j->p->value}, 1, NULL);
}

static int full_run(struct cpu_device *dev, const struct eo_launch *l, struct eo_error *err)
{
    const struct creation *p = l->state;
    (void)err;
    parallel_for(dev->base.info.threads, p->count, parallel_grain(1), fill_range, &(struct job){p, l});
    return EO_OK;
}

/* Elements in float64, a block at a time, then cast. */
static void sequence_range(void *context, int64_t begin, int64_t end, int thread)
{
    enum { BLOCK = 256 };
    (void)thread;
    const struct job *j = context;
    const struct creation *p = j->p;
    for (int64_t first = begin; first < end; first += BLOCK) {
        double x[BLOCK];
        const int64_t n = EO_MIN(end - first, (int64_t)BLOCK);
        for (int64_t i = 0; i < n; i++)
            x[i] = p->start + (double)(first + i) * p->step;
        if (p->ends && first + n == p->count)
            x[n - 1] = p->stop;
        p->convert(n, (char *)j->l->out[0] + first * p->size, (const void *const[]){x}, 0, NULL);
    }
}

static int sequence_run(struct cpu_device *dev, const struct eo_launch *l, struct eo_error *err)
{
    const struct creation *p = l->state;
    (void)err;
    parallel_for(dev->base.info.threads, p->count, parallel_grain(2), sequence_range, &(struct job){p, l});
    return EO_OK;
}

/* All bits 0 is the number 0 in every dtype. */
static int eye_run(struct cpu_device *dev, const struct eo_launch *l, struct eo_error *err)
{
    const struct creation *p = l->state;
    const int64_t rows = l->node->out[0]->shape[0], columns = l->node->out[0]->shape[1], k = p->diagonal;
    (void)dev;
    (void)err;
    if (p->count == 0)
        return EO_OK;
    memset(l->out[0], 0, (size_t)(p->count * p->size));
    if (k >= columns || k <= -rows)
        return EO_OK;
    for (int64_t r = k < 0 ? -k : 0; r < rows && r + k < columns; r++)
        memcpy((char *)l->out[0] + (r * columns + r + k) * p->size, p->value, (size_t)p->size);
    return EO_OK;
}

/* The attribute `value` in the dtype of the result; eo_op_infer has checked that the dtype holds it. */
static void set_value(struct creation *p, double value)
{
    switch (p->dtype) {
    case EO_FLOAT32: {
        float f = (float)value;
        memcpy(p->value, &f, sizeof f);
        return;
    }
    case EO_FLOAT64:
        memcpy(p->value, &value, sizeof value);
        return;
    case EO_FLOAT16:
    case EO_BFLOAT16: {
        uint16_t h = p->dtype == EO_FLOAT16 ? eo_half_from_double(value) : eo_bfloat_from_double(value);
        memcpy(p->value, &h, sizeof h);
        return;
    }
    default: { /* integers and bool; two's complement, little-endian */
        uint64_t bits = value < 0 ? (uint64_t)(int64_t)value : (uint64_t)value;
        memcpy(p->value, &bits, sizeof bits);
        return;
    }
    }
}

static void describe(struct creation *p, const struct cpu_device *dev, const struct eo_node_view *node)
{
    const struct eo_op_schema *op = node->op;
    p->dtype = (enum eo_dtype)node->out[0]->dtype;
    p->size = (int64_t)eo_dtype_size(p->dtype);
    p->count = eo_tensor_desc_count(node->out[0]);
    p->fill = (*dev->vec->elementwise)[EO_OP_EXPAND][p->dtype];
    p->convert = (*dev->vec->cast)[EO_FLOAT64][p->dtype];
    switch (op->op) {
    case EO_OP_FULL:
        set_value(p, eo_attr_float(op, node->attrs, "value"));
        return;
    case EO_OP_EYE:
        set_value(p, 1);
        p->diagonal = eo_attr_int(op, node->attrs, "k");
        return;
    case EO_OP_ARANGE:
        p->start = eo_attr_float(op, node->attrs, "start");
        p->step = eo_attr_float(op, node->attrs, "step");
        return;
    default: /* linspace */
        p->start = eo_attr_float(op, node->attrs, "start");
        p->stop = eo_attr_float(op, node->attrs, "stop");
        p->ends = p->count > 1;
        p->step = p->ends ? (p->stop - p->start) / (double)(p->count - 1) : 0;
        return;
    }
}

int creation_select(struct cpu_device *dev, const struct eo_node_view *node, struct eo_kernel *out,
                    struct cpu_refusals *why, struct eo_error *err)
{
    struct creation *p = NULL;
    int rc = cpu_node_new(sizeof *p, &p, err);
    (void)why;
    if (rc != EO_OK)
        return rc;
    describe(p, dev, node);
    cpu_node_finish(&p->node,
                    node->op->op == EO_OP_FULL  ? full_run
                    : node->op->op == EO_OP_EYE ? eye_run
                                                : sequence_run,
                    out, "%s.%s.%s", node->op->name, eo_dtype_name(p->dtype), dev->vec->name);
    return EO_OK;
}
