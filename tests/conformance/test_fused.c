/* Fused programs against the same steps one by one on the reference backend. */
#include "tests/conformance/cases.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static struct eo_device *cpu, *reference;

static struct eo_attrs no_attrs;

/* A step: op, result dtype, registers. */
#define STEP(name, dtype_, ...)                                                                                        \
    {                                                                                                                  \
        .op = EO_OP_##name, .n_in = (uint8_t)(sizeof((int[]){__VA_ARGS__}) / sizeof(int)), .in = {__VA_ARGS__},        \
        .dtype = (dtype_), .attrs = &no_attrs                                                                          \
    }

static void setup(void)
{
    struct eo_error err;
    ASSERT_OK(registry_open("cpu", &(struct eo_device_config){.threads = 2}, &cpu, NULL, 0, &err));
    ASSERT_OK(registry_open("reference", NULL, &reference, NULL, 0, &err));
}

static void teardown(void)
{
    registry_close(cpu);
    registry_close(reference);
}

/* Register r of the program as a tensor of the full shape: inputs are expanded, steps are run on the reference. */
static void step_by_step(const struct run *fused, void *registers[], struct eo_tensor_desc *descs)
{
    struct eo_error err;
    const struct eo_fused_program *f = fused->fused;
    for (int i = 0; i < f->n_inputs; i++) {
        descs[i] = fused->in[i];
        registers[i] = malloc(eo_tensor_desc_bytes(&descs[i]) + 1);
        ck_assert_ptr_nonnull(registers[i]);
        memcpy(registers[i], fused->in_data[i], eo_tensor_desc_bytes(&descs[i]));
    }
    for (int s = 0; s < f->n_steps; s++) {
        const struct eo_fused_step *step = &f->steps[s];
        struct eo_tensor_desc in[3];
        struct run r;
        struct results out;
        for (int i = 0; i < step->n_in; i++)
            in[i] = descs[step->in[i]];
        ASSERT_OK(run_init(&r, eo_op_schema((enum eo_op)step->op), step->attrs, in, step->n_in, &err));
        for (int i = 0; i < step->n_in; i++)
            memcpy(r.in_data[i], registers[step->in[i]], eo_tensor_desc_bytes(&in[i]));
        ASSERT_OK(run_on(reference, &r, -1, &out, &err));
        descs[f->n_inputs + s] = r.out[0];
        registers[f->n_inputs + s] = out.out[0];
        run_fini(&r);
    }
}

static void check_output(const struct run *fused, int o, const void *expected, const struct eo_tensor_desc *desc,
                         const void *actual)
{
    int64_t n = eo_tensor_desc_count(desc);
    ck_assert(eo_tensor_desc_equal(desc, &fused->out[o]));
    for (int64_t i = 0; i < n; i++) {
        double e = element_value((enum eo_dtype)desc->dtype, expected, i);
        double a = element_value((enum eo_dtype)desc->dtype, actual, i);
        double allowed = (desc->dtype == EO_FLOAT64 ? 1e-13 : 1e-5) * (1 + fabs(e));
        ck_assert_msg((isnan(e) && isnan(a)) || fabs(e - a) <= allowed, "output %d element %lld: %.17g, expected %.17g",
                      o, (long long)i, a, e);
    }
}

/* Runs the program over inputs of these shapes and checks all outputs; also in place where the kernel offers it. */
static void check(const struct eo_fused_program *f, const struct eo_tensor_desc *in)
{
    struct eo_error err;
    struct run r;
    struct results out, shared;
    void *registers[EO_FUSED_MAX_INPUTS + EO_FUSED_MAX_STEPS] = {NULL};
    struct eo_tensor_desc descs[EO_FUSED_MAX_INPUTS + EO_FUSED_MAX_STEPS];
    ASSERT_OK(run_init(&r, NULL, NULL, in, f->n_inputs, &err));
    r.fused = f;
    for (int i = 0; i < r.n_in; i++)
        for (int64_t k = 0; k < eo_tensor_desc_count(&r.in[i]); k++)
            set_element((enum eo_dtype)r.in[i].dtype, r.in_data[i], k,
                        r.in[i].dtype == EO_BOOL ? random_unit((uint64_t)i, (uint64_t)k) < 0.5
                                                 : random_unit((uint64_t)i, (uint64_t)k) * 4 - 2);
    step_by_step(&r, registers, descs);
    r.n_out = f->n_outputs;
    for (int o = 0; o < f->n_outputs; o++)
        r.out[o] = descs[f->outputs[o]];
    ASSERT_OK(run_on(cpu, &r, -1, &out, &err));
    for (int o = 0; o < f->n_outputs; o++)
        check_output(&r, o, registers[f->outputs[o]], &descs[f->outputs[o]], out.out[o]);
    for (int i = 0; i < r.n_in; i++) {
        if (!(out.in_place >> i & 1))
            continue;
        ASSERT_OK(run_on(cpu, &r, i, &shared, &err));
        for (int o = 0; o < f->n_outputs; o++)
            ck_assert_msg(memcmp(shared.out[o], out.out[o], eo_tensor_desc_bytes(&r.out[o])) == 0,
                          "output %d differs when output 0 lies over input %d", o, i);
        results_fini(&shared);
    }
    results_fini(&out);
    for (int i = 0; i < f->n_inputs + f->n_steps; i++)
        free(registers[i]);
    run_fini(&r);
}

/* relu(x * scale + bias), shapes from 0-dim to rows that are longer than a block. */
START_TEST(test_scale_and_bias)
{
    static const struct eo_fused_program f = {
        .n_inputs = 3,
        .n_steps = 3,
        .n_outputs = 1,
        .steps = {STEP(MULTIPLY, EO_FLOAT32, 0, 1), STEP(ADD, EO_FLOAT32, 3, 2), STEP(RELU, EO_FLOAT32, 4)},
        .outputs = {5}};
    const struct eo_tensor_desc shapes[][3] = {
        {{EO_FLOAT32, 0, {0}}, {EO_FLOAT32, 0, {0}}, {EO_FLOAT32, 0, {0}}},
        {{EO_FLOAT32, 2, {3, 0}}, {EO_FLOAT32, 0, {0}}, {EO_FLOAT32, 1, {0}}},
        {{EO_FLOAT32, 1, {1000}}, {EO_FLOAT32, 0, {0}}, {EO_FLOAT32, 1, {1}}},
        {{EO_FLOAT32, 1, {5001}}, {EO_FLOAT32, 1, {5001}}, {EO_FLOAT32, 1, {5001}}},
        {{EO_FLOAT32, 2, {37, 5}}, {EO_FLOAT32, 2, {37, 1}}, {EO_FLOAT32, 1, {5}}},
        {{EO_FLOAT32, 2, {3, 2500}}, {EO_FLOAT32, 2, {3, 1}}, {EO_FLOAT32, 1, {2500}}},
        {{EO_FLOAT32, 3, {4, 3, 200}}, {EO_FLOAT32, 3, {1, 3, 1}}, {EO_FLOAT32, 3, {4, 1, 200}}},
        {{EO_FLOAT32, 1, {400000}}, {EO_FLOAT32, 0, {0}}, {EO_FLOAT32, 1, {400000}}},
    };
    for (size_t i = 0; i < EO_COUNT_OF(shapes); i++)
        check(&f, shapes[i]);
}
END_TEST

/* Several outputs, a value used again after the first output is written, mixed dtypes, a scalar chain. */
START_TEST(test_outputs_and_dtypes)
{
    static const struct eo_fused_program f = {.n_inputs = 4,
                                              .n_steps = 7,
                                              .n_outputs = 3,
                                              .steps = {STEP(MULTIPLY, EO_FLOAT64, 2, 3), /* 4: scalar * scalar */
                                                        STEP(ADD, EO_FLOAT64, 0, 4),      /* 5: output 0 */
                                                        STEP(LESS, EO_BOOL, 5, 1),        /* 6: output 1 */
                                                        STEP(WHERE, EO_FLOAT64, 6, 0, 1), /* 7: reads input 0 again */
                                                        STEP(TANH, EO_FLOAT64, 7),        /* 8 */
                                                        STEP(SUBTRACT, EO_FLOAT64, 8, 5), /* 9 */
                                                        STEP(SIGMOID, EO_FLOAT64, 9)},    /* 10: output 2 */
                                              .outputs = {5, 6, 10}};
    const struct eo_tensor_desc shapes[][4] = {
        {{EO_FLOAT64, 1, {1}}, {EO_FLOAT64, 1, {1}}, {EO_FLOAT64, 0, {0}}, {EO_FLOAT64, 0, {0}}},
        {{EO_FLOAT64, 2, {33, 31}}, {EO_FLOAT64, 2, {33, 31}}, {EO_FLOAT64, 0, {0}}, {EO_FLOAT64, 1, {1}}},
        {{EO_FLOAT64, 2, {9, 700}}, {EO_FLOAT64, 2, {9, 700}}, {EO_FLOAT64, 0, {0}}, {EO_FLOAT64, 0, {0}}},
        {{EO_FLOAT64, 1, {130000}}, {EO_FLOAT64, 1, {130000}}, {EO_FLOAT64, 0, {0}}, {EO_FLOAT64, 0, {0}}},
    };
    for (size_t i = 0; i < EO_COUNT_OF(shapes); i++)
        check(&f, shapes[i]);
}
END_TEST

/* As many steps as a program can have, all alive until the end: scratch registers run out of one small block. */
START_TEST(test_longest_program)
{
    static struct eo_fused_program f = {.n_inputs = 1, .n_steps = EO_FUSED_MAX_STEPS, .n_outputs = 1};
    for (int s = 0; s < EO_FUSED_MAX_STEPS; s++) {
        int half = EO_FUSED_MAX_STEPS / 2;
        bool sums = s >= half;
        f.steps[s] = (struct eo_fused_step){.op = (uint16_t)(sums ? EO_OP_ADD : EO_OP_SIGMOID),
                                            .n_in = sums ? 2 : 1,
                                            .dtype = EO_FLOAT32,
                                            .attrs = &no_attrs};
        f.steps[s].in[0] = (uint8_t)(sums ? s - half + 1 : s);
        f.steps[s].in[1] = (uint8_t)s;
    }
    f.outputs[0] = EO_FUSED_MAX_STEPS;
    const struct eo_tensor_desc shapes[] = {{EO_FLOAT32, 1, {7}}, {EO_FLOAT32, 1, {3001}}};
    for (size_t i = 0; i < EO_COUNT_OF(shapes); i++)
        check(&f, &shapes[i]);
}
END_TEST

/* A cast inside of a program, clip with its attributes, bytes and floats in one chain. */
START_TEST(test_cast_and_clip)
{
    static struct eo_attrs clip, cast;
    eo_attrs_default(eo_op_schema(EO_OP_CLIP), &clip);
    eo_attrs_default(eo_op_schema(EO_OP_CAST), &cast);
    clip.v[0].f = -0.5;
    clip.v[1].f = 0.75;
    cast.v[0].i = EO_FLOAT32;
    struct eo_fused_program f = {
        .n_inputs = 2,
        .n_steps = 3,
        .n_outputs = 1,
        .steps = {STEP(CLIP, EO_FLOAT32, 0), STEP(CAST, EO_FLOAT32, 1), STEP(MULTIPLY, EO_FLOAT32, 2, 3)},
        .outputs = {4}};
    f.steps[0].attrs = &clip;
    f.steps[1].attrs = &cast;
    const struct eo_tensor_desc shapes[][2] = {{{EO_FLOAT32, 2, {40, 3}}, {EO_BOOL, 2, {40, 1}}},
                                               {{EO_FLOAT32, 2, {5, 300}}, {EO_BOOL, 2, {5, 300}}}};
    for (size_t i = 0; i < EO_COUNT_OF(shapes); i++)
        check(&f, shapes[i]);
}
END_TEST

/* What the interpreter cannot run is declined with the step and the reason. */
START_TEST(test_refusals)
{
    static const struct {
        struct eo_fused_program program;
        const char *reason;
    } programs[] = {
        {{.n_inputs = 1, .n_steps = 1, .n_outputs = 1, .steps = {STEP(SUM, EO_FLOAT32, 0)}, .outputs = {1}}, "sum"},
        {{.n_inputs = 1, .n_steps = 1, .n_outputs = 1, .steps = {STEP(ADD, EO_FLOAT32, 0, 1)}, .outputs = {1}},
         "not written yet"},
        {{.n_inputs = 1, .n_steps = 1, .n_outputs = 1, .steps = {STEP(RELU, EO_FLOAT32, 0)}, .outputs = {0}}, "output"},
        {{.n_inputs = 1, .n_steps = 0, .n_outputs = 1, .outputs = {1}}, "larger"},
        {{.n_inputs = 1, .n_steps = EO_FUSED_MAX_STEPS + 1, .n_outputs = 1}, "larger"},
    };
    const struct eo_tensor_desc x = {EO_FLOAT32, 1, {5}}, half = {EO_FLOAT16, 1, {5}};
    for (size_t i = 0; i <= EO_COUNT_OF(programs); i++) {
        struct eo_error err;
        struct eo_kernel k;
        bool last = i == EO_COUNT_OF(programs);
        const struct eo_fused_program relu = {
            .n_inputs = 1, .n_steps = 1, .n_outputs = 1, .steps = {STEP(RELU, EO_FLOAT16, 0)}, .outputs = {1}};
        struct eo_node_view node = {.fused = last ? &relu : &programs[i].program,
                                    .n_in = 1,
                                    .n_out = 1,
                                    .in = {last ? &half : &x},
                                    .out = {last ? &half : &x}};
        ASSERT_CODE(cpu->backend->select(cpu, &node, &k, &err), EO_E_UNSUPPORTED);
        ASSERT_CONTAINS(err.detail, last ? "relu" : programs[i].reason);
        ASSERT_CODE(reference->backend->select(reference, &node, &k, &err), EO_E_UNSUPPORTED);
        ck_assert(err.detail[0] != 0);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_scale_and_bias, test_outputs_and_dtypes, test_longest_program,
                                  test_cast_and_clip, test_refusals};
    struct eo_backend_facts facts;
    char refusal[224];
    registry_find("cpu")->probe(&facts);
    registry_first_refusal(&facts, refusal, sizeof refusal);
    if (refusal[0]) {
        printf("skipped: cpu cannot be used: %s\n", refusal);
        return 77;
    }
    (void)setenv("CK_FORK", "no", 1);
    setup();
    int rc = eo_suite_run("fused", tests, EO_COUNT_OF(tests));
    teardown();
    return rc;
}
