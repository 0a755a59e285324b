#include "daemon/train/checkpoint.h"

#include "daemon/train/checkpoint_list.h"
#include "daemon/train/manifest.h"
#include "daemon/train/params.h"
#include "proto/base/file.h"
#include "proto/base/sha256.h"
#include "proto/base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char model_file[] = "model.safetensors", state_file[] = "state.safetensors";
static const char format[] = "everyo-checkpoint";

/* The counters of a position and their names in state.safetensors. */
static const struct {
    const char *name;
    size_t offset;
} counters[] = {
    {"step", offsetof(struct checkpoint_position, step)},
    {"updates", offsetof(struct checkpoint_position, updates)},
    {"epoch", offsetof(struct checkpoint_position, epoch)},
    {"batch", offsetof(struct checkpoint_position, batch)},
    {"rows", offsetof(struct checkpoint_position, rows)},
    {"schedule_bad", offsetof(struct checkpoint_position, schedule.bad)},
    {"schedule_cooldown", offsetof(struct checkpoint_position, schedule.cooldown)},
    {"best_epoch", offsetof(struct checkpoint_position, best_epoch)},
};

/* The numbers of a position that are no counters, as one tensor. */
enum { WATCHED = 3 };
static void pack_watched(const struct checkpoint_position *at, double out[WATCHED])
{
    out[0] = at->schedule.factor;
    out[1] = at->schedule.best;
    out[2] = at->watched_best;
}

static void unpack_watched(const double in[WATCHED], struct checkpoint_position *at)
{
    at->schedule.factor = in[0];
    at->schedule.best = in[1];
    at->watched_best = in[2];
}

static int no_memory(struct eo_error *err)
{
    return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a checkpoint");
}

static int join(char *out, const char *folder, const char *name, struct eo_error *err)
{
    return eo_path_join(out, PATH_MAX, folder, name)
               ? EO_OK
               : EO_RAISE(err, EO_E_CANNOT_CREATE, "the path of %s in a checkpoint is too long", name);
}

/* ---- saving ---- */

/* Names "velocity/0.weight": slot and parameter. */
static int slot_tensors(struct train_step *s, struct safetensors_tensor *out, char (*names)[128])
{
    int n = 0;

    for (int slot = 0; step_slot(s, slot) != NULL; slot++) {
        params_tensors(s, step_slot(s, slot), out + n);
        for (uint32_t i = 0; i < step_n_params(s); i++, n++) {
            snprintf(names[n], sizeof(names[n]), "%s/%s", step_slot_name(s, slot), out[n].name);
            out[n].name = names[n];
        }
    }
    return n;
}

struct state_metadata {
    struct safetensors_meta list[EO_COUNT_OF(counters) + 8];
    char numbers[EO_COUNT_OF(counters)][24], world_size[16], seed[24];
    char columns[HISTORY_MAX_COLUMNS * 24];
    uint32_t n;
};

static void add_meta(struct state_metadata *m, const char *key, const char *value)
{
    m->list[m->n++] = (struct safetensors_meta){.key = key, .value = value};
}

static void fill_metadata(struct state_metadata *m, const struct checkpoint_identity *id,
                          const struct checkpoint_position *at, const struct history *h)
{
    size_t used = 0;

    *m = (struct state_metadata){0};
    for (size_t i = 0; i < EO_COUNT_OF(counters); i++) {
        int64_t v;

        memcpy(&v, (const char *)at + counters[i].offset, sizeof(v));
        snprintf(m->numbers[i], sizeof(m->numbers[i]), "%" PRId64, v);
        add_meta(m, counters[i].name, m->numbers[i]);
    }
    for (int c = 0; c < h->n_columns; c++) {
        used += (size_t)snprintf(m->columns + used, sizeof(m->columns) - used, "%s%s", c > 0 ? "," : "", h->columns[c]);
    }
    snprintf(m->seed, sizeof(m->seed), "%" PRIu64, id->spec->seed);
    snprintf(m->world_size, sizeof(m->world_size), "%d", id->world_size);
    add_meta(m, "history", m->columns);
    add_meta(m, "seed", m->seed);
    add_meta(m, "spec_sha256", id->spec->hash);
    add_meta(m, "state_sha256", id->spec->state_hash);
    add_meta(m, "data_sha256", id->data_sha256);
    add_meta(m, "fingerprint", id->fingerprint);
    add_meta(m, "world_size", m->world_size);
}

static int save_state(const char *path, struct train_step *s, const struct checkpoint_identity *id,
                      const struct checkpoint_position *at, const struct history *h, struct manifest_file *out,
                      struct eo_error *err)
{
    size_t most = (size_t)step_n_params(s) * STEP_MAX_SLOTS + 3;
    struct safetensors_tensor *tensors = calloc(most, sizeof(*tensors));
    char(*names)[128] = calloc(most, sizeof(*names));
    struct state_metadata *meta = malloc(sizeof(*meta));
    double watched[WATCHED];
    int status;

    if (tensors == NULL || names == NULL || meta == NULL) {
        status = no_memory(err);
    } else {
        int n = slot_tensors(s, tensors, names);

        tensors[n++] =
            (struct safetensors_tensor){.name = "history",
                                        .desc = {.dtype = EO_FLOAT64, .n_dims = 2, .shape = {h->n_rows, h->n_columns}},
                                        .data = h->values};
        tensors[n++] =
            (struct safetensors_tensor){.name = "epoch_sums",
                                        .desc = {.dtype = EO_FLOAT64, .n_dims = 1, .shape = {CHECKPOINT_SUMS}},
                                        .data = at->sums};
        pack_watched(at, watched);
        tensors[n++] = (struct safetensors_tensor){
            .name = "watched", .desc = {.dtype = EO_FLOAT64, .n_dims = 1, .shape = {WATCHED}}, .data = watched};
        fill_metadata(meta, id, at, h);
        status = safetensors_write(path, tensors, (uint32_t)n, meta->list, meta->n, out->sha256, &out->bytes, err);
    }
    free(tensors);
    free(names);
    free(meta);
    return status;
}

static int save_model(const char *path, struct train_step *s, struct manifest_file *out, struct eo_error *err)
{
    uint32_t n = step_n_params(s);
    struct safetensors_tensor *tensors = calloc(n, sizeof(*tensors));
    const struct safetensors_meta meta = {"format", format};
    int status;

    if (tensors == NULL) {
        return no_memory(err);
    }
    params_tensors(s, step_params(s), tensors);
    status = safetensors_write(path, tensors, n, &meta, 1, out->sha256, &out->bytes, err);
    free(tensors);
    return status;
}

static int save_manifest(const char *path, const struct manifest *m, const struct checkpoint_identity *id,
                         const struct checkpoint_position *at, struct eo_error *err)
{
    struct eo_bytes text;
    struct eo_json j;
    int status;

    eo_bytes_init(&text, 1 << 20);
    eo_json_init(&j, &text);
    manifest_begin(&j, m);
    eo_json_kv_string(&j, "job", id->spec->name);
    eo_json_kv_i64(&j, "step", at->step);
    eo_json_kv_i64(&j, "epoch", at->epoch);
    eo_json_kv_string(&j, "spec_sha256", id->spec->hash);
    eo_json_kv_string(&j, "fingerprint", id->fingerprint);
    manifest_end(&j, m);
    status = text.failed ? no_memory(err) : eo_file_write_atomic(path, text.data, text.size, 0644, err);
    eo_bytes_fini(&text);
    return status;
}

static int save_files(const char *folder, struct train_step *s, const struct checkpoint_identity *id,
                      const struct checkpoint_position *at, const struct history *h, struct eo_error *err)
{
    struct manifest m = {.finite = params_finite(s), .n_files = 2};
    char path[PATH_MAX];
    int status;

    eo_copy_text(m.format, sizeof(m.format), format);
    eo_copy_text(m.files[0].name, sizeof(m.files[0].name), model_file);
    eo_copy_text(m.files[1].name, sizeof(m.files[1].name), state_file);
    status = join(path, folder, model_file, err);
    if (status == EO_OK) {
        status = save_model(path, s, &m.files[0], err);
    }
    if (status == EO_OK) {
        status = join(path, folder, state_file, err);
    }
    if (status == EO_OK) {
        status = save_state(path, s, id, at, h, &m.files[1], err);
    }
    if (status == EO_OK) {
        status = join(path, folder, "manifest.json", err);
    }
    if (status == EO_OK) {
        status = save_manifest(path, &m, id, at, err);
    }
    return status == EO_OK ? eo_dir_sync(folder, err) : status;
}

/* Whether a checkpoint is known to be sound and finite. Only what is surely damaged counts as not so: a manifest that
 * could not be read for want of memory or by a failing disk must not cost the last good state. */
static int look_at(const char *folder, const char *name, bool *out_finite, struct eo_error *err)
{
    char path[PATH_MAX];
    struct manifest m;
    int status = join(path, folder, name, err);

    *out_finite = false;
    if (status != EO_OK) {
        return status;
    }
    status = manifest_read(path, format, &m, err);
    if (status == EO_E_BAD_CHECKPOINT || status == EO_E_NO_FILE) {
        return EO_OK;
    }
    *out_finite = status == EO_OK && m.finite;
    return status;
}

/* Removes all but the newest `keep`, and keeps the newest finite one beyond them when none of those is. */
static int rotate(const char *folder, int keep, struct eo_error *err)
{
    struct checkpoint_list list;
    bool have_finite = false;
    int status = checkpoint_list(folder, &list, err);

    for (int i = 0; status == EO_OK && i < list.n; i++) {
        bool finite = false;

        if (!have_finite) {
            status = look_at(folder, list.names[i], &finite, err);
        }
        if (status == EO_OK && i >= keep && !finite) {
            status = checkpoint_remove(folder, list.names[i], err);
        }
        have_finite = have_finite || finite;
    }
    checkpoint_list_fini(&list);
    return status;
}

int checkpoint_save(const char *folder, struct train_step *s, const struct checkpoint_identity *id,
                    const struct checkpoint_position *at, const struct history *h, int keep, char *out_path,
                    size_t path_size, struct eo_error *err)
{
    char name[CHECKPOINT_NAME], hidden[CHECKPOINT_NAME + 8], temporary[PATH_MAX], path[PATH_MAX];
    int status = eo_dir_ensure(folder, 0755, err);

    checkpoint_name(at->step, name);
    snprintf(hidden, sizeof(hidden), ".new-%s", name);
    if (status == EO_OK) {
        status = checkpoint_clean(folder, err);
    }
    if (status == EO_OK) {
        status = join(temporary, folder, hidden, err);
    }
    if (status == EO_OK) {
        status = join(path, folder, name, err);
    }
    if (status == EO_OK) {
        status = eo_dir_ensure(temporary, 0755, err);
    }
    if (status != EO_OK) {
        return status;
    }
    status = save_files(temporary, s, id, at, h, err);
    if (status == EO_OK && access(path, F_OK) == 0) {
        status = checkpoint_remove(folder, name, err); /* of the same step, from a run before */
    }
    if (status == EO_OK && rename(temporary, path) != 0) {
        status = eo_raise_io(err, errno, "rename", temporary);
    }
    if (status == EO_OK) {
        status = eo_dir_sync(folder, err);
    }
    if (status != EO_OK) {
        eo_dir_remove(temporary, NULL);
        eo_error_push(err, "saving the checkpoint of step %" PRId64, at->step);
        return status;
    }
    eo_copy_text(out_path, path_size, path);
    return rotate(folder, keep, err);
}

/* ---- loading ---- */

bool checkpoint_is_one(const char *path)
{
    struct manifest m;

    return manifest_read(path, format, &m, NULL) == EO_OK;
}

static int refuse(const char *path, struct eo_error *err, const char *what, const char *hint)
{
    EO_RAISE(err, EO_E_BAD_CHECKPOINT, "%s %s", path, what);
    eo_error_hint(err, "%s", hint);
    return EO_E_BAD_CHECKPOINT;
}

/* A tensor of this name with exactly this desc. */
static int need_tensor(const struct safetensors *f, const char *name, const struct eo_tensor_desc *desc,
                       const struct safetensors_tensor **out, struct eo_error *err)
{
    char wanted[128], found[128];

    *out = safetensors_find(f, name);
    if (*out == NULL) {
        return EO_RAISE(err, EO_E_BAD_CHECKPOINT, "%s has no tensor %s", f->path, name);
    }
    if (!eo_tensor_desc_equal(&(*out)->desc, desc)) {
        return EO_RAISE(err, EO_E_BAD_CHECKPOINT, "%s: %s is %s, the model has %s", f->path, name,
                        eo_tensor_desc_text(&(*out)->desc, found, sizeof(found)),
                        eo_tensor_desc_text(desc, wanted, sizeof(wanted)));
    }
    return EO_OK;
}

/* All parameters of one flat vector; prefix "velocity/" for slots. into NULL: only checks that they are there. */
static int read_flat(const struct safetensors *f, const struct train_step *s, const char *prefix, char *into,
                     struct eo_error *err)
{
    for (uint32_t i = 0; i < step_n_params(s); i++) {
        const struct step_layout_entry *e = step_layout(s, i);
        const struct safetensors_tensor *t;
        char name[128];
        int status;

        snprintf(name, sizeof(name), "%s%s", prefix, e->name);
        status = need_tensor(f, name, &e->desc, &t, err);
        if (status == EO_OK && into != NULL) {
            status = safetensors_read(f, t, into + e->offset, err);
        }
        if (status != EO_OK) {
            return status;
        }
    }
    return EO_OK;
}

static int read_slots(const struct safetensors *f, struct train_step *s, bool store, struct eo_error *err)
{
    for (int slot = 0; step_slot(s, slot) != NULL; slot++) {
        char prefix[32];
        int status;

        snprintf(prefix, sizeof(prefix), "%s/", step_slot_name(s, slot));
        status = read_flat(f, s, prefix, store ? step_slot(s, slot) : NULL, err);
        if (status != EO_OK) {
            return status;
        }
    }
    return EO_OK;
}

static bool meta_is(const struct safetensors *f, const char *key, const char *wanted)
{
    const char *value = safetensors_metadata(f, key);

    return value != NULL && strcmp(value, wanted) == 0;
}

/* *out_foreign: it is sound, but not ours. */
static int check_identity(const char *path, const struct safetensors *f, const struct checkpoint_identity *id,
                          bool *out_foreign, struct eo_error *err)
{
    *out_foreign = true;
    if (!meta_is(f, "state_sha256", id->spec->state_hash)) {
        return refuse(path, err, "belongs to another job: model, optimizer, data handling or seed differ",
                      "Resume with the job file it was made with; only epochs, limits, hosts and device may change.");
    }
    if (!meta_is(f, "data_sha256", id->data_sha256)) {
        return refuse(path, err, "was trained on other data", "Resume with the data files it was made with.");
    }
    return EO_OK;
}

static int read_position(const struct safetensors *f, struct checkpoint_position *out, struct eo_error *err)
{
    const struct eo_tensor_desc desc = {.dtype = EO_FLOAT64, .n_dims = 1, .shape = {CHECKPOINT_SUMS}};
    const struct eo_tensor_desc watched_desc = {.dtype = EO_FLOAT64, .n_dims = 1, .shape = {WATCHED}};
    double watched[WATCHED];
    const struct safetensors_tensor *t;
    int status;

    for (size_t i = 0; i < EO_COUNT_OF(counters); i++) {
        const char *text = safetensors_metadata(f, counters[i].name);
        int64_t v;

        if (text == NULL || !eo_parse_i64(text, &v) || v < 0) {
            return EO_RAISE(err, EO_E_BAD_CHECKPOINT, "%s does not say %s", f->path, counters[i].name);
        }
        memcpy((char *)out + counters[i].offset, &v, sizeof(v));
    }
    status = need_tensor(f, "epoch_sums", &desc, &t, err);
    if (status == EO_OK) {
        status = safetensors_read(f, t, out->sums, err);
    }
    if (status == EO_OK) {
        status = need_tensor(f, "watched", &watched_desc, &t, err);
    }
    if (status == EO_OK) {
        status = safetensors_read(f, t, watched, err);
    }
    if (status == EO_OK) {
        unpack_watched(watched, out);
    }
    return status;
}

/* h has its columns already; the file's must be the same. */
static int read_history(const struct safetensors *f, const struct history *h, struct history *out, struct eo_error *err)
{
    const struct safetensors_tensor *t = safetensors_find(f, "history");
    char columns[HISTORY_MAX_COLUMNS * 24] = "";
    size_t used = 0;

    for (int c = 0; c < h->n_columns; c++) {
        used += (size_t)snprintf(columns + used, sizeof(columns) - used, "%s%s", c > 0 ? "," : "", h->columns[c]);
    }
    if (t == NULL || t->desc.dtype != EO_FLOAT64 || t->desc.n_dims != 2 || t->desc.shape[1] != h->n_columns ||
        !meta_is(f, "history", columns)) {
        return EO_RAISE(err, EO_E_BAD_CHECKPOINT, "%s has no history of these metrics", f->path);
    }
    *out = *h;
    out->n_rows = out->capacity = t->desc.shape[0];
    out->values = malloc(EO_MAX(eo_tensor_desc_bytes(&t->desc), 8));
    if (out->values == NULL) {
        return no_memory(err);
    }
    return safetensors_read(f, t, out->values, err);
}

struct opened {
    struct safetensors model, state;
};

static int open_files(const char *path, struct opened *o, struct eo_error *err)
{
    char file[PATH_MAX];
    struct manifest m;
    int status = manifest_read(path, format, &m, err);

    o->model.fd = o->state.fd = -1;
    if (status == EO_OK &&
        (m.n_files != 2 || strcmp(m.files[0].name, model_file) != 0 || strcmp(m.files[1].name, state_file) != 0)) {
        status = EO_RAISE(err, EO_E_BAD_CHECKPOINT, "%s/manifest.json is incomplete", path);
    }
    if (status == EO_OK) {
        status = manifest_verify(path, &m, err);
    }
    if (status == EO_OK) {
        status = join(file, path, model_file, err);
    }
    if (status == EO_OK) {
        status = safetensors_open(file, &o->model, err);
    }
    if (status == EO_OK) {
        status = join(file, path, state_file, err);
    }
    return status == EO_OK ? safetensors_open(file, &o->state, err) : status;
}

static void close_file(struct safetensors *f)
{
    if (f->fd >= 0) {
        safetensors_close(f);
    }
}

static int load_opened(const char *path, const struct opened *o, struct train_step *s,
                       const struct checkpoint_identity *id, struct checkpoint_position *at, struct history *h,
                       bool *out_foreign, struct eo_error *err)
{
    struct checkpoint_position position = {0};
    struct history history = {0};
    int status = check_identity(path, &o->state, id, out_foreign, err);

    if (status == EO_OK) {
        status = read_position(&o->state, &position, err);
    }
    if (status == EO_OK) {
        status = read_history(&o->state, h, &history, err);
    }
    if (status == EO_OK) {
        status = read_flat(&o->model, s, "", NULL, err);
    }
    if (status == EO_OK) {
        status = read_slots(&o->state, s, false, err);
    }
    /* All is there and as it should be: only now is anything changed. */
    if (status == EO_OK) {
        status = read_flat(&o->model, s, "", step_params(s), err);
    }
    if (status == EO_OK) {
        status = read_slots(&o->state, s, true, err);
    }
    if (status != EO_OK) {
        free(history.values);
        return status;
    }
    free(h->values);
    *h = history;
    *at = position;
    return EO_OK;
}

static int load_one(const char *path, struct train_step *s, const struct checkpoint_identity *id,
                    struct checkpoint_position *at, struct history *h, bool *out_foreign, checkpoint_log_fn log,
                    void *ctx, struct eo_error *err)
{
    struct opened o = {0};
    int status = open_files(path, &o, err);

    *out_foreign = false;
    if (status == EO_OK) {
        status = load_opened(path, &o, s, id, at, h, out_foreign, err);
    }
    if (status == EO_OK && log != NULL && !meta_is(&o.state, "fingerprint", id->fingerprint)) {
        const char *before = safetensors_metadata(&o.state, "fingerprint");
        char text[1024];

        snprintf(text, sizeof(text),
                 "the checkpoint was made with other kernels (%.300s; now %.400s): results may differ in the last bits "
                 "from an uninterrupted run",
                 before != NULL ? before : "unknown", id->fingerprint);
        log(ctx, text);
    }
    close_file(&o.model);
    close_file(&o.state);
    return status;
}

int checkpoint_load(const char *path, struct train_step *s, const struct checkpoint_identity *id,
                    struct checkpoint_position *at, struct history *h, checkpoint_log_fn log, void *ctx,
                    struct eo_error *err)
{
    bool foreign;

    return load_one(path, s, id, at, h, &foreign, log, ctx, err);
}

int checkpoint_load_newest(const char *folder, struct train_step *s, const struct checkpoint_identity *id,
                           struct checkpoint_position *at, struct history *h, bool *out_found, char *out_path,
                           size_t path_size, checkpoint_log_fn log, void *ctx, struct eo_error *err)
{
    struct checkpoint_list list;
    struct eo_error why;
    int status = checkpoint_list(folder, &list, err);

    *out_found = false;
    for (int i = 0; status == EO_OK && !*out_found && i < list.n; i++) {
        char path[PATH_MAX], text[512];
        bool foreign = false;
        int loaded = join(path, folder, list.names[i], &why);

        if (loaded == EO_OK) {
            loaded = load_one(path, s, id, at, h, &foreign, log, ctx, &why);
        }
        if (loaded == EO_OK) {
            *out_found = true;
            eo_copy_text(out_path, path_size, path);
        } else if (foreign || loaded == EO_E_NO_MEMORY) {
            status = loaded;
            if (err != NULL) {
                *err = why;
            }
        } else if (log != NULL) {
            snprintf(text, sizeof(text), "skipped a damaged checkpoint: %.400s", why.message);
            log(ctx, text);
        }
    }
    checkpoint_list_fini(&list);
    return status;
}
