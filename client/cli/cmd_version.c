#include "client/cli/cli.h"
#include "client/cli/hosts.h"
#include "client/cli/report.h"
#include "proto/base/json.h"
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
        struct eo_connection *c = NULL;
        eo_error_clear(&err);
        if (hosts_open_one(cli, &h.endpoints[i], &c, &err) != EO_OK) {
            exit_code = report_failure(&err);
            continue;
        }
        eo_json_begin_object(j);
        eo_json_kv_string(j, "host", h.endpoints[i].text);
        eo_json_kv_string(j, "build", eo_connection_facts(c)->build);
        eo_json_kv_i64(j, "protocol", eo_connection_facts(c)->version);
        eo_json_end_object(j);
        if (!cli->given[CLI_OPT_JSON]) {
            printf("%s: everyod %s, speaks protocol %d with us\n", h.endpoints[i].text, eo_connection_facts(c)->build,
                   eo_connection_facts(c)->version);
        }
        eo_connection_close(c);
    }
    eo_json_end_array(j);
    hosts_fini(&h);
    return exit_code;
}

int cmd_VERSION(const struct cli *cli)
{
    struct eo_bytes out;
    struct eo_json j;
    int exit_code = 0;
    eo_bytes_init(&out, 1 << 20);
    eo_json_init(&j, &out);
    eo_json_begin_object(&j);
    own_json(&j);
    if (!cli->given[CLI_OPT_JSON]) {
        printf("everyo %s, protocol %d-%d, %s\n", eo_build(), EO_PROTOCOL_MIN, EO_PROTOCOL_MAX, eo_compiler());
    }
    if (cli->given[CLI_OPT_HOST]) {
        exit_code = print_daemons(cli, &j);
    }
    eo_json_end_object(&j);
    if (cli->given[CLI_OPT_JSON]) {
        puts(eo_bytes_text(&out));
    }
    eo_bytes_fini(&out);
    return exit_code;
}
