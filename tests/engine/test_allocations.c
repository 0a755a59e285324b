/* Running a plan allocates nothing; compiling one survives any allocation that fails. */
#include "backends/registry.h"
#include "tests/engine/models.h"
#include "tests/support/failing_alloc.h"

#include <string.h>

static struct eo_error err;

/* Device memory of the host backends. */
int __real_posix_memalign(void **out, size_t alignment, size_t size);
int __wrap_posix_memalign(void **out, size_t alignment, size_t size);

int __wrap_posix_memalign(void **out, size_t alignment, size_t size)
{
    return alloc_fails_now() ? ENOMEM : __real_posix_memalign(out, alignment, size);
}

/* ---- counting ---- */

START_TEST(running_allocates_nothing)
{
    static const char *const devices[] = {"reference", "cpu"};

    for (size_t d = 0; d < EO_COUNT_OF(devices); d++) {
        struct eo_device *dev = harness_device(devices[d]);
        eo_value outputs[MLP_OUTPUTS];
        struct harness h;
        struct mlp m;
        bool failed;
        int rc = EO_OK;

        mlp_build(&m, EO_FLOAT32, 8, 6, 5, 3, true);
        mlp_outputs(&m, outputs);
        ASSERT_OK(harness_open(&h, dev, m.g, outputs, MLP_OUTPUTS, (struct harness_options){0}, &err));
        mlp_feed(&m, &h);
        ASSERT_OK(executor_reserve(h.executor, h.plan, &err));
        ASSERT_OK(harness_run(&h, &err)); /* warm-up: libraries may set themselves up */
        alloc_has_failed = false;
        alloc_calls_left = 0; /* the first allocation fails */
        alloc_armed = true;
        for (int i = 0; rc == EO_OK && i < 10; i++) {
            rc = harness_run(&h, &err);
        }
        failed = alloc_disarm();
        ck_assert_msg(!failed, "%s: a run asked for memory", devices[d]);
        ASSERT_OK(rc);
        harness_close(&h);
        mlp_free(&m);
        registry_close(dev);
    }
}
END_TEST

/* ---- failing ---- */

static struct mlp model;
static struct eo_device *device;
static uint32_t without;
static enum plan_fallback policy;

static bool compile_model(void)
{
    struct plan_place in[8], out[MLP_OUTPUTS];
    struct plan_spec spec = {.graph = model.g,
                             .inputs = in,
                             .n_inputs = 8,
                             .outputs = out,
                             .n_outputs = MLP_OUTPUTS,
                             .without = without,
                             .fallback = policy};
    eo_value values[MLP_OUTPUTS], sources[8] = {model.x,         model.targets,   model.rng,       model.inv_count,
                                                model.params[0], model.params[1], model.params[2], model.params[3]};
    struct plan *plan = NULL;
    int rc;

    mlp_outputs(&model, values);
    for (uint32_t i = 0; i < 8; i++) {
        in[i] = (struct plan_place){sources[i], i, 0};
    }
    for (uint32_t i = 0; i < MLP_OUTPUTS; i++) {
        out[i] = (struct plan_place){values[i], 8 + i, 0};
    }
    rc = plan_compile(&spec, device, &plan, &err);
    (void)alloc_disarm();
    if (rc != EO_OK) {
        ck_assert(err.code == EO_E_NO_MEMORY || err.code == EO_E_DEVICE_MEMORY);
        ck_assert_ptr_null(plan);
        return false;
    }
    plan_free(plan);
    return true;
}

static void compile_with_failures(const char *name, enum eo_dtype dtype)
{
    device = harness_device(name);
    mlp_build(&model, dtype, 4, 3, 5, 3, true);
    ck_assert_int_gt(alloc_exhaust(compile_model), 20);
    mlp_free(&model);
    registry_close(device);
}

START_TEST(compiling_survives_failed_allocations)
{
    without = 0;
    policy = PLAN_STRICT;
    compile_with_failures("cpu", EO_FLOAT32);
    compile_with_failures("reference", EO_FLOAT64);
    without = PLAN_WITHOUT(DIRECT) | PLAN_WITHOUT(IN_PLACE) | PLAN_WITHOUT(VIEWS) | PLAN_WITHOUT(SIMPLIFY);
    compile_with_failures("cpu", EO_FLOAT32);
    without = 0;
    policy = PLAN_REPORT;
    compile_with_failures("cpu", EO_FLOAT16); /* some of it on the reference backend */
}
END_TEST

static bool differentiate(void)
{
    struct mlp m = model;
    eo_value again[4];
    bool ok = autodiff_gradients(m.g, m.loss, EO_NO_VALUE, m.params, 4, again, &err) == EO_OK;

    (void)alloc_disarm();
    ck_assert(ok || err.code == EO_E_NO_MEMORY);
    return ok;
}

START_TEST(differentiating_survives_failed_allocations)
{
    mlp_build(&model, EO_FLOAT32, 4, 3, 5, 3, true);
    ck_assert_int_ge(alloc_exhaust(differentiate), 2);
    mlp_free(&model);
}
END_TEST

static bool run_one_op(void)
{
    struct eo_tensor_desc d = {EO_FLOAT32, 1, {4}};
    const struct eo_tensor_desc *descs[1] = {&d};
    float x[4] = {1, 2, 3, 4}, y[4];
    void *in[1] = {x}, *out[1] = {y};
    struct executor *executor = NULL;
    bool ok = executor_new(device, &executor, &err) == EO_OK &&
              executor_run_op(executor, eo_op_schema(EO_OP_TANH), NULL, descs, in, 1, out, PLAN_STRICT, NULL, 0,
                              &err) == EO_OK;

    (void)alloc_disarm();
    ck_assert(ok || err.code == EO_E_NO_MEMORY || err.code == EO_E_DEVICE_MEMORY);
    executor_free(executor);
    return ok;
}

START_TEST(executor_survives_failed_allocations)
{
    device = harness_device("cpu");
    ck_assert_int_gt(alloc_exhaust(run_one_op), 10);
    registry_close(device);
}
END_TEST

EO_SUITE("allocations", running_allocates_nothing, compiling_survives_failed_allocations,
         differentiating_survives_failed_allocations, executor_survives_failed_allocations)
