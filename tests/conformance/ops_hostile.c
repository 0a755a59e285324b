/* Hostile calls of every row: from each case of the row one thing is made wrong at a time (arity, rank, dtype, a size,
 * an attribute's value, its type on the wire). Either the call is refused with an error that names the operation, and
 * the node when it stands in a graph, or it is legal after all: then every backend that has it must agree with the
 * reference on it. Run under sanitizers, this is the test that no byte of a request reaches memory unchecked. */
#include "proto/codec.h"
#include "proto/graph.h"
#include "tests/conformance/compare.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_ELEMENTS = 20000, CASES_PER_ROW = 3 };

static struct devices devices;
static int n_refused, n_legal, n_run;

/* A call that may be wrong: descriptors and attributes without memory. */
struct call {
    const struct eo_op_schema *op;
    struct eo_attrs attrs;
    struct eo_tensor_desc in[EO_MAX_INPUTS + 1];
    int n_in;
};

/* ---- judging ---- */

static bool code_of_a_refusal(int code)
{
    switch (code) {
    case EO_E_SHAPE_MISMATCH:
    case EO_E_DTYPE_MISMATCH:
    case EO_E_BAD_ATTRIBUTE:
    case EO_E_BAD_ARITY:
    case EO_E_TOO_LARGE:
    case EO_E_BAD_PARAMS: /* no tensor at all: a negative size, a rank above 8 */
        return true;
    default:
        return false;
    }
}

static void check_error(const struct call *c, int rc, const struct eo_error *err, const char *what)
{
    CHECK(code_of_a_refusal(rc) && err->code == rc, "%s, %s: refused with %s: %s", c->op->name, what, eo_code_name(rc),
          err->message);
    CHECK(err->message[0] != '\0' && strcmp(err->op, c->op->name) == 0, "%s, %s: the error names \"%s\": %s",
          c->op->name, what, err->op, err->message);
}

/* The same call as node 0 of a graph without inputs cannot be made, so inputs come first: the node is n_in. */
static void check_in_graph(const struct call *c, int rc, const char *what)
{
    struct eo_graph *g = eo_graph_new();
    struct eo_error err;
    eo_value in[EO_MAX_INPUTS + 1], out[EO_MAX_OUTPUTS];
    char name[16], node[16];
    bool fits = true;
    CHECK(g, "no memory");
    for (int i = 0; fits && i < c->n_in; i++) {
        (void)snprintf(name, sizeof name, "x%d", i);
        fits = eo_graph_input(g, name, &c->in[i], &in[i], &err) == EO_OK;
    }
    if (fits) {
        int again = eo_graph_add(g, c->op->op, in, c->n_in, &c->attrs, out, &err);
        (void)snprintf(node, sizeof node, "%d", c->n_in);
        CHECK(again == rc || c->n_in > EO_MAX_INPUTS, "%s, %s: alone %d, in a graph %d", c->op->name, what, rc, again);
        CHECK(again == EO_OK || strcmp(err.node, node) == 0, "%s, %s: the error names node \"%s\", not %s", c->op->name,
              what, err.node, node);
    }
    eo_graph_free(g);
}

static bool small(const struct eo_tensor_desc *d, int n)
{
    for (int i = 0; i < n; i++)
        if (eo_tensor_desc_count(&d[i]) > MOST_ELEMENTS)
            return false;
    return true;
}

/* A legal call that was not meant to be one: data may still be refused (an index out of range), by all alike. */
static void run_everywhere(const struct call *c, const char *what)
{
    struct eo_error err;
    struct run r;
    struct results expected, actual;
    if (run_init(&r, c->op, &c->attrs, c->in, c->n_in, &err) != EO_OK || !small(r.out, r.n_out)) {
        run_fini(&r);
        return;
    }
    case_fill(&r, FILL_ORDINARY, 7);
    int rc = run_on(devices.reference, &r, -1, &expected, &err);
    CHECK(rc == EO_OK || rc == EO_E_BAD_VALUE, "%s, %s: %s: %s", c->op->name, what, eo_code_name(rc), err.message);
    for (int b = 0; b < devices.n; b++) {
        int there = run_on(devices.under_test[b], &r, -1, &actual, &err);
        if (there == EO_E_UNSUPPORTED)
            continue;
        CHECK(there == rc, "%s, %s: %s on the reference, %s on %s: %s", c->op->name, what, eo_code_name(rc),
              eo_code_name(there), devices.names[b], err.message);
        if (rc == EO_OK)
            compare_results(&r, &expected, &actual, devices.names[b], what);
        results_fini(&actual);
    }
    results_fini(&expected);
    run_fini(&r);
    n_run++;
}

static void try_call(const struct call *c, const char *what)
{
    struct eo_error err;
    struct eo_tensor_desc out[EO_MAX_OUTPUTS];
    const struct eo_tensor_desc *in[EO_MAX_INPUTS + 1];
    for (int i = 0; i < c->n_in; i++)
        in[i] = &c->in[i];
    int rc = eo_op_infer(c->op, in, c->n_in, &c->attrs, out, &err);
    check_in_graph(c, rc, what);
    if (rc != EO_OK) {
        check_error(c, rc, &err, what);
        n_refused++;
        return;
    }
    n_legal++;
    if (small(c->in, c->n_in) && small(out, eo_op_n_outputs(c->op, &c->attrs)))
        run_everywhere(c, what);
}

/* ---- what is made wrong ---- */

static void wrong_arity(const struct call *good)
{
    struct call c = *good;
    if (c.n_in > 0) {
        c.n_in--;
        try_call(&c, "an operand less");
    }
    c = *good;
    c.in[c.n_in] = c.n_in > 0 ? c.in[0] : (struct eo_tensor_desc){.dtype = EO_FLOAT32};
    c.n_in++;
    try_call(&c, "an operand more");
}

static void wrong_operands(const struct call *good)
{
    static const int64_t sizes[] = {0, 1, 2, 7, -1, (int64_t)1 << 40, INT64_MAX, INT64_MIN};
    char what[64];
    for (int i = 0; i < good->n_in; i++) {
        for (int rank = 0; rank <= EO_MAX_DIMS; rank++) {
            struct call c = *good;
            for (int d = c.in[i].n_dims; d < rank; d++)
                c.in[i].shape[d] = 2;
            c.in[i].n_dims = (uint8_t)rank;
            (void)snprintf(what, sizeof what, "operand %d of rank %d", i, rank);
            try_call(&c, what);
        }
        for (int d = 0; d < good->in[i].n_dims; d++)
            for (size_t s = 0; s < EO_COUNT_OF(sizes); s++) {
                struct call c = *good;
                c.in[i].shape[d] = sizes[s];
                (void)snprintf(what, sizeof what, "operand %d, size %lld", i, (long long)sizes[s]);
                try_call(&c, what);
            }
        for (int dtype = 0; dtype <= EO_DTYPE_LIMIT; dtype++) {
            struct call c = *good;
            c.in[i].dtype = (uint8_t)dtype;
            (void)snprintf(what, sizeof what, "operand %d of dtype %d", i, dtype);
            try_call(&c, what);
        }
    }
}

static void wrong_number(const struct call *good, int a)
{
    static const int64_t ints[] = {0, 1, -1, 2, 8, -9, 255, INT32_MAX, INT64_MAX, INT64_MIN};
    static const double floats[] = {0, -1, 2, 1e300, -1e300, 5e-324, INFINITY, -INFINITY, NAN};
    char what[64];
    for (size_t k = 0; k < EO_COUNT_OF(ints); k++) {
        struct call c = *good;
        c.attrs.v[a].i = ints[k];
        (void)snprintf(what, sizeof what, "%s=%lld", c.op->attrs[a].name, (long long)ints[k]);
        try_call(&c, what);
    }
    for (size_t k = 0; good->op->attrs[a].kind == EO_ATTR_FLOAT && k < EO_COUNT_OF(floats); k++) {
        struct call c = *good;
        c.attrs.v[a].f = floats[k];
        (void)snprintf(what, sizeof what, "%s=%g", c.op->attrs[a].name, floats[k]);
        try_call(&c, what);
    }
}

static void wrong_list(const struct call *good, int a)
{
    static const int64_t entries[] = {0, 1, -1, 3, INT32_MAX, INT64_MAX, INT64_MIN};
    char what[64];
    for (size_t k = 0; k < EO_COUNT_OF(entries); k++) {
        for (int n = 0; n <= EO_MAX_INTS; n += n < 4 ? 1 : 12) {
            struct call c = *good;
            c.attrs.v[a].n = (uint8_t)n;
            for (int i = 0; i < n; i++)
                c.attrs.v[a].ints[i] = entries[k];
            (void)snprintf(what, sizeof what, "%s=%d times %lld", c.op->attrs[a].name, n, (long long)entries[k]);
            try_call(&c, what);
        }
        for (int i = 0; i < good->attrs.v[a].n; i++) {
            struct call c = *good;
            c.attrs.v[a].ints[i] = entries[k];
            (void)snprintf(what, sizeof what, "%s[%d]=%lld", c.op->attrs[a].name, i, (long long)entries[k]);
            try_call(&c, what);
        }
    }
}

static void wrong_text(const struct call *good, int a)
{
    static const char *const texts[] = {"", "->", "ij,jk->ik", "i...,...j", "\xff\xfe", "ii->i->i", ",,,,", "(){}%n%s"};
    for (size_t k = 0; k < EO_COUNT_OF(texts); k++) {
        struct call c = *good;
        memset(c.attrs.v[a].text, 0, sizeof c.attrs.v[a].text);
        c.attrs.v[a].n = (uint8_t)strlen(texts[k]);
        memcpy(c.attrs.v[a].text, texts[k], c.attrs.v[a].n);
        try_call(&c, texts[k]);
    }
    struct call c = *good;
    memset(c.attrs.v[a].text, 'a', sizeof c.attrs.v[a].text);
    c.attrs.v[a].n = UINT8_MAX;
    try_call(&c, "a text without an end");
}

static void wrong_attributes(const struct call *good)
{
    for (int a = 0; a < good->op->n_attrs; a++) {
        switch (good->op->attrs[a].kind) {
        case EO_ATTR_INTS:
            wrong_list(good, a);
            break;
        case EO_ATTR_TEXT:
            wrong_text(good, a);
            break;
        default:
            wrong_number(good, a);
            break;
        }
    }
}

/* ---- types on the wire ---- */

enum { WIRE_VALUES = 10 };
static void pack_value(struct eo_bytes *b, int which)
{
    switch (which) {
    case 0:
        eo_pack_str(b, NULL); /* nil */
        break;
    case 1:
        eo_pack_bool(b, true);
        break;
    case 2:
        eo_pack_i64(b, INT64_MIN);
        break;
    case 3:
        eo_pack_i64(b, 1);
        break;
    case 4:
        eo_pack_f64(b, NAN);
        break;
    case 5:
        eo_pack_str(b, "no such word");
        break;
    case 6:
        eo_pack_array(b, 1);
        eo_pack_str(b, "x");
        break;
    case 7:
        eo_pack_i64_array(b, (const int64_t[]){INT64_MAX, 0, -1}, 3);
        break;
    case 8:
        eo_pack_map(b, 0);
        break;
    default:
        eo_pack_array(b, 40);
        for (int i = 0; i < 40; i++)
            eo_pack_i64(b, 1);
        break;
    }
}

/* Attribute a as value `which`, all others as the case has them: unpacked, then judged like any other call. */
static void try_wire(const struct call *good, int a, int which)
{
    struct call c = *good;
    struct eo_error err;
    struct eo_bytes b;
    struct eo_doc doc;
    char what[64];
    (void)snprintf(what, sizeof what, "%s as wire value %d", good->op->attrs[a].name, which);
    eo_bytes_init(&b, 65536);
    eo_pack_map(&b, 1);
    eo_pack_str(&b, good->op->attrs[a].name);
    pack_value(&b, which);
    ASSERT_OK(eo_doc_parse(&doc, b.data, b.size, &err));
    int rc = eo_attrs_unpack(doc.root, good->op, &c.attrs, &err);
    if (rc == EO_OK) {
        try_call(&c, what);
    } else {
        check_error(&c, rc, &err, what);
        n_refused++;
    }
    eo_doc_fini(&doc);
    eo_bytes_fini(&b);
}

/* ---- the tests ---- */

/* False when the case does not suit float32 or int64 operands. */
static bool good_call(const struct op_case *from, struct call *c)
{
    static const enum eo_dtype tries[] = {EO_FLOAT32, EO_INT64, EO_BOOL, EO_UINT8, EO_INT32};
    struct eo_error err;
    struct run r;
    for (size_t t = 0; t < EO_COUNT_OF(tries); t++) {
        if ((case_dtypes(eo_op_schema(from->op)) & EO_DTYPE_BIT(tries[t])) == 0)
            continue;
        int rc = case_init(&r, from, tries[t], tries[t], &err);
        *c = (struct call){.op = r.op, .attrs = r.attrs, .n_in = r.n_in};
        memcpy(c->in, r.in, sizeof r.in);
        bool ok = rc == EO_OK && small(r.in, r.n_in) && small(r.out, r.n_out);
        run_fini(&r);
        if (ok)
            return true;
    }
    return false;
}

typedef void (*attack_fn)(const struct call *good);

static void attack_each_row(attack_fn attack)
{
    int n_cases[EO_OP_COUNT] = {0};
    struct call good;
    for (int k = 0; k < case_count(); k++) {
        enum eo_op op = case_at(k)->op;
        if (n_cases[op] < CASES_PER_ROW && good_call(case_at(k), &good)) {
            n_cases[op]++;
            attack(&good);
        }
    }
    for (int op = 1; op < EO_OP_COUNT; op++)
        CHECK(n_cases[op] > 0, "no case of %s could be used", eo_op_schema((enum eo_op)op)->name);
}

static void wrong_wire_types(const struct call *good)
{
    for (int a = 0; a < good->op->n_attrs; a++)
        for (int which = 0; which < WIRE_VALUES; which++)
            try_wire(good, a, which);
}

START_TEST(wrong_arity_is_refused)
{
    attack_each_row(wrong_arity);
}
END_TEST

START_TEST(wrong_operands_are_refused)
{
    attack_each_row(wrong_operands);
}
END_TEST

START_TEST(wrong_attributes_are_refused)
{
    attack_each_row(wrong_attributes);
}
END_TEST

START_TEST(wrong_wire_types_are_refused)
{
    attack_each_row(wrong_wire_types);
    printf("%d calls refused, %d legal after all, of which %d were run on every backend\n", n_refused, n_legal, n_run);
    ck_assert_int_gt(n_refused, 1000);
    ck_assert_int_gt(n_run, 1000);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {wrong_arity_is_refused, wrong_operands_are_refused, wrong_attributes_are_refused,
                                  wrong_wire_types_are_refused};
    /* The devices have threads, which a forked test would not have. */
    (void)setenv("CK_FORK", "no", 1);
    devices_open(&devices);
    int rc = eo_suite_run("hostile calls", tests, EO_COUNT_OF(tests));
    devices_close(&devices);
    return rc;
}
