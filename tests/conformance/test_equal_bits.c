/* What must not depend on the machine: reductions, updates, random numbers and exact element-wise rows give equal bits
 * on every instruction set, and everything but OpenBLAS and oneDNN gives equal bits for every number of threads. */
#include "backends/cpu/isa.h"
#include "tests/conformance/cases.h"

#include <stdio.h>
#include <string.h>

enum { MOST_THREADS = 3 };
static const enum eo_dtype dtypes[] = {EO_FLOAT32, EO_FLOAT64, EO_INT32, EO_INT64};

static struct eo_device *open_cpu(const char *isa, int threads)
{
    struct eo_error err;
    struct eo_device *dev = NULL;
    ck_assert_int_eq(setenv("EVERYO_CPU_ISA", isa, 1), 0);
    ASSERT_OK(registry_open("cpu", &(struct eo_device_config){.threads = threads}, &dev, NULL, 0, &err));
    return dev;
}

/* Rows that go through a mathematical library or a fused multiply-add, where instruction sets may differ; so may what
 * is lowered to them. */
static bool may_differ_between_isas(enum eo_op op)
{
    if (eo_op_schema(op)->flags & EO_OPF_COMPOSITE)
        return true;
    switch (op) {
    case EO_OP_EXP:
    case EO_OP_EXP2:
    case EO_OP_LOG:
    case EO_OP_LOG2:
    case EO_OP_LOG10:
    case EO_OP_LOG1P:
    case EO_OP_EXPM1:
    case EO_OP_CBRT:
    case EO_OP_ERF:
    case EO_OP_ERFC:
    case EO_OP_SIN:
    case EO_OP_COS:
    case EO_OP_TAN:
    case EO_OP_ASIN:
    case EO_OP_ACOS:
    case EO_OP_ATAN:
    case EO_OP_SINH:
    case EO_OP_COSH:
    case EO_OP_TANH:
    case EO_OP_ASINH:
    case EO_OP_ACOSH:
    case EO_OP_ATANH:
    case EO_OP_SIGMOID:
    case EO_OP_SOFTPLUS:
    case EO_OP_POWER:
    case EO_OP_ATAN2:
    case EO_OP_SOFTMAX:
    case EO_OP_LOG_SOFTMAX:
    case EO_OP_CROSS_ENTROPY:
    case EO_OP_MATMUL:
        return true;
    default:
        return false;
    }
}

/* The library cuts its sums by the number of threads; a lowering may have its products, and its other parts are rows
 * that are compared by themselves. */
static bool is_library(const char *kernel)
{
    return strstr(kernel, "openblas") != NULL || strstr(kernel, "onednn") != NULL || strcmp(kernel, "lowered") == 0;
}

static void compare(const struct run *r, const struct results *a, const struct results *b, const char *what)
{
    for (int o = 0; o < r->n_out; o++)
        CHECK(memcmp(a->out[o], b->out[o], eo_tensor_desc_bytes(&a->desc[o])) == 0,
              "%s: %s and %s give different bits (%s)", r->op->name, a->kernel, b->kernel, what);
}

/* One call on both devices (which may be one); libraries are held to it only on one and the same device. Returns
 * whether it was compared. */
static bool try_call(struct eo_device *a, struct eo_device *b, const struct op_case *c, enum eo_dtype dtype,
                     const char *what)
{
    struct eo_error err;
    struct run r;
    struct results ra, rb;
    bool compared = false;
    if (case_init(&r, c, dtype, dtype, &err) == EO_OK) {
        case_fill(&r, FILL_ORDINARY, (uint64_t)c->op);
        int rc = run_on(a, &r, -1, &ra, &err);
        if (rc == EO_OK) {
            ASSERT_OK(run_on(b, &r, -1, &rb, &err));
            compared = a == b || !is_library(ra.kernel);
            if (compared)
                compare(&r, &ra, &rb, what);
            results_fini(&rb);
        }
        results_fini(&ra);
    }
    run_fini(&r);
    return compared;
}

static int try_all(struct eo_device *a, struct eo_device *b, bool between_isas, const char *what)
{
    int n = 0;
    for (int c = 0; c < case_count(); c++) {
        const struct op_case *call = case_at(c);
        if (between_isas && may_differ_between_isas(call->op))
            continue;
        for (size_t d = 0; d < EO_COUNT_OF(dtypes); d++)
            if (case_dtypes(eo_op_schema(call->op)) & EO_DTYPE_BIT(dtypes[d]))
                n += try_call(a, b, call, dtypes[d], what);
    }
    return n;
}

START_TEST(test_instruction_sets_agree)
{
    struct eo_device *baseline = open_cpu("baseline", 1);
    for (int i = 1; i < isa_count(); i++) {
        if (!isa_runs_here(i)) {
            printf("%s is not compared: this processor does not have it\n", isa_at(i)->description);
            continue;
        }
        struct eo_device *other = open_cpu(isa_at(i)->name, 1);
        ck_assert_int_gt(try_all(baseline, other, true, isa_at(i)->name), 500);
        registry_close(other);
    }
    registry_close(baseline);
}
END_TEST

START_TEST(test_numbers_of_threads_agree)
{
    for (int i = 0; i < isa_count(); i++) {
        if (!isa_runs_here(i))
            continue;
        struct eo_device *one = open_cpu(isa_at(i)->name, 1);
        for (int threads = 2; threads <= MOST_THREADS; threads++) {
            struct eo_device *more = open_cpu(isa_at(i)->name, threads);
            ck_assert_int_gt(try_all(one, more, false, "threads"), 700);
            registry_close(more);
        }
        registry_close(one);
    }
}
END_TEST

START_TEST(test_repeats_agree)
{
    for (int threads = 1; threads <= MOST_THREADS; threads++) {
        struct eo_device *dev = open_cpu("baseline", threads);
        ck_assert_int_gt(try_all(dev, dev, false, "repeats"), 700);
        registry_close(dev);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_instruction_sets_agree, test_numbers_of_threads_agree, test_repeats_agree};
    struct eo_backend_facts facts;
    char refusal[224];
    registry_find("cpu")->probe(&facts);
    registry_first_refusal(&facts, refusal, sizeof refusal);
    if (refusal[0]) {
        printf("skipped: cpu cannot be used: %s\n", refusal);
        return 77;
    }
    (void)setenv("CK_FORK", "no", 1);
    return eo_suite_run("equal bits", tests, EO_COUNT_OF(tests));
}
