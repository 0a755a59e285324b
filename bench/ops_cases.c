#include "bench/ops_cases.h"

#include "proto/base/bytes.h"
#include "proto/base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct bench_text cases[] = {
    {"launch", "add", "float32; float32", ""},
    /* Matrix products: the sizes of the published anchors (m n k), then those of training steps. */
    {"matmul 64x64x64", "matmul", "float32 64x64; float32 64x64", ""},
    {"matmul 128x128x128", "matmul", "float32 128x128; float32 128x128", ""},
    {"matmul 256x256x256", "matmul", "float32 256x256; float32 256x256", ""},
    {"matmul 512x512x512", "matmul", "float32 512x512; float32 512x512", ""},
    {"matmul 1024x1024x1024", "matmul", "float32 1024x1024; float32 1024x1024", ""},
    {"matmul 2048x2048x2048", "matmul", "float32 2048x2048; float32 2048x2048", ""},
    {"matmul 64x128x784", "matmul", "float32 64x784; float32 784x128", ""},
    {"matmul 32x10x64", "matmul", "float32 32x64; float32 64x10", ""},
    {"matmul 256x512x512", "matmul", "float32 256x512; float32 512x512", ""},
    {"matmul 32x128x64", "matmul", "float32 32x64; float32 64x128", ""},
    {"matmul 128x512x784", "matmul", "float32 128x784; float32 784x512", ""},
    {"matmul 1000x1000x1000", "matmul", "float32 1000x1000; float32 1000x1000", ""},
    {"matmul 300x500x700", "matmul", "float32 300x700; float32 700x500", ""},
    {"matmul 2048x64x512", "matmul", "float32 2048x512; float32 512x64", ""},
    {"matmul 512x512x64", "matmul", "float32 512x64; float32 64x512", ""},
    {"matmul 16x1024x1024", "matmul", "float32 16x1024; float32 1024x1024", ""},
    {"matmul 1024x16x1024", "matmul", "float32 1024x1024; float32 1024x16", ""},
    {"matmul 40x48x56", "matmul", "float32 40x56; float32 56x48", ""},
    {"matmul 512x512x1024 a^T", "matmul", "float32 1024x512; float32 1024x512", "transpose_a=1"},
    {"matmul 512x512x512 b^T", "matmul", "float32 512x512; float32 512x512", "transpose_b=1"},
    {"matmul 1024x1x1024", "matmul", "float32 1024x1024; float32 1024x1", ""},
    {"matmul 1x1024x1024", "matmul", "float32 1x1024; float32 1024x1024", ""},
    {"matmul 16 of 64x64x64", "matmul", "float32 16x64x64; float32 16x64x64", ""},
    {"matmul 128x64x32 a^T", "matmul", "float32 32x128; float32 32x64", "transpose_a=1"},
    {"matmul 784x512x128 a^T", "matmul", "float32 128x784; float32 128x512", "transpose_a=1"},
    {"matmul 128x784x512 b^T", "matmul", "float32 128x512; float32 784x512", "transpose_b=1"},
    {"matmul float64 64x64x64", "matmul", "float64 64x64; float64 64x64", ""},
    {"matmul float64 512x512x512", "matmul", "float64 512x512; float64 512x512", ""},
    {"linear 32x128x64", "linear", "float32 32x64; float32 64x128; float32 128", ""},
    {"linear 128x512x784", "linear", "float32 128x784; float32 784x512; float32 512", ""},
    /* Element-wise: bound by memory (10 M elements), and in the cache. */
    {"add 10M", "add", "float32 10000000; float32 10000000", ""},
    {"add 4Ki", "add", "float32 4096; float32 4096", ""},
    {"add row (4096,1024)", "add", "float32 4096x1024; float32 1024", ""},
    {"add row (32,10)", "add", "float32 32x10; float32 10", ""},
    {"add int32 10M", "add", "int32 10000000; int32 10000000", ""},
    {"relu 10M", "relu", "float32 10000000", ""},
    {"relu 64Ki", "relu", "float32 65536", ""},
    {"cast float32 float64 10M", "cast", "float32 10000000", "dtype=float64"},
    {"cast float32 float16 10M", "cast", "float32 10000000", "dtype=float16"},
    {"cast int64 float32 10M", "cast", "int64 10000000", "dtype=float32"},
    {"exp 10M", "exp", "float32 10000000", ""},
    {"tanh 10M", "tanh", "float32 10000000", ""},
    {"sigmoid 10M", "sigmoid", "float32 10000000", ""},
    {"erf 10M", "erf", "float32 10000000", ""},
    {"exp 64Ki", "exp", "float32 65536", ""},
    {"log 64Ki", "log", "float32 65536", ""},
    {"tanh 64Ki", "tanh", "float32 65536", ""},
    {"sigmoid 64Ki", "sigmoid", "float32 65536", ""},
    {"power 64Ki", "power", "float32 65536; float32 65536", ""},
    {"divide 64Ki", "divide", "float32 65536; float32 65536", ""},
    {"less 10M", "less", "float32 10000000; float32 10000000", ""},
    /* Reductions and rows of softmax. */
    {"sum 10M", "sum", "float32 10000000", ""},
    {"sum 64Ki", "sum", "float32 65536", ""},
    {"sum axis 0 (4096,1024)", "sum", "float32 4096x1024", "axes=0"},
    {"sum axis 1 (4096,1024)", "sum", "float32 4096x1024", "axes=1"},
    {"sum axis 1 (100000,10)", "sum", "float32 100000x10", "axes=1"},
    {"max 10M", "max", "float32 10000000", ""},
    {"mean axis 1 (4096,1024)", "mean", "float32 4096x1024", "axes=1"},
    {"variance axis 1 (4096,1024)", "variance", "float32 4096x1024", "axes=1"},
    {"arg_max (4096,1024)", "arg_max", "float32 4096x1024", ""},
    {"arg_max (32,10)", "arg_max", "float32 32x10", ""},
    {"softmax (4096,1024)", "softmax", "float32 4096x1024", ""},
    {"softmax axis 0 (1024,1024)", "softmax", "float32 1024x1024", "axis=0"},
    {"softmax (8192,64)", "softmax", "float32 8192x64", ""},
    {"softmax (10000,10)", "softmax", "float32 10000x10", ""},
    {"softmax (32,10)", "softmax", "float32 32x10", ""},
    {"log_softmax (4096,1024)", "log_softmax", "float32 4096x1024", ""},
    {"log_softmax (10000,10)", "log_softmax", "float32 10000x10", ""},
    {"cross_entropy (10000,10)", "cross_entropy", "float32 10000x10; int64 10000", ""},
    {"cross_entropy (32,10)", "cross_entropy", "float32 32x10; int64 32", ""},
    /* Elements moved. */
    {"transpose (4096,2048)", "transpose", "float32 4096x2048", ""},
    {"transpose (4000,2000)", "transpose", "float32 4000x2000", ""},
    {"transpose (4001,2003)", "transpose", "float32 4001x2003", ""},
    {"transpose (64,128)", "transpose", "float32 64x128", ""},
    {"transpose (64,256,256) 0 2 1", "transpose", "float32 64x256x256", "perm=0,2,1"},
    {"transpose (32,128,8,64) 0 2 1 3", "transpose", "float32 32x128x8x64", "perm=0,2,1,3"},
    {"transpose (8,64,64,64) 0 3 1 2", "transpose", "float32 8x64x64x64", "perm=0,3,1,2"},
    {"concatenate 2 of (2048,1024) axis 1", "concatenate", "float32 2048x1024; float32 2048x1024", "axis=1"},
    {"slice (4096,1024) of (4096,2048)", "slice", "float32 4096x2048", "starts=0,512 stops=4096,1536"},
    {"gather (10000,256)[4096]", "gather", "float32 10000x256; int64 4096", ""},
    /* Convolutions: channels last; the small net's two layers, a 3x3 and a 1x1 of a residual net, depthwise, strided.
     */
    {"conv 64x28x28x1 3x3x32", "conv", "float32 64x28x28x1; float32 3x3x1x32; float32 32", "pads=1,1,1,1"},
    {"conv 64x14x14x32 3x3x64", "conv", "float32 64x14x14x32; float32 3x3x32x64; float32 64", "pads=1,1,1,1"},
    {"conv 8x56x56x64 3x3x64", "conv", "float32 8x56x56x64; float32 3x3x64x64", "pads=1,1,1,1"},
    {"conv 8x28x28x128 1x1x256", "conv", "float32 8x28x28x128; float32 1x1x128x256", ""},
    {"conv 2x224x224x3 7x7x64 /2", "conv", "float32 2x224x224x3; float32 7x7x3x64", "pads=3,3,3,3 strides=2,2"},
    {"conv 8x28x28x128 depthwise", "conv", "float32 8x28x28x128; float32 3x3x1x128", "pads=1,1,1,1 groups=128"},
    {"conv nchw 8x64x56x56 64x3x3", "conv", "float32 8x64x56x56; float32 64x64x3x3", "pads=1,1,1,1 layout=nchw"},
    {"conv 1d 16x1024x64 5x64", "conv", "float32 16x1024x64; float32 5x64x64", "pads=2,2"},
    {"conv_transpose 64x14x14x64 3x3x32", "conv_transpose", "float32 64x14x14x64; float32 3x3x32x64", "pads=1,1,1,1"},
    {"conv_transpose 8x56x56x64 3x3x64", "conv_transpose", "float32 8x56x56x64; float32 3x3x64x64", "pads=1,1,1,1"},
    {"conv_weight 64x14x14x32 3x3x64", "conv_weight", "float32 64x14x14x32; float32 64x14x14x64",
     "kernel=3,3 pads=1,1,1,1"},
    {"conv_weight 8x56x56x64 3x3x64", "conv_weight", "float32 8x56x56x64; float32 8x56x56x64",
     "kernel=3,3 pads=1,1,1,1"},
    /* Updates and random numbers. */
    {"dropout 64Ki", "dropout", "float32 65536; int64 3", ""},
    {"sum_squares 1Mi", "sum_squares", "float32 1048576", ""},
    {"adam 9610", "adam_update", "float32 9610; float32 9610; float32 9610; float32 9610; float32 0; float64 8", ""},
    {"adam 4Mi", "adam_update",
     "float32 4194304; float32 4194304; float32 4194304; float32 4194304; float32 0; float64 8", ""},
    {"sgd 4Mi", "sgd_update", "float32 4194304; float32 4194304; float32 4194304; float64 5", ""},
};

int bench_count(void)
{
    return (int)EO_COUNT_OF(cases);
}

const struct bench_text *bench_text_at(int index)
{
    return &cases[index];
}

static int read_inputs(const char *text, struct bench_case *out, struct eo_error *err)
{
    char copy[256], *save = NULL;
    (void)snprintf(copy, sizeof copy, "%s", text);
    for (char *one = strtok_r(copy, ";", &save); one; one = strtok_r(NULL, ";", &save)) {
        char *inner = NULL, *word = strtok_r(one, " x", &inner);
        if (out->n_in == BENCH_MAX_INPUTS || !word)
            return EO_RAISE(err, EO_E_BAD_VALUE, "%s: inputs that cannot be read", out->name);
        struct eo_tensor_desc *d = &out->in[out->n_in++];
        d->dtype = (uint8_t)eo_dtype_by_name(word);
        while ((word = strtok_r(NULL, " x", &inner)) != NULL && d->n_dims < EO_MAX_DIMS)
            d->shape[d->n_dims++] = strtoll(word, NULL, 10);
    }
    return EO_OK;
}

static int set_attr(struct bench_case *c, const char *name, char *value, struct eo_error *err)
{
    int64_t list[EO_MAX_INTS];
    int n = 0, index = eo_attr_index(c->op, name);
    enum eo_attr_kind kind = index < 0 ? EO_ATTR_INT : c->op->attrs[index].kind;
    if (kind == EO_ATTR_DTYPE)
        return eo_attrs_set_int(c->op, &c->attrs, name, eo_dtype_by_name(value), err);
    if (kind == EO_ATTR_CHOICE || kind == EO_ATTR_TEXT)
        return eo_attrs_set_text(c->op, &c->attrs, name, value, err);
    for (char *end = value; n < EO_MAX_INTS && *end; value = end + 1)
        list[n++] = strtoll(value, &end, 10);
    if (kind == EO_ATTR_INTS)
        return eo_attrs_set_ints(c->op, &c->attrs, name, list, n, err);
    return eo_attrs_set_int(c->op, &c->attrs, name, n ? list[0] : 0, err);
}

int bench_read(int index, struct bench_case *out, struct eo_error *err)
{
    const struct bench_text *t = &cases[index];
    const struct eo_tensor_desc *in[BENCH_MAX_INPUTS];
    char copy[128], *save = NULL;
    memset(out, 0, sizeof *out);
    out->name = t->name;
    out->op = eo_op_by_name(t->op, strlen(t->op));
    if (!out->op)
        return EO_RAISE(err, EO_E_UNSUPPORTED, "%s: this build has no row %s", t->name, t->op);
    int rc = read_inputs(t->inputs, out, err);
    eo_attrs_default(out->op, &out->attrs);
    (void)snprintf(copy, sizeof copy, "%s", t->attrs);
    for (char *word = strtok_r(copy, " ", &save); word && rc == EO_OK; word = strtok_r(NULL, " ", &save)) {
        char *equals = strchr(word, '=');
        if (!equals)
            return EO_RAISE(err, EO_E_BAD_VALUE, "%s: attribute %s has no value", t->name, word);
        *equals = '\0';
        rc = set_attr(out, word, equals + 1, err);
    }
    for (int i = 0; i < out->n_in; i++)
        in[i] = &out->in[i];
    if (rc == EO_OK)
        rc = eo_op_infer(out->op, in, out->n_in, &out->attrs, out->out, err);
    out->n_out = eo_op_n_outputs(out->op, &out->attrs);
    return rc;
}

double bench_flop(const struct bench_case *c)
{
    const char *name = c->op->name;
    const struct eo_tensor_desc *a = &c->in[0], *w = &c->in[1], *y = &c->out[0];
    double count = (double)eo_tensor_desc_count(y);
    if (strcmp(name, "matmul") == 0) {
        bool t = a->n_dims > 1 && eo_attr_int(c->op, &c->attrs, "transpose_a");
        return 2 * count * (double)a->shape[a->n_dims - (t ? 2 : 1)];
    }
    if (strcmp(name, "linear") == 0)
        return 2 * count * (double)a->shape[a->n_dims - 1];
    if (strcmp(name, "conv") == 0) {
        bool first = eo_attr_int(c->op, &c->attrs, "layout") != 0;
        int64_t outputs = w->shape[first ? 0 : w->n_dims - 1];
        return outputs > 0 ? 2 * count * (double)eo_tensor_desc_count(w) / (double)outputs : 0;
    }
    return 0;
}

void bench_fill(const struct eo_tensor_desc *d, void *to)
{
    int64_t n = eo_tensor_desc_count(d);
    for (int64_t i = 0; i < n; i++) {
        if (d->dtype == EO_FLOAT32)
            ((float *)to)[i] = 0.5F + (float)(i * 7919 % 1021) / 1021.0F;
        else if (d->dtype == EO_FLOAT64)
            ((double *)to)[i] = 0.5;
        else if (d->dtype == EO_INT64)
            ((int64_t *)to)[i] = i % 2;
        else if (d->dtype == EO_INT32)
            ((int32_t *)to)[i] = (int32_t)(i % 2);
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void bench_sort(struct bench_times *t)
{
    qsort(t->ns, (size_t)t->n, sizeof t->ns[0], by_value);
}

double bench_median(const struct bench_times *t)
{
    return t->ns[t->n / 2];
}

static void print_line(struct eo_bytes *out)
{
    printf("%s\n", eo_bytes_text(out));
    (void)fflush(stdout);
    eo_bytes_fini(out);
}

void bench_print(const struct bench_case *c, const char *kernel, int threads, const struct bench_times *t,
                 const struct bench_times *limit)
{
    struct eo_bytes out;
    struct eo_json j;
    double flop = bench_flop(c);
    eo_bytes_init(&out, 4096);
    eo_json_init(&j, &out);
    eo_json_begin_object(&j);
    eo_json_kv_string(&j, "case", c->name);
    eo_json_kv_string(&j, "kernel", kernel);
    eo_json_kv_i64(&j, "threads", threads);
    eo_json_kv_f64(&j, "us_min", t->ns[0] / 1000);
    eo_json_kv_f64(&j, "us_median", bench_median(t) / 1000);
    eo_json_kv_f64(&j, "us_max", t->ns[t->n - 1] / 1000);
    if (limit) {
        eo_json_kv_f64(&j, "us_limit_min", limit->ns[0] / 1000);
        eo_json_kv_f64(&j, "us_limit", bench_median(limit) / 1000);
    }
    if (flop > 0)
        eo_json_kv_f64(&j, "gflop_s", flop / bench_median(t));
    eo_json_end_object(&j);
    print_line(&out);
}

void bench_list(void)
{
    for (int i = 0; i < bench_count(); i++) {
        struct eo_bytes out;
        struct eo_json j;
        eo_bytes_init(&out, 4096);
        eo_json_init(&j, &out);
        eo_json_begin_object(&j);
        eo_json_kv_string(&j, "case", cases[i].name);
        eo_json_kv_string(&j, "op", cases[i].op);
        eo_json_kv_string(&j, "inputs", cases[i].inputs);
        eo_json_kv_string(&j, "attrs", cases[i].attrs);
        eo_json_end_object(&j);
        print_line(&out);
    }
}
