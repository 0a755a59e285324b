#include "tests/formats/onnx_check.h"

#include "backends/registry.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct eo_error err;
static struct eo_device *device;
static struct executor *executor;

static struct host_tensor make(const struct given *g)
{
    struct eo_bytes b = tensor_bytes("t", g->type, g->shape, g->values);
    struct host_tensor t;

    ASSERT_OK(onnx_tensor_parse(b.data, b.size, &t, &err));
    eo_bytes_fini(&b);
    return t;
}

double number(const struct host_tensor *t, int64_t i)
{
    switch (t->desc.dtype) {
    case EO_FLOAT32:
        return (double)((const float *)t->data)[i];
    case EO_FLOAT64:
        return ((const double *)t->data)[i];
    case EO_INT64:
        return (double)((const int64_t *)t->data)[i];
    case EO_INT32:
        return ((const int32_t *)t->data)[i];
    default:
        return ((const uint8_t *)t->data)[i];
    }
}

/* Runs the model (freed) and returns the code. */
int run(struct model *m, const struct given *given, int n, struct onnx_results *out)
{
    struct host_tensor tensors[MAX_GIVEN] = {{{0}, NULL}};
    const struct host_tensor *inputs[MAX_GIVEN] = {NULL};
    struct eo_bytes b = model_bytes(m);
    struct onnx_model *model;
    int rc;

    eo_error_clear(&err);
    ASSERT_OK(onnx_model_parse(b.data, b.size, &model, &err));
    eo_bytes_fini(&b); /* the model does not need it */
    for (int i = 0; i < n; i++)
        if (given[i].shape != NULL) {
            tensors[i] = make(&given[i]);
            inputs[i] = &tensors[i];
        }
    rc = onnx_run(model, inputs, n, executor, PLAN_STRICT, out, &err);
    for (int i = 0; i < n; i++)
        host_tensor_fini(&tensors[i]);
    onnx_model_free(model);
    return rc;
}

/* Output o is the tensor. */
void expect(const struct onnx_results *r, int o, struct given want)
{
    struct host_tensor t = make(&want);
    char got[128], text[128];

    ck_assert_int_lt(o, r->n);
    ck_assert_msg(eo_tensor_desc_equal(&r->tensors[o].desc, &t.desc), "output %d is %s, not %s", o,
                  eo_tensor_desc_text(&r->tensors[o].desc, got, sizeof(got)),
                  eo_tensor_desc_text(&t.desc, text, sizeof(text)));
    for (int64_t i = 0; i < eo_tensor_desc_count(&t.desc); i++)
        ck_assert_msg(fabs(number(&r->tensors[o], i) - number(&t, i)) <= 1e-5 * (1 + fabs(number(&t, i))),
                      "element %d of output %d is %.9g, not %.9g", (int)i, o, number(&r->tensors[o], i), number(&t, i));
    host_tensor_fini(&t);
}

/* One node with its operands x0, x1, ... as inputs of the model, "-" where given has no shape. */
struct model one_node(int opset, const char *op, const char *attrs, const struct given *given, int n,
                      const char *outputs)
{
    struct model m = model_new(opset);
    char in[256] = "", names[64], *rest = names, *word;

    for (int i = 0; i < n; i++) {
        char name[16];

        snprintf(name, sizeof(name), given[i].shape != NULL ? "x%d" : "-", i);
        if (given[i].shape != NULL)
            model_input(&m, name, given[i].type, NULL);
        snprintf(in + strlen(in), sizeof(in) - strlen(in), "%s ", name);
    }
    model_node(&m, op, in, outputs, attrs);
    snprintf(names, sizeof(names), "%s", outputs);
    while ((word = strsep(&rest, " ")) != NULL)
        if (strcmp(word, "-") != 0)
            model_output(&m, word);
    return m;
}

static int given_only(const struct given *given, int n, struct given *out)
{
    int k = 0;

    for (int i = 0; i < n; i++)
        if (given[i].shape != NULL)
            out[k++] = given[i];
    return k;
}

void check_node(int opset, const char *op, const char *attrs, const struct given *given, int n, struct given want)
{
    struct model m = one_node(opset, op, attrs, given, n, "y");
    struct given present[MAX_GIVEN];
    struct onnx_results r;

    ASSERT_OK(run(&m, present, given_only(given, n, present), &r));
    expect(&r, 0, want);
    onnx_results_free(&r);
}

int fail_node(int opset, const char *op, const char *attrs, const struct given *given, int n)
{
    struct model m = one_node(opset, op, attrs, given, n, "y");
    struct given present[MAX_GIVEN];
    struct onnx_results r;

    return run(&m, present, given_only(given, n, present), &r);
}

int check_main(const char *name, const TTest *const *tests, size_t n)
{
    int rc;

    (void)setenv("CK_FORK", "no", 1);
    if (registry_open("reference", &(struct eo_device_config){0}, &device, NULL, 0, &err) != EO_OK ||
        executor_new(device, &executor, &err) != EO_OK)
        return EXIT_FAILURE;
    rc = eo_suite_run(name, tests, n);
    executor_free(executor);
    registry_close(device);
    return rc;
}
