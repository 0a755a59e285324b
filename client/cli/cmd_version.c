#include "client/cli/cli.h"
#include "client/cli/hosts.h"
#include "client/cli/item_json.h"
#include "client/cli/report.h"
#include "proto/message_schema.h"
#include "proto/version.h"

static void own_json(struct eo_json *j)
{
    eo_json_kv_i64(j, "schema", 1);
    eo_json_kv_string(j, "version", eo_version());
    eo_json_kv_string(j, "commit", eo_commit());
    eo_json_kv_string(j, "compiler", eo_compiler());
    eo_json_key(j, "protocol");
    eo_json_begin_array(j);
    eo_json_i64(j, EO_PROTOCOL_MIN);
    eo_json_i64(j, EO_PROTOCOL_MAX);
    eo_json_end_array(j);
}

static int print_daemon(const struct cli *cli, const struct eo_endpoint *ep, struct eo_json *j)
{
    struct eo_connection *c = NULL;
    struct eo_error err = {0};
    const int rc = hosts_open_one(cli, ep, &c, &err);
    const struct eo_server_facts *facts = rc == EO_OK ? eo_connection_facts(c) : NULL;
    eo_json_begin_object(j);
    eo_json_kv_string(j, "host", ep->text);
    eo_json_key(j, "error");
    error_json(j, &err);
    eo_json_kv_string(j, "build", facts != NULL ? facts->build : NULL);
    eo_json_key(j, "protocol");
    if (facts != NULL) {
        eo_json_i64(j, facts->version);
    } else {
        eo_json_null(j);
    }
    eo_json_end_object(j);
    if (facts != NULL && !cli->given[CLI_OPT_JSON]) {
        printf("%s: everyod %s, speaks protocol %d with us\n", ep->text, facts->build, facts->version);
    }
    eo_connection_close(c);
    return rc == EO_OK ? 0 : report_failure(&err);
}

static int print_daemons(const struct cli *cli, struct eo_json *j)
{
    struct hosts h;
    struct eo_error err = {0};
    int exit_code = 0;
    if (hosts_resolve(cli, &h, &err) != EO_OK) {
        return report_failure(&err);
    }
    eo_json_key(j, "daemons");
    eo_json_begin_array(j);
    for (size_t i = 0; i < h.n; i++) {
        const int failed = print_daemon(cli, &h.endpoints[i], j);
        exit_code = exit_code == 0 ? failed : exit_code;
    }
    eo_json_end_array(j);
    hosts_fini(&h);
    return exit_code;
}

int cmd_VERSION(const struct cli *cli)
{
    struct json_line line;
    int exit_code = 0;
    struct eo_json *j = json_line_begin(&line);
    own_json(j);
    if (!cli->given[CLI_OPT_JSON]) {
        printf("everyo %s, protocol %d-%d, %s\n", eo_build(), EO_PROTOCOL_MIN, EO_PROTOCOL_MAX, eo_compiler());
    }
    if (cli->given[CLI_OPT_HOST]) {
        exit_code = print_daemons(cli, j);
    }
    const int failed = json_line_end(&line, cli->given[CLI_OPT_JSON]);
    return exit_code != 0 ? exit_code : failed;
}
