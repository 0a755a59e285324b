/* Debian's libonnx-testdata on one backend, named by the argument: every case of the list, compared with ONNX's own
 * expected outputs and tolerances. Fewer passes than stated here are a failure. A name as second argument runs that
 * case alone and shows its error in full. */
#include "daemon/formats/onnx/onnx.h"
#include "tests/conformance/onnx/vector_compare.h"
#include "tests/conformance/onnx/vector_list.h"

#include "backends/registry.h"
#include "proto/base/file.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MAX_PORTS = 64, MAX_SETS = 64, FILE_LIMIT = 64 << 20 };

static const char *const tier_names[N_TIERS] = {"core, base dtypes", "core, wider dtypes", "near"};
/* All of them; of the four that depend on NumPy's generator the properties. */
static const int least[N_TIERS] = {751, 48, 140};

static const char *data_root, *backend, *only;
static struct eo_device *device;
static struct executor *executor;
static int n_fallbacks;

struct counts {
    int run, passed;
} counts[N_TIERS];

/* ---- files ---- */

static bool load(const char *path, struct eo_bytes *out)
{
    struct eo_error err;

    eo_bytes_init(out, FILE_LIMIT);
    if (eo_file_read(path, FILE_LIMIT, out, &err) == EO_OK)
        return true;
    eo_bytes_fini(out);
    return false;
}

static bool load_tensor(const char *dir, const char *what, int i, struct host_tensor *out, char *why, size_t size)
{
    char path[4096];
    struct eo_bytes data;
    struct eo_error err = {0};
    bool ok;

    snprintf(path, sizeof(path), "%s/%s_%d.pb", dir, what, i);
    if (!load(path, &data))
        return false;
    ok = onnx_tensor_parse(data.data, data.size, out, &err) == EO_OK;
    if (!ok)
        snprintf(why, size, "%s_%d.pb: %.200s", what, i, err.message);
    eo_bytes_fini(&data);
    return ok;
}

static int load_tensors(const char *dir, const char *what, struct host_tensor *out, char *why, size_t size)
{
    int n = 0;

    while (n < MAX_PORTS && load_tensor(dir, what, n, &out[n], why, size))
        n++;
    return n;
}

/* ---- one set of data ---- */

static bool compare(const struct vector_case *c, const struct onnx_results *r, const struct host_tensor *inputs,
                    int n_in, const struct host_tensor *expected, int n_expected, char *why, size_t size)
{
    if (r->n < n_expected || n_expected == 0) {
        snprintf(why, size, "%d results, %d expected", r->n, n_expected);
        return false;
    }
    if (c->rng)
        return vector_dropout(&inputs[0], n_in > 1 ? vector_element(&inputs[1], 0) : 0.5, &r->tensors[0],
                              r->n > 1 ? &r->tensors[1] : NULL, why, size);
    for (int o = 0; o < n_expected; o++) {
        char detail[256];

        if (!vector_equal(&r->tensors[o], &expected[o], detail, sizeof(detail))) {
            snprintf(why, size, "output %d %s", o, detail);
            return false;
        }
    }
    return true;
}

static void explain(const struct eo_error *err, char *why, size_t size)
{
    char text[2048];

    snprintf(why, size, "%s: %.200s", err->op, err->message);
    if (only != NULL) {
        eo_error_text(err, false, text, sizeof(text));
        printf("%s\n", text);
    }
}

static bool run_set(const struct vector_case *c, const struct onnx_model *m, const char *dir, char *why, size_t size)
{
    struct host_tensor inputs[MAX_PORTS] = {{{0}, NULL}}, expected[MAX_PORTS] = {{{0}, NULL}};
    const struct host_tensor *given[MAX_PORTS];
    struct onnx_results results = {0};
    struct eo_error err = {0};
    int n_in = load_tensors(dir, "input", inputs, why, size);
    int n_expected = load_tensors(dir, "output", expected, why, size);
    bool ok = false;

    for (int i = 0; i < n_in; i++)
        given[i] = &inputs[i];
    if (onnx_run(m, given, n_in, executor, PLAN_REPORT, &results, &err) != EO_OK)
        explain(&err, why, size);
    else
        ok = compare(c, &results, inputs, n_in, expected, n_expected, why, size);
    n_fallbacks += results.fallback[0] != '\0';
    for (int i = 0; i < MAX_PORTS; i++) {
        host_tensor_fini(&inputs[i]);
        host_tensor_fini(&expected[i]);
    }
    onnx_results_free(&results);
    return ok;
}

/* ---- one case ---- */

static bool run_case(const struct vector_case *c, char *why, size_t size)
{
    char path[4096];
    struct onnx_model *m = NULL;
    struct eo_error err = {0};
    struct eo_bytes data;
    bool ok = true;
    int sets = 0;

    snprintf(path, sizeof(path), "%s/%s/%s/model.onnx", data_root, c->kind, c->name);
    if (!load(path, &data)) {
        snprintf(why, size, "%.400s cannot be read", path);
        return false;
    }
    if (onnx_model_parse(data.data, data.size, &m, &err) != EO_OK) {
        explain(&err, why, size);
        eo_bytes_fini(&data);
        return false;
    }
    eo_bytes_fini(&data); /* the model owns what it needs */
    for (; ok && sets < MAX_SETS; sets++) {
        snprintf(path, sizeof(path), "%s/%s/%s/test_data_set_%d", data_root, c->kind, c->name, sets);
        if (access(path, R_OK) != 0)
            break;
        ok = run_set(c, m, path, why, size);
    }
    if (sets == 0)
        snprintf(why, size, "no data set");
    onnx_model_free(m);
    return ok && sets > 0;
}

START_TEST(test_every_listed_case)
{
    struct vector_case *cases;
    int n = vector_list_read(&cases);

    for (int i = 0; i < n; i++) {
        char why[512] = "";
        bool ok;

        if (only != NULL && strcmp(only, cases[i].name) != 0)
            continue;
        ok = run_case(&cases[i], why, sizeof(why));
        counts[cases[i].tier].run++;
        counts[cases[i].tier].passed += ok;
        if (!ok)
            printf("failed: %s/%s (%s, %s): %s\n", cases[i].kind, cases[i].name, cases[i].op, tier_names[cases[i].tier],
                   why);
    }
    free(cases);
    for (int t = 0; t < N_TIERS; t++)
        printf("%s: %s: %d of %d passed\n", backend, tier_names[t], counts[t].passed, counts[t].run);
    printf("%s: %d cases had nodes that ran on the reference backend\n", backend, n_fallbacks);
    for (int t = 0; only == NULL && t < N_TIERS; t++)
        ck_assert_msg(counts[t].passed >= least[t], "%s: %d passed, at least %d must", tier_names[t], counts[t].passed,
                      least[t]);
}
END_TEST

int main(int argc, char **argv)
{
    const TTest *const tests[] = {test_every_listed_case};
    struct eo_error err = {0};
    int rc;

    backend = argc > 1 ? argv[1] : "reference";
    only = argc > 2 ? argv[2] : NULL;
    data_root = getenv("EO_ONNX_TESTDATA");
    data_root = data_root != NULL ? data_root : "/usr/share/libonnx-testdata/data";
    (void)setenv("CK_FORK", "no", 1);
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!onnx_available() || access(data_root, R_OK) != 0) {
        printf("skipped: %s\n", !onnx_available()
                                    ? "this build lacks protobuf-c (libprotobuf-c-dev, protobuf-c-compiler)"
                                    : "libonnx-testdata is not installed");
        return 77;
    }
    if (registry_open(backend, &(struct eo_device_config){0}, &device, NULL, 0, &err) != EO_OK ||
        executor_new(device, &executor, &err) != EO_OK) {
        printf("%s\n", err.message);
        return EXIT_FAILURE;
    }
    rc = eo_suite_run("ONNX's own cases", tests, EO_COUNT_OF(tests));
    executor_free(executor);
    registry_close(device);
    return rc;
}
