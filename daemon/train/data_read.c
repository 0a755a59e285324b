#include "daemon/train/data_read.h"

#include "daemon/formats/csv.h"
#include "daemon/formats/idx.h"
#include "proto/base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int no_memory(const char *name, struct eo_error *err)
{
    return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for the rows of %s", name);
}

int data_bad_target(const struct data_raw *raw, int64_t r, struct eo_error *err, const char *fmt, ...)
{
    char what[200];
    va_list args;

    va_start(args, fmt);
    vsnprintf(what, sizeof(what), fmt, args);
    va_end(args);
    if (raw->first_line > 0) {
        return EO_RAISE(err, EO_E_BAD_FILE, "%s:%" PRId64 ": %s", raw->name, raw->first_line + r, what);
    }
    return EO_RAISE(err, EO_E_BAD_FILE, "%s: label %" PRId64 ": %s", raw->name, r, what);
}

static int resolve(const struct job_spec *spec, int file, const struct data_open *open, char *out, size_t size,
                   struct eo_error *err)
{
    if (open != NULL && open->open != NULL) {
        return open->open(open->ctx, &spec->files[file], out, size, err);
    }
    if (!eo_copy_text(out, size, spec->files[file].path)) {
        return EO_RAISE(err, EO_E_NO_FILE, "the path of a data file is longer than %zu bytes", size - 1);
    }
    return EO_OK;
}

/* ---- csv ---- */

/* Takes the target column out of the table; the features close ranks in place. */
static int split_table(struct csv *c, int64_t target, struct data_raw *out, struct eo_error *err)
{
    int64_t n_features = c->n_columns - 1;
    double *to = c->cells;

    out->targets = malloc(sizeof(double) * (size_t)c->n_rows);
    if (out->targets == NULL) {
        return no_memory(out->name, err);
    }
    for (int64_t r = 0; r < c->n_rows; r++) {
        const double *row = c->cells + r * c->n_columns;

        out->targets[r] = row[target];
        for (int64_t i = 0; i < c->n_columns; i++) {
            if (i != target) {
                *to++ = row[i];
            }
        }
    }
    out->values = c->cells;
    c->cells = NULL;
    out->n = c->n_rows;
    out->first_line = c->first_line;
    return eo_tensor_desc_init(&out->row, EO_FLOAT64, &n_features, 1, err);
}

static int read_csv(const struct spec_source *source, const char *path, uint64_t limit_bytes, struct data_raw *out,
                    struct eo_error *err)
{
    struct csv c;
    int64_t target = 0;
    int status = csv_read(path, limit_bytes, &c, err);

    if (status != EO_OK) {
        return status;
    }
    status = csv_column(&c, source->target, out->name, &target, err);
    if (status == EO_OK && c.n_columns < 2) {
        status = EO_RAISE(err, EO_E_BAD_FILE, "%s has one column: no features beside the target", out->name);
    }
    if (status == EO_OK) {
        status = split_table(&c, target, out, err);
    }
    csv_fini(&c);
    return status;
}

/* ---- idx ---- */

static double element(const struct idx *x, int64_t i)
{
    switch (x->desc.dtype) {
    case EO_UINT8:
        return ((const uint8_t *)x->data)[i];
    case EO_INT8:
        return ((const int8_t *)x->data)[i];
    case EO_INT16:
        return ((const int16_t *)x->data)[i];
    case EO_INT32:
        return ((const int32_t *)x->data)[i];
    case EO_FLOAT32:
        return (double)((const float *)x->data)[i];
    default:
        return ((const double *)x->data)[i];
    }
}

/* Elements as float64; not finite ones are refused with their place. */
static int widen(const struct idx *x, const char *name, double **out, struct eo_error *err)
{
    int64_t n = eo_tensor_desc_count(&x->desc);
    double *values = malloc(sizeof(double) * (size_t)EO_MAX(n, 1));

    if (values == NULL) {
        return no_memory(name, err);
    }
    for (int64_t i = 0; i < n; i++) {
        values[i] = element(x, i);
        if (!isfinite(values[i])) {
            free(values);
            return EO_RAISE(err, EO_E_BAD_FILE, "%s: element %" PRId64 " is not finite", name, i);
        }
    }
    *out = values;
    return EO_OK;
}

static int take_images(struct idx *x, const char *name, struct data_raw *out, struct eo_error *err)
{
    int status = EO_OK;

    if (x->desc.n_dims < 2) {
        return EO_RAISE(err, EO_E_BAD_FILE, "%s has one dimension: rows have no features", name);
    }
    out->n = x->desc.shape[0];
    if (eo_tensor_desc_count(&x->desc) == 0) {
        return EO_RAISE(err, EO_E_BAD_FILE, "%s holds no rows", name);
    }
    if (x->desc.dtype == EO_UINT8) {
        out->bytes = x->data;
        x->data = NULL;
    } else {
        status = widen(x, name, &out->values, err);
    }
    return status == EO_OK ? eo_tensor_desc_init(&out->row, out->bytes != NULL ? EO_UINT8 : EO_FLOAT64,
                                                 x->desc.shape + 1, x->desc.n_dims - 1, err)
                           : status;
}

static int read_idx(const char *path, const char *labels_path, const char *name, uint64_t limit_bytes,
                    struct data_raw *out, struct eo_error *err)
{
    struct idx x, labels;
    int status = idx_read(path, limit_bytes, &x, err);

    if (status != EO_OK) {
        return status;
    }
    status = take_images(&x, name, out, err);
    idx_fini(&x);
    if (status == EO_OK) {
        status = idx_read(labels_path, limit_bytes, &labels, err);
    }
    if (status != EO_OK) {
        return status;
    }
    if (labels.desc.n_dims != 1 || labels.desc.shape[0] != out->n) {
        char text[128];

        status = EO_RAISE(err, EO_E_BAD_FILE, "%s holds %s, but %s holds %" PRId64 " rows", out->name,
                          eo_tensor_desc_text(&labels.desc, text, sizeof(text)), name, out->n);
        eo_error_hint(err, "Images and labels must belong together: one label for each image.");
    } else {
        status = widen(&labels, out->name, &out->targets, err);
    }
    idx_fini(&labels);
    return status;
}

/* ---- both ---- */

int data_read(const struct job_spec *spec, const struct spec_source *source, const struct data_open *open,
              uint64_t limit_bytes, struct data_raw *out, struct eo_error *err)
{
    char path[4096], labels_path[4096];
    struct data_raw raw = {0};
    int status = resolve(spec, source->file, open, path, sizeof(path), err);

    if (status != EO_OK) {
        return status;
    }
    if (source->kind == SOURCE_CSV) {
        eo_copy_text(raw.name, sizeof(raw.name), spec->files[source->file].path);
        status = read_csv(source, path, limit_bytes, &raw, err);
    } else {
        eo_copy_text(raw.name, sizeof(raw.name), spec->files[source->labels].path);
        status = resolve(spec, source->labels, open, labels_path, sizeof(labels_path), err);
        if (status == EO_OK) {
            status = read_idx(path, labels_path, spec->files[source->file].path, limit_bytes, &raw, err);
        }
    }
    if (status != EO_OK) {
        data_raw_fini(&raw);
        return status;
    }
    *out = raw;
    return EO_OK;
}

void data_raw_fini(struct data_raw *r)
{
    free(r->bytes);
    free(r->values);
    free(r->targets);
    *r = (struct data_raw){0};
}
