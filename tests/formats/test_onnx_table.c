/* The table of ONNX operators against itself and against ops.def. */
#include "daemon/formats/onnx/maps.h"
#include "daemon/formats/onnx/model.h"
#include "proto/op_schema.h"
#include "tests/support/suite.h"

#include <string.h>

START_TEST(test_rows_are_in_order_and_do_not_overlap)
{
    for (int i = 0; i < onnx_operator_count(); i++) {
        const struct onnx_operator *o = onnx_operator_at(i), *before = i > 0 ? onnx_operator_at(i - 1) : NULL;
        int newest = strcmp(o->domain, ONNX_TRAINING) == 0 ? ONNX_NEWEST_TRAINING : ONNX_NEWEST;

        ck_assert_msg(o->since >= 1 && o->since <= o->until && o->until <= newest, "%s: %d to %d", o->name, o->since,
                      o->until);
        ck_assert_msg(before == NULL || strcmp(before->name, o->name) <= 0, "%s stands behind %s", o->name,
                      before != NULL ? before->name : "");
        ck_assert_msg(before == NULL || strcmp(before->name, o->name) != 0 || before->until < o->since,
                      "two rows of %s overlap", o->name);
        ck_assert(strchr(o->note, '|') == NULL);
        for (int version = o->since; version <= o->until; version++)
            ck_assert_ptr_eq(onnx_operator_find(o->domain, o->name, version, NULL), o);
    }
}
END_TEST

START_TEST(test_every_row_that_an_operator_names_is_there)
{
    for (int i = 0; i < onnx_operator_count(); i++) {
        const struct onnx_operator *o = onnx_operator_at(i);
        const struct eo_op_schema *op = eo_op_by_name(o->row, strlen(o->row));

        ck_assert_msg(o->row[0] == '\0' || op != NULL, "%s: there is no row %s", o->name, o->row);
        /* where nothing but the row stands behind the operator, both tables say so */
        if (o->map == map_same)
            ck_assert_msg(strcmp(op->onnx, o->name) == 0, "%s is row %s, which says that it is \"%s\"", o->name, o->row,
                          op->onnx);
    }
}
END_TEST

START_TEST(test_every_operator_that_a_row_is_can_be_imported)
{
    for (int i = 1; i < EO_OP_COUNT; i++) {
        const struct eo_op_schema *op = eo_op_schema((enum eo_op)i);
        bool known;

        if (op->onnx[0] == '\0' || op->onnx_opset > ONNX_NEWEST)
            continue;
        (void)onnx_operator_find(ONNX_DOMAIN, op->onnx, op->onnx_opset, &known);
        ck_assert_msg(known, "row %s is ONNX's %s, which is not imported", op->name, op->onnx);
    }
}
END_TEST

START_TEST(test_what_is_not_there_is_not_found)
{
    bool known = true;

    ck_assert_ptr_null(onnx_operator_find(ONNX_DOMAIN, "Nothing", 13, &known));
    ck_assert(!known);
    ck_assert_ptr_null(onnx_operator_find(ONNX_DOMAIN, "", 13, &known));
    ck_assert(!known);
    ck_assert_ptr_null(onnx_operator_find(ONNX_DOMAIN, "Abs", 18, &known));
    ck_assert(known);
    ck_assert_ptr_null(onnx_operator_find(ONNX_DOMAIN, "Adam", 1, &known));
    ck_assert(!known);
    ck_assert_ptr_nonnull(onnx_operator_find(ONNX_TRAINING, "Adam", 1, &known));
}
END_TEST

EO_SUITE("ONNX operators", test_rows_are_in_order_and_do_not_overlap, test_every_row_that_an_operator_names_is_there,
         test_every_operator_that_a_row_is_can_be_imported, test_what_is_not_there_is_not_found)
