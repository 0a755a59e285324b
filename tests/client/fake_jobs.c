#include "tests/client/fake_jobs.h"

#include "client/cli/item_json.h"
#include "proto/base/sha256.h"
#include "proto/base/text.h"
#include "proto/error_codec.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name, *text;
} files[] = {{"model.safetensors", "the weights"},
             {"manifest.json", "{}"},
             {"history.csv", "epoch,loss\n1,0.5\n"},
             {"run.json", "{\"seed\":0}"},
             {"checkpoints/step-000000000010/manifest.json", "{}"}};

static const char log_text[] = "epoch 1\nepoch 2\n";

static void pack_null(struct eo_bytes *b, const char *key)
{
    eo_pack_str(b, key);
    eo_pack_nil(b);
}

static void pack_progress(struct eo_bytes *b, int epoch, bool epoch_end)
{
    eo_pack_map(b, 9);
    eo_pack_kv_i64(b, "epoch", epoch);
    eo_pack_kv_i64(b, "epochs", 2);
    eo_pack_kv_i64(b, "step", 10 * epoch);
    eo_pack_kv_i64(b, "steps", 20);
    eo_pack_kv_bool(b, "epoch_end", epoch_end);
    eo_pack_kv_f64(b, "samples_per_second", 1234.5);
    pack_null(b, "eta_seconds");
    eo_pack_kv_f64(b, "lr", 0.01);
    eo_pack_str(b, "metrics");
    eo_pack_map(b, 2);
    eo_pack_kv_f64(b, "loss", 0.5);
    eo_pack_kv_f64(b, "accuracy", 0.875);
}

static const char *state_of(const struct fake_jobs *j)
{
    return j->over ? "cancelled" : j->end_state != NULL ? j->end_state : "succeeded";
}

static void pack_job(struct eo_bytes *b, const struct fake_jobs *j)
{
    eo_pack_map(b, 16);
    eo_pack_kv_i64(b, "schema", 1);
    eo_pack_kv_str(b, "job_id", FAKE_JOB);
    eo_pack_kv_str(b, "name", "digits");
    eo_pack_kv_str(b, "state", state_of(j));
    eo_pack_kv_str(b, "reason", "");
    eo_pack_kv_i64(b, "submitted_ms", 1764510340123);
    eo_pack_kv_i64(b, "started_ms", 1764510341000);
    pack_null(b, "ended_ms");
    eo_pack_str(b, "progress");
    pack_progress(b, 2, true);
    eo_pack_str(b, "metrics");
    eo_pack_map(b, 2);
    eo_pack_kv_f64(b, "loss", (double)NAN);
    eo_pack_kv_f64(b, "val_accuracy", 0.875);
    eo_pack_kv_str(b, "parameters_sha256", "ab12");
    eo_pack_str(b, "ranks");
    eo_pack_array(b, 1);
    eo_pack_map(b, 3);
    eo_pack_kv_str(b, "host", "127.0.0.1:1");
    eo_pack_kv_i64(b, "rank", 0);
    eo_pack_kv_str(b, "parameters_sha256", "ab12");
    eo_pack_kv_i64(b, "steps", 20);
    eo_pack_kv_f64(b, "seconds", 1.5);
    eo_pack_kv_i64(b, "world_size", 1);
    eo_pack_str(b, "error");
    if (j->error_code != 0) {
        struct eo_error why = {0};
        EO_RAISE(&why, j->error_code, "as the test wants it");
        eo_error_hint(&why, "Change the test.");
        eo_error_at_host(&why, "beta:2", 1);
        eo_error_pack(b, &why);
    } else {
        eo_pack_nil(b);
    }
}

static void answer_check(struct fake_peer *p, const struct fake_jobs *j)
{
    const size_t n_files = j->data_file != NULL;
    size_t n_hosts = 0;
    while (j->spec_hosts != NULL && j->spec_hosts[n_hosts] != NULL) {
        n_hosts++;
    }
    struct eo_bytes *b = fake_result(p, p->request.id);
    eo_pack_map(b, 5);
    eo_pack_kv_str(b, "name", "dig/its");
    eo_pack_kv_str(b, "spec", "canonical: true\n");
    eo_pack_kv_str(b, "hash", "cd34");
    eo_pack_str(b, "files");
    eo_pack_array(b, n_files);
    if (n_files > 0) {
        eo_pack_map(b, 1);
        eo_pack_kv_str(b, "path", j->data_file);
    }
    eo_pack_str(b, "hosts");
    eo_pack_array(b, n_hosts);
    for (size_t i = 0; i < n_hosts; i++) {
        eo_pack_str(b, j->spec_hosts[i]);
    }
    fake_send(p, NULL, 0);
}

static void answer_have(struct fake_peer *p, const struct fake_jobs *j)
{
    struct eo_bytes *b = fake_result(p, p->request.id);
    eo_pack_map(b, 2);
    eo_pack_str(b, "have");
    eo_pack_array(b, 1);
    eo_pack_bool(b, j->have_blobs);
    eo_pack_str(b, "received");
    eo_pack_array(b, 1);
    eo_pack_u64(b, 0);
    fake_send(p, NULL, 0);
}

static void answer_submit(struct fake_peer *p, struct fake_jobs *j)
{
    struct eo_bytes text;
    struct eo_json json;
    eo_bytes_init(&text, 1 << 16);
    eo_json_init(&json, &text);
    item_json(&json, p->request.params);
    eo_copy_text(j->submitted, sizeof j->submitted, eo_bytes_text(&text));
    eo_bytes_fini(&text);
    struct eo_bytes *b = fake_result(p, p->request.id);
    eo_pack_map(b, 3);
    eo_pack_kv_str(b, "job", FAKE_JOB);
    eo_pack_kv_str(b, "state", "queued");
    eo_pack_kv_bool(b, "created", true);
    fake_send(p, NULL, 0);
}

static struct eo_bytes *begin_event(struct fake_peer *p, const char *kind, size_t n_more)
{
    struct eo_bytes *b = fake_event(p, "job.event");
    eo_pack_map(b, 3 + n_more);
    eo_pack_kv_str(b, "job", FAKE_JOB);
    eo_pack_kv_u64(b, "watch", p->request.id);
    eo_pack_kv_str(b, "kind", kind);
    return b;
}

static void send_events(struct fake_peer *p, uint64_t log_offset)
{
    struct eo_bytes *b = begin_event(p, "state", 2);
    eo_pack_kv_str(b, "state", "queued");
    eo_pack_kv_str(b, "reason", "waits for a slot");
    fake_send(p, NULL, 0);
    b = begin_event(p, "progress", 1);
    eo_pack_str(b, "progress");
    pack_progress(b, 1, false);
    fake_send(p, NULL, 0);
    b = begin_event(p, "progress", 1);
    eo_pack_str(b, "progress");
    pack_progress(b, 2, true);
    fake_send(p, NULL, 0);
    b = begin_event(p, "log", 1);
    eo_pack_kv_u64(b, "log_offset", log_offset);
    fake_send(p, log_text + log_offset, sizeof log_text - 1 - log_offset);
    begin_event(p, "unheard_of", 0); /* a kind of the future */
    fake_send(p, NULL, 0);
}

/* False ends the connection. */
static bool answer_watch(struct fake_peer *p, struct fake_jobs *j)
{
    const uint32_t id = p->request.id;
    j->log_offset = 0;
    j->n_watches++;
    eo_item_as_u64(eo_item_get(p->request.params, "log_offset"), &j->log_offset);
    send_events(p, EO_MIN(j->log_offset, sizeof log_text - 1));
    if (j->n_watches <= j->lose_watch) {
        return false;
    }
    if (j->waits_for_cancel) {
        pthread_kill(j->interrupt, SIGINT);
        if (!fake_read(p, "job.cancel")) {
            return false;
        }
        j->n_cancels++;
        j->over = true;
        fake_ok(p, p->request.id);
    }
    struct eo_bytes *b = fake_result(p, id);
    eo_pack_map(b, 2);
    eo_pack_kv_str(b, "state", state_of(j));
    eo_pack_kv_u64(b, "log_bytes", sizeof log_text - 1);
    fake_send(p, NULL, 0);
    return true;
}

static void answer_files(struct fake_peer *p)
{
    struct eo_bytes *b = fake_result(p, p->request.id);
    eo_pack_map(b, 1);
    eo_pack_str(b, "files");
    eo_pack_array(b, EO_COUNT_OF(files));
    for (size_t i = 0; i < EO_COUNT_OF(files); i++) {
        char hash[65];
        eo_sha256_of(files[i].text, strlen(files[i].text), hash);
        eo_pack_map(b, 3);
        eo_pack_kv_str(b, "name", files[i].name);
        eo_pack_kv_u64(b, "size", strlen(files[i].text));
        eo_pack_kv_str(b, "sha256", hash);
    }
    fake_send(p, NULL, 0);
}

static void answer_read(struct fake_peer *p)
{
    char name[64];
    eo_get_str(p->request.params, "name", "", name, sizeof name, NULL);
    for (size_t i = 0; i < EO_COUNT_OF(files); i++) {
        if (strcmp(files[i].name, name) == 0) {
            eo_pack_map(fake_result(p, p->request.id), 0);
            fake_send(p, files[i].text, strlen(files[i].text));
            return;
        }
    }
    fake_fail(p, p->request.id, EO_E_NO_FILE, "no such file");
}

static void answer_map(struct fake_peer *p, const struct fake_jobs *j, const char *method)
{
    struct eo_bytes *b = fake_result(p, p->request.id);
    if (strcmp(method, "job.list") == 0) {
        uint64_t offset = 0;
        const uint64_t total = EO_MAX(j->n_jobs, (uint64_t)1);
        eo_item_as_u64(eo_item_get(p->request.params, "offset"), &offset);
        eo_pack_map(b, 2);
        eo_pack_str(b, "jobs");
        eo_pack_array(b, offset < total);
        if (offset < total) {
            pack_job(b, j);
        }
        eo_pack_kv_u64(b, "total", total);
    } else if (strcmp(method, "job.status") == 0) {
        pack_job(b, j);
    } else if (strcmp(method, "job.cancel") == 0) {
        eo_pack_map(b, 2);
        eo_pack_kv_str(b, "state", "succeeded");
        eo_pack_kv_bool(b, "already", true);
    } else {
        eo_pack_map(b, 0);
    }
    fake_send(p, NULL, 0);
}

void fake_jobs_script(struct fake_peer *p)
{
    struct fake_jobs *j = p->ctx;
    bool goes_on = fake_hello(p, 100);
    while (goes_on && fake_read(p, NULL)) {
        char method[48];
        eo_copy_text(method, sizeof method, p->request.method);
        if (j->hangs_at != NULL && strcmp(method, j->hangs_at) == 0) {
            fake_wait_closed(p);
            return;
        }
        if (strcmp(method, "job.check") == 0) {
            answer_check(p, j);
        } else if (strcmp(method, "blob.have") == 0) {
            answer_have(p, j);
        } else if (strcmp(method, "blob.put") == 0) {
            j->put_bytes += p->payload.size;
            fake_ok(p, p->request.id);
        } else if (strcmp(method, "job.submit") == 0) {
            answer_submit(p, j);
        } else if (strcmp(method, "job.watch") == 0) {
            goes_on = answer_watch(p, j);
        } else if (strcmp(method, "job.files") == 0) {
            answer_files(p);
        } else if (strcmp(method, "job.read") == 0) {
            answer_read(p);
        } else {
            j->n_removed += strcmp(method, "job.remove") == 0;
            answer_map(p, j, method);
        }
    }
}
