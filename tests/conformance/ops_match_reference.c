/* Every row of ops.def with every dtype on every backend against the reference backend: the same calls, ordinary and
 * special values, in place where the kernel offers it. What a backend declines is counted, not skipped silently; what
 * it offers must match. The outcome is the support matrix (op x dtype x backend), printed at the end; `--matrix FILE`
 * writes it as Markdown. */
#include "tests/conformance/compare.h"
#include "tests/support/fake_device.h"

#include <stdio.h>
#include <string.h>

enum { LARGE = 5000 };

enum outcome { UNTRIED, MATCHED, DECLINED };
static enum outcome matrix[DEVICES][EO_OP_COUNT][EO_DTYPE_LIMIT];

static struct devices devices;

/* ---- one call on all backends ---- */

static void try_in_place(const struct run *r, int b, const struct results *plain, const char *how)
{
    struct eo_error err;
    for (int i = 0; i < r->n_in && i < 32; i++) {
        struct results shared;
        if (!(plain->in_place >> i & 1) || eo_tensor_desc_bytes(&r->in[i]) != eo_tensor_desc_bytes(&r->out[0]))
            continue;
        ASSERT_OK(run_on(devices.under_test[b], r, i, &shared, &err));
        for (int o = 0; o < r->n_out; o++)
            CHECK(memcmp(shared.out[o], plain->out[o], eo_tensor_desc_bytes(&r->out[o])) == 0,
                  "%s, %s, %s: output %d differs when output 0 lies over input %d", devices.names[b], plain->kernel,
                  how, o, i);
        results_fini(&shared);
    }
}

static bool is_large(const struct run *r)
{
    for (int o = 0; o < r->n_out; o++)
        if (eo_tensor_desc_count(&r->out[o]) > LARGE)
            return true;
    return r->n_in > 0 && eo_tensor_desc_count(&r->in[0]) > LARGE;
}

/* How element-wise work is cut for threads does not depend on the dtype: of large calls some stand for all. */
static bool is_one_of_many(const struct run *r, enum eo_dtype dtype, enum eo_dtype to)
{
    bool is_tried = dtype == EO_FLOAT32 || dtype == EO_BFLOAT16 || dtype == EO_INT8;
    return (r->op->properties & EO_PROP_ELEMENTWISE) && is_large(r) &&
           !(is_tried && (r->op->op != EO_OP_CAST || to == EO_FLOAT32));
}

/* The fake device computes with the reference's kernels: what it adds is their way there, for which small operands of
 * every dtype are enough, and of one dtype where the same queue runs on a thread. */
static bool is_worth_trying(int b, const struct run *r, enum eo_dtype dtype, enum eo_dtype to)
{
    if (devices.under_test[b]->info.host_memory)
        return true;
    bool is_first = strcmp(devices.names[b], devices.under_test[b]->info.name) == 0;
    return !is_large(r) && (is_first || dtype == EO_FLOAT32) && (r->op->op != EO_OP_CAST || to == EO_FLOAT32);
}

static void try_backend(const struct run *r, int b, const struct results *expected, enum eo_dtype dtype,
                        const char *how)
{
    struct eo_error err;
    struct results actual;
    enum outcome *outcome = &matrix[b][r->op->op][dtype];
    int rc = run_on(devices.under_test[b], r, -1, &actual, &err);
    if (rc == EO_E_UNSUPPORTED) {
        CHECK(err.detail[0] != '\0', "%s declines %s without a reason", devices.names[b], r->op->name);
        /* Which primitives a composite row is made of may depend on the shape. */
        CHECK(*outcome != MATCHED || r->op->op == EO_OP_CAST || (r->op->flags & EO_OPF_COMPOSITE),
              "%s takes %s of %s for some shapes only: %s", devices.names[b], r->op->name, eo_dtype_name(dtype),
              err.detail);
        if (*outcome == UNTRIED)
            *outcome = DECLINED;
        return;
    }
    ASSERT_OK(rc);
    compare_results(r, expected, &actual, devices.names[b], how);
    try_in_place(r, b, &actual, how);
    results_fini(&actual);
    *outcome = MATCHED;
}

static void try_case(const struct op_case *c, enum eo_dtype dtype, enum eo_dtype to, enum fill fill, int *n_runs)
{
    struct eo_error err;
    struct run r;
    struct results expected;
    const char *how = fill == FILL_SPECIAL ? "special values" : "ordinary values";
    if (case_init(&r, c, dtype, to, &err) == EO_OK && !is_one_of_many(&r, dtype, to)) {
        case_fill(&r, fill, (uint64_t)c->op * 100 + dtype);
        ASSERT_OK(run_on(devices.reference, &r, -1, &expected, &err));
        for (int b = 0; b < devices.n; b++)
            if (is_worth_trying(b, &r, dtype, to))
                try_backend(&r, b, &expected, dtype, how);
        results_fini(&expected);
        ++*n_runs;
    }
    run_fini(&r);
}

static void try_row(enum eo_op op, enum fill fill)
{
    eo_dtype_set set = case_dtypes(eo_op_schema(op));
    for (int d = 1; d < EO_DTYPE_LIMIT; d++) {
        int n_runs = 0;
        if (!(set & EO_DTYPE_BIT(d)))
            continue;
        for (int c = 0; c < case_count(); c++) {
            if (case_at(c)->op != op)
                continue;
            for (int to = 1; to < EO_DTYPE_LIMIT; to++)
                if (op == EO_OP_CAST || to == 1)
                    try_case(case_at(c), (enum eo_dtype)d, (enum eo_dtype)to, fill, &n_runs);
        }
        CHECK(n_runs > 0, "no call of %s with %s was compared", eo_op_schema(op)->name,
              eo_dtype_name((enum eo_dtype)d));
    }
}

START_TEST(test_every_row_matches_with_ordinary_values)
{
    for (int op = 1; op < EO_OP_COUNT; op++)
        try_row((enum eo_op)op, FILL_ORDINARY);
}
END_TEST

START_TEST(test_every_row_matches_with_special_values)
{
    for (int op = 1; op < EO_OP_COUNT; op++)
        if (!case_is_update((enum eo_op)op) && op != EO_OP_SUM_SQUARES)
            try_row((enum eo_op)op, FILL_SPECIAL);
}
END_TEST

/* The cpu backend has all rows in all float dtypes, what a training job needs never falls back; and element-wise rows
 * in every dtype. */
START_TEST(test_cpu_is_complete)
{
    if (strcmp(devices.names[0], "cpu") != 0)
        return;
    for (int op = 1; op < EO_OP_COUNT; op++) {
        const struct eo_op_schema *row = eo_op_schema((enum eo_op)op);
        eo_dtype_set wanted = row->properties & EO_PROP_ELEMENTWISE ? EO_SET_ANY : EO_SET_FLOAT;
        for (int d = 1; d < EO_DTYPE_LIMIT; d++)
            if (case_dtypes(row) & wanted & EO_DTYPE_BIT(d))
                CHECK(matrix[0][op][d] == MATCHED, "cpu has no %s of %s", row->name, eo_dtype_name((enum eo_dtype)d));
    }
}
END_TEST

/* Data that must be refused is refused with the first offender, by every backend, and damages nothing. */
START_TEST(test_indices_out_of_range_are_refused)
{
    static const struct {
        enum eo_op op;
        const char *inputs, *attrs;
        int index_input;
        int64_t bad;
    } calls[] = {
        {EO_OP_GATHER, "T 2x5x3; I 4", "axis=1", 1, 5},
        {EO_OP_GATHER, "T 2x5x3; I 4", "axis=1", 1, -6},
        {EO_OP_SCATTER_ADD, "T 5x3; I 4; T 4x3", "", 1, 5},
        {EO_OP_SCATTER_ADD, "T 5x3; I 4; T 4x3", "", 1, INT64_MIN},
        {EO_OP_GATHER_ELEMENTS, "T 5x3; I 4x3", "axis=0", 1, -6},
        {EO_OP_SCATTER_ELEMENTS, "T 5x3; I 5x4; T 5x4", "axis=1", 1, 3},
        {EO_OP_SCATTER_ELEMENTS, "T 5x3; I 5x4; T 5x4", "axis=1 reduction=add", 1, INT64_MIN},
        {EO_OP_GATHER_ND, "T 2x5x3; I 4x2", "", 1, 2},
        {EO_OP_SCATTER_ND, "T 2x5x3; I 4x2; T 4x3", "reduction=maximum", 1, -3},
        {EO_OP_SCATTER_ND, "T 5x3; I 4x1; T 4x3", "", 1, INT64_MAX},
        {EO_OP_ONE_HOT, "I 4", "depth=3 dtype=T", 0, 3},
        {EO_OP_ONE_HOT, "I 4", "depth=3 dtype=T", 0, -1},
        {EO_OP_CROSS_ENTROPY, "T 4x3; I 4", "", 1, 3},
        {EO_OP_CROSS_ENTROPY, "T 4x3; I 4", "", 1, INT64_MAX},
    };
    for (size_t c = 0; c < EO_COUNT_OF(calls); c++) {
        struct eo_error err;
        struct run r;
        struct op_case call = {calls[c].op, calls[c].inputs, calls[c].attrs};
        ASSERT_OK(case_init(&r, &call, EO_FLOAT32, EO_FLOAT32, &err));
        case_fill(&r, FILL_ORDINARY, 1);
        ((int64_t *)r.in_data[calls[c].index_input])[2] = calls[c].bad;
        for (int b = -1; b < devices.n; b++) {
            struct results out;
            char number[32];
            ASSERT_CODE(run_on(b < 0 ? devices.reference : devices.under_test[b], &r, -1, &out, &err), EO_E_BAD_VALUE);
            snprintf(number, sizeof number, "%lld", (long long)calls[c].bad);
            ASSERT_CONTAINS(err.message, number);
            results_fini(&out);
        }
        run_fini(&r);
    }
}
END_TEST

/* ---- the matrix ---- */

static const char *cell(int b, int op, int d)
{
    if (!(case_dtypes(eo_op_schema((enum eo_op)op)) & EO_DTYPE_BIT(d)))
        return "";
    return matrix[b][op][d] == MATCHED ? "yes" : matrix[b][op][d] == DECLINED ? "no" : "?";
}

static void write_matrix(FILE *f, bool with_fake)
{
    for (int b = 0; b < devices.n; b++) {
        if (strcmp(devices.names[b], devices.under_test[b]->info.name) != 0)
            continue; /* the same backend once more: another instruction set, another queue */
        if (devices.under_test[b]->backend == &fake_backend && !with_fake)
            continue;
        fprintf(f, "\n## %s\n\n| operation |", devices.names[b]);
        for (int d = 1; d < EO_DTYPE_LIMIT; d++)
            fprintf(f, " %s |", eo_dtype_name((enum eo_dtype)d));
        fprintf(f, "\n| --- |");
        for (int d = 1; d < EO_DTYPE_LIMIT; d++)
            fprintf(f, " --- |");
        fprintf(f, "\n");
        for (int op = 1; op < EO_OP_COUNT; op++) {
            fprintf(f, "| %s |", eo_op_schema((enum eo_op)op)->name);
            for (int d = 1; d < EO_DTYPE_LIMIT; d++)
                fprintf(f, " %s |", cell(b, op, d));
            fprintf(f, "\n");
        }
    }
}

static int write_file(const char *path)
{
    FILE *f = fopen(path, "we");
    if (!f) {
        perror(path);
        return EXIT_FAILURE;
    }
    fprintf(
        f,
        "# Operations, dtypes and backends\n\n"
        "Generated by `test_ops_match_reference --matrix FILE` from what was compared with the reference backend, "
        "which has every cell.\n\"yes\": all calls of tests/conformance/cases.def matched. \"no\": declined, with the "
        "reason in the error. Empty: not part of the row. For casts: some target dtype matched.\n");
    write_matrix(f, false);
    return fclose(f) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    const TTest *const tests[] = {test_every_row_matches_with_ordinary_values,
                                  test_every_row_matches_with_special_values, test_cpu_is_complete,
                                  test_indices_out_of_range_are_refused};
    /* The devices have threads, which a forked test would not have. */
    (void)setenv("CK_FORK", "no", 1);
    devices_open(&devices);
    int rc = eo_suite_run("ops match reference", tests, EO_COUNT_OF(tests));
    if (argc == 3 && strcmp(argv[1], "--matrix") == 0)
        rc = rc == EXIT_SUCCESS ? write_file(argv[2]) : rc;
    else
        write_matrix(stdout, true);
    devices_close(&devices);
    return rc;
}
