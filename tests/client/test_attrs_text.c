#include "client/lib/attrs_text.h"

#include "tests/support/suite.h"

#include <math.h>
#include <string.h>

static struct eo_error err;
static struct eo_attrs attrs;

static const struct eo_op_schema *op(const char *name)
{
    const struct eo_op_schema *row = eo_op_by_name(name, strlen(name));
    ck_assert_msg(row != NULL, "no op %s", name);
    return row;
}

static int parse(const char *op_name, const char *text)
{
    memset(&err, 0, sizeof err);
    return eo_attrs_text_parse(text, op(op_name), &attrs, &err);
}

START_TEST(nothing_gives_the_defaults)
{
    struct eo_attrs defaults;
    const char *const nothing[] = {NULL, "", "  \t "};
    eo_attrs_default(op("sum"), &defaults);
    for (size_t i = 0; i < EO_COUNT_OF(nothing); i++) {
        ASSERT_OK(parse("sum", nothing[i]));
        ck_assert(eo_attrs_equal(op("sum"), &attrs, &defaults));
    }
}
END_TEST

START_TEST(reads_every_kind)
{
    int n = 0;
    ASSERT_OK(parse("sum", " axes = [ -1,2 ] ,keepdims=true"));
    const int64_t *axes = eo_attr_ints(op("sum"), &attrs, "axes", &n);
    ck_assert_int_eq(n, 2);
    ck_assert_int_eq(axes[0], -1);
    ck_assert_int_eq(axes[1], 2);
    ck_assert_int_eq(eo_attr_int(op("sum"), &attrs, "keepdims"), 1);
    ASSERT_OK(parse("full", "shape=[2,3], value=-1.5e2, dtype=float64"));
    ck_assert_double_eq(eo_attr_float(op("full"), &attrs, "value"), -150.0);
    ck_assert_int_eq(eo_attr_int(op("full"), &attrs, "dtype"), EO_FLOAT64);
    ASSERT_OK(parse("full", "shape=[],value=7")); /* an integer where a number is wanted */
    ck_assert_double_eq(eo_attr_float(op("full"), &attrs, "value"), 7.0);
    eo_attr_ints(op("full"), &attrs, "shape", &n);
    ck_assert_int_eq(n, 0);
    ASSERT_OK(parse("clip", "low=-inf,high=inf"));
    ck_assert(isinf(eo_attr_float(op("clip"), &attrs, "high")));
    ASSERT_OK(parse("softmax", "axis=-1"));
    ck_assert_int_eq(eo_attr_int(op("softmax"), &attrs, "axis"), -1);
}
END_TEST

START_TEST(says_what_is_wrong)
{
    static const struct {
        const char *op, *text, *says;
    } cases[] = {
        {"sum", "axis=1", "axis"}, /* sum has axes */
        {"sum", "axes", "'='"},
        {"sum", "=1", "name"},
        {"sum", "axes=", "value"},
        {"sum", "axes=[1", "end"},
        {"sum", "axes=[1 2]", "end"},
        {"sum", "axes=[1,]", "entry"},
        {"sum", "axes=[x]", "integer"},
        {"sum", "axes=[1.5]", "end"},
        {"sum", "axes=[9223372036854775808]", "integer"},
        {"sum", "axes=[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]", "too many"},
        {"sum", "axes=1", "axes"},    /* a list is wanted */
        {"sum", "axes=[99]", "axes"}, /* out of range */
        {"sum", "keepdims=2", "keepdims"},
        {"sum", "keepdims=true axes=[1]", "comma"},
        {"sum", "keepdims=true,", "name"},
        {"sum", ",", "name"},
        {"sum", "keepdims=true,keepdims=false", "twice"},
        {"sum", "keepdims=maybe", "number, bool"},
        {"softmax", "axis=1.5", "axis"},
        {"cast", "dtype=float31", "number, bool"},
        {"cast", "", "dtype is required"},
        {"full", "value=1", "shape is required"},
        {"sum", "a_name_that_is_longer_than_any_attribute_could_be=1", "name"},
        {"sum", "axes=[1]\x1b[31m", "comma"},
    };
    for (size_t i = 0; i < EO_COUNT_OF(cases); i++) {
        ck_assert_msg(parse(cases[i].op, cases[i].text) == EO_E_BAD_ATTRIBUTE, "%s(%s) gives %d", cases[i].op,
                      cases[i].text, err.code);
        ASSERT_CONTAINS(err.message, cases[i].says);
        ck_assert_str_eq(err.op, cases[i].op);
        ck_assert_ptr_null(strchr(err.message, '\x1b'));
    }
}
END_TEST

EO_SUITE("client attributes as text", nothing_gives_the_defaults, reads_every_kind, says_what_is_wrong)
