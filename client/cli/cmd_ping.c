#include "client/cli/cli.h"
#include "client/cli/hosts.h"
#include "client/cli/item_json.h"
#include "client/cli/report.h"
#include "proto/base/clock.h"
#include "proto/base/text.h"

#include <stdlib.h>

enum { PING_MAX = 10000 };

struct ping_result {
    struct eo_error error;
    char build[64];
    double min_us, median_us, max_us;
    int count;
};

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

static void ping_host(const struct cli *cli, const struct eo_endpoint *ep, int count, double *times,
                      struct ping_result *out)
{
    struct eo_connection *c = NULL;
    int rc = hosts_open_one(cli, ep, &c, &out->error);
    for (int i = 0; i < count && rc == EO_OK; i++) {
        const uint64_t start = eo_now_ns();
        rc = eo_connection_call(c, "ping", NULL, NULL, 0, NULL, &out->error);
        times[i] = (double)(eo_now_ns() - start) / 1e3;
    }
    if (rc == EO_OK) {
        eo_copy_text(out->build, sizeof out->build, eo_connection_facts(c)->build);
        qsort(times, (size_t)count, sizeof *times, by_value);
        out->min_us = times[0];
        out->median_us = times[count / 2];
        out->max_us = times[count - 1];
        out->count = count;
    }
    eo_connection_close(c);
}

static void host_json(struct eo_json *j, const char *host, const struct ping_result *r)
{
    eo_json_begin_object(j);
    eo_json_kv_string(j, "host", host);
    eo_json_kv_bool(j, "ok", r->error.code == 0);
    eo_json_key(j, "error");
    error_json(j, &r->error);
    eo_json_kv_string(j, "version", r->build[0] != '\0' ? r->build : NULL);
    eo_json_key(j, "rtt_us");
    if (r->count > 0) {
        eo_json_begin_object(j);
        eo_json_kv_f64(j, "min", r->min_us);
        eo_json_kv_f64(j, "median", r->median_us);
        eo_json_kv_f64(j, "max", r->max_us);
        eo_json_end_object(j);
    } else {
        eo_json_null(j);
    }
    eo_json_kv_i64(j, "count", r->count);
    eo_json_end_object(j);
}

static int ping_all(const struct cli *cli, const struct hosts *h, int count, double *times)
{
    struct json_line line;
    int exit_code = 0;
    struct eo_json *j = json_line_begin(&line);
    eo_json_kv_i64(j, "schema", 1);
    eo_json_key(j, "hosts");
    eo_json_begin_array(j);
    for (size_t i = 0; i < h->n; i++) {
        struct ping_result r = {.count = 0};
        ping_host(cli, &h->endpoints[i], count, times, &r);
        host_json(j, h->endpoints[i].text, &r);
        if (r.error.code != 0) {
            int code = eo_code_exit(r.error.code);
            exit_code = exit_code == 0 ? code : exit_code;
            if (!cli->given[CLI_OPT_JSON]) {
                report_failure(&r.error);
            }
        } else if (!cli->given[CLI_OPT_JSON]) {
            printf("%s: everyod %s, %d round trips, min %.0f us, median %.0f us, max %.0f us\n", h->endpoints[i].text,
                   r.build, r.count, r.min_us, r.median_us, r.max_us);
        }
    }
    eo_json_end_array(j);
    const int failed = json_line_end(&line, cli->given[CLI_OPT_JSON]);
    return exit_code != 0 ? exit_code : failed;
}

int cmd_PING(const struct cli *cli)
{
    struct eo_error err = {0};
    struct hosts h;
    int64_t count = 5;
    if (cli->given[CLI_OPT_COUNT] &&
        (!eo_parse_i64(cli->value[CLI_OPT_COUNT], &count) || count < 1 || count > PING_MAX)) {
        EO_RAISE(&err, EO_E_USAGE, "--count takes 1 to %d, not %s", PING_MAX, cli->value[CLI_OPT_COUNT]);
        return report_failure(&err);
    }
    double *times = calloc((size_t)count, sizeof *times);
    if (times == NULL) {
        EO_RAISE(&err, EO_E_NO_MEMORY, "no memory for %lld times", (long long)count);
        return report_failure(&err);
    }
    int exit_code;
    if (hosts_resolve(cli, &h, &err) != EO_OK) {
        exit_code = report_failure(&err);
    } else {
        exit_code = ping_all(cli, &h, (int)count, times);
        hosts_fini(&h);
    }
    free(times);
    return exit_code;
}
