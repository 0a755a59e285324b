#include "daemon/train/data.h"

#include "daemon/nn/streams.h"
#include "daemon/train/data_read.h"
#include "daemon/train/data_split.h"
#include "proto/base/sha256.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int no_memory(struct eo_error *err)
{
    return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for the training data");
}

/* ---- targets ---- */

/* n_classes: of the model's output; 0: values. */
static int check_targets(const struct data_raw *raw, enum loss_kind loss, int64_t n_classes, struct eo_error *err)
{
    for (int64_t r = 0; r < raw->n; r++) {
        double y = raw->targets[r];

        if (n_classes > 0 && !(y >= 0 && y < (double)n_classes && y == floor(y))) {
            data_bad_target(raw, r, err, "target %g is no class of 0 to %" PRId64, y, n_classes - 1);
            eo_error_hint(err, "Classes are whole numbers from 0; the model's last layer decides how many there are.");
            return EO_E_BAD_FILE;
        }
        if (loss == LOSS_BCE_WITH_LOGITS && !(y >= 0 && y <= 1)) {
            data_bad_target(raw, r, err, "target %g is not between 0 and 1, as bce_with_logits wants it", y);
            return EO_E_BAD_FILE;
        }
    }
    return EO_OK;
}

static void store(void *out, enum eo_dtype dtype, int64_t i, double v)
{
    if (dtype == EO_INT64) {
        ((int64_t *)out)[i] = (int64_t)v;
    } else if (dtype == EO_FLOAT64) {
        ((double *)out)[i] = v;
    } else {
        ((float *)out)[i] = (float)v;
    }
}

/* ---- parts ---- */

/* Class of each row for stratified splits; *out stays NULL where the loss has none. */
static int row_classes(const struct data_raw *raw, const struct model *m, int32_t **out, int *out_n,
                       struct eo_error *err)
{
    int32_t *classes;

    *out = NULL;
    *out_n = m->loss == LOSS_CROSS_ENTROPY ? (int)EO_MIN(m->output.shape[1], INT32_MAX) : 2;
    if (m->loss == LOSS_MSE) {
        return EO_OK;
    }
    classes = malloc(sizeof(*classes) * (size_t)raw->n);
    if (classes == NULL) {
        return no_memory(err);
    }
    for (int64_t r = 0; r < raw->n; r++) {
        classes[r] = m->loss == LOSS_CROSS_ENTROPY ? (int32_t)raw->targets[r] : raw->targets[r] >= 0.5;
    }
    *out = classes;
    return EO_OK;
}

/* The rows of `rows` that carry `mark`, or all of them. */
static int make_part(struct data_part *part, const struct data_rows *rows, const uint8_t *marks, uint8_t mark,
                     struct eo_error *err)
{
    part->rows = rows;
    part->index = calloc((size_t)EO_MAX(rows->n, 1), sizeof(*part->index));
    if (part->index == NULL) {
        return no_memory(err);
    }
    for (int64_t r = 0; r < rows->n; r++) {
        if (marks == NULL || marks[r] == mark) {
            part->index[part->n++] = r;
        }
    }
    return EO_OK;
}

/* Test rows are set aside before validation rows, so that asking for another validation part leaves them alone. */
static int split_train(const struct job_spec *spec, const struct data_raw *raw, struct data *d, struct eo_error *err)
{
    const struct spec_source *sources[2] = {&spec->test, &spec->validation};
    static const enum data_part_kind kinds[2] = {DATA_TEST, DATA_VALIDATION};
    struct data_share shares[2] = {{0}};
    uint8_t *marks = malloc((size_t)raw->n);
    int32_t *classes = NULL;
    int n_classes = 0, status;

    if (marks == NULL) {
        return no_memory(err);
    }
    for (int i = 0; i < 2; i++) {
        if (sources[i]->kind == SOURCE_SPLIT) {
            shares[i] = (struct data_share){.fraction = sources[i]->split, .stratified = sources[i]->stratified};
        }
    }
    status = row_classes(raw, spec->model, &classes, &n_classes, err);
    if (status == EO_OK) {
        status = data_split(raw->n, classes, n_classes, shares, 2, spec->seed, marks, err);
    }
    if (status == EO_OK) {
        status = make_part(&d->part[DATA_TRAIN], &d->files[0], marks, 0, err);
    }
    for (int i = 0; i < 2 && status == EO_OK; i++) {
        if (shares[i].fraction > 0) {
            status = make_part(&d->part[kinds[i]], &d->files[0], marks, (uint8_t)(i + 1), err);
        }
    }
    free(classes);
    free(marks);
    return status;
}

/* ---- scaling ---- */

static double raw_value(const struct data_raw *raw, int64_t i)
{
    return raw->bytes != NULL ? raw->bytes[i] : raw->values[i];
}

/* A feature that is the same in all training rows, but for rounding, is only shifted: dividing by nothing would blow up
 * whatever other rows have there. */
static double usable_deviation(double variance, double mean)
{
    double deviation = sqrt(variance);

    return deviation > fabs(mean) * 1e-12 ? deviation : 1;
}

/* Two passes over the training rows in file order, float64: equal bits on every rank. */
static int fit_features(const struct data_raw *raw, struct data *d, struct eo_error *err)
{
    const struct data_part *train = &d->part[DATA_TRAIN];
    double n = (double)train->n;
    double *mean = calloc((size_t)d->features, sizeof(double));
    double *deviation = calloc((size_t)d->features, sizeof(double));

    d->scale.mean = mean;
    d->scale.deviation = deviation;
    if (mean == NULL || deviation == NULL) {
        return no_memory(err);
    }
    for (int64_t i = 0; i < train->n; i++) {
        for (int64_t f = 0; f < d->features; f++) {
            mean[f] += raw_value(raw, train->index[i] * d->features + f);
        }
    }
    for (int64_t f = 0; f < d->features; f++) {
        mean[f] /= n;
    }
    for (int64_t i = 0; i < train->n; i++) {
        for (int64_t f = 0; f < d->features; f++) {
            double distance = raw_value(raw, train->index[i] * d->features + f) - mean[f];

            deviation[f] += distance * distance;
        }
    }
    for (int64_t f = 0; f < d->features; f++) {
        deviation[f] = usable_deviation(deviation[f] / n, mean[f]);
    }
    return EO_OK;
}

static void fit_target(const struct data_raw *raw, struct data *d, bool standardize)
{
    const struct data_part *train = &d->part[DATA_TRAIN];
    double mean = 0, variance = 0;

    for (int64_t i = 0; i < train->n; i++) {
        mean += raw->targets[train->index[i]];
    }
    mean /= (double)train->n;
    d->target_shift = mean;
    if (!standardize) {
        return;
    }
    for (int64_t i = 0; i < train->n; i++) {
        double distance = raw->targets[train->index[i]] - mean;

        variance += distance * distance;
    }
    d->scale.target_mean = mean;
    d->scale.target_deviation = usable_deviation(variance / (double)train->n, mean);
    d->target_shift = 0;
}

static double scaled(const struct data_scale *s, int64_t feature, double x)
{
    return s->mean != NULL ? (x - s->mean[feature]) / s->deviation[feature] : x / s->divide;
}

/* Moves a raw file into its final form. Bytes stay; values are scaled and rounded once to the model's dtype. */
static int finish_rows(struct data_raw *raw, const struct data *d, struct data_rows *out, struct eo_error *err)
{
    enum eo_dtype target_dtype = (enum eo_dtype)d->target.dtype;
    bool classes = target_dtype == EO_INT64;

    out->y = malloc((size_t)raw->n * eo_dtype_size(target_dtype));
    if (out->y == NULL) {
        return no_memory(err);
    }
    for (int64_t r = 0; r < raw->n; r++) {
        double y = raw->targets[r];

        store(out->y, target_dtype, r, classes ? y : (y - d->scale.target_mean) / d->scale.target_deviation);
    }
    if (raw->bytes != NULL) {
        out->x = raw->bytes;
        raw->bytes = NULL;
        return EO_OK;
    }
    out->row.dtype = (uint8_t)d->dtype;
    out->x = malloc((size_t)(raw->n * d->features) * eo_dtype_size(d->dtype));
    if (out->x == NULL) {
        return no_memory(err);
    }
    for (int64_t r = 0; r < raw->n; r++) {
        for (int64_t f = 0; f < d->features; f++) {
            store(out->x, d->dtype, r * d->features + f, scaled(&d->scale, f, raw->values[r * d->features + f]));
        }
    }
    return EO_OK;
}

/* ---- loading ---- */

struct loading {
    const struct job_spec *spec;
    struct data *d;
    struct data_raw raw[DATA_PARTS];
    enum data_part_kind of[DATA_PARTS]; /* which part file i is for */
};

static int read_files(struct loading *l, const struct data_open *open, uint64_t limit_bytes, struct eo_error *err)
{
    const struct spec_source *sources[DATA_PARTS] = {&l->spec->train, &l->spec->validation, &l->spec->test};
    struct data *d = l->d;

    for (int i = 0; i < DATA_PARTS; i++) {
        struct data_raw *raw = &l->raw[d->n_files];
        struct data_rows *rows = &d->files[d->n_files];
        int status;

        if (sources[i]->kind != SOURCE_CSV && sources[i]->kind != SOURCE_IDX) {
            continue;
        }
        status = data_read(l->spec, sources[i], open, limit_bytes, raw, err);
        if (status != EO_OK) {
            return status;
        }
        l->of[d->n_files++] = (enum data_part_kind)i;
        rows->n = raw->n;
        rows->row = raw->row;
        rows->first_line = raw->first_line;
        memcpy(rows->name, raw->name, sizeof(rows->name));
        if (raw != l->raw && !eo_tensor_desc_same_shape(&raw->row, &l->raw[0].row)) {
            char a[128], b[128];

            return EO_RAISE(err, EO_E_BAD_FILE, "rows of %s are %s, those of %s are %s", raw->name,
                            eo_tensor_desc_text(&raw->row, a, sizeof(a)), l->raw[0].name,
                            eo_tensor_desc_text(&l->raw[0].row, b, sizeof(b)));
        }
    }
    return EO_OK;
}

/* What the files hold decides the model's input; the job file could only guess it. */
static int fit_model(struct loading *l, struct eo_error *err)
{
    struct model *m = l->spec->model;
    const struct eo_tensor_desc *row = &l->raw[0].row;
    struct data *d = l->d;
    int status;

    if (row->n_dims >= EO_MAX_DIMS) {
        return EO_RAISE(err, EO_E_BAD_FILE, "%s has more than %d dimensions", l->raw[0].name, EO_MAX_DIMS);
    }
    d->features = eo_tensor_desc_count(row);
    d->dtype = m->dtype;
    m->input = (struct eo_tensor_desc){.dtype = (uint8_t)m->dtype, .n_dims = (uint8_t)(row->n_dims + 1)};
    memcpy(&m->input.shape[1], row->shape, sizeof(row->shape[0]) * row->n_dims);
    status = model_check(m, err);
    if (status == EO_OK) {
        status = model_target_desc(m, &d->target, err);
    }
    if (status != EO_OK) {
        eo_error_push(err, "%s has rows of %" PRId64 " features", l->raw[0].name, d->features);
        return status;
    }
    /* One target column: the output must be one number per row unless targets are classes. */
    memmove(d->target.shape, d->target.shape + 1, sizeof(d->target.shape) - sizeof(d->target.shape[0]));
    d->target.n_dims--;
    if (eo_tensor_desc_count(&d->target) != 1) {
        EO_RAISE(err, EO_E_BAD_SPEC, "loss %s compares %" PRId64 " outputs per row with one target", loss_name(m->loss),
                 eo_tensor_desc_count(&d->target));
        eo_error_hint(err, "End the model with `linear: {..., out: 1}`.");
        return EO_E_BAD_SPEC;
    }
    return EO_OK;
}

static int make_parts(struct loading *l, struct eo_error *err)
{
    const struct job_spec *spec = l->spec;
    struct data *d = l->d;
    int64_t n_classes = spec->model->loss == LOSS_CROSS_ENTROPY ? spec->model->output.shape[1] : 0;
    int status = EO_OK;

    for (int i = 0; i < d->n_files && status == EO_OK; i++) {
        status = check_targets(&l->raw[i], spec->model->loss, n_classes, err);
    }
    if (status == EO_OK) {
        status = split_train(spec, &l->raw[0], d, err);
    }
    for (int i = 1; i < d->n_files && status == EO_OK; i++) {
        status = make_part(&d->part[l->of[i]], &d->files[i], NULL, 0, err);
    }
    return status;
}

static int finish(struct loading *l, struct eo_error *err)
{
    struct data *d = l->d;
    int status = EO_OK;

    d->scale =
        (struct data_scale){.divide = l->spec->scale_divide != 0 ? l->spec->scale_divide : 1, .target_deviation = 1};
    if (l->spec->standardize) {
        status = fit_features(&l->raw[0], d, err);
    }
    if (status == EO_OK) {
        fit_target(&l->raw[0], d, l->spec->standardize_target);
    }
    for (int i = 0; i < 256; i++) {
        d->byte_value32[i] = (float)(i / d->scale.divide);
    }
    for (int i = 0; i < d->n_files && status == EO_OK; i++) {
        status = finish_rows(&l->raw[i], d, &d->files[i], err);
        data_raw_fini(&l->raw[i]);
    }
    return status;
}

static int hash_data(struct data *d, struct eo_error *err)
{
    uint8_t digest[EO_SHA256_SIZE];
    struct eo_sha256 s;

    eo_sha256_init(&s);
    for (int i = 0; i < d->n_files; i++) {
        const struct data_rows *rows = &d->files[i];

        eo_sha256_update(&s, &rows->n, sizeof(rows->n));
        eo_sha256_update(&s, rows->x, (size_t)(rows->n * d->features) * eo_dtype_size((enum eo_dtype)rows->row.dtype));
        eo_sha256_update(&s, rows->y, (size_t)rows->n * eo_dtype_size((enum eo_dtype)d->target.dtype));
    }
    for (int i = 0; i < DATA_PARTS; i++) {
        eo_sha256_update(&s, &d->part[i].n, sizeof(d->part[i].n));
        eo_sha256_update(&s, d->part[i].index, sizeof(int64_t) * (size_t)d->part[i].n);
    }
    if (!eo_sha256_final(&s, digest)) {
        return no_memory(err);
    }
    eo_sha256_hex(digest, d->sha256);
    return EO_OK;
}

int data_load(const struct job_spec *spec, const struct data_open *open, uint64_t limit_bytes, struct data *out,
              struct eo_error *err)
{
    struct loading l = {.spec = spec, .d = out};
    int status;

    *out = (struct data){0};
    status = read_files(&l, open, limit_bytes, err);
    if (status == EO_OK) {
        status = fit_model(&l, err);
    }
    if (status == EO_OK) {
        status = make_parts(&l, err);
    }
    if (status == EO_OK) {
        status = finish(&l, err);
    }
    if (status == EO_OK) {
        status = hash_data(out, err);
    }
    for (int i = 0; i < DATA_PARTS; i++) {
        data_raw_fini(&l.raw[i]);
    }
    if (status != EO_OK) {
        data_fini(out);
    }
    return status;
}

void data_fini(struct data *d)
{
    for (int i = 0; i < DATA_PARTS; i++) {
        free(d->files[i].x);
        free(d->files[i].y);
        free(d->part[i].index);
    }
    free(d->scale.mean);
    free(d->scale.deviation);
    *d = (struct data){0};
}

/* ---- batches ---- */

void data_order(const struct job_spec *spec, int64_t epoch, int64_t n, int64_t *out)
{
    if (spec->shuffle) {
        data_permutation(n, spec->seed, epoch, STREAM_SHUFFLE, out);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        out[i] = i;
    }
}

/* One row of bytes. Without standardising, a table of 256 results gives the rounded quotient at the price of a load. */
static void gather_bytes(const struct data *d, const uint8_t *from, void *x, int64_t at)
{
    if (d->scale.mean == NULL && d->dtype == EO_FLOAT32) {
        float *to = (float *)x + at;

        for (int64_t f = 0; f < d->features; f++) {
            to[f] = d->byte_value32[from[f]];
        }
        return;
    }
    for (int64_t f = 0; f < d->features; f++) {
        store(x, d->dtype, at + f, scaled(&d->scale, f, from[f]));
    }
}

void data_gather(const struct data *d, const struct data_part *part, const int64_t *order, int64_t first, int64_t n,
                 void *x, void *y)
{
    const struct data_rows *rows = part->rows;
    size_t x_bytes = (size_t)d->features * eo_dtype_size(d->dtype);
    size_t y_bytes = eo_dtype_size((enum eo_dtype)d->target.dtype);

    for (int64_t i = 0; i < n; i++) {
        int64_t r = part->index[order != NULL ? order[first + i] : first + i];

        if (rows->row.dtype == EO_UINT8) {
            gather_bytes(d, (const uint8_t *)rows->x + r * d->features, x, i * d->features);
        } else {
            memcpy((char *)x + (size_t)i * x_bytes, (const char *)rows->x + (size_t)r * x_bytes, x_bytes);
        }
        memcpy((char *)y + (size_t)i * y_bytes, (const char *)rows->y + (size_t)r * y_bytes, y_bytes);
    }
}
