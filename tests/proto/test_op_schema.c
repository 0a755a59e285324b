#include "proto/codec.h"
#include "proto/op_schema.h"
#include "tests/support/suite.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct eo_op_schema *row(const char *name)
{
    const struct eo_op_schema *op = eo_op_by_name(name, strlen(name));

    ck_assert_msg(op != NULL, "%s", name);
    return op;
}

START_TEST(test_lookup)
{
    const struct eo_op_schema *op = eo_op_schema(EO_OP_MATMUL);

    ck_assert_str_eq(op->name, "matmul");
    ck_assert_int_eq(op->op, EO_OP_MATMUL);
    ck_assert_ptr_eq(eo_op_by_name("matmul", 6), op);
    ck_assert_ptr_eq(eo_op_by_name("matmul(", 6), op); /* only length bytes count */
    ck_assert_ptr_eq(eo_op_by_wire_id(op->wire_id), op);
    ck_assert_ptr_null(eo_op_by_name("matmu", 5));
    ck_assert_ptr_null(eo_op_by_name("matmul", 7)); /* the NUL would be part of the name */
    ck_assert_ptr_null(eo_op_by_name("add\0xxxxxxxxxxxx", 15));
    ck_assert_ptr_null(eo_op_by_name("", 0));
    ck_assert_ptr_null(eo_op_schema(EO_OP_NONE));
    ck_assert_ptr_null(eo_op_schema(EO_OP_COUNT));
    ck_assert_ptr_null(eo_op_schema((enum eo_op) - 1));
    ck_assert_ptr_null(eo_op_by_wire_id(0));
    ck_assert_ptr_null(eo_op_by_wire_id(65535));
    ck_assert_ptr_null(eo_op_by_wire_id(UINT32_MAX));
}
END_TEST

START_TEST(test_unknown_op)
{
    const struct eo_op_schema *op = NULL;
    struct eo_error err;
    char hostile[300];

    ASSERT_OK(eo_op_need("relu", 4, &op, &err));
    ck_assert_str_eq(op->name, "relu");
    ASSERT_CODE(eo_op_need("matmull", 7, &op, &err), EO_E_UNKNOWN_OP);
    ck_assert_str_eq(err.hint, "Did you mean matmul?");
    ASSERT_CONTAINS(err.message, "\"matmull\"");
    memset(hostile, 0x1b, sizeof(hostile));
    ASSERT_CODE(eo_op_need(hostile, sizeof(hostile), &op, &err), EO_E_UNKNOWN_OP);
    ck_assert_ptr_null(strchr(err.message, 0x1b));
    ASSERT_CODE(eo_op_need("", 0, &op, &err), EO_E_UNKNOWN_OP);
    ck_assert_str_eq(op->name, "relu"); /* untouched on failure */
    ck_assert_int_eq(eo_op_need("x", 1, &op, NULL), EO_E_UNKNOWN_OP);
}
END_TEST

START_TEST(test_table_hash)
{
    ck_assert_uint_ne(eo_op_table_hash(), 0);
    ck_assert_uint_eq(eo_op_table_hash(), eo_op_table_hash());
}
END_TEST

/* The written rule, worked out by hand for one row of each sort. */
START_TEST(test_tolerance)
{
    const struct eo_op_schema *exp_row = row("exp"), *sum = row("sum"), *add = row("add");

    ck_assert_double_eq(eo_op_tolerance(exp_row, EO_FLOAT32, 1), 1e-6);
    ck_assert_double_eq(eo_op_tolerance(exp_row, EO_FLOAT32, 10000), 1e-6); /* not a reduction */
    ck_assert_double_eq_tol(eo_op_tolerance(exp_row, EO_FLOAT64, 1), 1e-6 * 0x1p-29, 1e-20);
    ck_assert_double_eq_tol(eo_op_tolerance(exp_row, EO_FLOAT16, 1), 1e-6 * 8192, 1e-12);
    ck_assert_double_eq_tol(eo_op_tolerance(exp_row, EO_BFLOAT16, 1), 1e-6 * 65536, 1e-12);
    ck_assert_double_eq_tol(eo_op_tolerance(sum, EO_FLOAT32, 10000), 1e-4, 1e-12);
    ck_assert_double_eq(eo_op_tolerance(sum, EO_FLOAT32, 0), 1e-6);
    ck_assert_double_eq(eo_op_tolerance(sum, EO_FLOAT32, -5), 1e-6);
    ck_assert_double_eq(eo_op_tolerance(sum, EO_INT32, 10000), 0);
    ck_assert_double_eq(eo_op_tolerance(add, EO_FLOAT32, 1), 0);
    ck_assert_double_eq(eo_op_tolerance(add, EO_BOOL, 1), 0);
}
END_TEST

/* ---- attributes ---- */

START_TEST(test_defaults)
{
    const struct eo_op_schema *softmax = row("softmax"), *clip = row("clip"), *cast = row("cast"), *sum = row("sum");
    struct eo_attrs a;
    int n = 5;

    eo_attrs_default(softmax, &a);
    ck_assert_int_eq(eo_attr_int(softmax, &a, "axis"), -1);
    eo_attrs_default(clip, &a);
    ck_assert_double_eq(eo_attr_float(clip, &a, "low"), (double)-INFINITY);
    ck_assert_double_eq(eo_attr_float(clip, &a, "high"), (double)INFINITY);
    eo_attrs_default(cast, &a);
    ck_assert_int_eq(eo_attr_int(cast, &a, "dtype"), EO_DTYPE_NONE);
    eo_attrs_default(sum, &a);
    ck_assert_ptr_nonnull(eo_attr_ints(sum, &a, "axes", &n));
    ck_assert_int_eq(n, 0);
    ck_assert_int_eq(eo_attr_int(sum, &a, "no_such"), 0);
    ck_assert_double_eq(eo_attr_float(sum, &a, "no_such"), 0);
    ck_assert_ptr_null(eo_attr_ints(sum, &a, "no_such", &n));
    ck_assert_int_eq(eo_attr_index(sum, "keepdims"), 1);
    ck_assert_int_eq(eo_attr_index(sum, "keepdim"), -1);
}
END_TEST

START_TEST(test_setters)
{
    const struct eo_op_schema *full = row("full"), *sum = row("sum");
    struct eo_attrs a;
    struct eo_error err;
    int64_t shape[] = {2, 3, 4};
    const int64_t *got;
    int n;

    eo_attrs_default(full, &a);
    ASSERT_OK(eo_attrs_set_ints(full, &a, "shape", shape, 3, &err));
    ASSERT_OK(eo_attrs_set_int(full, &a, "dtype", EO_INT8, &err));
    ASSERT_OK(eo_attrs_set_float(full, &a, "value", -7, &err));
    got = eo_attr_ints(full, &a, "shape", &n);
    ck_assert_int_eq(n, 3);
    ck_assert_mem_eq(got, shape, sizeof(shape));
    ck_assert_int_eq(eo_attr_int(full, &a, "dtype"), EO_INT8);
    ck_assert_double_eq(eo_attr_float(full, &a, "value"), -7);
    ASSERT_OK(eo_attrs_set_ints(full, &a, "shape", NULL, 0, &err));
    eo_attr_ints(full, &a, "shape", &n);
    ck_assert_int_eq(n, 0);
    eo_attrs_default(sum, &a);
    ASSERT_OK(eo_attrs_set_int(sum, &a, "keepdims", 1, &err));
    ck_assert_int_eq(eo_attr_int(sum, &a, "keepdims"), 1);
}
END_TEST

START_TEST(test_setters_refuse)
{
    const struct eo_op_schema *full = row("full"), *sum = row("sum"), *dropout = row("dropout"), *add = row("add"),
                              *one_hot = row("one_hot"), *cast = row("cast");
    struct eo_attrs a, before;
    struct eo_error err;
    int64_t many[EO_MAX_INTS + 1] = {0}, axes[] = {0, 8};

    eo_attrs_default(sum, &a);
    before = a;
    ASSERT_CODE(eo_attrs_set_int(sum, &a, "keepdim", 1, &err), EO_E_BAD_ATTRIBUTE);
    ck_assert_str_eq(err.op, "sum");
    ck_assert_str_eq(err.hint, "Did you mean keepdims?");
    ASSERT_CODE(eo_attrs_set_int(sum, &a, "keepdims", 2, &err), EO_E_BAD_ATTRIBUTE);
    ASSERT_CODE(eo_attrs_set_float(sum, &a, "keepdims", 1, &err), EO_E_BAD_ATTRIBUTE);
    ASSERT_CONTAINS(err.message, "true or false");
    ASSERT_CODE(eo_attrs_set_int(sum, &a, "axes", 1, &err), EO_E_BAD_ATTRIBUTE);
    ASSERT_CONTAINS(err.message, "a list of integers");
    ASSERT_CODE(eo_attrs_set_ints(sum, &a, "axes", axes, 2, &err), EO_E_BAD_ATTRIBUTE);
    ASSERT_CONTAINS(err.message, "entry 1 of attribute axes is 8, must be -8 to 7");
    ASSERT_CODE(eo_attrs_set_ints(sum, &a, "axes", many, EO_MAX_INTS + 1, &err), EO_E_BAD_ATTRIBUTE);
    ASSERT_CODE(eo_attrs_set_ints(sum, &a, "axes", many, -1, &err), EO_E_BAD_ATTRIBUTE);
    ck_assert_mem_eq(&a, &before, sizeof(a)); /* untouched by all of them */

    eo_attrs_default(dropout, &a);
    ASSERT_CODE(eo_attrs_set_float(dropout, &a, "p", -0.1, &err), EO_E_BAD_ATTRIBUTE);
    ASSERT_CODE(eo_attrs_set_float(dropout, &a, "p", 1.5, &err), EO_E_BAD_ATTRIBUTE);
    ASSERT_CODE(eo_attrs_set_float(dropout, &a, "p", NAN, &err), EO_E_BAD_ATTRIBUTE);
    ASSERT_CONTAINS(err.message, "must be 0 to 1");
    ASSERT_CODE(eo_attrs_set_int(dropout, &a, "stream", -1, &err), EO_E_BAD_ATTRIBUTE);
    ASSERT_CODE(eo_attrs_set_int(dropout, &a, "stream", INT64_C(1) << 32, &err), EO_E_BAD_ATTRIBUTE);
    ASSERT_OK(eo_attrs_set_int(dropout, &a, "stream", UINT32_MAX, &err));

    eo_attrs_default(full, &a);
    ASSERT_OK(eo_attrs_set_float(full, &a, "value", NAN, &err)); /* its range is unbounded */
    ASSERT_CODE(eo_attrs_set_int(full, &a, "dtype", 14, &err), EO_E_BAD_ATTRIBUTE);
    ASSERT_CODE(eo_attrs_set_int(full, &a, "dtype", -1, &err), EO_E_BAD_ATTRIBUTE);
    ASSERT_CODE(eo_attrs_set_int(full, &a, "dtype", 0, &err), EO_E_BAD_ATTRIBUTE);
    many[0] = -1;
    ASSERT_CODE(eo_attrs_set_ints(full, &a, "shape", many, 1, &err), EO_E_BAD_ATTRIBUTE);
    ASSERT_CONTAINS(err.message, "must be at least 0");
    eo_attrs_default(one_hot, &a);
    ASSERT_CODE(eo_attrs_set_int(one_hot, &a, "depth", 0, &err), EO_E_BAD_ATTRIBUTE);
    ASSERT_CONTAINS(err.message, "at least 1");
    eo_attrs_default(cast, &a);
    ASSERT_CODE(eo_attrs_check(cast, &a, &err), EO_E_BAD_ATTRIBUTE);
    ck_assert_str_eq(err.message, "attribute dtype is missing");
    ASSERT_CODE(eo_attrs_set_int(add, &a, "axis", 0, &err), EO_E_BAD_ATTRIBUTE);
    ck_assert_str_eq(err.hint, "add takes no attributes.");
    ck_assert_int_eq(eo_attrs_set_int(add, &a, "axis", 0, NULL), EO_E_BAD_ATTRIBUTE);
}
END_TEST

/* Values that a caller wrote into the struct without the setters. */
START_TEST(test_check_finds_hostile_structs)
{
    const struct eo_op_schema *sum = row("sum");
    struct eo_attrs a;
    struct eo_error err;

    eo_attrs_default(sum, &a);
    ASSERT_OK(eo_attrs_check(sum, &a, &err));
    a.v[0].n = 255;
    ASSERT_CODE(eo_attrs_check(sum, &a, &err), EO_E_BAD_ATTRIBUTE);
    a.v[0].n = 1;
    a.v[0].ints[0] = INT64_MIN;
    ASSERT_CODE(eo_attrs_check(sum, &a, &err), EO_E_BAD_ATTRIBUTE);
    a.v[0].n = 0;
    a.v[1].i = -1;
    ASSERT_CODE(eo_attrs_check(sum, &a, &err), EO_E_BAD_ATTRIBUTE);
}
END_TEST

START_TEST(test_equal)
{
    const struct eo_op_schema *clip = row("clip"), *sum = row("sum");
    struct eo_attrs a, b;

    eo_attrs_default(clip, &a);
    b = a;
    ck_assert(eo_attrs_equal(clip, &a, &b));
    a.v[0].f = 0;
    b.v[0].f = -0.0;
    ck_assert(!eo_attrs_equal(clip, &a, &b));
    eo_attrs_default(sum, &a);
    b = a;
    a.v[0].ints[3] = 5; /* beyond n: not part of the value */
    ck_assert(eo_attrs_equal(sum, &a, &b));
    a.v[0].n = 1;
    ck_assert(!eo_attrs_equal(sum, &a, &b));
}
END_TEST

/* ---- wire form of attributes ---- */

static int round_trip(const struct eo_op_schema *op, const struct eo_attrs *in, struct eo_attrs *out, size_t *out_size,
                      struct eo_error *err)
{
    struct eo_bytes b;
    struct eo_doc doc;
    int rc;

    eo_bytes_init(&b, 65536);
    eo_attrs_pack(&b, op, in);
    ck_assert(!b.failed);
    *out_size = b.size;
    rc = eo_doc_parse(&doc, b.data, b.size, err);
    ck_assert_int_eq(rc, EO_OK);
    rc = eo_attrs_unpack(doc.root, op, out, err);
    eo_doc_fini(&doc);
    eo_bytes_fini(&b);
    return rc;
}

/* A value inside the range that is not the default. */
static void fill(const struct eo_attr_schema *s, struct eo_attr_value *v)
{
    double low = EO_MAX(s->min, -100), high = EO_MIN(s->max, 100);

    switch (s->kind) {
    case EO_ATTR_INT:
        v->i = (int64_t)(high == s->fallback ? low : high);
        break;
    case EO_ATTR_BOOL:
        v->i = s->fallback == 0;
        break;
    case EO_ATTR_DTYPE:
        v->i = EO_FLOAT64;
        break;
    case EO_ATTR_FLOAT:
        v->f = low + (high - low) / 3;
        break;
    case EO_ATTR_INTS:
        v->n = 3;
        v->ints[0] = (int64_t)low;
        v->ints[1] = (int64_t)high;
        v->ints[2] = (int64_t)low + 1;
        break;
    case EO_ATTR_CHOICE:
        v->i = strchr(s->choices, '|') != NULL;
        break;
    case EO_ATTR_TEXT:
        v->n = 5;
        memcpy(v->text, "ij,j->i", 5);
        break;
    }
}

START_TEST(test_every_row_round_trips)
{
    for (int i = 1; i < EO_OP_COUNT; i++) {
        const struct eo_op_schema *op = eo_op_schema((enum eo_op)i);
        struct eo_attrs a, back;
        struct eo_error err;
        size_t size;

        eo_attrs_default(op, &a);
        for (int k = 0; k < op->n_attrs; k++) {
            fill(&op->attrs[k], &a.v[k]);
        }
        ASSERT_OK(eo_attrs_check(op, &a, &err));
        ASSERT_OK(round_trip(op, &a, &back, &size, &err));
        ck_assert_msg(eo_attrs_equal(op, &a, &back), "%s", op->name);
    }
}
END_TEST

START_TEST(test_wire_leaves_defaults_out)
{
    const struct eo_op_schema *sum = row("sum"), *reshape = row("reshape"), *full = row("full");
    struct eo_attrs a, back;
    struct eo_error err;
    size_t size;

    eo_attrs_default(sum, &a);
    ASSERT_OK(round_trip(sum, &a, &back, &size, &err));
    ck_assert_uint_eq(size, 1); /* the empty map */
    eo_attrs_default(reshape, &a);
    ASSERT_OK(round_trip(reshape, &a, &back, &size, &err)); /* a needed list travels even when it is empty */
    ck_assert_uint_eq(size, 1 + 6 + 1);
    eo_attrs_default(full, &a);
    a.v[eo_attr_index(full, "value")].f = -NAN;
    ASSERT_OK(round_trip(full, &a, &back, &size, &err));
    ck_assert(isnan(eo_attr_float(full, &back, "value")));
    ck_assert(!signbit(eo_attr_float(full, &back, "value"))); /* one NaN on the wire */
}
END_TEST

/* One attribute map from JSON-like pieces: key, then what pack() writes. */
enum wire_value { W_INT, W_FLOAT, W_STR, W_BOOL, W_LIST_INT, W_LIST_STR, W_LONG_LIST, W_NIL, W_U64_MAX };

static void pack_wire_value(struct eo_bytes *b, enum wire_value v)
{
    switch (v) {
    case W_INT:
        eo_pack_i64(b, 1);
        break;
    case W_FLOAT:
        eo_pack_f64(b, 0.5);
        break;
    case W_STR:
        eo_pack_str(b, "float99");
        break;
    case W_BOOL:
        eo_pack_bool(b, true);
        break;
    case W_LIST_INT:
        eo_pack_i64_array(b, (int64_t[]){1}, 1);
        break;
    case W_LIST_STR:
        eo_pack_array(b, 1);
        eo_pack_str(b, "1");
        break;
    case W_LONG_LIST:
        eo_pack_i64_array(b, (int64_t[EO_MAX_INTS + 1]){0}, EO_MAX_INTS + 1);
        break;
    case W_NIL:
        eo_pack_nil(b);
        break;
    case W_U64_MAX:
        eo_pack_u64(b, UINT64_MAX);
        break;
    }
}

static int unpack_one(const char *op, const char *key, enum wire_value v, struct eo_error *err)
{
    struct eo_bytes b;
    struct eo_doc doc;
    struct eo_attrs out;
    int rc;

    eo_bytes_init(&b, 65536);
    eo_pack_map(&b, 1);
    eo_pack_str(&b, key);
    pack_wire_value(&b, v);
    ck_assert(!b.failed);
    rc = eo_doc_parse(&doc, b.data, b.size, err);
    ck_assert_int_eq(rc, EO_OK);
    rc = eo_attrs_unpack(doc.root, row(op), &out, err);
    eo_doc_fini(&doc);
    eo_bytes_fini(&b);
    return rc;
}

START_TEST(test_hostile_wire)
{
    struct {
        const char *op, *key;
        enum wire_value value;
        int code;
    } cases[] = {
        {"softmax", "axis", W_INT, EO_OK},
        {"softmax", "axis", W_FLOAT, EO_E_BAD_ATTRIBUTE},
        {"softmax", "axis", W_BOOL, EO_E_BAD_ATTRIBUTE},
        {"softmax", "axis", W_NIL, EO_E_BAD_ATTRIBUTE},
        {"softmax", "axis", W_U64_MAX, EO_E_BAD_ATTRIBUTE},
        {"softmax", "axes", W_INT, EO_E_BAD_ATTRIBUTE},
        {"softmax", "", W_INT, EO_E_BAD_ATTRIBUTE},
        {"softmax", "a_name_that_is_longer_than_any_attribute_of_the_table_could_be", W_INT, EO_E_BAD_ATTRIBUTE},
        {"dropout", "p", W_FLOAT, EO_OK},
        {"dropout", "p", W_INT, EO_OK}, /* an integer converts to a float exactly */
        {"dropout", "p", W_STR, EO_E_BAD_ATTRIBUTE},
        {"cast", "dtype", W_STR, EO_E_BAD_ATTRIBUTE},
        {"cast", "dtype", W_INT, EO_E_BAD_ATTRIBUTE},
        {"sum", "axes", W_LIST_INT, EO_OK},
        {"sum", "axes", W_LIST_STR, EO_E_BAD_ATTRIBUTE},
        {"sum", "axes", W_LONG_LIST, EO_E_BAD_ATTRIBUTE},
        {"sum", "axes", W_INT, EO_E_BAD_ATTRIBUTE},
        {"sum", "keepdims", W_BOOL, EO_OK},
        {"sum", "keepdims", W_INT, EO_E_BAD_ATTRIBUTE},
        {"reshape", "perm", W_LIST_INT, EO_E_BAD_ATTRIBUTE},
        {"full", "value", W_FLOAT, EO_E_BAD_ATTRIBUTE}, /* shape is missing */
        {"add", "axis", W_INT, EO_E_BAD_ATTRIBUTE},
    };
    struct eo_error err;

    for (size_t i = 0; i < EO_COUNT_OF(cases); i++) {
        int rc = unpack_one(cases[i].op, cases[i].key, cases[i].value, &err);

        ck_assert_msg(rc == cases[i].code, "case %zu: %d", i, rc);
        if (rc != EO_OK) {
            ck_assert_str_eq(err.op, cases[i].op);
        }
    }
}
END_TEST

START_TEST(test_wire_twice_and_not_a_map)
{
    struct eo_bytes b;
    struct eo_doc doc;
    struct eo_attrs out;
    struct eo_error err;

    eo_bytes_init(&b, 65536);
    eo_pack_map(&b, 2);
    eo_pack_kv_i64(&b, "axis", 0);
    eo_pack_kv_i64(&b, "axis", 0);
    if (eo_doc_parse(&doc, b.data, b.size, &err) == EO_OK) { /* the codec may refuse repeated keys itself */
        ASSERT_CODE(eo_attrs_unpack(doc.root, row("softmax"), &out, &err), EO_E_BAD_ATTRIBUTE);
        ASSERT_CONTAINS(err.message, "twice");
        eo_doc_fini(&doc);
    }
    eo_bytes_clear(&b);
    eo_pack_array(&b, 0);
    ASSERT_OK(eo_doc_parse(&doc, b.data, b.size, &err));
    ASSERT_CODE(eo_attrs_unpack(doc.root, row("softmax"), &out, &err), EO_E_BAD_ATTRIBUTE);
    eo_doc_fini(&doc);
    eo_bytes_clear(&b);
    eo_pack_map(&b, 1);
    eo_pack_i64(&b, 7);
    eo_pack_i64(&b, 7);
    if (eo_doc_parse(&doc, b.data, b.size, &err) == EO_OK) {
        ASSERT_CODE(eo_attrs_unpack(doc.root, row("softmax"), &out, &err), EO_E_BAD_ATTRIBUTE);
        eo_doc_fini(&doc);
    }
    ASSERT_OK(eo_attrs_unpack(NULL, row("softmax"), &out, &err)); /* no map: the defaults */
    ck_assert_int_eq(eo_attr_int(row("softmax"), &out, "axis"), -1);
    ASSERT_CODE(eo_attrs_unpack(NULL, row("cast"), &out, &err), EO_E_BAD_ATTRIBUTE);
    ck_assert_str_eq(err.message, "attribute dtype is missing");
    eo_bytes_fini(&b);
}
END_TEST

EO_SUITE("op_schema", test_lookup, test_unknown_op, test_table_hash, test_tolerance, test_defaults, test_setters,
         test_setters_refuse, test_check_finds_hostile_structs, test_equal, test_every_row_round_trips,
         test_wire_leaves_defaults_out, test_hostile_wire, test_wire_twice_and_not_a_map)
