#include "client/cli/job_watch.h"

#include "client/cli/item_json.h"
#include "client/cli/report.h"
#include "proto/base/clock.h"
#include "proto/base/text.h"
#include "proto/error_codec.h"

#include <math.h>
#include <signal.h>
#include <string.h>

static volatile sig_atomic_t signals_seen;

static void on_signal(int number)
{
    EO_UNUSED(number);
    signals_seen++;
}

void job_watch_catch_signals(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    signals_seen = 0;
    action.sa_handler = on_signal; /* no SA_RESTART: poll returns, the loop looks at the flag */
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

bool job_watch_signalled(void)
{
    return signals_seen > 0;
}

bool job_state_ended(const char *state)
{
    return strcmp(state, "succeeded") == 0 || strcmp(state, "failed") == 0 || strcmp(state, "cancelled") == 0;
}

/* ---- what a person sees ---- */

enum { BAR_MIN = 5, BAR_MAX = 20 };

/* " [####....]" of so many cells, or nothing when that is too few to say anything. */
static void bar(double share, int cells, char *out)
{
    cells = EO_MIN(cells, BAR_MAX);
    out[0] = '\0';
    if (cells < BAR_MIN) {
        return;
    }
    const int full = (int)(fmin(fmax(share, 0), 1) * cells + 0.5);
    *out++ = ' ';
    *out++ = '[';
    for (int i = 0; i < cells; i++) {
        *out++ = i < full ? '#' : '.';
    }
    *out++ = ']';
    *out = '\0';
}

/* "loss 0.1234  accuracy 0.9630  val_loss ..." in the order the daemon sends them, as many as fit. */
static void metrics_text(const struct eo_item *metrics, char *out, size_t size)
{
    size_t at = 0;
    out[0] = '\0';
    for (size_t i = 0; i < eo_item_count(metrics); i++) {
        const struct eo_item *key = NULL;
        const struct eo_item *value = NULL;
        char name[32];
        char one[64];
        double v = NAN;
        eo_item_pair(metrics, i, &key, &value);
        eo_item_as_f64(value, &v);
        snprintf(one, sizeof one, "%s%s %.4g", at > 0 ? "  " : "", item_str(key, name, sizeof name), v);
        if (at + strlen(one) >= size) {
            break;
        }
        eo_copy_text(out + at, size - at, one);
        at += strlen(one);
    }
}

/* Epoch, rate and time left always; then metrics while they fit, then a bar in what is left of the line. */
static void progress_line(const struct eo_item *p)
{
    char head[64];
    char tail[96];
    char cells[BAR_MAX + 8];
    char metrics[256];
    char eta[32] = "?";
    const int64_t steps = item_i64(p, "steps", 0);
    const double share = steps > 0 ? (double)item_i64(p, "step", 0) / (double)steps : 0;
    const double seconds_left = item_f64(p, "eta_seconds");
    if (isfinite(seconds_left) && seconds_left >= 0) {
        eo_format_duration(seconds_left, eta, sizeof eta);
    }
    snprintf(head, sizeof head, "epoch %lld/%lld", (long long)item_i64(p, "epoch", 0),
             (long long)item_i64(p, "epochs", 0));
    snprintf(tail, sizeof tail, "%.0f samples/s  %s left", item_f64(p, "samples_per_second"), eta);
    const int room = EO_MAX(report_width() - 1 - (int)(strlen(head) + strlen(tail)) - (int)strlen(" 100%    "), 0);
    metrics_text(eo_item_get(p, "metrics"), metrics, EO_MIN((size_t)room + 1, sizeof metrics));
    bar(share, room - (int)strlen(metrics) - 3, cells);
    progress_show("%s%s %3.0f%%  %s  %s", head, cells, 100 * share, metrics, tail);
}

/* Without a terminal the end of each epoch is one line, so that a log file tells the course. */
static void progress_plain(const struct eo_item *p)
{
    bool epoch_end = false;
    char metrics[256];
    eo_item_as_bool(eo_item_get(p, "epoch_end"), &epoch_end);
    if (epoch_end) {
        metrics_text(eo_item_get(p, "metrics"), metrics, sizeof metrics);
        report_note("epoch %lld/%lld  %s  %.0f samples/s", (long long)item_i64(p, "epoch", 0),
                    (long long)item_i64(p, "epochs", 0), metrics, item_f64(p, "samples_per_second"));
    }
}

static struct eo_json *event_begin(struct json_line *l, const char *event)
{
    struct eo_json *j = json_line_begin(l);
    eo_json_kv_string(j, "event", event);
    return j;
}

static void state_json(const char *state, const char *reason)
{
    struct json_line line;
    struct eo_json *j = event_begin(&line, "state");
    eo_json_kv_string(j, "state", state);
    eo_json_kv_string(j, "reason", reason);
    json_line_end(&line, true);
}

static void progress_json(const struct eo_item *progress)
{
    struct json_line line;
    item_json_pairs(event_begin(&line, "progress"), progress);
    json_line_end(&line, true);
}

static void log_json(const uint8_t *text, size_t size)
{
    struct json_line line;
    struct eo_json *j = event_begin(&line, "log");
    eo_json_key(j, "text");
    eo_json_string_n(j, (const char *)text, size);
    json_line_end(&line, true);
}

static void on_state(struct job_watch *w, const struct eo_item *params)
{
    char reason[320];
    item_text(params, "state", w->state, sizeof w->state);
    item_text(params, "reason", reason, sizeof reason);
    if (!w->show_progress) {
        return;
    }
    if (w->cli->given[CLI_OPT_JSON]) {
        state_json(w->state, reason);
    } else if (reason[0] != '\0' && !w->cli->given[CLI_OPT_QUIET]) {
        if (report_width() > 0) {
            progress_show("%s: %s", w->state, reason);
        } else {
            report_note("%s: %s", w->state, reason);
        }
    }
}

static void on_event(void *ctx, const struct eo_envelope *event, const uint8_t *payload, size_t payload_size)
{
    struct job_watch *w = ctx;
    char kind[16];
    if (strcmp(event->method, "job.event") != 0) {
        return;
    }
    item_text(event->params, "kind", kind, sizeof kind);
    if (strcmp(kind, "state") == 0) {
        on_state(w, event->params);
    } else if (strcmp(kind, "progress") == 0 && w->show_progress) {
        const struct eo_item *p = eo_item_get(event->params, "progress");
        if (w->cli->given[CLI_OPT_JSON]) {
            progress_json(p);
        } else if (!w->cli->given[CLI_OPT_QUIET]) {
            if (report_width() > 0) {
                progress_line(p);
            } else {
                progress_plain(p);
            }
        }
    } else if (strcmp(kind, "log") == 0 && w->show_logs) {
        w->log_offset = (uint64_t)item_i64(event->params, "log_offset", 0) + payload_size;
        if (w->cli->given[CLI_OPT_JSON]) {
            log_json(payload, payload_size);
        } else {
            progress_clear();
            fwrite(payload, 1, payload_size, stdout);
            fflush(stdout);
        }
    }
}

/* ---- the loop ---- */

static int send_cancel(struct job_watch *w, struct eo_connection *c, struct eo_error *err)
{
    struct eo_bytes p;
    eo_bytes_init(&p, 256);
    eo_pack_map(&p, 2);
    eo_pack_kv_str(&p, "job", w->job);
    eo_pack_kv_str(&p, "reason", "interrupted by the user");
    int rc = eo_connection_request(c, "job.cancel", &p, NULL, 0, NULL, err);
    eo_bytes_fini(&p);
    report_note("cancelling %.8s with a checkpoint; once more to leave without waiting", w->job);
    w->interrupted = true;
    return rc;
}

static int ask_watch(const struct job_watch *w, struct eo_connection *c, uint32_t *out_id, struct eo_error *err)
{
    struct eo_bytes p;
    eo_bytes_init(&p, 512);
    eo_pack_map(&p, 5);
    eo_pack_kv_str(&p, "job", w->job);
    eo_pack_kv_u64(&p, "log_offset", w->log_offset);
    eo_pack_kv_bool(&p, "events", true);
    eo_pack_kv_bool(&p, "logs", w->show_logs);
    eo_pack_kv_bool(&p, "follow", w->follow);
    int rc = eo_connection_request(c, "job.watch", &p, NULL, 0, out_id, err);
    eo_bytes_fini(&p);
    return rc;
}

int job_watch_run(struct job_watch *w, struct eo_connection *c, struct eo_error *err)
{
    uint32_t id = 0;
    struct eo_reply reply = {0};
    eo_connection_on_event(c, on_event, w);
    int rc = ask_watch(w, c, &id, err);
    while (rc == EO_OK && !eo_connection_ready(c, id)) {
        if (signals_seen > 1 || (signals_seen > 0 && !w->cancel_on_int)) {
            rc = EO_RAISE(err, EO_E_CANCELLED, "interrupted");
        } else if (signals_seen == 1 && !w->interrupted) {
            rc = send_cancel(w, c, err);
        } else if (w->deadline_ns != 0 && eo_now_ns() >= w->deadline_ns) {
            rc = EO_RAISE(err, EO_E_TIMED_OUT, "job %.8s has not ended yet", w->job);
        } else {
            /* Signals interrupt the poll; the bound only covers one that came between the check and the poll. */
            rc = eo_connection_pump(c, eo_now_ns() + 500000000, err);
        }
    }
    if (rc == EO_OK) {
        rc = eo_connection_wait(c, id, NULL, 0, &reply, err);
    }
    if (rc == EO_OK) {
        item_text(reply.result, "state", w->state, sizeof w->state);
        eo_reply_fini(&reply);
    }
    eo_connection_on_event(c, NULL, NULL);
    progress_clear();
    return rc;
}

int job_get(struct eo_connection *c, const char *job, struct eo_reply *reply, struct eo_error *err)
{
    struct eo_bytes p;
    eo_bytes_init(&p, 512);
    eo_pack_map(&p, 1);
    eo_pack_kv_str(&p, "job", job);
    int rc = eo_connection_call(c, "job.status", &p, NULL, 0, reply, err);
    eo_bytes_fini(&p);
    return rc;
}

/* ---- the end ---- */

static void result_json(const struct eo_item *job, const struct eo_error *failure)
{
    static const char *const keys[] = {"job_id", "state", "metrics", "parameters_sha256",
                                       "ranks",  "steps", "seconds", "world_size"};
    struct json_line line;
    struct eo_json *j = event_begin(&line, "result");
    eo_json_kv_i64(j, "schema", 1);
    for (size_t i = 0; i < EO_COUNT_OF(keys); i++) {
        eo_json_key(j, keys[i]);
        item_json(j, eo_item_get(job, keys[i]));
    }
    eo_json_key(j, "error");
    error_json(j, failure);
    json_line_end(&line, true);
}

void job_print_no_result(const struct eo_error *err, const char *job, const char *state, size_t world_size)
{
    struct json_line line;
    struct eo_json *j = event_begin(&line, "result");
    eo_json_kv_i64(j, "schema", 1);
    eo_json_kv_string(j, "job_id", job[0] != '\0' ? job : NULL);
    eo_json_kv_string(j, "state", err->code == EO_E_CANCELLED ? "cancelled" : state[0] != '\0' ? state : "queued");
    eo_json_key(j, "metrics");
    eo_json_begin_object(j);
    eo_json_end_object(j);
    eo_json_kv_string(j, "parameters_sha256", NULL);
    eo_json_key(j, "ranks");
    eo_json_begin_array(j);
    eo_json_end_array(j);
    eo_json_kv_i64(j, "steps", 0);
    eo_json_kv_f64(j, "seconds", 0);
    eo_json_kv_u64(j, "world_size", world_size);
    eo_json_key(j, "error");
    error_json(j, err);
    json_line_end(&line, true);
}

static void result_text(const struct eo_item *job, const char *output_dir)
{
    char id[64];
    char state[16];
    char metrics[320];
    char time[32];
    item_text(job, "job_id", id, sizeof id);
    item_text(job, "state", state, sizeof state);
    metrics_text(eo_item_get(job, "metrics"), metrics, sizeof metrics);
    eo_format_duration(item_f64(job, "seconds"), time, sizeof time);
    printf("job %.8s %s after %lld steps in %s", id, state, (long long)item_i64(job, "steps", 0), time);
    if (item_i64(job, "world_size", 1) > 1) {
        printf(" on %lld hosts", (long long)item_i64(job, "world_size", 1));
    }
    putchar('\n');
    if (metrics[0] != '\0') {
        printf("  %s\n", metrics);
    }
    if (output_dir != NULL && output_dir[0] != '\0') {
        printf("  model: %s/model.safetensors\n", output_dir);
    }
}

int job_print_result(const struct cli *cli, const struct eo_item *job, const char *output_dir)
{
    char state[16];
    struct eo_error failure = {0};
    const struct eo_item *error = eo_item_get(job, "error");
    item_text(job, "state", state, sizeof state);
    if (eo_item_kind(error) == EO_ITEM_MAP) {
        eo_error_unpack(error, &failure);
    }
    if (cli->given[CLI_OPT_JSON]) {
        result_json(job, &failure);
    } else {
        result_text(job, output_dir);
        if (failure.code != 0) {
            report_failure(&failure);
        }
    }
    if (strcmp(state, "succeeded") == 0) {
        return 0;
    }
    /* Bad data found only when the job ran keeps its own exit code; everything else that failed is 1. */
    const int exit_code = failure.code != 0 ? eo_code_exit(failure.code) : 1;
    return exit_code == 65 || exit_code == 66 || exit_code == 74 ? exit_code : 1;
}
