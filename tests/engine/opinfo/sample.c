#include "tests/engine/opinfo/sample.h"

#include "tests/proto/op_case.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

static struct eo_error err;

/* ---- reading ---- */

double sample_number(const json_t *j)
{
    if (json_is_string(j)) {
        const char *text = json_string_value(j);

        return strcmp(text, "nan") == 0 ? (double)NAN : text[0] == '-' ? -(double)INFINITY : (double)INFINITY;
    }
    return json_is_boolean(j) ? json_is_true(j) : json_number_value(j);
}

int sample_shape(const json_t *tensor, int64_t *out)
{
    const json_t *dims = json_object_get(tensor, "shape");

    for (size_t i = 0; i < json_array_size(dims); i++) {
        out[i] = json_integer_value(json_array_get(dims, i));
    }
    return (int)json_array_size(dims);
}

/* Both sides compute in float64, from float32 numbers. */
static void add_tensor(struct sample *s, const json_t *holder)
{
    const json_t *tensor = json_object_get(holder, "tensor"), *data = json_object_get(tensor, "data");
    enum eo_dtype dtype = eo_dtype_by_name(json_string_value(json_object_get(tensor, "dtype")));
    int64_t shape[EO_MAX_DIMS];
    int n_dims = sample_shape(tensor, shape), t = s->n_tensors++;
    char label[16];

    ck_assert_int_lt(t, SAMPLE_TENSORS);
    dtype = dtype == EO_FLOAT32 ? EO_FLOAT64 : dtype == EO_UINT8 ? EO_INT64 : dtype;
    (void)snprintf(label, sizeof(label), "t%d", t);
    s->json[t] = holder;
    s->value[t] = harness_input(s->g, label, dtype, n_dims, shape);
    s->data[t] = calloc(json_array_size(data) + 1, sizeof(double));
    ck_assert_ptr_nonnull(s->data[t]);
    for (size_t i = 0; i < json_array_size(data); i++) {
        harness_set(dtype, s->data[t], (int64_t)i, sample_number(json_array_get(data, i)));
    }
    if (json_is_true(json_object_get(tensor, "leaf"))) {
        s->leaves[s->n_leaves++] = s->value[t];
    }
}

static void add_tensors(struct sample *s, const json_t *j)
{
    if (json_is_object(j) && json_object_get(j, "tensor") != NULL) {
        add_tensor(s, j);
    } else if (json_is_array(j)) {
        for (size_t i = 0; i < json_array_size(j); i++) {
            add_tensors(s, json_array_get(j, i));
        }
    }
}

void sample_open(struct sample *s, json_t *root)
{
    const char *key;
    json_t *value;

    *s = (struct sample){.root = root,
                         .args = json_object_get(root, "args"),
                         .kwargs = json_object_get(root, "kwargs"),
                         .g = eo_graph_new(),
                         .n_results = 1};
    ck_assert_ptr_nonnull(s->g);
    eo_build_init(&s->b, s->g, &err);
    add_tensors(s, json_object_get(root, "input"));
    add_tensors(s, s->args);
    json_object_foreach(s->kwargs, key, value)
    {
        add_tensors(s, value);
    }
}

void sample_close(struct sample *s)
{
    for (int t = 0; t < s->n_tensors; t++) {
        free(s->data[t]);
    }
    eo_graph_free(s->g);
}

void sample_also(struct sample *s, eo_value v)
{
    ck_assert_int_lt(s->n_results, SAMPLE_RESULTS);
    s->results[s->n_results++] = v;
}

eo_value sample_leave_out(struct sample *s, const char *why)
{
    s->left_out = why;
    return EO_NO_VALUE;
}

/* ---- arguments ---- */

eo_value sample_tensor(const struct sample *s, const json_t *j)
{
    for (int t = 0; t < s->n_tensors; t++) {
        if (s->json[t] == j) {
            return s->value[t];
        }
    }
    return EO_NO_VALUE;
}

eo_value sample_input(const struct sample *s)
{
    return sample_tensor(s, json_object_get(s->root, "input"));
}

const json_t *sample_arg(const struct sample *s, size_t i)
{
    return json_array_get(s->args, i);
}

const json_t *sample_kwarg(const struct sample *s, const char *name)
{
    return json_object_get(s->kwargs, name);
}

const json_t *sample_either(const struct sample *s, size_t i, const char *name)
{
    const json_t *by_name = sample_kwarg(s, name);

    return by_name != NULL ? by_name : sample_arg(s, i);
}

double sample_kwarg_number(const struct sample *s, const char *name, double fallback)
{
    const json_t *j = sample_kwarg(s, name);

    return j != NULL ? sample_number(j) : fallback;
}

const char *sample_kwarg_text(const struct sample *s, const char *name, const char *fallback)
{
    const json_t *j = sample_kwarg(s, name);

    return json_is_string(j) ? json_string_value(j) : fallback;
}

int sample_ints(const json_t *j, int n, int64_t *out)
{
    bool repeat = json_is_integer(j) || json_array_size(j) == 1;

    for (int i = 0; i < (repeat ? n : (int)json_array_size(j)); i++) {
        const json_t *one = json_is_integer(j) ? j : json_array_get(j, repeat ? 0 : (size_t)i);

        out[i] = json_integer_value(one);
    }
    return repeat ? n : (int)json_array_size(j);
}

int sample_result_shape(const struct sample *s, int64_t *out)
{
    return sample_shape(json_array_get(json_object_get(s->root, "outputs"), 0), out);
}

/* ---- building ---- */

struct eo_tensor_desc sample_desc(const struct sample *s, eo_value v)
{
    return *eo_build_desc(&s->b, v);
}

eo_value sample_scalar(struct sample *s, double v)
{
    return eo_build_scalar(&s->b, EO_FLOAT64, v);
}

eo_value sample_row(struct sample *s, enum eo_op op, const eo_value *in, int n_in, const char *format, ...)
{
    char text[256];
    struct eo_attrs attrs;
    va_list list;

    va_start(list, format);
    (void)vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    attrs = op_case_attrs(eo_op_schema(op), text);
    return eo_build_op(&s->b, op, in, n_in, &attrs);
}

const char *sample_list(const int64_t *v, int n, char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (int i = 0; i < n && used < size; i++) {
        used += (size_t)snprintf(text + used, size - used, "%s%" PRId64, i == 0 ? "" : ",", v[i]);
    }
    return text;
}

eo_value sample_like_result(struct sample *s, eo_value v)
{
    int64_t shape[EO_MAX_DIMS];
    int n = sample_result_shape(s, shape);

    return eo_build_reshape(&s->b, v, shape, n);
}

eo_value sample_vector(struct sample *s, eo_value v)
{
    return sample_desc(s, v).n_dims > 0 ? v : eo_build_reshape(&s->b, v, (int64_t[]){1}, 1);
}
