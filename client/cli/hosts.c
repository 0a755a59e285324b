#include "client/cli/hosts.h"

#include "client/cli/report.h"

#include <stdlib.h>
#include <string.h>

int hosts_resolve(const struct cli *cli, struct hosts *out, struct eo_error *err)
{
    memset(out, 0, sizeof *out);
    const char *text = cli->value[CLI_OPT_HOST];
    if (text == NULL) {
        text = getenv("EVERYO_HOST");
    }
    out->is_explicit = text != NULL && text[0] != '\0';
    if (!out->is_explicit) {
        text = "127.0.0.1";
    }
    out->endpoints = calloc(HOSTS_MAX, sizeof *out->endpoints);
    if (out->endpoints == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for the list of hosts");
    }
    int rc = eo_endpoint_parse_list(text, out->endpoints, HOSTS_MAX, &out->n, err);
    if (rc != EO_OK) {
        hosts_fini(out);
    }
    return rc;
}

void hosts_fini(struct hosts *h)
{
    free(h->endpoints);
    memset(h, 0, sizeof *h);
}

/* Longest silence while a command waits for one answer. A query is answered from memory, a doctor looks around first,
 * the last chunk of an upload is answered when the daemon has hashed the whole file. --timeout wins. */
static uint64_t answer_timeout_ms(const struct cli *cli)
{
    if (cli->timeout_ms != 0 && cli->command != CLI_CMD_WAIT) {
        return cli->timeout_ms;
    }
    switch (cli->command) {
    case CLI_CMD_RUN:
    case CLI_CMD_DEMO:
    case CLI_CMD_FETCH:
        return 600000;
    case CLI_CMD_RUN_MODEL: /* may wait for its turn, too */
        return 3600000;
    case CLI_CMD_DOCTOR:
        return 60000;
    default:
        return 5000;
    }
}

int hosts_open_one(const struct cli *cli, const struct eo_endpoint *ep, struct eo_connection **out,
                   struct eo_error *err)
{
    const struct eo_connection_options options = {.timeout_ms = cli->timeout_ms,
                                                  .call_timeout_ms = answer_timeout_ms(cli)};
    int rc = eo_connection_open(ep, &options, out, err);
    if (rc == EO_E_UNREACHABLE && err != NULL && err->hint[0] == '\0') {
        eo_error_hint(err, "Is everyod running there? Start it with `everyod`, or try `everyo doctor -H %s`.",
                      ep->text);
    }
    return rc;
}

static int open_private(const struct cli *cli, struct host_link *out, struct eo_error *err)
{
    struct eo_endpoint ep;
    int rc = eo_local_daemon_start(&out->local, &ep, err);
    if (rc == EO_OK) {
        rc = hosts_open_one(cli, &ep, &out->connection, err);
    }
    if (rc != EO_OK) {
        hosts_close(out);
    }
    return rc;
}

int hosts_open(const struct cli *cli, const struct hosts *h, enum hosts_private policy, struct host_link *out,
               struct eo_error *err)
{
    memset(out, 0, sizeof *out);
    if (cli->given[CLI_OPT_LOCAL]) {
        return open_private(cli, out, err);
    }
    if (h->n > 1 && policy == HOSTS_NEVER_PRIVATE) {
        EO_RAISE(err, EO_E_USAGE, "%s talks to one host, %zu are named", cli_commands[cli->command].name, h->n);
        return EO_E_USAGE;
    }
    int rc = hosts_open_one(cli, &h->endpoints[0], &out->connection, err);
    if (rc == EO_E_UNREACHABLE && policy == HOSTS_PRIVATE_IF_NONE && !h->is_explicit) {
        eo_error_clear(err);
        report_note("no daemon on this machine: using a private one");
        return open_private(cli, out, err);
    }
    return rc;
}

void hosts_close(struct host_link *l)
{
    eo_connection_close(l->connection);
    eo_local_daemon_stop(l->local);
    memset(l, 0, sizeof *l);
}
