/* The six facts of the cpu backend, one test per fact and state, with stand-ins for OpenBLAS built beside this test. */
#include "backends/cpu/blas.h"
#include "backends/cpu/cpu.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/onednn.h"
#include "backends/registry.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <string.h>

static struct eo_error err;

/* The facts with this library (NULL: the configured one) and instruction set (NULL: the best one). */
static struct eo_backend_facts probe_with(const char *library, const char *isa)
{
    struct eo_backend_facts facts;
    blas_forget();
    if (library)
        ck_assert_int_eq(setenv("EVERYO_BLAS_LIBRARY", library, 1), 0);
    else
        ck_assert_int_eq(unsetenv("EVERYO_BLAS_LIBRARY"), 0);
    if (isa)
        ck_assert_int_eq(setenv("EVERYO_CPU_ISA", isa, 1), 0);
    else
        ck_assert_int_eq(unsetenv("EVERYO_CPU_ISA"), 0);
    registry_find("cpu")->probe(&facts);
    return facts;
}

static const char *fake(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/lib%s.so", FAKE_BLAS_DIR, name);
    return path;
}

/* The first `yes` facts hold, the next one does not and says `why`, the rest were not reached. */
static void check_refused(const struct eo_backend_facts *facts, enum eo_fact fact, const char *why)
{
    char refusal[224];
    for (int f = 0; f < (int)fact; f++)
        ck_assert_int_eq(facts->state[f], EO_FACT_YES);
    ck_assert_int_eq(facts->state[fact], EO_FACT_NO);
    ASSERT_CONTAINS(facts->why[fact], why);
    for (int f = (int)fact + 1; f < EO_FACT_COUNT; f++)
        ck_assert_int_eq(facts->state[f], EO_FACT_UNKNOWN);
    registry_first_refusal(facts, refusal, sizeof refusal);
    ASSERT_CONTAINS(refusal, why);
}

/* The device cannot be had by name, and auto takes the reference, saying why. */
static void check_consequences(const char *why)
{
    struct eo_device *dev = NULL;
    char reason[512];
    ASSERT_CODE(registry_open("cpu", NULL, &dev, NULL, 0, &err), EO_E_NO_DEVICE);
    ASSERT_CONTAINS(err.message, why);
    ASSERT_OK(registry_open("auto", NULL, &dev, reason, sizeof reason, &err));
    ck_assert_str_eq(dev->info.name, "reference");
    ASSERT_CONTAINS(reason, why);
    ASSERT_CONTAINS(reason, "cpu");
    registry_close(dev);
}

static void check_library(const char *library, enum eo_fact fact, const char *why)
{
    struct eo_backend_facts facts = probe_with(library, NULL);
    check_refused(&facts, fact, why);
    check_consequences(why);
}

START_TEST(test_library_is_absent)
{
    check_library("/nonexistent/libopenblas.so.0", EO_FACT_INSTALLED, "/nonexistent/libopenblas.so.0");
}
END_TEST

START_TEST(test_path_is_relative)
{
    check_library("libopenblas.so.0", EO_FACT_INSTALLED, "not an absolute path");
}
END_TEST

START_TEST(test_library_is_another)
{
    check_library(fake("fake_blas_without_sgemm"), EO_FACT_INSTALLED, "no cblas_sgemm: it is not OpenBLAS");
}
END_TEST

START_TEST(test_library_does_not_say_its_version)
{
    check_library(fake("fake_blas_nameless"), EO_FACT_INSTALLED, "does not say which version");
}
END_TEST

START_TEST(test_library_is_too_old)
{
    check_library(fake("fake_blas_old"), EO_FACT_INSTALLED, "OpenBLAS 0.2.20 is too old");
}
END_TEST

START_TEST(test_library_has_threads_of_its_own)
{
    check_library(fake("fake_blas_pthread"), EO_FACT_INITIALISED, "threads of its own; the OpenMP build is needed");
}
END_TEST

START_TEST(test_library_has_no_threads)
{
    check_library(fake("fake_blas_serial"), EO_FACT_INITIALISED, "no threads; the OpenMP build is needed");
}
END_TEST

START_TEST(test_library_fails_to_initialise)
{
    check_library(fake("fake_blas_no_processor"), EO_FACT_INITIALISED, "found no processor");
}
END_TEST

START_TEST(test_library_gives_a_wrong_answer)
{
    check_library(fake("fake_blas_wrong"), EO_FACT_INITIALISED, "wrong answer to a known product");
}
END_TEST

START_TEST(test_no_hardware)
{
    struct eo_backend_facts facts = probe_with(NULL, "vax");
    check_refused(&facts, EO_FACT_HARDWARE, "EVERYO_CPU_ISA is \"vax\", which is not compiled in");
    check_consequences("vax");
    for (int i = 0; i < isa_count(); i++) {
        if (isa_runs_here(i))
            continue;
        facts = probe_with(NULL, isa_at(i)->name);
        check_refused(&facts, EO_FACT_HARDWARE, "which this processor does not have");
    }
}
END_TEST

static void check_usable(const struct eo_backend_facts *facts, const char *version)
{
    struct eo_device *dev = NULL;
    char refusal[224], report[256], reason[256];
    for (int f = 0; f <= EO_FACT_SUPPORTED; f++) {
        ck_assert_int_eq(facts->state[f], EO_FACT_YES);
        ck_assert_str_ne(facts->why[f], "");
    }
    ck_assert_int_eq(facts->state[EO_FACT_USED], EO_FACT_UNKNOWN);
    registry_first_refusal(facts, refusal, sizeof refusal);
    ck_assert_str_eq(refusal, "");
    ASSERT_CONTAINS(facts->why[EO_FACT_INSTALLED], version);
    ASSERT_OK(registry_open("auto", &(struct eo_device_config){.threads = 1}, &dev, reason, sizeof reason, &err));
    ck_assert_str_eq(dev->info.name, "cpu");
    ck_assert_int_eq(dev->info.threads, 1);
    ck_assert_str_eq(reason, "cpu is the first backend that can be used");
    ASSERT_OK(dev->backend->self_check(dev, report, sizeof report, &err));
    ASSERT_CONTAINS(report, "equal plain loops");
    registry_close(dev);
}

START_TEST(test_everything_is_there)
{
    struct eo_backend_facts facts = probe_with(NULL, NULL);
    if (facts.state[EO_FACT_INSTALLED] == EO_FACT_YES)
        check_usable(&facts, "OpenBLAS");
    else
        printf("the configured OpenBLAS is not here: %s\n", facts.why[EO_FACT_INSTALLED]);
    facts = probe_with(fake("fake_blas_right"), NULL);
    check_usable(&facts, "OpenBLAS 0.3.99 (Fake)");
    facts = probe_with(fake("fake_blas_right"), "baseline");
    check_usable(&facts, "OpenBLAS 0.3.99 (Fake)");
}
END_TEST

/* A fault that a tiny product does not show is found by the self-check, which names the kernel. */
START_TEST(test_self_check_finds_a_wrong_kernel)
{
    struct eo_device *dev = NULL;
    char report[256];
    onednn_forget();
    ck_assert_int_eq(setenv("EVERYO_ONEDNN_LIBRARY", "none", 1), 0); /* it would take the product */
    struct eo_backend_facts facts = probe_with(fake("fake_blas_wrong_when_large"), NULL);
    ck_assert_int_eq(facts.state[EO_FACT_INITIALISED], EO_FACT_YES);
    ASSERT_OK(registry_open("cpu", NULL, &dev, NULL, 0, &err));
    ASSERT_CODE(dev->backend->self_check(dev, report, sizeof report, &err), EO_E_BACKEND_FAILED);
    ASSERT_CONTAINS(err.message, "openblas");
    ASSERT_CONTAINS(err.message, "(127,131)");
    ck_assert_str_eq(err.device, "cpu");
    registry_close(dev);
    onednn_forget();
    ck_assert_int_eq(unsetenv("EVERYO_ONEDNN_LIBRARY"), 0);
}
END_TEST

/* oneDNN is a helper: whatever is wrong with it, the backend works and the fact says why. */
static void check_without_onednn(const char *library, const char *why)
{
    struct eo_device *dev = NULL;
    char report[256];
    onednn_forget();
    ck_assert_int_eq(setenv("EVERYO_ONEDNN_LIBRARY", library, 1), 0);
    struct eo_backend_facts facts = probe_with(fake("fake_blas_right"), NULL);
    ck_assert_int_eq(facts.state[EO_FACT_INSTALLED], EO_FACT_YES);
    ASSERT_CONTAINS(facts.why[EO_FACT_INSTALLED], "; without oneDNN: ");
    ASSERT_CONTAINS(facts.why[EO_FACT_INSTALLED], why);
    ck_assert_str_eq(onednn_description(), "");
    ASSERT_OK(registry_open("cpu", NULL, &dev, NULL, 0, &err));
    ASSERT_OK(dev->backend->self_check(dev, report, sizeof report, &err));
    registry_close(dev);
}

START_TEST(test_onednn_is_a_helper)
{
    if (!onednn_is_compiled()) {
        printf("this build has no oneDNN\n");
        return;
    }
    check_without_onednn("none", "EVERYO_ONEDNN_LIBRARY is none");
    check_without_onednn("libdnnl.so.2", "not an absolute path");
    check_without_onednn("/nonexistent/libdnnl.so.2", "/nonexistent/libdnnl.so.2");
    check_without_onednn(fake("fake_blas_right"), "it is not oneDNN");
    check_without_onednn(fake("fake_onednn_old"), "oneDNN 2.5.0: 2.6 or newer of 2.x is needed");
    check_without_onednn(fake("fake_onednn_next"), "oneDNN 3.0.0: 2.6 or newer of 2.x is needed");
    check_without_onednn(fake("fake_onednn_threads"), "threads of its own");
    check_without_onednn(fake("fake_onednn_small"), "no AVX2");
    check_without_onednn(fake("fake_onednn_no_code"), "a known product failed: runtime error");
    check_without_onednn(fake("fake_onednn_wrong"), "wrong answer");
    check_without_onednn(fake("fake_onednn_no_engine"), "no engine for the processor: out of memory");
    onednn_forget();
    ck_assert_int_eq(unsetenv("EVERYO_ONEDNN_LIBRARY"), 0);
    struct eo_backend_facts facts = probe_with(fake("fake_blas_right"), NULL);
    if (onednn_probe())
        ASSERT_CONTAINS(facts.why[EO_FACT_INSTALLED], "; oneDNN 2.");
    else
        printf("the configured oneDNN is not here: %s\n", onednn_why_not());
}
END_TEST

/* Facts 5 and 6: an operation without kernel says why for each candidate; launches are counted. */
START_TEST(test_unsupported_operations_and_counters)
{
    static const struct eo_tensor_desc bytes = {EO_INT8, 2, {3, 3}}, single = {EO_FLOAT32, 1, {2}};
    struct eo_device *dev = NULL;
    struct eo_attrs attrs;
    struct eo_kernel k;
    float x[2] = {1, 2}, y[2];
    (void)probe_with(fake("fake_blas_right"), NULL);
    ASSERT_OK(registry_open("cpu", NULL, &dev, NULL, 0, &err));
    eo_attrs_default(eo_op_schema(EO_OP_MATMUL), &attrs);
    /* int8 is no dtype of the row: a backend declines what should not reach it, too. */
    struct eo_node_view product = {.op = eo_op_schema(EO_OP_MATMUL),
                                   .attrs = &attrs,
                                   .n_in = 2,
                                   .n_out = 1,
                                   .in = {&bytes, &bytes},
                                   .out = {&bytes}};
    ASSERT_CODE(dev->backend->select(dev, &product, &k, &err), EO_E_UNSUPPORTED);
    ASSERT_CONTAINS(err.message, "matmul of int8");
    ASSERT_CONTAINS(err.detail, "cpu.matmul.openblas: takes float32 and float64.");
    ASSERT_CONTAINS(err.detail, "cpu.matmul.tiles: has no tile for int8.");
    ck_assert_str_eq(err.op, "matmul");
    ck_assert_str_eq(err.backend, "cpu");
    product.op = eo_op_schema(EO_OP_EXP);
    product.n_in = 1;
    ASSERT_CODE(dev->backend->select(dev, &product, &k, &err), EO_E_UNSUPPORTED);
    ASSERT_CONTAINS(err.detail, "cpu.exp: has no loop for int8.");

    struct eo_node_view relu = {
        .op = eo_op_schema(EO_OP_RELU), .attrs = &attrs, .n_in = 1, .n_out = 1, .in = {&single}, .out = {&single}};
    ASSERT_OK(dev->backend->select(dev, &relu, &k, &err));
    struct eo_launch l = {.node = &relu, .in = {x}, .out = {y}, .state = k.state};
    ck_assert_uint_eq(dev->n_launches, 0);
    ASSERT_OK(k.run(dev, &l, &err));
    ASSERT_OK(k.run(dev, &l, &err));
    ck_assert_uint_eq(dev->n_launches, 2);
    k.state_free(k.state);
    registry_close(dev);
}
END_TEST

START_TEST(test_other_devices_of_the_backend)
{
    struct eo_device *dev = NULL;
    (void)probe_with(fake("fake_blas_right"), NULL);
    ck_assert_int_eq(registry_find("cpu")->device_count(), 1);
    ASSERT_CODE(registry_open("cpu:1", NULL, &dev, NULL, 0, &err), EO_E_NO_DEVICE);
    ASSERT_CODE(registry_find("cpu")->device_open(7, &(struct eo_device_config){0}, &dev, &err), EO_E_NO_DEVICE);
    ASSERT_OK(registry_open("cpu:0", NULL, &dev, NULL, 0, &err));
    ck_assert_int_ge(dev->info.threads, 1);
    registry_close(dev);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_library_is_absent,
                                  test_path_is_relative,
                                  test_library_is_another,
                                  test_library_does_not_say_its_version,
                                  test_library_is_too_old,
                                  test_library_has_threads_of_its_own,
                                  test_library_has_no_threads,
                                  test_library_fails_to_initialise,
                                  test_library_gives_a_wrong_answer,
                                  test_no_hardware,
                                  test_everything_is_there,
                                  test_self_check_finds_a_wrong_kernel,
                                  test_onednn_is_a_helper,
                                  test_unsupported_operations_and_counters,
                                  test_other_devices_of_the_backend};
    if (!blas_is_compiled()) {
        printf("skipped: this build does not use OpenBLAS\n");
        return 77;
    }
    (void)setenv("CK_FORK", "no", 1);
    return eo_suite_run("facts of the cpu backend", tests, EO_COUNT_OF(tests));
}
