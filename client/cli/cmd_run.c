/* everyo-submit run: check, upload, submit, follow, fetch. */
#include "client/cli/cli.h"
#include "client/cli/hosts.h"
#include "client/cli/item_json.h"
#include "client/cli/job_fetch.h"
#include "client/cli/job_files.h"
#include "client/cli/job_watch.h"
#include "client/cli/report.h"
#include "proto/base/clock.h"
#include "proto/base/file.h"
#include "proto/base/text.h"
#include "proto/frame.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>

enum { SPEC_MAX = 1 << 20, RECONNECT_MS = 10000, SETTLE_MS = 2000 };

struct run {
    const struct cli *cli;
    const char *spec_path;
    struct eo_bytes text;    /* the job file */
    struct eo_reply checked; /* answer of job.check */
    struct hosts hosts;      /* where the job goes; the first one coordinates */
    bool hosts_named;        /* by flag, environment or job file */
    struct host_link link;
    struct job_files files;
    struct job_files checkpoint; /* of --resume DIR */
    char job[64];
    struct job_watch watch;
    char output[1024];
};

/* ---- check ---- */

static int check_spec(struct run *r, struct eo_error *err)
{
    struct eo_bytes p;
    eo_bytes_init(&p, EO_ENVELOPE_MAX);
    eo_pack_map(&p, 3);
    eo_pack_str(&p, "spec");
    eo_pack_str_n(&p, (const char *)r->text.data, r->text.size);
    eo_pack_kv_str(&p, "file_name", r->spec_path);
    eo_pack_str(&p, "set");
    eo_pack_array(&p, (size_t)r->cli->sets.n);
    for (int i = 0; i < r->cli->sets.n; i++) {
        eo_pack_str(&p, r->cli->sets.values[i]);
    }
    eo_reply_fini(&r->checked);
    int rc = eo_connection_call(r->link.connection, "job.check", &p, NULL, 0, &r->checked, err);
    eo_bytes_fini(&p);
    return rc;
}

/* Hosts in the job file count when none is named on the command line or in the environment. */
static int move_to_spec_hosts(struct run *r, struct eo_error *err)
{
    const struct eo_item *list = eo_item_get(r->checked.result, "hosts");
    const size_t n = eo_item_count(list);
    if (n == 0 || r->hosts.is_explicit || r->cli->given[CLI_OPT_LOCAL]) {
        r->hosts_named = r->hosts.is_explicit;
        return EO_OK;
    }
    if (n > HOSTS_MAX) {
        return EO_RAISE(err, EO_E_BAD_SPEC, "%zu hosts are named, %d are possible", n, HOSTS_MAX);
    }
    for (size_t i = 0; i < n; i++) {
        const char *text = NULL;
        size_t length = 0;
        char host[300];
        eo_item_as_str(eo_item_at(list, i), &text, &length);
        snprintf(host, sizeof host, "%.*s", (int)length, text != NULL ? text : "");
        int rc = eo_endpoint_parse(host, &r->hosts.endpoints[i], err);
        if (rc != EO_OK) {
            return rc;
        }
    }
    r->hosts.n = n;
    r->hosts.is_explicit = true;
    r->hosts_named = true;
    hosts_close(&r->link);
    return hosts_open(r->cli, &r->hosts, HOSTS_PRIVATE_IF_NONE, &r->link, err);
}

/* ---- upload and submit ---- */

static void upload_json(const struct job_file *file, uint64_t sent)
{
    struct json_line line;
    struct eo_json *j = json_line_begin(&line);
    eo_json_kv_string(j, "event", "upload");
    eo_json_kv_string(j, "path", file->path);
    eo_json_kv_u64(j, "bytes", file->size);
    eo_json_kv_u64(j, "sent", sent);
    json_line_end(&line, true);
}

static bool on_upload(void *ctx, const struct job_file *file, uint64_t done, uint64_t sent)
{
    const struct run *r = ctx;
    char size[32];
    if (r->cli->given[CLI_OPT_JSON]) {
        if (done == file->size) {
            upload_json(file, sent);
        }
    } else if (sent > 0) {
        progress_show("uploading %s %3.0f%% of %s", file->path,
                      file->size > 0 ? 100.0 * (double)done / (double)file->size : 100.0,
                      eo_format_bytes(file->size, size, sizeof size));
    }
    return !job_watch_signalled();
}

/* Random, so that a resend of the same submit is recognised and a second run of the same file is not. */
static int make_key(char out[33], struct eo_error *err)
{
    uint8_t bytes[16];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) {
        return EO_RAISE(err, EO_E_INTERNAL, "no random bytes from the system");
    }
    for (size_t i = 0; i < sizeof bytes; i++) {
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
    }
    return EO_OK;
}

static void pack_submit(struct run *r, struct eo_bytes *p, const char *key, const char *spec, size_t spec_length)
{
    const bool resume = r->cli->given[CLI_OPT_RESUME];
    eo_pack_map(p, 3u + (r->hosts_named ? 1 : 0) + (resume ? 1 : 0));
    eo_pack_kv_str(p, "key", key);
    eo_pack_str(p, "spec");
    eo_pack_str_n(p, spec, spec_length);
    eo_pack_str(p, "files");
    job_files_pack(p, &r->files);
    if (r->hosts_named) {
        eo_pack_str(p, "hosts");
        eo_pack_array(p, r->hosts.n);
        for (size_t i = 0; i < r->hosts.n; i++) {
            eo_pack_str(p, r->hosts.endpoints[i].text);
        }
    }
    if (r->checkpoint.n > 0) {
        eo_pack_str(p, "resume_files");
        job_files_pack(p, &r->checkpoint);
    } else if (resume) {
        eo_pack_kv_str(p, "resume", r->cli->value[CLI_OPT_RESUME]);
    }
}

static void submitted_json(const struct run *r)
{
    struct json_line line;
    struct eo_json *j = json_line_begin(&line);
    eo_json_kv_string(j, "event", "submitted");
    eo_json_kv_i64(j, "schema", 1);
    eo_json_kv_string(j, "job_id", r->job);
    eo_json_key(j, "hosts");
    eo_json_begin_array(j);
    for (size_t i = 0; i < r->hosts.n; i++) {
        eo_json_string(j, r->hosts.endpoints[i].text);
    }
    eo_json_end_array(j);
    json_line_end(&line, true);
}

static void say_submitted(const struct run *r)
{
    if (r->cli->given[CLI_OPT_JSON]) {
        submitted_json(r);
    } else if (r->cli->given[CLI_OPT_PARSABLE]) {
        puts(r->job);
        fflush(stdout);
    } else if (!r->cli->given[CLI_OPT_QUIET]) {
        report_note("job %.8s submitted to %s", r->job, eo_connection_host(r->link.connection));
    }
}

static int submit(struct run *r, struct eo_error *err)
{
    char key[33];
    const char *spec = NULL;
    size_t length = 0;
    struct eo_bytes p;
    struct eo_reply reply = {0};
    if (!eo_item_as_str(eo_item_get(r->checked.result, "spec"), &spec, &length)) {
        return EO_RAISE(err, EO_E_BAD_ENVELOPE, "the daemon's answer to job.check has no spec");
    }
    int rc = make_key(key, err);
    if (rc != EO_OK) {
        return rc;
    }
    eo_bytes_init(&p, EO_ENVELOPE_MAX);
    pack_submit(r, &p, key, spec, length);
    rc = eo_connection_call(r->link.connection, "job.submit", &p, NULL, 0, &reply, err);
    eo_bytes_fini(&p);
    if (rc == EO_OK) {
        rc = eo_need_str(reply.result, "job", r->job, sizeof r->job, err);
        eo_reply_fini(&reply);
    }
    if (rc == EO_OK) {
        say_submitted(r);
    }
    return rc;
}

/* ---- follow ---- */

/* Nothing came of it, as far as this program knows: the report, and for --json the closing object. */
static int fail(const struct run *r, const struct eo_error *err)
{
    if (r->cli->given[CLI_OPT_JSON] && !r->cli->given[CLI_OPT_VALIDATE]) {
        const bool goes_on = r->job[0] != '\0' && err->code != EO_E_PEER_LOST && err->code != EO_E_CANCELLED;
        job_print_no_result(err, r->job, goes_on ? r->watch.state : "failed", r->hosts.n);
    }
    if (err->code != EO_E_CANCELLED) {
        return report_failure(err);
    }
    if (r->job[0] != '\0') {
        report_note("left job %.8s, which is being cancelled", r->job);
    } else {
        report_note("%s", err->message);
    }
    return 130;
}

/* The coordinator's connection broke. With other hosts: ask them what became of the job and name the lost one. */
static int coordinator_lost(struct run *r, struct eo_error *err)
{
    struct eo_error lost = *err;
    const char *first = r->hosts.endpoints[0].text;
    EO_RAISE(err, EO_E_PEER_LOST, "the coordinator %s was lost", first);
    eo_error_at_host(err, first, 0);
    eo_error_cause(err, "peer", lost.code, lost.message);
    for (size_t i = 1; i < r->hosts.n; i++) {
        struct eo_connection *c = NULL;
        struct eo_error other = {0};
        /* Their ranks end within a second or two of the coordinator: what they say then is worth the wait. */
        struct job_watch w = {
            .cli = r->cli, .job = r->job, .follow = true, .deadline_ns = eo_now_ns() + (uint64_t)SETTLE_MS * 1000000};
        int rc = hosts_open_one(r->cli, &r->hosts.endpoints[i], &c, &other);
        if (rc == EO_OK) {
            rc = job_watch_run(&w, c, &other);
        }
        if (w.state[0] != '\0') {
            report_note("%s: job %.8s is %s there", r->hosts.endpoints[i].text, r->job, w.state);
        } else if (rc != EO_OK) {
            report_note("%s: %s", r->hosts.endpoints[i].text, other.message);
        }
        eo_connection_close(c);
    }
    eo_error_hint(err,
                  "When %s is back, `everyo-submit status %.8s -H %s` tells what it knows; "
                  "`everyo-submit run ... --resume %.8s` goes on from the last checkpoint.",
                  first, r->job, first, r->job);
    return EO_E_PEER_LOST;
}

/* A single daemon may be restarting: try for a while, then the watch goes on where the log was. */
static bool reopen(struct run *r, struct eo_error *err)
{
    const uint64_t deadline = eo_now_ns() + (uint64_t)RECONNECT_MS * 1000000;
    if (r->link.local != NULL) {
        return false; /* a private daemon does not come back */
    }
    report_note("connection to %s lost, trying again", r->hosts.endpoints[0].text);
    while (!job_watch_signalled() && eo_now_ns() < deadline) {
        struct eo_connection *c = NULL;
        if (hosts_open_one(r->cli, &r->hosts.endpoints[0], &c, NULL) == EO_OK) {
            eo_connection_close(r->link.connection);
            r->link.connection = c;
            eo_error_clear(err);
            return true;
        }
        const struct timespec pause = {.tv_nsec = 200000000}; /* a closed port refuses at once */
        nanosleep(&pause, NULL);
    }
    eo_error_hint(err, "The job goes on without this command: `everyo-submit wait %.8s -H %s`.", r->job,
                  r->hosts.endpoints[0].text);
    return false;
}

static int follow(struct run *r, struct eo_error *err)
{
    r->watch = (struct job_watch){.cli = r->cli,
                                  .job = r->job,
                                  .show_logs = r->cli->given[CLI_OPT_JSON],
                                  .show_progress = true,
                                  .follow = true,
                                  .cancel_on_int = true};
    int rc = job_watch_run(&r->watch, r->link.connection, err);
    while (rc == EO_E_CONNECTION_LOST && r->hosts.n == 1 && reopen(r, err)) {
        rc = job_watch_run(&r->watch, r->link.connection, err);
    }
    return rc == EO_E_CONNECTION_LOST && r->hosts.n > 1 ? coordinator_lost(r, err) : rc;
}

/* Where the results go: --output; for a private daemon, whose state ends with it, a folder named after the job. */
static void choose_output(struct run *r)
{
    char name[64];
    if (r->cli->given[CLI_OPT_OUTPUT]) {
        eo_copy_text(r->output, sizeof r->output, r->cli->value[CLI_OPT_OUTPUT]);
    } else if (r->link.local != NULL) {
        item_text(r->checked.result, "name", name, sizeof name);
        for (char *slash = strchr(name, '/'); slash != NULL; slash = strchr(slash, '/')) {
            *slash = '-'; /* a name is no way to another folder */
        }
        snprintf(r->output, sizeof r->output, "%s-%.8s", name[0] != '\0' ? name : "job", r->job);
    }
}

/* How to get at what is not here yet. */
static void say_what_next(const struct run *r, int exit_code, size_t n_files)
{
    struct job_files checkpoint;
    if (r->cli->given[CLI_OPT_JSON] || r->cli->given[CLI_OPT_QUIET]) {
        return;
    }
    if (n_files == 0 && exit_code == 0) {
        report_note("  results: everyo-submit fetch %.8s DIR%s%s", r->job, r->hosts.is_explicit ? " -H " : "",
                    r->hosts.is_explicit ? r->hosts.endpoints[0].text : "");
    } else if (exit_code != 0 && r->output[0] != '\0' &&
               job_files_find_checkpoint(r->output, &checkpoint, NULL) == EO_OK) {
        report_note("  go on from its checkpoint: everyo-submit run %s --resume %s", r->spec_path, r->output);
    }
}

static int finish(struct run *r, struct eo_error *err)
{
    struct eo_reply job = {0};
    size_t n_files = 0;
    char state[16];
    int rc = job_get(r->link.connection, r->job, &job, err);
    if (rc != EO_OK) {
        return fail(r, err);
    }
    choose_output(r);
    if (r->output[0] != '\0') {
        /* The checkpoints of an unfinished job would be gone with a private daemon. */
        item_text(job.result, "state", state, sizeof state);
        const bool all = r->link.local != NULL && strcmp(state, "succeeded") != 0;
        rc = job_fetch(r->link.connection, r->job, r->output, all ? NULL : job_fetch_results, &n_files, err);
    }
    int exit_code = job_print_result(r->cli, job.result, n_files > 0 ? r->output : "");
    if (rc != EO_OK) {
        exit_code = report_failure(err);
    }
    say_what_next(r, exit_code, n_files);
    eo_reply_fini(&job);
    return r->watch.interrupted && exit_code != 0 ? 130 : exit_code;
}

/* The data files and, with --resume DIR, the checkpoint's files. */
static int find_files(struct run *r, struct eo_error *err)
{
    struct stat st;
    const char *resume = r->cli->value[CLI_OPT_RESUME];
    /* A private daemon sees what this program sees, and so does --validate. */
    const bool far = r->link.local == NULL && !r->cli->given[CLI_OPT_VALIDATE];
    int rc = job_files_find(eo_item_get(r->checked.result, "files"), r->spec_path, far, &r->files, err);
    if (rc == EO_OK && resume != NULL && stat(resume, &st) == 0 && S_ISDIR(st.st_mode)) {
        rc = job_files_find_checkpoint(resume, &r->checkpoint, err);
    }
    return rc;
}

static int prepare(struct run *r, struct eo_error *err)
{
    int rc = check_spec(r, err);
    if (rc == EO_OK) {
        rc = move_to_spec_hosts(r, err);
    }
    return rc == EO_OK ? find_files(r, err) : rc;
}

static int send_job(struct run *r, struct eo_error *err)
{
    int rc = job_files_upload(r->link.connection, &r->files, on_upload, r, err);
    if (rc == EO_OK) {
        rc = job_files_upload(r->link.connection, &r->checkpoint, on_upload, r, err);
    }
    progress_clear();
    return rc == EO_OK ? submit(r, err) : rc;
}

static int say_valid(const struct run *r)
{
    if (r->cli->given[CLI_OPT_JSON]) {
        return item_json_print(r->checked.result);
    }
    printf("%s is valid: %zu data file%s\n", r->spec_path, r->files.n, r->files.n == 1 ? "" : "s");
    return 0;
}

static int run_job(struct run *r, struct eo_error *err)
{
    int rc = prepare(r, err);
    if (rc == EO_OK && r->cli->given[CLI_OPT_VALIDATE]) {
        return say_valid(r);
    }
    if (rc == EO_OK) {
        rc = send_job(r, err);
    }
    if (rc == EO_OK && r->cli->given[CLI_OPT_DETACH]) {
        if (!r->cli->given[CLI_OPT_PARSABLE] && !r->cli->given[CLI_OPT_JSON]) {
            puts(r->job);
        }
        return 0;
    }
    if (rc == EO_OK) {
        rc = follow(r, err);
    }
    return rc == EO_OK ? finish(r, err) : fail(r, err);
}

int cmd_RUN(const struct cli *cli)
{
    struct eo_error err = {0};
    struct run r = {.cli = cli, .spec_path = cli->arguments[0]};
    if (cli->given[CLI_OPT_LOCAL] && cli->given[CLI_OPT_DETACH]) {
        EO_RAISE(&err, EO_E_USAGE, "--detach leaves, and a --local daemon ends with this command");
        return report_failure(&err);
    }
    job_watch_catch_signals();
    int rc = eo_file_read(r.spec_path, SPEC_MAX, &r.text, &err);
    if (rc != EO_OK) {
        return fail(&r, &err);
    }
    int exit_code;
    if (hosts_resolve(cli, &r.hosts, &err) != EO_OK ||
        hosts_open(cli, &r.hosts, HOSTS_PRIVATE_IF_NONE, &r.link, &err) != EO_OK) {
        exit_code = fail(&r, &err);
    } else {
        exit_code = run_job(&r, &err);
    }
    eo_reply_fini(&r.checked);
    hosts_close(&r.link);
    hosts_fini(&r.hosts);
    eo_bytes_fini(&r.text);
    return exit_code;
}
