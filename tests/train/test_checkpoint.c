/* Checkpoints by themselves: what is read back, what damage is found, what is rotated out. */
#include "daemon/train/checkpoint.h"

#include "backends/registry.h"
#include "daemon/train/checkpoint_list.h"
#include "daemon/train/manifest.h"
#include "daemon/train/params.h"
#include "proto/base/file.h"
#include "proto/philox.h"
#include "tests/train/run.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static struct eo_error err;

struct rig {
    struct run run; /* for its folder */
    char folder[512];
    struct eo_device *dev;
    struct executor *x;
    struct job_spec *spec;
    struct train_step *s;
    struct history history;
    struct checkpoint_identity id;
    char warnings[2000];
};

static void on_log(void *ctx, const char *text)
{
    struct rig *r = ctx;
    size_t used = strlen(r->warnings);

    snprintf(r->warnings + used, sizeof(r->warnings) - used, "%s\n", text);
}

static void rig_init(struct rig *r)
{
    const struct eo_device_config device_config = {.threads = 1};
    struct step_config config = {.seed = 1, .fallback = PLAN_STRICT};
    char why[200];

    *r = (struct rig){0};
    run_init(&r->run);
    run_path(&r->run, "checkpoints", r->folder);
    ASSERT_OK(spec_parse(run_blobs_job, strlen(run_blobs_job), "job.yaml", NULL, 0, &r->spec, &err));
    ASSERT_OK(registry_open("cpu", &device_config, &r->dev, why, sizeof(why), &err));
    ASSERT_OK(executor_new(r->dev, &r->x, &err));
    config.model = r->spec->model;
    config.optimizer = r->spec->optimizer;
    ASSERT_OK(step_new(&config, r->x, &r->s, &err));
    history_init(&r->history);
    history_column(&r->history, "epoch");
    history_column(&r->history, "loss");
    r->id = (struct checkpoint_identity){
        .spec = r->spec, .data_sha256 = "d", .fingerprint = "these kernels", .world_size = 1};
}

static void rig_fini(struct rig *r)
{
    step_free(r->s);
    executor_free(r->x);
    registry_close(r->dev);
    spec_free(r->spec);
    history_fini(&r->history);
    run_fini(&r->run);
}

/* Fills parameters, slots, position and history with numbers that belong to `step`. */
static struct checkpoint_position fill(struct rig *r, int64_t step)
{
    struct checkpoint_position at = {
        .step = step, .updates = step - 1, .epoch = step / 5, .batch = step % 5, .rows = 7 * step};
    void *flats[3] = {step_params(r->s), step_slot(r->s, 0), step_slot(r->s, 1)};

    for (int f = 0; f < 3; f++) {
        for (uint32_t p = 0; p < step_n_params(r->s); p++) {
            const struct step_layout_entry *e = step_layout(r->s, p);
            float *values = (float *)((char *)flats[f] + e->offset);

            for (int64_t i = 0; i < eo_tensor_desc_count(&e->desc); i++) {
                values[i] = (float)eo_rng_normal(step, f, p, (uint64_t)i, 0, 1);
            }
        }
    }
    for (int i = 0; i < CHECKPOINT_SUMS; i++) {
        at.sums[i] = (double)step / (i + 3);
    }
    r->history.n_rows = 0;
    for (int64_t i = 0; i < step; i++) {
        ASSERT_OK(history_add(&r->history, (double[]){(double)i, i == 2 ? NAN : 1.0 / (double)(i + 1)}, &err));
    }
    return at;
}

static void save(struct rig *r, int64_t step, int keep, char *out_path)
{
    struct checkpoint_position at = fill(r, step);

    ASSERT_OK(checkpoint_save(r->folder, r->s, &r->id, &at, &r->history, keep, out_path, 512, &err));
}

/* What load gives must be what fill gave for this step. */
static void expect_state(struct rig *r, int64_t step, const struct checkpoint_position *at, const void *params,
                         const void *slot, const struct history *h)
{
    struct checkpoint_position expected;
    uint64_t bytes = step_flat_bytes(r->s);

    expected = fill(r, step);
    ck_assert_mem_eq(at, &expected, sizeof(expected));
    ck_assert_mem_eq(params, step_params(r->s), bytes);
    ck_assert_mem_eq(slot, step_slot(r->s, 1), bytes);
    ck_assert_int_eq(h->n_rows, r->history.n_rows);
    ck_assert_mem_eq(h->values, r->history.values, sizeof(double) * (size_t)(h->n_rows * h->n_columns));
}

struct loaded {
    struct checkpoint_position at;
    struct history h;
    char *params, *slot;
};

static void take(struct rig *r, struct loaded *l)
{
    uint64_t bytes = step_flat_bytes(r->s);

    l->params = malloc(bytes);
    l->slot = malloc(bytes);
    memcpy(l->params, step_params(r->s), bytes);
    memcpy(l->slot, step_slot(r->s, 1), bytes);
}

static struct history empty_history(void)
{
    struct history h;

    history_init(&h);
    history_column(&h, "epoch");
    history_column(&h, "loss");
    return h;
}

static int load_newest(struct rig *r, struct loaded *l, bool *found)
{
    char path[512];

    fill(r, 999); /* something else, so that nothing is there by chance */
    *l = (struct loaded){.h = empty_history()};
    r->warnings[0] = '\0';
    return checkpoint_load_newest(r->folder, r->s, &r->id, &l->at, &l->h, found, path, sizeof(path), on_log, r, &err);
}

static void drop(struct loaded *l)
{
    history_fini(&l->h);
    free(l->params);
    free(l->slot);
}

START_TEST(everything_comes_back)
{
    struct rig r;
    struct loaded l;
    char path[512];
    bool found;

    rig_init(&r);
    ASSERT_OK(load_newest(&r, &l, &found));
    ck_assert(!found);
    drop(&l);
    save(&r, 7, 2, path);
    ck_assert(checkpoint_is_one(path));
    ck_assert(!checkpoint_is_one(r.folder));
    save(&r, 12, 2, path);
    ASSERT_OK(load_newest(&r, &l, &found));
    ck_assert(found);
    take(&r, &l);
    expect_state(&r, 12, &l.at, l.params, l.slot, &l.h);
    ck_assert_str_eq(r.warnings, "");
    drop(&l);
    /* the same step once more replaces it */
    save(&r, 12, 2, path);
    ck_assert(checkpoint_is_one(path));
    rig_fini(&r);
}
END_TEST

START_TEST(the_newest_are_kept)
{
    struct rig r;
    struct checkpoint_list list;
    char path[512];

    rig_init(&r);
    for (int64_t step = 1; step <= 6; step++) {
        save(&r, step, 3, path);
    }
    ASSERT_OK(checkpoint_list(r.folder, &list, &err));
    ck_assert_int_eq(list.n, 3);
    ck_assert_str_eq(list.names[0], "step-000000000006");
    ck_assert_str_eq(list.names[2], "step-000000000004");
    checkpoint_list_fini(&list);
    rig_fini(&r);
}
END_TEST

/* Any number of checkpoints with NaN in them does not push out the last good one. */
START_TEST(the_last_finite_one_stays)
{
    struct rig r;
    struct checkpoint_list list;
    char path[512];

    rig_init(&r);
    save(&r, 1, 2, path);
    save(&r, 2, 2, path);
    for (int64_t step = 3; step <= 7; step++) {
        struct checkpoint_position at = fill(&r, step);
        void *flat = step % 2 ? step_params(r.s) : step_slot(r.s, 0);

        ((float *)flat)[1] = step % 2 ? NAN : -INFINITY;
        ASSERT_OK(checkpoint_save(r.folder, r.s, &r.id, &at, &r.history, 2, path, sizeof(path), &err));
    }
    ASSERT_OK(checkpoint_list(r.folder, &list, &err));
    ck_assert_int_eq(list.n, 3);
    ck_assert_str_eq(list.names[0], "step-000000000007");
    ck_assert_str_eq(list.names[1], "step-000000000006");
    ck_assert_str_eq(list.names[2], "step-000000000002");
    checkpoint_list_fini(&list);
    /* a good one again, and the old one may go */
    save(&r, 8, 2, path);
    ASSERT_OK(checkpoint_list(r.folder, &list, &err));
    ck_assert_int_eq(list.n, 2);
    checkpoint_list_fini(&list);
    rig_fini(&r);
}
END_TEST

/* ---- damage ---- */

/* The newest one, damaged in every way below, is skipped with a warning, and the one before it is what counts. */
static void expect_fallback(struct rig *r, const char *what)
{
    struct loaded l;
    bool found;

    ck_assert_msg(load_newest(r, &l, &found) == EO_OK && found, "%s: %s", what, err.message);
    take(r, &l);
    expect_state(r, 7, &l.at, l.params, l.slot, &l.h);
    ck_assert_msg(strstr(r->warnings, "damaged") != NULL, "%s", what);
    drop(&l);
}

static char *slurp(const char *path, size_t *size)
{
    struct eo_bytes bytes;

    ASSERT_OK(eo_file_read(path, 1 << 24, &bytes, &err));
    return (char *)eo_bytes_take(&bytes, size);
}

START_TEST(cut_and_flipped_files_are_found)
{
    static const char *const files[] = {"manifest.json", "model.safetensors", "state.safetensors"};
    struct rig r;
    char path[512], file[600], what[100];

    rig_init(&r);
    save(&r, 7, 9, path);
    save(&r, 12, 9, path);
    for (size_t f = 0; f < EO_COUNT_OF(files); f++) {
        size_t size;
        char *whole;

        snprintf(file, sizeof(file), "%s/%s", path, files[f]);
        whole = slurp(file, &size);
        for (int i = 0; i < 24; i++) {
            size_t at = i == 0 ? 0 : i == 1 ? size - 1 : eo_rng_word(5, (int64_t)f, 0, (uint64_t)i) % size;

            snprintf(what, sizeof(what), "%s cut at %zu of %zu", files[f], at, size);
            ASSERT_OK(eo_file_write_atomic(file, whole, at, 0644, &err));
            expect_fallback(&r, what);
            if (f > 0) { /* the manifest is text for people too: not every byte of it counts */
                whole[at] = (char)(whole[at] ^ 0x10);
                snprintf(what, sizeof(what), "%s flipped at %zu", files[f], at);
                ASSERT_OK(eo_file_write_atomic(file, whole, size, 0644, &err));
                expect_fallback(&r, what);
                whole[at] = (char)(whole[at] ^ 0x10);
            }
        }
        ck_assert_int_eq(unlink(file), 0);
        expect_fallback(&r, files[f]);
        ASSERT_OK(eo_file_write_atomic(file, whole, size, 0644, &err));
        free(whole);
    }
    rig_fini(&r);
}
END_TEST

/* Names in a manifest lead nowhere else, and a manifest that lies about its files is not believed. */
START_TEST(hostile_manifests)
{
    static const char *const bad[] = {
        "{}",
        "[]",
        "{\"format\":\"everyo-model\",\"version\":1,\"finite\":true,\"files\":[]}",
        "{\"format\":\"everyo-checkpoint\",\"version\":2,\"finite\":true,\"files\":[]}",
        "{\"format\":\"everyo-checkpoint\",\"version\":1,\"finite\":true,\"files\":[]}",
        "{\"format\":\"everyo-checkpoint\",\"version\":1,\"files\":[]}",
        "{\"format\":\"everyo-checkpoint\",\"version\":1,\"finite\":true,\"files\":[{\"name\":\"../x\",\"bytes\":1,"
        "\"sha256\":\"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\"}]}",
        "{\"format\":\"everyo-checkpoint\",\"version\":1,\"finite\":true,\"files\":[{\"name\":\"x\",\"bytes\":-1,"
        "\"sha256\":\"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\"}]}",
        "{\"format\":\"everyo-checkpoint\",\"version\":1,\"finite\":true,\"files\":[1,2,3,4,5,6,7,8,9]}",
        "{\"format\":\"everyo-checkpoint\",\"version\":1,\"finite\":true,\"files\":{\"a\":1}}",
    };
    struct rig r;
    char path[512], file[600];

    rig_init(&r);
    save(&r, 7, 9, path);
    save(&r, 12, 9, path);
    snprintf(file, sizeof(file), "%s/manifest.json", path);
    for (size_t i = 0; i < EO_COUNT_OF(bad); i++) {
        ASSERT_OK(eo_file_write_atomic(file, bad[i], strlen(bad[i]), 0644, &err));
        expect_fallback(&r, bad[i]);
    }
    rig_fini(&r);
}
END_TEST

START_TEST(another_job_is_an_error_not_damage)
{
    struct rig r;
    struct loaded l;
    char path[512];
    bool found;

    rig_init(&r);
    save(&r, 7, 9, path);
    r.id.data_sha256 = "e";
    ASSERT_CODE(load_newest(&r, &l, &found), EO_E_BAD_CHECKPOINT);
    drop(&l);
    r.id.data_sha256 = "d";
    r.spec->state_hash[0] ^= 1;
    ASSERT_CODE(load_newest(&r, &l, &found), EO_E_BAD_CHECKPOINT);
    ASSERT_CONTAINS(err.message, path);
    drop(&l);
    r.spec->state_hash[0] ^= 1;
    r.id.fingerprint = "others";
    ASSERT_OK(load_newest(&r, &l, &found));
    ck_assert(found);
    ASSERT_CONTAINS(r.warnings, "other kernels");
    drop(&l);
    rig_fini(&r);
}
END_TEST

/* ---- writing that fails ---- */

START_TEST(a_failed_save_changes_nothing)
{
    struct rig r;
    struct loaded l;
    struct rlimit before, small;
    struct checkpoint_position at;
    char path[512];
    bool found;
    int status;

    rig_init(&r);
    save(&r, 7, 2, path);
    at = fill(&r, 12);
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_IGN);
    for (rlim_t limit = 0; limit < 1500; limit += 150) {
        small = before;
        small.rlim_cur = limit;
        /* libcheck writes files too: no assertion under the limit */
        status = setrlimit(RLIMIT_FSIZE, &small);
        if (status == 0) {
            status = checkpoint_save(r.folder, r.s, &r.id, &at, &r.history, 2, path, sizeof(path), &err);
        }
        setrlimit(RLIMIT_FSIZE, &before);
        ck_assert_int_eq(status, EO_E_IO);
        ASSERT_CONTAINS(err.contexts[0], "checkpoint of step 12");
    }
    ASSERT_OK(load_newest(&r, &l, &found));
    ck_assert(found);
    take(&r, &l);
    expect_state(&r, 7, &l.at, l.params, l.slot, &l.h);
    ck_assert_str_eq(r.warnings, "");
    drop(&l);
    rig_fini(&r);
}
END_TEST

START_TEST(leftovers_are_cleaned)
{
    struct rig r;
    struct stat st;
    char path[512], left[600];

    rig_init(&r);
    ASSERT_OK(eo_dir_ensure(r.folder, 0755, &err));
    snprintf(left, sizeof(left), "%s/.new-step-000000000003", r.folder);
    ASSERT_OK(eo_dir_ensure(left, 0755, &err));
    save(&r, 7, 2, path);
    ck_assert_int_ne(stat(left, &st), 0);
    snprintf(left, sizeof(left), "%s/step-12", r.folder); /* not one of our names: left alone */
    ASSERT_OK(eo_dir_ensure(left, 0755, &err));
    save(&r, 8, 1, path);
    ck_assert_int_eq(stat(left, &st), 0);
    rig_fini(&r);
}
END_TEST

START_TEST(histories_are_written_to_the_bit)
{
    struct history h = empty_history();
    struct eo_bytes text;

    ASSERT_OK(history_add(&h, (double[]){1, 0.1}, &err));
    ASSERT_OK(history_add(&h, (double[]){2, NAN}, &err));
    ASSERT_OK(history_add(&h, (double[]){3, -INFINITY}, &err));
    ASSERT_OK(history_add(&h, (double[]){4, 1.0 / 3}, &err));
    eo_bytes_init(&text, 1000);
    history_csv(&h, &text);
    ck_assert_str_eq(eo_bytes_text(&text), "epoch,loss\n1,0.1\n2,nan\n3,-inf\n4,0.3333333333333333\n");
    eo_bytes_fini(&text);
    history_fini(&h);
}
END_TEST

EO_SUITE("checkpoint", everything_comes_back, the_newest_are_kept, the_last_finite_one_stays,
         cut_and_flipped_files_are_found, hostile_manifests, another_job_is_an_error_not_damage,
         a_failed_save_changes_nothing, leftovers_are_cleaned, histories_are_written_to_the_bit)
