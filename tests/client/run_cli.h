/* The command line tools in this process, their output caught. */
#ifndef EO_TESTS_CLIENT_RUN_CLI_H
#define EO_TESTS_CLIENT_RUN_CLI_H

#include "client/cli/cli.h"

struct cli_run {
    int exit_code;
    char *out, *err; /* what went to stdout and stderr */
};

/* args: the words after the program's name, NULL-terminated. Free with cli_run_fini. */
struct cli_run run_cli(enum cli_program program, const char *const *args);
void cli_run_fini(struct cli_run *r);

#define RUN(program, ...) run_cli((program), (const char *const[]){__VA_ARGS__, NULL})

#endif
