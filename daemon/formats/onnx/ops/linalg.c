/* Products. */
#include "daemon/formats/onnx/maps.h"
#include "daemon/formats/onnx/site.h"

#include <string.h>

/* Unsigned ones wrap like int64. */
void map_matmul(struct onnx_site *s)
{
    eo_value a = site_in(s, 0), b = site_in(s, 1);
    enum eo_dtype dtype = site_dtype(s, a);
    enum eo_dtype work = dtype == EO_UINT32 || dtype == EO_UINT64 ? EO_INT64 : dtype;

    s->out[0] = site_cast(s, eo_build_matmul(s->b, site_cast(s, a, work), site_cast(s, b, work), false, false), dtype);
}

/* Before opset 7 c was broadcast only when `broadcast` was 1; what fits then fits now. */
void map_gemm(struct onnx_site *s)
{
    struct row r = row_of(s, "gemm");
    eo_value in[3] = {site_in(s, 0), site_in(s, 1), site_maybe(s, 2)};

    row_float(&r, "alpha", site_float(s, "alpha", 1));
    row_float(&r, "beta", site_float(s, "beta", 1));
    row_int(&r, "transpose_a", site_int(s, "transA", 0) != 0);
    row_int(&r, "transpose_b", site_int(s, "transB", 0) != 0);
    if (s->version < 7) {
        (void)site_int(s, "broadcast", 0);
    }
    s->out[0] = row_make(&r, in, in[2] != EO_NO_VALUE ? 3 : 2);
}

void map_einsum(struct onnx_site *s)
{
    struct row r = row_of(s, "einsum");
    const char *equation = site_text(s, "equation", "");

    for (int i = 0; i < s->n_in; i++) {
        (void)site_in(s, i);
    }
    row_word(&r, "equation", equation);
    s->out[0] = row_make(&r, s->in, s->n_in);
}
