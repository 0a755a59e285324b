#include "daemon/server/jobs.h"

#include "proto/error_codec.h"

#include <string.h>

static void pack_ms(struct eo_bytes *b, const char *key, int64_t ms)
{
    if (ms == 0) {
        eo_pack_str(b, key);
        eo_pack_nil(b);
    } else {
        eo_pack_kv_i64(b, key, ms);
    }
}

static void pack_raw(struct eo_bytes *b, const char *key, const struct eo_bytes *packed, bool empty_is_nil, bool is_map)
{
    eo_pack_str(b, key);
    if (packed->size > 0) {
        eo_bytes_append(b, packed->data, packed->size);
    } else if (empty_is_nil) {
        eo_pack_nil(b);
    } else if (is_map) {
        eo_pack_map(b, 0);
    } else {
        eo_pack_array(b, 0);
    }
}

static void pack_text_or_nil(struct eo_bytes *b, const char *key, const char *text)
{
    eo_pack_kv_str(b, key, text[0] != '\0' ? text : NULL);
}

void job_pack(struct eo_bytes *b, const struct job *j)
{
    const struct job_record *r = j->record;
    eo_pack_map(b, 21);
    eo_pack_kv_i64(b, "schema", 1);
    eo_pack_kv_str(b, "job_id", r->id);
    eo_pack_kv_str(b, "name", r->name);
    eo_pack_kv_str(b, "state", job_state_name(r->state));
    eo_pack_kv_str(b, "reason", r->reason);
    pack_ms(b, "submitted_ms", r->submitted_ms);
    pack_ms(b, "started_ms", r->started_ms);
    pack_ms(b, "ended_ms", r->ended_ms);
    eo_pack_kv_str(b, "device", r->device);
    eo_pack_str(b, "hosts");
    eo_pack_array(b, (size_t)r->n_hosts);
    for (int i = 0; i < r->n_hosts; i++) {
        eo_pack_str(b, r->hosts[i]);
    }
    eo_pack_kv_i64(b, "world_size", r->n_hosts > 1 ? r->n_hosts : 1);
    eo_pack_kv_i64(b, "restarts", r->restarts);
    pack_raw(b, "progress", &j->progress, true, true);
    pack_raw(b, "metrics", &r->metrics, false, true);
    pack_text_or_nil(b, "parameters_sha256", r->parameters_sha256);
    eo_pack_kv_i64(b, "steps", r->steps);
    eo_pack_kv_i64(b, "epochs", r->epochs);
    eo_pack_kv_f64(b, "seconds", r->seconds);
    pack_raw(b, "ranks", &r->ranks, false, false);
    eo_pack_kv_u64(b, "log_bytes", j->log_bytes);
    eo_pack_str(b, "error");
    if (r->error.code != 0) {
        eo_error_pack(b, &r->error);
    } else {
        eo_pack_nil(b);
    }
}

void job_pack_metrics(struct eo_bytes *out, const struct eo_item *metrics)
{
    const size_t n = eo_item_count(metrics);
    eo_bytes_clear(out);
    eo_pack_map(out, n);
    for (size_t i = 0; i < n; i++) {
        const struct eo_item *key = NULL;
        const struct eo_item *value = NULL;
        const char *name = "?";
        size_t length = 1;
        double v = 0;
        eo_item_pair(metrics, i, &key, &value);
        eo_item_as_str(key, &name, &length);
        eo_pack_str_n(out, name, length);
        if (eo_item_as_f64(value, &v)) {
            eo_pack_f64(out, v);
        } else {
            eo_pack_nil(out);
        }
    }
}
