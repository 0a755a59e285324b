/* The command line as data: programs, commands and options (commands.def, options.def), their parser and their help. */
#ifndef EO_CLIENT_CLI_CLI_H
#define EO_CLIENT_CLI_CLI_H

#include "proto/base/error.h"

#include <stdio.h>

enum cli_program { CLI_EVERYO, CLI_SUBMIT };

enum cli_option {
#define CLI_OPTION(NAME, short_, long_, value_, repeat_, help_) CLI_OPT_##NAME,
#include "client/cli/options.def"
    CLI_N_OPTIONS
};

enum cli_command {
#define CLI_COMMAND(program_, name_, NAME, ...) CLI_CMD_##NAME,
#include "client/cli/commands.def"
    CLI_N_COMMANDS
};

struct cli_option_row {
    const char *short_name, *long_name, *value, *help;
    bool repeatable;
};

struct cli_command_row {
    enum cli_program program;
    const char *name, *arguments;
    int min_arguments, max_arguments;
    uint32_t options; /* bit mask of enum cli_option */
    const char *summary, *description, *examples, *stability, *since;
};

enum { CLI_MAX_ARGUMENTS = 4, CLI_MAX_REPEATED = 256 };

/* Values of an option that may be given again, in order. */
struct cli_list {
    const char *values[CLI_MAX_REPEATED];
    int n;
};

/* A parsed command line. Texts point into argv. */
struct cli {
    enum cli_program program;
    enum cli_command command;
    bool given[CLI_N_OPTIONS];
    const char *value[CLI_N_OPTIONS];
    struct cli_list sets;   /* --set */
    struct cli_list inputs; /* --input */
    const char *arguments[CLI_MAX_ARGUMENTS];
    int n_arguments;
    uint64_t timeout_ms; /* --timeout, 0 = not given */
};

extern const struct cli_option_row cli_options[CLI_N_OPTIONS];
extern const struct cli_command_row cli_commands[CLI_N_COMMANDS];

const char *cli_program_name(enum cli_program p);
/* Parses and runs; returns the exit code. -h and --version are answered here. */
int cli_main(enum cli_program program, int argc, char **argv);
void cli_help_program(FILE *out, enum cli_program program);
void cli_help_command(FILE *out, enum cli_command command);

/* One function per command, in cmd_*.c; returns the exit code. A missing one is a link error. */
#define CLI_COMMAND(program_, name_, NAME, ...) int cmd_##NAME(const struct cli *cli);
#include "client/cli/commands.def"

#endif
