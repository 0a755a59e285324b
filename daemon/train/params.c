#include "daemon/train/params.h"

#include "proto/base/sha256.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "files and hashes hold the host's bytes as they are");

void params_tensors(const struct train_step *s, void *flat, struct safetensors_tensor *out)
{
    for (uint32_t i = 0; i < step_n_params(s); i++) {
        const struct step_layout_entry *e = step_layout(s, i);

        out[i] = (struct safetensors_tensor){.name = e->name, .desc = e->desc, .data = (char *)flat + e->offset};
    }
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const struct step_layout_entry *const *)a)->name,
                  (*(const struct step_layout_entry *const *)b)->name);
}

static void hash_entry(struct eo_sha256 *h, const struct step_layout_entry *e, const char *bytes)
{
    const char *dtype = eo_dtype_name((enum eo_dtype)e->desc.dtype);

    eo_sha256_update(h, e->name, strlen(e->name) + 1);
    eo_sha256_update(h, dtype, strlen(dtype) + 1);
    for (int d = 0; d < e->desc.n_dims; d++) {
        char text[24];
        int n = snprintf(text, sizeof(text), "%s%" PRId64, d > 0 ? "," : "", e->desc.shape[d]);

        eo_sha256_update(h, text, (size_t)n);
    }
    eo_sha256_update(h, "", 1);
    eo_sha256_update(h, bytes, eo_tensor_desc_bytes(&e->desc));
}

int params_sha256(struct train_step *s, uint8_t out[32], struct eo_error *err)
{
    uint32_t n = step_n_params(s);
    const struct step_layout_entry **sorted = calloc(EO_MAX(n, 1u), sizeof(*sorted));
    struct eo_sha256 h;
    bool hashed;

    if (sorted == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory to hash the parameters");
    }
    for (uint32_t i = 0; i < n; i++) {
        sorted[i] = step_layout(s, i);
    }
    qsort(sorted, n, sizeof(*sorted), by_name);
    eo_sha256_init(&h);
    for (uint32_t i = 0; i < n; i++) {
        hash_entry(&h, sorted[i], (const char *)step_params(s) + sorted[i]->offset);
    }
    hashed = eo_sha256_final(&h, out);
    free(sorted);
    return hashed ? EO_OK : EO_RAISE(err, EO_E_NO_MEMORY, "no memory to hash the parameters");
}

/* Padding is zero, so the flat vectors can be looked at whole. */
static bool all_finite(const void *flat, uint64_t bytes, enum eo_dtype dtype)
{
    uint64_t n = bytes / eo_dtype_size(dtype);
    bool finite = true;

    for (uint64_t i = 0; i < n; i++) {
        finite =
            finite && (dtype == EO_FLOAT64 ? isfinite(((const double *)flat)[i]) : isfinite(((const float *)flat)[i]));
    }
    return finite;
}

bool params_finite(struct train_step *s)
{
    enum eo_dtype dtype = (enum eo_dtype)step_layout(s, 0)->desc.dtype;
    bool finite = all_finite(step_params(s), step_flat_bytes(s), dtype);

    for (int i = 0; finite && step_slot(s, i) != NULL; i++) {
        finite = all_finite(step_slot(s, i), step_flat_bytes(s), dtype);
    }
    return finite;
}
