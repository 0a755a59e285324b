#include "daemon/train/data_split.h"

#include "daemon/nn/streams.h"
#include "proto/philox.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

void data_permutation(int64_t n, uint64_t seed, int64_t step, uint32_t stream, int64_t *out)
{
    for (int64_t i = 0; i < n; i++) {
        out[i] = i;
    }
    for (int64_t i = n - 1; i > 0; i--) {
        /* 64 random bits times (i + 1), high half: 0..i */
        struct eo_philox r = eo_rng_block((int64_t)seed, step, stream, (uint64_t)i);
        uint64_t bits = (uint64_t)r.v[0] << 32 | r.v[1];
        __extension__ unsigned __int128 scaled = (unsigned __int128)bits * (uint64_t)(i + 1);
        int64_t j = (int64_t)(scaled >> 64), swapped = out[i];

        out[i] = out[j];
        out[j] = swapped;
    }
}

/* Rows that a part takes out of `count`, of which `left` are still free. */
static int64_t quota(double fraction, int64_t count, int64_t left)
{
    int64_t wanted = llround(fraction * (double)count);

    return EO_MIN(EO_MAX(wanted, 1), left);
}

static void take(int64_t n, const int64_t *order, const int32_t *classes, int64_t *quotas, uint8_t mark, uint8_t *out)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t row = order[i];
        int32_t class = classes != NULL ? classes[row] : 0;

        if (out[row] == 0 && quotas[class] > 0) {
            quotas[class]--;
            out[row] = mark;
        }
    }
}

/* quotas[c]: what one share takes of class c; the classes keep one row each for training where they have two. */
static void share_quotas(int64_t n, const int32_t *classes, int n_classes, const struct data_share *share,
                         const uint8_t *taken, int64_t *counts, int64_t *left, int64_t *quotas)
{
    for (int c = 0; c < n_classes; c++) {
        counts[c] = left[c] = 0;
    }
    for (int64_t r = 0; r < n; r++) {
        int32_t class = classes != NULL ? classes[r] : 0;

        counts[class]++;
        left[class] += taken[r] == 0 ? 1 : 0;
    }
    for (int c = 0; c < n_classes; c++) {
        quotas[c] = quota(share->fraction, counts[c], EO_MAX(left[c] - 1, 0));
    }
}

int data_split(int64_t n, const int32_t *classes, int n_classes, const struct data_share *shares, int n_shares,
               uint64_t seed, uint8_t *out, struct eo_error *err)
{
    int64_t *order = malloc(sizeof(*order) * (size_t)n);
    int64_t *work = calloc((size_t)EO_MAX(n_classes, 1) * 3, sizeof(*work));
    int status = EO_OK;

    if (order == NULL || work == NULL) {
        free(order);
        free(work);
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory to split %" PRId64 " rows", n);
    }
    for (int64_t r = 0; r < n; r++) {
        out[r] = 0;
    }
    data_permutation(n, seed, 0, STREAM_SPLIT, order);
    for (int i = 0; i < n_shares && status == EO_OK; i++) {
        bool by_class = shares[i].stratified && classes != NULL;
        int n_groups = by_class ? n_classes : 1;
        int64_t *counts = work, *left = work + n_groups, *quotas = work + 2 * (int64_t)n_groups, total = 0;

        if (shares[i].fraction == 0) {
            continue;
        }
        share_quotas(n, by_class ? classes : NULL, n_groups, &shares[i], out, counts, left, quotas);
        for (int g = 0; g < n_groups; g++) {
            total += quotas[g];
        }
        if (total == 0) {
            status = EO_RAISE(err, EO_E_BAD_FILE, "%" PRId64 " rows are too few to set a part of %g aside", n,
                              shares[i].fraction);
        }
        take(n, order, by_class ? classes : NULL, quotas, (uint8_t)(i + 1), out);
    }
    free(order);
    free(work);
    return status;
}
