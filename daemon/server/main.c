/* everyod: the daemon. Control plane, network and owner of record; computing happens in everyod-worker. */
#include "daemon/server/notify.h"
#include "daemon/server/server.h"
#include "proto/version.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int fail(const struct eo_error *err)
{
    char text[4096];
    eo_error_text(err, false, text, sizeof(text));
    fprintf(stderr, "everyod: %s%s", text, text[0] && text[strlen(text) - 1] == '\n' ? "" : "\n");
    return eo_code_exit(err->code);
}

static int print_help(void)
{
    struct eo_bytes text;
    eo_bytes_init(&text, 1 << 16);
    config_help(&text);
    fputs(eo_bytes_text(&text), stdout);
    eo_bytes_fini(&text);
    return fflush(stdout) == 0 ? 0 : eo_code_exit(EO_E_IO);
}

static int run(const struct config *config, int argc, char *const *argv)
{
    static struct server server;
    struct eo_error err = {0};
    eo_log_setup(config->log_level, config->log_format);
    notify_init();
    int code = server_init(&server, config, &err);
    if (code == EO_OK) {
        server_set_args(&server, argc, argv);
        code = server_listen(&server, &err);
    }
    int status = code == EO_OK ? server_run(&server) : fail(&err);
    server_fini(&server);
    notify_fini();
    return status;
}

/* Workers inherit it. Left alone, libgomp's threads look for work for milliseconds before they sleep; on a host that is
 * busy with something else that costs ten times what waking them does. The user's own choice wins. */
static void set_worker_environment(void)
{
    if (getenv("OMP_WAIT_POLICY") == NULL) {
        setenv("GOMP_SPINCOUNT", "10000", 0);
    }
}

int main(int argc, char **argv)
{
    static struct config config;
    struct eo_error err = {0};
    enum config_action action = CONFIG_RUN;
    umask(0077); /* state, sockets and logs are nobody else's business; files for others are given their mode */
    if (config_parse(argc, argv, &config, &action, &err) != EO_OK) {
        return fail(&err);
    }
    switch (action) {
    case CONFIG_HELP:
        return print_help();
    case CONFIG_VERSION:
        printf("everyod %s\nprotocol %d to %d\n", eo_build(), EO_PROTOCOL_MIN, EO_PROTOCOL_MAX);
        return 0;
    case CONFIG_CHECK:
        printf("the configuration is valid\n");
        return 0;
    case CONFIG_RUN:
        break;
    }
    set_worker_environment();
    return run(&config, argc, argv);
}
