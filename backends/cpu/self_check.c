/* Products against plain loops: old builds of BLAS err on some processors that came after them. Operands are small
 * whole numbers, so that every sum is exact and has to be equal; the result starts as NaN, which must not survive. */
#include "backends/cpu/cpu.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Sizes on both sides of the tiles' and the library's edges. */
static const int64_t sizes[][3] = {
    {1, 1, 1},    {3, 5, 7},    {17, 1, 33},     {1, 65, 129},  {33, 65, 17},
    {64, 64, 64}, {65, 66, 67}, {127, 129, 131}, {96, 200, 50},
};
enum { LARGEST = 200 * 131 };

struct buffers {
    float *a, *b, *c;
};

static float small_number(uint64_t *state)
{
    *state = *state * 6364136223846793005U + 1442695040888963407U;
    return (float)((int)(*state >> 60) - 8);
}

/* Element (i, j) of a product by a plain loop. */
static float plain_dot(const struct buffers *f, const int64_t s[3], bool ta, bool tb, int64_t i, int64_t j)
{
    double total = 0;
    for (int64_t p = 0; p < s[2]; p++)
        total += (double)f->a[ta ? p * s[0] + i : i * s[2] + p] * (double)f->b[tb ? j * s[2] + p : p * s[1] + j];
    return (float)total;
}

static int run_product(struct eo_device *dev, const struct buffers *f, const int64_t s[3], bool ta, bool tb,
                       char *out_kernel, size_t size, struct eo_error *err)
{
    const struct eo_op_schema *op = eo_op_schema(EO_OP_MATMUL);
    struct eo_tensor_desc a = {EO_FLOAT32, 2, {ta ? s[2] : s[0], ta ? s[0] : s[2]}};
    struct eo_tensor_desc b = {EO_FLOAT32, 2, {tb ? s[1] : s[2], tb ? s[2] : s[1]}};
    struct eo_tensor_desc c = {EO_FLOAT32, 2, {s[0], s[1]}};
    struct eo_attrs attrs;
    eo_attrs_default(op, &attrs);
    int rc = eo_attrs_set_int(op, &attrs, "transpose_a", ta, err);
    if (rc == EO_OK)
        rc = eo_attrs_set_int(op, &attrs, "transpose_b", tb, err);
    struct eo_node_view node = {.op = op, .attrs = &attrs, .n_in = 2, .n_out = 1, .in = {&a, &b}, .out = {&c}};
    struct eo_kernel k;
    if (rc == EO_OK)
        rc = dev->backend->select(dev, &node, &k, err);
    if (rc != EO_OK)
        return rc;
    struct eo_launch l = {.node = &node, .in = {f->a, f->b}, .out = {f->c}, .state = k.state};
    rc = k.run(dev, &l, err);
    (void)snprintf(out_kernel, size, "%s", k.name);
    k.state_free(k.state);
    return rc;
}

static int check_product(struct eo_device *dev, const struct buffers *f, const int64_t s[3], bool ta, bool tb,
                         struct eo_error *err)
{
    char kernel[64];
    for (int64_t i = 0; i < s[0] * s[1]; i++)
        f->c[i] = NAN;
    int rc = run_product(dev, f, s, ta, tb, kernel, sizeof kernel, err);
    for (int64_t i = 0; rc == EO_OK && i < s[0] * s[1]; i++) {
        float expected = plain_dot(f, s, ta, tb, i / s[1], i % s[1]);
        if (f->c[i] == expected)
            continue;
        rc = EO_RAISE(err, EO_E_BACKEND_FAILED,
                      "%s gives a wrong product: element %lld of (%lld,%lld)%s@(%lld,%lld)%s is %g, not %g", kernel,
                      (long long)i, (long long)s[0], (long long)s[2], ta ? "^T " : " ", (long long)s[2],
                      (long long)s[1], tb ? "^T" : "", (double)f->c[i], (double)expected);
        eo_error_hint(err,
                      "Another version of OpenBLAS, or OPENBLAS_CORETYPE=Haswell, may avoid the kernel that errs.");
        eo_error_at_device(err, "cpu", dev->info.name);
    }
    return rc;
}

static int check_all(struct eo_device *dev, const struct buffers *f, int *out_n, struct eo_error *err)
{
    uint64_t state = 17743;
    int rc = EO_OK;
    for (int i = 0; i < LARGEST; i++) {
        f->a[i] = small_number(&state);
        f->b[i] = small_number(&state);
    }
    for (size_t s = 0; s < EO_COUNT_OF(sizes) && rc == EO_OK; s++)
        for (int t = 0; t < 4 && rc == EO_OK; t++, ++*out_n)
            rc = check_product(dev, f, sizes[s], t & 1, t & 2, err);
    return rc;
}

int cpu_self_check(struct eo_device *dev, char *out_report, size_t size, struct eo_error *err)
{
    float *memory = calloc(3, LARGEST * sizeof *memory);
    if (!memory)
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for the self-check");
    struct buffers f = {memory, memory + LARGEST, memory + (size_t)2 * LARGEST};
    int n = 0, rc = check_all(dev, &f, &n, err);
    free(memory);
    if (rc == EO_OK)
        (void)snprintf(out_report, size, "%d products of %zu sizes equal plain loops", n, EO_COUNT_OF(sizes));
    return rc;
}
