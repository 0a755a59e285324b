/* Tables of calls that shape rules accept or refuse, and what checks them. */
#ifndef EO_TESTS_PROTO_SHAPE_CASES_H
#define EO_TESTS_PROTO_SHAPE_CASES_H

#include "tests/proto/op_case.h"

enum { MAX_IN = 8 };

struct good {
    const char *op, *attrs, *wanted;
    const char *in[MAX_IN];
};

static inline void check_good(const struct good *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct eo_error err;
        char text[512], report[2048];
        int n_in = 0, rc;

        while (n_in < MAX_IN && cases[i].in[n_in] != NULL) {
            n_in++;
        }
        rc = op_case_infer(cases[i].op, cases[i].in, n_in, cases[i].attrs, text, sizeof(text), &err);
        if (rc != EO_OK) {
            eo_error_text(&err, false, report, sizeof(report));
            ck_abort_msg("case %zu: %s %s\n%s", i, cases[i].op, cases[i].attrs == NULL ? "" : cases[i].attrs, report);
        }
        ck_assert_msg(strcmp(text, cases[i].wanted) == 0, "case %zu: %s gives %s, wanted %s", i, cases[i].op, text,
                      cases[i].wanted);
    }
}

struct bad {
    const char *op, *attrs;
    int code;
    const char *message; /* part of it */
    int marks[4];        /* marked dimension of the listed inputs, NONE = not marked, END = no further input */
    const char *in[MAX_IN];
};
enum { NONE = -1, END = -2 };

static inline void check_bad(const struct bad *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct bad *c = &cases[i];
        struct eo_error err;
        char text[512];
        int n_in = 0, rc, marks = 0;

        while (n_in < MAX_IN && c->in[n_in] != NULL) {
            n_in++;
        }
        rc = op_case_infer(c->op, c->in, n_in, c->attrs, text, sizeof(text), &err);
        ck_assert_msg(rc == c->code, "case %zu: %s: code %d, result %s", i, c->op, rc, text);
        ck_assert_msg(strstr(err.message, c->message) != NULL, "case %zu: %s: %s", i, c->op, err.message);
        ck_assert_str_eq(err.op, c->op);
        for (; marks < 4 && c->marks[marks] != END; marks++) {
            ck_assert_msg(err.inputs[marks].marked_dim == c->marks[marks], "case %zu: %s: mark %d is %d", i, c->op,
                          marks, err.inputs[marks].marked_dim);
        }
        ck_assert_msg(err.n_inputs == marks, "case %zu: %s: %d inputs listed", i, c->op, err.n_inputs);
        ck_assert_int_eq(op_case_infer(c->op, c->in, n_in, c->attrs, text, sizeof(text), NULL), c->code);
    }
}

#endif
