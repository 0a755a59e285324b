/* The commands that ask about jobs: ls, status, logs, cancel, wait, fetch, rm. */
#include "client/cli/cli.h"
#include "client/cli/hosts.h"
#include "client/cli/item_json.h"
#include "client/cli/job_fetch.h"
#include "client/cli/job_watch.h"
#include "client/cli/report.h"
#include "proto/base/clock.h"
#include "proto/base/text.h"

#include <math.h>
#include <string.h>

typedef int (*jobs_fn)(const struct cli *cli, struct eo_connection *c, struct eo_error *err, int *out_exit);

/* Opens the daemon, runs fn, reports its error. */
static int with_daemon(const struct cli *cli, jobs_fn fn)
{
    struct eo_error err = {0};
    struct hosts h;
    struct host_link link = {0};
    int exit_code = 0;
    if (hosts_resolve(cli, &h, &err) != EO_OK) {
        return report_failure(&err);
    }
    int rc = hosts_open(cli, &h, HOSTS_NEVER_PRIVATE, &link, &err);
    if (rc == EO_OK) {
        rc = fn(cli, link.connection, &err, &exit_code);
    }
    if (rc != EO_OK) {
        exit_code = report_failure(&err);
    }
    hosts_close(&link);
    hosts_fini(&h);
    return exit_code;
}

/* ---- ls ---- */

static void progress_share(const struct eo_item *job, char *out, size_t size)
{
    const struct eo_item *p = eo_item_get(job, "progress");
    const int64_t steps = item_i64(p, "steps", 0);
    if (steps > 0) {
        snprintf(out, size, "%3.0f%%", 100.0 * (double)item_i64(p, "step", 0) / (double)steps);
    } else {
        eo_copy_text(out, size, "-");
    }
}

static void print_job_row(const struct eo_item *job)
{
    char id[64];
    char state[16];
    char share[16];
    char name[64];
    char reason[320];
    char when[32];
    progress_share(job, share, sizeof share);
    eo_rfc3339(item_i64(job, "submitted_ms", 0), when, sizeof when);
    when[19] = '\0'; /* seconds do */
    item_text(job, "reason", reason, sizeof reason);
    printf("%-8.8s  %-11s %5s  %s  %s%s%s\n", item_text(job, "job_id", id, sizeof id),
           item_text(job, "state", state, sizeof state), share, when, item_text(job, "name", name, sizeof name),
           reason[0] != '\0' ? "  # " : "", reason);
}

/* One answer's worth of jobs, the offset newest left out. */
static int ask_list(struct eo_connection *c, uint64_t limit, uint64_t offset, struct eo_reply *reply,
                    struct eo_error *err)
{
    struct eo_bytes p;
    eo_bytes_init(&p, 64);
    eo_pack_map(&p, 2);
    eo_pack_kv_u64(&p, "limit", limit);
    eo_pack_kv_u64(&p, "offset", offset);
    int rc = eo_connection_call(c, "job.list", &p, NULL, 0, reply, err);
    eo_bytes_fini(&p);
    return rc;
}

static void show_jobs(const struct cli *cli, const struct eo_item *jobs, bool first, struct eo_json *j)
{
    if (first && !cli->given[CLI_OPT_JSON] && eo_item_count(jobs) > 0) {
        puts("ID        STATE        DONE  SUBMITTED (UTC)      NAME");
    }
    for (size_t i = 0; i < eo_item_count(jobs); i++) {
        if (cli->given[CLI_OPT_JSON]) {
            item_json(j, eo_item_at(jobs, i));
        } else {
            print_job_row(eo_item_at(jobs, i));
        }
    }
}

/* An answer holds what fits into one envelope: asked on until all have come. */
static int list_all(const struct cli *cli, struct eo_connection *c, struct eo_json *j, uint64_t *out_total,
                    struct eo_error *err)
{
    const uint64_t wanted = cli->given[CLI_OPT_ALL] ? UINT64_MAX : 20;
    uint64_t n = 0;
    uint64_t total = 1;
    while (n < EO_MIN(total, wanted)) {
        struct eo_reply reply = {0};
        int rc = ask_list(c, EO_MIN(wanted - n, (uint64_t)1000), n, &reply, err);
        if (rc != EO_OK) {
            return rc;
        }
        const struct eo_item *jobs = eo_item_get(reply.result, "jobs");
        const size_t got = eo_item_count(jobs);
        show_jobs(cli, jobs, n == 0, j);
        n += got;
        total = (uint64_t)EO_MAX(item_i64(reply.result, "total", 0), (int64_t)0);
        eo_reply_fini(&reply);
        if (got == 0) {
            break; /* they became fewer meanwhile */
        }
    }
    *out_total = EO_MAX(total, n);
    return EO_OK;
}

static int list(const struct cli *cli, struct eo_connection *c, struct eo_error *err, int *out_exit)
{
    struct json_line line;
    uint64_t total = 0;
    struct eo_json *j = json_line_begin(&line);
    eo_json_kv_i64(j, "schema", 1);
    eo_json_key(j, "jobs");
    eo_json_begin_array(j);
    int rc = list_all(cli, c, j, &total, err);
    eo_json_end_array(j);
    eo_json_kv_u64(j, "total", total);
    *out_exit = json_line_end(&line, rc == EO_OK && cli->given[CLI_OPT_JSON]);
    if (rc == EO_OK && total == 0 && !cli->given[CLI_OPT_JSON]) {
        report_note("no jobs");
    }
    return rc;
}

int cmd_LS(const struct cli *cli)
{
    return with_daemon(cli, list);
}

/* ---- status ---- */

static void print_time(const char *name, const struct eo_item *job, const char *key)
{
    char when[32];
    const int64_t ms = item_i64(job, key, 0);
    if (ms > 0) {
        printf("  %-11s %s\n", name, eo_rfc3339(ms, when, sizeof when));
    }
}

static void print_text(const char *name, const struct eo_item *job, const char *key)
{
    char text[512];
    if (item_text(job, key, text, sizeof text)[0] != '\0') {
        printf("  %-11s %s\n", name, text);
    }
}

static void print_metrics(const struct eo_item *job)
{
    const struct eo_item *metrics = eo_item_get(job, "metrics");
    for (size_t i = 0; i < eo_item_count(metrics); i++) {
        const struct eo_item *key = NULL;
        const struct eo_item *value = NULL;
        char name[32];
        double v = NAN;
        eo_item_pair(metrics, i, &key, &value);
        eo_item_as_f64(value, &v);
        printf("  %-11s %.6g\n", item_str(key, name, sizeof name), v);
    }
}

static void print_ranks(const struct eo_item *job)
{
    const struct eo_item *ranks = eo_item_get(job, "ranks");
    for (size_t i = 0; i < eo_item_count(ranks) && eo_item_count(ranks) > 1; i++) {
        const struct eo_item *r = eo_item_at(ranks, i);
        char host[300];
        char hash[65];
        item_text(r, "parameters_sha256", hash, sizeof hash);
        printf("  rank %-6lld %s  %.12s\n", (long long)item_i64(r, "rank", -1), item_text(r, "host", host, sizeof host),
               hash[0] != '\0' ? hash : "-");
    }
}

static int status(const struct cli *cli, struct eo_connection *c, struct eo_error *err, int *out_exit)
{
    struct eo_reply reply = {0};
    int rc = job_get(c, cli->arguments[0], &reply, err);
    if (rc != EO_OK) {
        return rc;
    }
    const struct eo_item *job = reply.result;
    if (cli->given[CLI_OPT_JSON]) {
        *out_exit = item_json_print(job);
    } else {
        char id[64];
        char share[16];
        const struct eo_item *error = eo_item_get(job, "error");
        progress_share(job, share, sizeof share);
        printf("job %s\n", item_text(job, "job_id", id, sizeof id));
        print_text("name", job, "name");
        print_text("state", job, "state");
        print_text("reason", job, "reason");
        printf("  %-11s %s, step %lld\n", "done", share, (long long)item_i64(job, "steps", 0));
        print_time("submitted", job, "submitted_ms");
        print_time("started", job, "started_ms");
        print_time("ended", job, "ended_ms");
        print_text("device", job, "device");
        print_metrics(job);
        print_text("parameters", job, "parameters_sha256");
        print_ranks(job);
        print_text("error", error, "message");
        print_text("hint", error, "hint");
    }
    eo_reply_fini(&reply);
    return EO_OK;
}

int cmd_STATUS(const struct cli *cli)
{
    return with_daemon(cli, status);
}

/* ---- logs, wait ---- */

static int logs(const struct cli *cli, struct eo_connection *c, struct eo_error *err, int *out_exit)
{
    struct job_watch w = {
        .cli = cli, .job = cli->arguments[0], .show_logs = true, .follow = cli->given[CLI_OPT_FOLLOW]};
    job_watch_catch_signals();
    int rc = job_watch_run(&w, c, err);
    if (rc == EO_E_CANCELLED && job_watch_signalled()) {
        *out_exit = 130;
        return EO_OK;
    }
    return rc;
}

int cmd_LOGS(const struct cli *cli)
{
    return with_daemon(cli, logs);
}

static int wait_job(const struct cli *cli, struct eo_connection *c, struct eo_error *err, int *out_exit)
{
    struct job_watch w = {.cli = cli, .job = cli->arguments[0], .show_progress = true, .follow = true};
    struct eo_reply job = {0};
    if (cli->timeout_ms > 0) {
        w.deadline_ns = eo_now_ns() + cli->timeout_ms * 1000000;
    }
    job_watch_catch_signals();
    int rc = job_watch_run(&w, c, err);
    if (rc == EO_E_CANCELLED && job_watch_signalled()) {
        *out_exit = 130; /* the wait was interrupted; the job goes on */
        return EO_OK;
    }
    if (rc == EO_OK) {
        rc = job_get(c, w.job, &job, err);
    }
    if (rc == EO_OK) {
        *out_exit = job_print_result(cli, job.result, "");
        eo_reply_fini(&job);
    }
    return rc;
}

int cmd_WAIT(const struct cli *cli)
{
    return with_daemon(cli, wait_job);
}

/* ---- cancel, rm, fetch ---- */

static int call_job(struct eo_connection *c, const char *method, const char *job, struct eo_reply *reply,
                    struct eo_error *err)
{
    struct eo_bytes p;
    eo_bytes_init(&p, 512);
    eo_pack_map(&p, 1);
    eo_pack_kv_str(&p, "job", job);
    int rc = eo_connection_call(c, method, &p, NULL, 0, reply, err);
    eo_bytes_fini(&p);
    return rc;
}

static int cancel(const struct cli *cli, struct eo_connection *c, struct eo_error *err, int *out_exit)
{
    struct eo_reply reply = {0};
    char state[16];
    bool already = false;
    int rc = call_job(c, "job.cancel", cli->arguments[0], &reply, err);
    if (rc != EO_OK) {
        return rc;
    }
    item_text(reply.result, "state", state, sizeof state);
    eo_item_as_bool(eo_item_get(reply.result, "already"), &already);
    if (cli->given[CLI_OPT_JSON]) {
        *out_exit = item_json_print(reply.result);
    } else if (already) {
        printf("job %s had already ended: %s\n", cli->arguments[0], state);
    } else {
        printf("job %s: %s\n", cli->arguments[0],
               job_state_ended(state) ? state : "cancelling, it writes a checkpoint first");
    }
    eo_reply_fini(&reply);
    return EO_OK;
}

int cmd_CANCEL(const struct cli *cli)
{
    return with_daemon(cli, cancel);
}

static int done_json(const struct cli *cli, const char *what, size_t n)
{
    struct json_line line;
    struct eo_json *j = json_line_begin(&line);
    eo_json_kv_i64(j, "schema", 1);
    eo_json_kv_string(j, "job_id", cli->arguments[0]);
    eo_json_kv_u64(j, what, n);
    return json_line_end(&line, true);
}

static int remove_job(const struct cli *cli, struct eo_connection *c, struct eo_error *err, int *out_exit)
{
    int rc = call_job(c, "job.remove", cli->arguments[0], NULL, err);
    if (rc == EO_OK && cli->given[CLI_OPT_JSON]) {
        *out_exit = done_json(cli, "removed", 1);
    } else if (rc == EO_OK) {
        printf("job %s and its files are gone\n", cli->arguments[0]);
    }
    return rc;
}

int cmd_RM(const struct cli *cli)
{
    return with_daemon(cli, remove_job);
}

static int fetch(const struct cli *cli, struct eo_connection *c, struct eo_error *err, int *out_exit)
{
    size_t n = 0;
    int rc = job_fetch(c, cli->arguments[0], cli->arguments[1], NULL, &n, err);
    if (rc == EO_OK && cli->given[CLI_OPT_JSON]) {
        *out_exit = done_json(cli, "files", n);
    } else if (rc == EO_OK) {
        printf("%zu file%s in %s\n", n, n == 1 ? "" : "s", cli->arguments[1]);
    }
    return rc;
}

int cmd_FETCH(const struct cli *cli)
{
    return with_daemon(cli, fetch);
}
