/* Asks every host for its checks; with several hosts each one also tries to reach the others. */
#include "client/cli/cli.h"
#include "client/cli/hosts.h"
#include "client/cli/item_json.h"
#include "client/cli/report.h"

#include <string.h>
#include <unistd.h>

struct doctor_counts {
    int ok, warnings, failed, skipped, could_not_run;
};

static void count(struct doctor_counts *n, const char *status)
{
    if (strcmp(status, "OK") == 0) {
        n->ok++;
    } else if (strcmp(status, "WARN") == 0) {
        n->warnings++;
    } else if (strcmp(status, "SKIP") == 0) {
        n->skipped++;
    } else {
        n->failed++;
    }
}

static const char *status_color(const char *status)
{
    if (!report_color(STDOUT_FILENO)) {
        return "";
    }
    return strcmp(status, "OK") == 0 ? "\033[32m" : strcmp(status, "FAIL") == 0 ? "\033[31m" : "\033[33m";
}

/* Trouble shows why and the fix; what is well is one line, its details only with -v. */
static void print_check(const struct cli *cli, const struct eo_item *check, const char *status)
{
    char what[256];
    char why[512];
    char fix[512];
    const bool trouble = strcmp(status, "OK") != 0;
    item_text(check, "what", what, sizeof what);
    item_text(check, "why", why, sizeof why);
    item_text(check, "fix", fix, sizeof fix);
    printf("  %s%-4s%s  %s", status_color(status), status, status_color(status)[0] != '\0' ? "\033[0m" : "", what);
    if (why[0] != '\0' && (trouble || cli->given[CLI_OPT_VERBOSE])) {
        printf(": %s", why);
    }
    putchar('\n');
    if (fix[0] != '\0' && trouble) {
        printf("        fix: %s\n", fix);
    }
}

static void print_checks(const struct cli *cli, const char *host, const struct eo_item *checks, struct doctor_counts *n)
{
    if (!cli->given[CLI_OPT_JSON]) {
        printf("%s\n", host);
    }
    for (size_t i = 0; i < eo_item_count(checks); i++) {
        const struct eo_item *check = eo_item_at(checks, i);
        char status[16];
        item_text(check, "status", status, sizeof status);
        count(n, status);
        if (!cli->given[CLI_OPT_JSON]) {
            print_check(cli, check, status);
        }
    }
}

/* The other hosts go along as typed: each daemon looks for them from where it stands. */
static void pack_peers(struct eo_bytes *p, const struct hosts *h, size_t self)
{
    eo_pack_map(p, 1);
    eo_pack_str(p, "peers");
    eo_pack_array(p, h->n - 1);
    for (size_t i = 0; i < h->n; i++) {
        if (i != self) {
            eo_pack_str(p, h->endpoints[i].text);
        }
    }
}

static int ask(const struct cli *cli, const struct hosts *h, size_t i, struct eo_reply *reply, struct eo_error *err)
{
    struct host_link link;
    struct eo_bytes p;
    struct hosts one = {.endpoints = &h->endpoints[i], .n = 1, .is_explicit = h->is_explicit};
    int rc = hosts_open(cli, &one, HOSTS_PRIVATE_IF_NONE, &link, err);
    if (rc != EO_OK) {
        return rc;
    }
    eo_bytes_init(&p, 64 << 10);
    pack_peers(&p, h, i);
    rc = eo_connection_call(link.connection, "doctor", &p, NULL, 0, reply, err);
    eo_bytes_fini(&p);
    hosts_close(&link);
    return rc;
}

static void host_json(struct eo_json *j, const char *host, const struct eo_error *err, const struct eo_item *result)
{
    eo_json_begin_object(j);
    eo_json_kv_string(j, "host", host);
    eo_json_key(j, "error");
    error_json(j, err);
    eo_json_key(j, "checks");
    if (result != NULL) {
        item_json(j, eo_item_get(result, "checks"));
    } else {
        eo_json_begin_array(j);
        eo_json_end_array(j);
    }
    eo_json_end_object(j);
}

/* One host: its checks printed or, with --json, written. */
static void doctor_host(const struct cli *cli, const struct hosts *h, size_t i, struct eo_json *j,
                        struct doctor_counts *n)
{
    struct eo_error err = {0};
    struct eo_reply reply = {0};
    if (ask(cli, h, i, &reply, &err) != EO_OK) {
        n->could_not_run++;
        if (!cli->given[CLI_OPT_JSON]) {
            report_failure(&err);
        }
    } else {
        print_checks(cli, h->endpoints[i].text, eo_item_get(reply.result, "checks"), n);
    }
    host_json(j, h->endpoints[i].text, &err, reply.result);
    eo_reply_fini(&reply);
}

static int finish(const struct cli *cli, struct json_line *line, const struct doctor_counts *n)
{
    struct eo_json *j = &line->json;
    eo_json_end_array(j);
    eo_json_kv_i64(j, "ok", n->ok);
    eo_json_kv_i64(j, "warnings", n->warnings);
    eo_json_kv_i64(j, "failed", n->failed);
    eo_json_kv_i64(j, "skipped", n->skipped);
    eo_json_kv_i64(j, "could_not_run", n->could_not_run);
    if (!cli->given[CLI_OPT_JSON]) {
        printf("%d ok, %d warnings, %d failed, %d skipped%s\n", n->ok, n->warnings, n->failed, n->skipped,
               n->could_not_run > 0 ? "; some hosts could not be asked" : "");
    }
    if (json_line_end(line, cli->given[CLI_OPT_JSON]) != 0) {
        return eo_code_exit(EO_E_NO_MEMORY);
    }
    if (n->could_not_run > 0) {
        return eo_code_exit(EO_E_UNREACHABLE);
    }
    return n->failed > 0 || (cli->given[CLI_OPT_STRICT] && n->warnings > 0) ? 1 : 0;
}

int cmd_DOCTOR(const struct cli *cli)
{
    struct eo_error err = {0};
    struct hosts h;
    struct json_line line;
    struct doctor_counts n = {0};
    if (hosts_resolve(cli, &h, &err) != EO_OK) {
        return report_failure(&err);
    }
    struct eo_json *j = json_line_begin(&line);
    eo_json_kv_i64(j, "schema", 1);
    eo_json_key(j, "hosts");
    eo_json_begin_array(j);
    for (size_t i = 0; i < h.n; i++) {
        doctor_host(cli, &h, i, j, &n);
    }
    hosts_fini(&h);
    return finish(cli, &line, &n);
}
