/* PyTorch's OpInfo samples (tests/vectors/torch-opinfo-grad.jsonl: inputs, results and gradients in float64) as graphs
 * of our rows, on the reference and the cpu backend: results and gradients. Prints what passed, failed and was left
 * out, with the reason. A failure, or fewer samples than expected, fails the test. */
#include "backends/registry.h"
#include "daemon/engine/autodiff.h"
#include "tests/engine/opinfo/sample.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LINES = 541, EXPECTED = 533, MOST_NAMES = 160 };

static struct eo_error err;
static const char *const names[] = {"reference", "cpu"};
static struct eo_device *devices[EO_COUNT_OF(names)];

/* ---- what became of the samples of a function ---- */

struct tally {
    char name[80];
    int passed, failed, left_out;
    char why[160]; /* of the first that was left out or failed */
};

static struct tally tallies[MOST_NAMES];
static int n_tallies;

static struct tally *tally_of(const char *name)
{
    for (int i = 0; i < n_tallies; i++) {
        if (strcmp(tallies[i].name, name) == 0) {
            return &tallies[i];
        }
    }
    ck_assert_int_lt(n_tallies, MOST_NAMES);
    (void)snprintf(tallies[n_tallies].name, sizeof(tallies[0].name), "%s", name);
    return &tallies[n_tallies++];
}

/* ---- running ---- */

/* Both sides compute in float64 from the same float32 inputs; what is left is rounding. */
static bool equal(const double *got, const json_t *wanted, const char *what, char *why, size_t size)
{
    const json_t *data = json_object_get(wanted, "data");

    for (size_t i = 0; i < json_array_size(data); i++) {
        double w = sample_number(json_array_get(data, i));
        bool same = isnan(w) ? isnan(got[i]) : isinf(w) ? got[i] == w : fabs(got[i] - w) <= 1e-12 + 1e-9 * fabs(w);

        if (!same) {
            (void)snprintf(why, size, "%s, element %zu: %.17g, PyTorch has %.17g", what, i, got[i], w);
            return false;
        }
    }
    return true;
}

static void fetch(struct harness *h, const struct sample *s, uint32_t output, eo_value v, double *out)
{
    struct eo_tensor_desc d = sample_desc(s, v);
    int64_t n = eo_tensor_desc_count(&d);
    void *raw = calloc((size_t)n + 1, sizeof(double));

    ck_assert_ptr_nonnull(raw);
    harness_fetch(h, output, raw);
    for (int64_t i = 0; i < n; i++) {
        out[i] = harness_get((enum eo_dtype)d.dtype, raw, i);
    }
    free(raw);
}

/* The sum of all results times PyTorch's seeds, whose gradient is what PyTorch's backward pass gave. */
static eo_value seeded_sum(struct sample *s)
{
    const json_t *seeds = json_object_get(s->root, "grad_outputs");
    eo_value sum = sample_scalar(s, 0);
    size_t next = 0;

    for (int r = 0; r < s->n_results; r++) {
        struct eo_tensor_desc d = sample_desc(s, s->results[r]);
        int64_t n = eo_tensor_desc_count(&d);
        const json_t *data;
        double *numbers;
        eo_value seed;

        if (d.dtype != EO_FLOAT64) {
            continue;
        }
        data = json_array_get(seeds, next++);
        ck_assert_int_eq((int64_t)json_array_size(data), n);
        numbers = calloc((size_t)n + 1, sizeof(double));
        ck_assert_ptr_nonnull(numbers);
        for (int64_t i = 0; i < n; i++) {
            numbers[i] = sample_number(json_array_get(data, (size_t)i));
        }
        ASSERT_OK(eo_graph_constant(s->g, &d, numbers, &seed, &err));
        free(numbers);
        seed = sample_two(s, EO_OP_MULTIPLY, s->results[r], seed);
        sum = sample_two(s, EO_OP_ADD, sum, eo_build_reduce(&s->b, EO_OP_SUM, seed, NULL, 0, false));
    }
    ck_assert_uint_eq(next, json_array_size(seeds));
    return sum;
}

static bool same_shape(const struct sample *s, eo_value v, const json_t *wanted, char *why, size_t size)
{
    struct eo_tensor_desc d = sample_desc(s, v), w = {.dtype = d.dtype};

    w.n_dims = (uint8_t)sample_shape(wanted, w.shape);
    if (!eo_tensor_desc_same_shape(&d, &w)) {
        char text[192];

        (void)snprintf(why, size, "the result is %s", eo_tensor_desc_text(&d, text, sizeof(text)));
        return false;
    }
    return true;
}

static bool compare_on(int device, struct sample *s, const eo_value *values, char *why, size_t size)
{
    const json_t *outputs = json_object_get(s->root, "outputs"), *grads = json_object_get(s->root, "grad_leaves");
    const char *name = names[device];
    double *buffer = calloc((size_t)1 << 16, sizeof(double));
    struct harness h;
    char what[64];
    bool passed = true;

    ck_assert_ptr_nonnull(buffer);
    ASSERT_OK(harness_open(&h, devices[device], s->g, values, (uint32_t)(s->n_results + s->n_leaves),
                           (struct harness_options){0}, &err));
    for (int t = 0; t < s->n_tensors; t++) {
        harness_feed(&h, s->value[t], s->data[t]);
    }
    ASSERT_OK(harness_run(&h, &err));
    for (int r = 0; passed && r < s->n_results; r++) {
        (void)snprintf(what, sizeof(what), "%s, result %d", name, r);
        passed = same_shape(s, values[r], json_array_get(outputs, (size_t)r), why, size);
        fetch(&h, s, (uint32_t)r, values[r], buffer);
        passed = passed && equal(buffer, json_array_get(outputs, (size_t)r), what, why, size);
    }
    for (int l = 0; passed && l < s->n_leaves; l++) {
        (void)snprintf(what, sizeof(what), "%s, gradient %d", name, l);
        fetch(&h, s, (uint32_t)(s->n_results + l), values[s->n_results + l], buffer);
        passed = equal(buffer, json_array_get(grads, (size_t)l), what, why, size);
    }
    harness_close(&h);
    free(buffer);
    return passed;
}

static bool run_sample(struct sample *s, char *why, size_t size)
{
    eo_value values[SAMPLE_RESULTS + SAMPLE_TENSORS];
    bool passed = true;

    if (json_array_size(json_object_get(s->root, "outputs")) != (size_t)s->n_results) {
        (void)snprintf(why, size, "%d results", s->n_results);
        return false;
    }
    memcpy(values, s->results, sizeof(s->results));
    ASSERT_OK(
        autodiff_gradients(s->g, seeded_sum(s), EO_NO_VALUE, s->leaves, s->n_leaves, values + s->n_results, &err));
    for (int d = 0; passed && d < (int)EO_COUNT_OF(names); d++) {
        passed = compare_on(d, s, values, why, size);
    }
    return passed;
}

static void try_sample(json_t *root, const struct function *f, struct tally *t)
{
    struct sample s;
    char why[160] = "";

    sample_open(&s, root);
    s.results[0] = f->emit(&s, f->op);
    ASSERT_OK(s.b.status);
    if (s.left_out != NULL) {
        t->left_out++;
        (void)snprintf(t->why, sizeof(t->why), "%s", s.left_out);
    } else if (run_sample(&s, why, sizeof(why))) {
        t->passed++;
    } else {
        t->failed++;
        (void)snprintf(t->why, sizeof(t->why), "%s", why);
    }
    sample_close(&s);
}

static const struct function *find_function(const char *name, const char *variant)
{
    static const struct function *const families[] = {opinfo_elementwise, opinfo_reduce, opinfo_linalg,
                                                      opinfo_shape,       opinfo_window, opinfo_loss};

    for (size_t i = 0; i < EO_COUNT_OF(families); i++) {
        for (const struct function *f = families[i]; f->name != NULL; f++) {
            if (strcmp(f->name, name) == 0 && (f->variant == NULL || strcmp(f->variant, variant) == 0)) {
                return f;
            }
        }
    }
    return NULL;
}

static void try_line(json_t *root)
{
    const char *op = json_string_value(json_object_get(root, "op"));
    const char *variant = json_string_value(json_object_get(root, "variant"));
    const struct function *f = find_function(op, variant);
    char name[80];
    struct tally *t;

    (void)snprintf(name, sizeof(name), "%s%s%s", op, variant[0] != '\0' ? " " : "", variant);
    t = tally_of(name);
    if (f != NULL) {
        try_sample(root, f, t);
    } else {
        t->left_out++;
        (void)snprintf(t->why, sizeof(t->why), "no graph for it");
    }
}

static struct tally print_tallies(void)
{
    struct tally sum = {.name = "all"};

    printf("%-52s passed failed left out\n", "function");
    for (int i = 0; i < n_tallies; i++) {
        const struct tally *t = &tallies[i];

        sum.passed += t->passed;
        sum.failed += t->failed;
        sum.left_out += t->left_out;
        printf("%-52s %6d %6d %8d  %s\n", t->name, t->passed, t->failed, t->left_out, t->why);
    }
    printf("%-52s %6d %6d %8d\n", sum.name, sum.passed, sum.failed, sum.left_out);
    return sum;
}

START_TEST(results_and_gradients_are_pytorchs)
{
    const char *source = getenv("EO_SOURCE_DIR");
    char path[512], *line = NULL;
    size_t capacity = 0;
    int n_lines = 0;
    struct tally sum;
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/tests/vectors/torch-opinfo-grad.jsonl", source != NULL ? source : ".");
    file = fopen(path, "r");
    ck_assert_msg(file != NULL, "%s cannot be read", path);
    for (size_t d = 0; d < EO_COUNT_OF(names); d++) {
        devices[d] = harness_device(names[d]);
    }
    while (getline(&line, &capacity, file) > 0) {
        json_t *root = json_loads(line, 0, NULL);

        ck_assert_ptr_nonnull(root);
        try_line(root);
        json_decref(root);
        n_lines++;
    }
    (void)fclose(file);
    free(line);
    for (size_t d = 0; d < EO_COUNT_OF(names); d++) {
        registry_close(devices[d]);
    }
    sum = print_tallies();
    ck_assert_int_eq(n_lines, LINES);
    ck_assert_int_eq(sum.failed, 0);
    ck_assert_msg(sum.passed >= EXPECTED, "%d samples passed, %d are expected", sum.passed, EXPECTED);
}
END_TEST

EO_SUITE("opinfo", results_and_gradients_are_pytorchs)
