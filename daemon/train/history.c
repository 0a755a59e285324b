#include "daemon/train/history.h"

#include "proto/base/json.h"
#include "proto/base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void history_init(struct history *h)
{
    *h = (struct history){0};
}

void history_fini(struct history *h)
{
    free(h->values);
    *h = (struct history){0};
}

void history_column(struct history *h, const char *name)
{
    if (h->n_columns < HISTORY_MAX_COLUMNS && h->n_rows == 0) {
        eo_copy_text(h->columns[h->n_columns++], sizeof(h->columns[0]), name);
    }
}

int history_add(struct history *h, const double *values, struct eo_error *err)
{
    size_t row = sizeof(double) * (size_t)h->n_columns;

    if (h->n_rows == h->capacity) {
        int64_t capacity = h->capacity == 0 ? 64 : h->capacity * 2;
        double *grown = realloc(h->values, row * (size_t)capacity);

        if (grown == NULL) {
            return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for the history of epoch %lld", (long long)h->n_rows);
        }
        h->values = grown;
        h->capacity = capacity;
    }
    memcpy(h->values + h->n_rows * h->n_columns, values, row);
    h->n_rows++;
    return EO_OK;
}

static void put_number(struct eo_bytes *out, double v)
{
    struct eo_json j;

    if (isfinite(v)) {
        eo_json_init(&j, out);
        eo_json_f64(&j, v);
    } else {
        eo_bytes_printf(out, "%s", isnan(v) ? "nan" : v > 0 ? "inf" : "-inf");
    }
}

void history_csv(const struct history *h, struct eo_bytes *out)
{
    for (int c = 0; c < h->n_columns; c++) {
        eo_bytes_printf(out, "%s%s", c > 0 ? "," : "", h->columns[c]);
    }
    eo_bytes_printf(out, "\n");
    for (int64_t r = 0; r < h->n_rows; r++) {
        for (int c = 0; c < h->n_columns; c++) {
            eo_bytes_printf(out, "%s", c > 0 ? "," : "");
            put_number(out, h->values[r * h->n_columns + c]);
        }
        eo_bytes_printf(out, "\n");
    }
}
