#include "client/cli/cli.h"

#include "client/cli/report.h"
#include "proto/base/text.h"
#include "proto/message_schema.h"
#include "proto/version.h"

#include <stdlib.h>
#include <string.h>

const struct cli_option_row cli_options[CLI_N_OPTIONS] = {
#define CLI_OPTION(NAME, short_, long_, value_, repeat_, help_)                                                        \
    [CLI_OPT_##NAME] = {.short_name = (short_),                                                                        \
                        .long_name = (long_),                                                                          \
                        .value = (value_),                                                                             \
                        .help = (help_),                                                                               \
                        .repeatable = (repeat_) != 0},
#include "client/cli/options.def"
};

#define OPT(NAME) (1u << CLI_OPT_##NAME)
const struct cli_command_row cli_commands[CLI_N_COMMANDS] = {
#define CLI_COMMAND(program_, name_, NAME, arguments_, min_, max_, options_, summary_, description_, examples_,        \
                    stability_, since_)                                                                                \
    [CLI_CMD_##NAME] = {.program = CLI_##program_,                                                                     \
                        .name = (name_),                                                                               \
                        .arguments = (arguments_),                                                                     \
                        .min_arguments = (min_),                                                                       \
                        .max_arguments = (max_),                                                                       \
                        .options = (options_) | OPT(HELP),                                                             \
                        .summary = (summary_),                                                                         \
                        .description = (description_),                                                                 \
                        .examples = (examples_),                                                                       \
                        .stability = (stability_),                                                                     \
                        .since = (since_)},
#include "client/cli/commands.def"
};

typedef int (*command_fn)(const struct cli *cli);
static const command_fn command_functions[CLI_N_COMMANDS] = {
#define CLI_COMMAND(program_, name_, NAME, ...) [CLI_CMD_##NAME] = cmd_##NAME,
#include "client/cli/commands.def"
};

const char *cli_program_name(enum cli_program p)
{
    return p == CLI_EVERYO ? "everyo" : "everyo-submit";
}

/* ---- help ---- */

static void print_option(FILE *out, const struct cli_option_row *o)
{
    char left[64];
    snprintf(left, sizeof left, "%s%s%s%s%s", o->short_name, o->short_name[0] != '\0' ? ", " : "    ", o->long_name,
             o->value[0] != '\0' ? " " : "", o->value);
    fprintf(out, "  %-28s %s\n", left, o->help);
}

static void print_indented(FILE *out, const char *text)
{
    while (*text != '\0') {
        const size_t n = strcspn(text, "\n");
        fprintf(out, "  %.*s\n", (int)n, text);
        text += n + (text[n] == '\n');
    }
}

void cli_help_command(FILE *out, enum cli_command command)
{
    const struct cli_command_row *c = &cli_commands[command];
    fprintf(out, "usage: %s %s%s%s [options]\n\n%s\n\noptions:\n", cli_program_name(c->program), c->name,
            c->arguments[0] != '\0' ? " " : "", c->arguments, c->description);
    for (int i = 0; i < CLI_N_OPTIONS; i++) {
        if ((c->options & (1u << i)) != 0) {
            print_option(out, &cli_options[i]);
        }
    }
    fputs("\nexamples:\n", out);
    print_indented(out, c->examples);
}

void cli_help_program(FILE *out, enum cli_program program)
{
    const char *name = cli_program_name(program);
    if (program == CLI_EVERYO) {
        fprintf(out, "usage: %s [-H HOST[:PORT]] COMMAND [options]\n\nAsks and checks EveryO daemons.\n\ncommands:\n",
                name);
    } else {
        fprintf(out,
                "usage: %s [run] JOB.yaml [options]\n       %s COMMAND [options]\n\n"
                "Trains neural networks on EveryO daemons.\n\ncommands:\n",
                name, name);
    }
    for (int i = 0; i < CLI_N_COMMANDS; i++) {
        if (cli_commands[i].program == program) {
            fprintf(out, "  %-12s %-14s %s\n", cli_commands[i].name, cli_commands[i].arguments,
                    cli_commands[i].summary);
        }
    }
    fprintf(out,
            "\n`%s COMMAND --help` tells more of each. Exit codes: 0 ok, 1 job or check failed, 64 usage, 65 bad data\n"
            "or job file, 66 no input, 69 unreachable, 75 busy, 76 protocol, 124 time-out, 130 interrupted.\n",
            name);
    fputs("\nexamples:\n", out);
    for (int i = 0; i < CLI_N_COMMANDS; i++) {
        if (cli_commands[i].program == program) {
            const size_t n = strcspn(cli_commands[i].examples, "\n");
            fprintf(out, "  %.*s\n", (int)n, cli_commands[i].examples);
        }
    }
}

/* ---- parsing ---- */

static int usage_error(enum cli_program program, struct eo_error *err, const char *hint_of)
{
    if (err->hint[0] == '\0') {
        eo_error_hint(err, "`%s%s%s --help` shows what there is.", cli_program_name(program),
                      hint_of[0] != '\0' ? " " : "", hint_of);
    }
    return EO_E_USAGE;
}

static int find_command(enum cli_program program, const char *word)
{
    for (int i = 0; i < CLI_N_COMMANDS; i++) {
        if (cli_commands[i].program == program && strcmp(cli_commands[i].name, word) == 0) {
            return i;
        }
    }
    return -1;
}

struct name_list {
    const char *names[CLI_N_OPTIONS + CLI_N_COMMANDS];
    size_t n;
};

static const char *name_at(const void *ctx, size_t i)
{
    return ((const struct name_list *)ctx)->names[i];
}

static int unknown_option(enum cli_program program, const char *word, struct eo_error *err)
{
    char quoted[100];
    struct name_list list = {.n = 0};
    uint32_t taken = OPT(HELP) | OPT(VERSION);
    for (int i = 0; i < CLI_N_COMMANDS; i++) {
        taken |= cli_commands[i].program == program ? cli_commands[i].options : 0;
    }
    for (int i = 0; i < CLI_N_OPTIONS; i++) {
        if ((taken & (1u << i)) != 0) {
            list.names[list.n++] = cli_options[i].long_name;
        }
    }
    EO_RAISE(err, EO_E_USAGE, "unknown option %s", eo_quote(word, strlen(word), quoted, sizeof quoted));
    const char *near = eo_nearest(word, name_at, &list, list.n);
    if (near != NULL) {
        eo_error_hint(err, "Did you mean %s?", near);
    }
    return usage_error(program, err, "");
}

static int unknown_command(enum cli_program program, const char *word, struct eo_error *err)
{
    char quoted[100];
    struct name_list list = {.n = 0};
    for (int i = 0; i < CLI_N_COMMANDS; i++) {
        if (cli_commands[i].program == program) {
            list.names[list.n++] = cli_commands[i].name;
        }
    }
    EO_RAISE(err, EO_E_USAGE, "unknown command %s", eo_quote(word, strlen(word), quoted, sizeof quoted));
    const char *near = eo_nearest(word, name_at, &list, list.n);
    if (near != NULL) {
        eo_error_hint(err, "Did you mean `%s %s`?", cli_program_name(program), near);
    }
    return usage_error(program, err, "");
}

/* Matches "-x", "--long", "--long=value", "-xVALUE"; *inline_value is NULL when the value is the next word. */
static int find_option(const char *word, const char **inline_value)
{
    *inline_value = NULL;
    for (int i = 0; i < CLI_N_OPTIONS; i++) {
        const struct cli_option_row *o = &cli_options[i];
        const size_t n_long = strlen(o->long_name);
        if (strcmp(word, o->long_name) == 0 || (o->short_name[0] != '\0' && strcmp(word, o->short_name) == 0)) {
            return i;
        }
        if (o->value[0] != '\0' && strncmp(word, o->long_name, n_long) == 0 && word[n_long] == '=') {
            *inline_value = word + n_long + 1;
            return i;
        }
        if (o->value[0] != '\0' && o->short_name[0] != '\0' && strncmp(word, o->short_name, 2) == 0) {
            *inline_value = word + 2;
            return i;
        }
    }
    return -1;
}

static int store_option(struct cli *cli, int option, const char *value, struct eo_error *err)
{
    const struct cli_option_row *o = &cli_options[option];
    if (cli->given[option] && !o->repeatable && o->value[0] != '\0') {
        EO_RAISE(err, EO_E_USAGE, "%s is given twice", o->long_name);
        return usage_error(cli->program, err, "");
    }
    if (o->value[0] != '\0' && value[0] == '\0') { /* such as -H "$UNSET", which must not mean the default */
        EO_RAISE(err, EO_E_USAGE, "the value of %s is empty", o->long_name);
        return usage_error(cli->program, err, "");
    }
    cli->given[option] = true;
    cli->value[option] = value;
    if (o->repeatable) {
        struct cli_list *list = option == CLI_OPT_SET ? &cli->sets : &cli->inputs;
        if (list->n == CLI_MAX_REPEATED) {
            return EO_RAISE(err, EO_E_USAGE, "more than %d %s options", CLI_MAX_REPEATED, o->long_name);
        }
        list->values[list->n++] = value;
    }
    if (option == CLI_OPT_TIMEOUT && (!eo_parse_duration(value, &cli->timeout_ms) || cli->timeout_ms == 0)) {
        EO_RAISE(err, EO_E_USAGE, "--timeout %s is no time", value);
        eo_error_hint(err, "Write it as 500ms, 5s or 2m.");
        return EO_E_USAGE;
    }
    return EO_OK;
}

static int store_word(struct cli *cli, bool *has_command, const char *word, struct eo_error *err)
{
    if (!*has_command) {
        int command = find_command(cli->program, word);
        *has_command = true;
        if (command >= 0) {
            cli->command = (enum cli_command)command;
            return EO_OK;
        }
        /* `everyo-submit JOB.yaml`: run may be left out, but a word without dot or slash is a mistyped command. */
        if (cli->program == CLI_EVERYO || strpbrk(word, "./") == NULL) {
            return unknown_command(cli->program, word, err);
        }
        cli->command = CLI_CMD_RUN;
    }
    if (cli->n_arguments == CLI_MAX_ARGUMENTS) {
        EO_RAISE(err, EO_E_USAGE, "too many arguments");
        return usage_error(cli->program, err, "");
    }
    cli->arguments[cli->n_arguments++] = word;
    return EO_OK;
}

static int check_command(const struct cli *cli, struct eo_error *err)
{
    const struct cli_command_row *c = &cli_commands[cli->command];
    for (int i = 0; i < CLI_N_OPTIONS; i++) {
        if (cli->given[i] && (c->options & (1u << i)) == 0) {
            EO_RAISE(err, EO_E_USAGE, "%s does not take %s", c->name, cli_options[i].long_name);
            return usage_error(cli->program, err, c->name);
        }
    }
    if (cli->n_arguments < c->min_arguments || cli->n_arguments > c->max_arguments) {
        EO_RAISE(err, EO_E_USAGE, "%s takes %s, not %d argument%s", c->name,
                 c->arguments[0] != '\0' ? c->arguments : "no argument", cli->n_arguments,
                 cli->n_arguments == 1 ? "" : "s");
        return usage_error(cli->program, err, c->name);
    }
    if (cli->given[CLI_OPT_LOCAL] && cli->given[CLI_OPT_HOST]) {
        return EO_RAISE(err, EO_E_USAGE, "--local and --host exclude each other");
    }
    return EO_OK;
}

static int parse(struct cli *cli, int argc, char **argv, bool *has_command, struct eo_error *err)
{
    bool only_words = false;
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        int rc;
        if (!only_words && strcmp(word, "--") == 0) {
            only_words = true;
            continue;
        }
        if (only_words || word[0] != '-' || word[1] == '\0') {
            rc = store_word(cli, has_command, word, err);
        } else {
            const char *value = NULL;
            int option = find_option(word, &value);
            if (option < 0) {
                return unknown_option(cli->program, word, err);
            }
            if (cli_options[option].value[0] != '\0' && value == NULL) {
                if (i + 1 == argc) {
                    EO_RAISE(err, EO_E_USAGE, "%s needs a value: %s", word, cli_options[option].value);
                    return usage_error(cli->program, err, "");
                }
                value = argv[++i];
            }
            rc = store_option(cli, option, value, err);
        }
        if (rc != EO_OK) {
            return rc;
        }
    }
    return EO_OK;
}

int cli_main(enum cli_program program, int argc, char **argv)
{
    struct cli cli = {.program = program};
    struct eo_error err = {0};
    bool has_command = false;
    int rc = parse(&cli, argc, argv, &has_command, &err);
    if (rc != EO_OK) {
        return report_failure(&err);
    }
    if (cli.given[CLI_OPT_HELP]) {
        if (has_command) {
            cli_help_command(stdout, cli.command);
        } else {
            cli_help_program(stdout, program);
        }
        return 0;
    }
    if (cli.given[CLI_OPT_VERSION] && !has_command) {
        printf("%s %s, protocol %d-%d, %s\n", cli_program_name(program), eo_build(), EO_PROTOCOL_MIN, EO_PROTOCOL_MAX,
               eo_compiler());
        return 0;
    }
    if (!has_command) {
        EO_RAISE(&err, EO_E_USAGE, "a command is missing");
        usage_error(program, &err, "");
        return report_failure(&err);
    }
    rc = check_command(&cli, &err);
    if (rc != EO_OK) {
        return report_failure(&err);
    }
    if (cli.given[CLI_OPT_QUIET]) {
        progress_off();
    }
    int exit_code = command_functions[cli.command](&cli);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        EO_RAISE(&err, EO_E_IO, "standard output could not be written");
        return report_failure(&err);
    }
    return exit_code;
}
