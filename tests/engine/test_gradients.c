/* Every differentiable row against finite differences, in float64 on the reference backend: first derivatives, and
 * second ones as derivatives of the first. Inputs keep away from kinks, whose conventions test_autodiff fixes.
 *
 * Tolerances: central differences with step h = 1e-5 err by h^2/6 |f'''| (about 1e-10 here) and by rounding,
 * 1e-16 |f| / h (about 1e-11); 1e-6 relative and 1e-7 absolute leave a factor of 100 for both. */
#include "backends/registry.h"
#include "daemon/engine/autodiff.h"
#include "tests/engine/harness.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static struct eo_error err;

enum { MAX_CASE_INPUTS = 8, MAX_CASE_ATTRS = 8, MAX_CASE_DIMS = 5 };

struct case_input {
    int n_dims;
    int64_t shape[MAX_CASE_DIMS];
    double low, high;    /* random values between; float64 when low < high */
    const int64_t *ints; /* int64 values instead */
    bool is_bool;
};

struct case_attr {
    const char *name;
    double number; /* INT, FLOAT, BOOL, DTYPE */
    int n;         /* of ints; -1: the empty list */
    int64_t ints[2 * MAX_CASE_DIMS];
    const char *text; /* CHOICE, TEXT */
};

struct grad_case {
    enum eo_op op;
    struct case_input in[MAX_CASE_INPUTS];
    struct case_attr attrs[MAX_CASE_ATTRS];
};

#define D0()                                                                                                           \
    0,                                                                                                                 \
    {                                                                                                                  \
        0                                                                                                              \
    }
#define D1(a)                                                                                                          \
    1,                                                                                                                 \
    {                                                                                                                  \
        a                                                                                                              \
    }
#define D2(a, b)                                                                                                       \
    2,                                                                                                                 \
    {                                                                                                                  \
        a, b                                                                                                           \
    }
#define D3(a, b, c)                                                                                                    \
    3,                                                                                                                 \
    {                                                                                                                  \
        a, b, c                                                                                                        \
    }
#define D4(a, b, c, d)                                                                                                 \
    4,                                                                                                                 \
    {                                                                                                                  \
        a, b, c, d                                                                                                     \
    }
#define D5(a, b, c, d, e)                                                                                              \
    5,                                                                                                                 \
    {                                                                                                                  \
        a, b, c, d, e                                                                                                  \
    }
#define F(dims, low, high)                                                                                             \
    {                                                                                                                  \
        dims, low, high, NULL, false                                                                                   \
    }
#define I(dims, ...)                                                                                                   \
    {                                                                                                                  \
        dims, 0, 0, (const int64_t[]){__VA_ARGS__}, false                                                              \
    }
#define B(dims)                                                                                                        \
    {                                                                                                                  \
        dims, 0, 0, NULL, true                                                                                         \
    }

/* What a case does not say is 0: no attributes, no further operands. A float operand of shape [0] is a hole. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
static const struct grad_case cases[] = {
#include "tests/engine/gradient_cases/activation.def"
#include "tests/engine/gradient_cases/elementwise.def"
#include "tests/engine/gradient_cases/index.def"
#include "tests/engine/gradient_cases/linalg.def"
#include "tests/engine/gradient_cases/loss.def"
#include "tests/engine/gradient_cases/norm.def"
#include "tests/engine/gradient_cases/recurrent.def"
#include "tests/engine/gradient_cases/reduce.def"
#include "tests/engine/gradient_cases/shape.def"
#include "tests/engine/gradient_cases/window.def"
};
#pragma GCC diagnostic pop

/* ---- from a case to a graph ---- */

struct built {
    struct eo_graph *g;
    struct eo_builder b;
    eo_value in[MAX_CASE_INPUTS];
    double *data[MAX_CASE_INPUTS]; /* float64 or int64 or bytes: what the input wants */
    int64_t count[MAX_CASE_INPUTS];
    eo_value wrt[MAX_CASE_INPUTS];
    int wrt_input[MAX_CASE_INPUTS];
    int n_in, n_wrt;
};

static void set_attrs(const struct grad_case *c, const struct eo_op_schema *op, struct eo_attrs *attrs)
{
    eo_attrs_default(op, attrs);
    for (int a = 0; a < MAX_CASE_ATTRS && c->attrs[a].name != NULL; a++) {
        const struct case_attr *attr = &c->attrs[a];
        int index = eo_attr_index(op, attr->name);

        ck_assert_int_ge(index, 0);
        if (op->attrs[index].kind == EO_ATTR_INTS) {
            ASSERT_OK(eo_attrs_set_ints(op, attrs, attr->name, attr->ints, attr->n < 0 ? 0 : attr->n, &err));
        } else if (attr->text != NULL) {
            ASSERT_OK(eo_attrs_set_text(op, attrs, attr->name, attr->text, &err));
        } else if (op->attrs[index].kind == EO_ATTR_FLOAT) {
            ASSERT_OK(eo_attrs_set_float(op, attrs, attr->name, attr->number, &err));
        } else {
            ASSERT_OK(eo_attrs_set_int(op, attrs, attr->name, (int64_t)attr->number, &err));
        }
    }
}

static void add_input(struct built *t, const struct case_input *in, uint64_t seed)
{
    enum eo_dtype dtype = in->is_bool ? EO_BOOL : in->ints != NULL ? EO_INT64 : EO_FLOAT64;
    char name[16];
    int i = t->n_in++;

    (void)snprintf(name, sizeof(name), "x%d", i);
    t->in[i] = harness_input(t->g, name, dtype, in->n_dims, in->shape);
    t->count[i] = eo_tensor_desc_count(eo_graph_desc(t->g, t->in[i]));
    t->data[i] = calloc((size_t)t->count[i] + 1, sizeof(double));
    ck_assert_ptr_nonnull(t->data[i]);
    for (int64_t e = 0; e < t->count[i]; e++) {
        double random = harness_random(seed, (uint64_t)((int64_t)i * 1000 + e));
        double v = dtype == EO_BOOL ? random < 0.5 : dtype == EO_INT64 ? 0 : in->low + random * (in->high - in->low);

        harness_set(dtype, t->data[i], e, dtype == EO_INT64 ? (double)in->ints[e] : v);
    }
    if (dtype == EO_FLOAT64) {
        t->wrt_input[t->n_wrt] = i;
        t->wrt[t->n_wrt++] = t->in[i];
    }
}

/* Sum of v times fixed random weights: makes any value a scalar without favouring elements. */
static eo_value weighted_sum(struct built *t, eo_value v, uint64_t seed)
{
    struct eo_tensor_desc d = *eo_graph_desc(t->g, v);
    int64_t count = eo_tensor_desc_count(&d);
    double *weights = calloc((size_t)count + 1, sizeof(double));
    eo_value w;

    ck_assert_ptr_nonnull(weights);
    for (int64_t e = 0; e < count; e++) {
        weights[e] = 0.5 + harness_random(seed, (uint64_t)e);
    }
    ASSERT_OK(eo_graph_constant(t->g, &d, weights, &w, &err));
    free(weights);
    return eo_build_reduce(&t->b, EO_OP_SUM, eo_build_binary(&t->b, EO_OP_MULTIPLY, v, w), NULL, 0, false);
}

/* Of all float outputs of the node that made `first`. */
static eo_value weighted_outputs(struct built *t, eo_value first, uint64_t seed)
{
    eo_value total = EO_NO_VALUE;

    if (t->b.status != EO_OK) {
        return first;
    }
    for (uint32_t o = 0; o < t->g->nodes[t->g->values[first].node].n_outputs; o++) {
        if (eo_graph_desc(t->g, first + o)->dtype == EO_FLOAT64) {
            eo_value sum = weighted_sum(t, first + o, seed + 1000 * o);

            total = total == EO_NO_VALUE ? sum : eo_build_binary(&t->b, EO_OP_ADD, total, sum);
        }
    }
    return total;
}

static void build(struct built *t, const struct grad_case *c, uint64_t seed)
{
    const struct eo_op_schema *op = eo_op_schema(c->op);
    struct eo_attrs attrs;

    memset(t, 0, sizeof(*t));
    t->g = eo_graph_new();
    ck_assert_ptr_nonnull(t->g);
    eo_build_init(&t->b, t->g, &err);
    set_attrs(c, op, &attrs);
    for (int i = 0;
         i < MAX_CASE_INPUTS && (c->in[i].n_dims > 0 || c->in[i].low < c->in[i].high || c->in[i].ints != NULL); i++) {
        add_input(t, &c->in[i], seed);
    }
}

static void dispose(struct built *t)
{
    for (int i = 0; i < t->n_in; i++) {
        free(t->data[i]);
    }
    eo_graph_free(t->g);
}

/* ---- comparing with differences ---- */

static double run_scalar(struct harness *h, struct built *t)
{
    double y;

    for (int i = 0; i < t->n_in; i++) {
        harness_feed(h, t->in[i], t->data[i]);
    }
    ASSERT_OK(harness_run(h, &err));
    harness_fetch(h, 0, &y);
    return y;
}

static double difference(struct harness *h, struct built *t, int input, int64_t element)
{
    const double step = 1e-5;
    double x = t->data[input][element], up, down;

    t->data[input][element] = x + step;
    up = run_scalar(h, t);
    t->data[input][element] = x - step;
    down = run_scalar(h, t);
    t->data[input][element] = x;
    return (up - down) / (2 * step);
}

/* Compares the gradients of y with differences of y; outputs of the plan: y, then the gradients. */
static void compare(struct eo_device *dev, struct built *t, eo_value y, const eo_value *grads, int number,
                    const char *order)
{
    eo_value outputs[1 + MAX_CASE_INPUTS] = {y};
    struct harness h;

    memcpy(outputs + 1, grads, (size_t)t->n_wrt * sizeof(*grads));
    ASSERT_OK(harness_open(&h, dev, t->g, outputs, 1 + (uint32_t)t->n_wrt, (struct harness_options){0}, &err));
    for (int w = 0; w < t->n_wrt; w++) {
        int input = t->wrt_input[w];
        double *analytic = calloc((size_t)t->count[input] + 1, sizeof(double));

        ck_assert_ptr_nonnull(analytic);
        ck_assert(eo_tensor_desc_equal(eo_graph_desc(t->g, grads[w]), eo_graph_desc(t->g, t->wrt[w])));
        (void)run_scalar(&h, t);
        harness_fetch(&h, 1 + (uint32_t)w, analytic);
        for (int64_t e = 0; e < t->count[input]; e++) {
            double expected = difference(&h, t, input, e);

            ck_assert_msg(fabs(analytic[e] - expected) <= 1e-7 + 1e-6 * fabs(expected),
                          "case %d (%s), %s derivative, input %d, element %lld: %.12g, differences say %.12g", number,
                          eo_op_schema(cases[number].op)->name, order, input, (long long)e, analytic[e], expected);
        }
        free(analytic);
    }
    harness_close(&h);
}

static void check_case(struct eo_device *dev, int number)
{
    const struct grad_case *c = &cases[number];
    const struct eo_op_schema *op = eo_op_schema(c->op);
    eo_value first[MAX_CASE_INPUTS], second[MAX_CASE_INPUTS], y, total;
    struct eo_attrs attrs;
    struct built t;

    build(&t, c, (uint64_t)number + 1);
    set_attrs(c, op, &attrs);
    y = weighted_outputs(&t, eo_build_op(&t.b, c->op, t.in, t.n_in, &attrs), 71);
    ASSERT_OK(t.b.status);
    ASSERT_OK(autodiff_gradients(t.g, y, EO_NO_VALUE, t.wrt, t.n_wrt, first, &err));
    compare(dev, &t, y, first, number, "first");

    total = weighted_sum(&t, first[0], 72);
    for (int w = 1; w < t.n_wrt; w++) {
        total = eo_build_binary(&t.b, EO_OP_ADD, total, weighted_sum(&t, first[w], 72 + (uint64_t)w));
    }
    ASSERT_OK(t.b.status);
    ASSERT_OK(autodiff_gradients(t.g, total, EO_NO_VALUE, t.wrt, t.n_wrt, second, &err));
    compare(dev, &t, total, second, number, "second");
    dispose(&t);
}

START_TEST(gradients_match_finite_differences)
{
    struct eo_device *dev = harness_device("reference");

    for (size_t i = 0; i < EO_COUNT_OF(cases); i++) {
        check_case(dev, (int)i);
    }
    registry_close(dev);
}
END_TEST

START_TEST(every_differentiable_row_has_a_case)
{
    for (int op = EO_OP_NONE + 1; op < EO_OP_COUNT; op++) {
        bool covered = false;

        for (size_t i = 0; i < EO_COUNT_OF(cases); i++) {
            covered |= cases[i].op == (enum eo_op)op;
        }
        const struct eo_op_schema *row = eo_op_schema((enum eo_op)op);

        ck_assert_msg(covered == (row->gradient != EO_GRADIENT_NONE), "%s", row->name);
        ck_assert_msg((grad_rule((enum eo_op)op) != NULL) == (row->gradient == EO_GRADIENT_RULE), "%s", row->name);
    }
    ck_assert(grad_rule(EO_OP_NONE) == NULL);
    ck_assert(grad_rule(EO_OP_COUNT) == NULL);
}
END_TEST

EO_SUITE("gradients", gradients_match_finite_differences, every_differentiable_row_has_a_case)
