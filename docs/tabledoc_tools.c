/* Pages about what people type: commands, settings, errors. */
#include "client/cli/cli.h"
#include "docs/tabledoc.h"

#include <string.h>

/* ---- facts that the man pages share ---- */

const struct tabledoc_fact tabledoc_exit_codes[] = {
    {"0", "done; of `doctor` also with warnings"},
    {"1", "the job or a check failed, the job was cancelled by someone else, a peer was lost"},
    {"64", "the command line is not valid"},
    {"65", "bad data or job file"},
    {"66", "an input is missing or cannot be read"},
    {"69", "a daemon could not be reached, or an address is in use"},
    {"70", "a fault inside EveryO"},
    {"73", "an output could not be created"},
    {"74", "reading or writing failed"},
    {"75", "busy: try again later"},
    {"76", "protocol or version mismatch"},
    {"77", "authentication failed"},
    {"78", "the configuration is not valid"},
    {"124", "time-out"},
    {"130", "interrupted"},
    {NULL, NULL}};

const struct tabledoc_fact tabledoc_tool_environment[] = {
    {"EVERYO_HOST", "the daemons to talk to when `-H` is not given, in the same form"},
    {"NO_COLOR", "set and not empty: no colour"},
    {"TERM", "`dumb`: no colour"},
    {"XDG_RUNTIME_DIR", "where the directory of a private daemon is made; else TMPDIR, else /tmp"},
    {NULL, NULL}};

const struct tabledoc_fact tabledoc_daemon_environment[] = {
    {"STATE_DIRECTORY", "the state directory when `--state-dir` is not given (systemd sets it); else "
                        "$XDG_STATE_HOME/everyo, else ~/.local/state/everyo"},
    {"NOTIFY_SOCKET", "readiness, state and watchdog are told to systemd there, with WATCHDOG_USEC"},
    {"JOURNAL_STREAM", "standard error is the journal: log lines carry their priority"},
    {NULL, NULL}};

const struct tabledoc_fact tabledoc_daemon_signals[] = {
    {"SIGTERM, SIGINT",
     "drain: nothing new is accepted, running jobs write a checkpoint, then the daemon ends with 0; a "
     "second one ends at once"},
    {"SIGHUP", "read the configuration file again and take over what can change while running; a file with a mistake "
               "changes nothing"},
    {NULL, NULL}};

const struct tabledoc_setting tabledoc_settings[] = {
#define CONFIG(name, flag_, key_, KIND, argument_, default_, min_, max_, WHEN, help_)                                  \
    {.flag = (flag_),                                                                                                  \
     .key = (key_),                                                                                                    \
     .kind = #KIND,                                                                                                    \
     .argument = (argument_),                                                                                          \
     .fallback = (default_),                                                                                           \
     .when = #WHEN,                                                                                                    \
     .help = (help_),                                                                                                  \
     .min = (double)(min_),                                                                                            \
     .max = (double)(max_)},
#include "daemon/server/config.def"
};
const int tabledoc_n_settings = (int)EO_COUNT_OF(tabledoc_settings);

static void fact_table(FILE *out, const char *title, const char *column, const struct tabledoc_fact *facts)
{
    fprintf(out, "\n## %s\n\n| %s | meaning |\n| --- | --- |\n", title, column);
    for (; facts->name != NULL; facts++) {
        fprintf(out, "| `%s` | ", facts->name);
        tabledoc_cell(out, facts->text);
        fputs(" |\n", out);
    }
}

/* ---- commands ---- */

static void command_options(FILE *out, const struct cli_command_row *c)
{
    fputs("\n| option | meaning |\n| --- | --- |\n", out);
    for (int i = 0; i < CLI_N_OPTIONS; i++) {
        const struct cli_option_row *o = &cli_options[i];
        if ((c->options & (1u << i)) == 0) {
            continue;
        }
        fputs("| `", out);
        if (o->short_name[0] != '\0') {
            fprintf(out, "%s`, `", o->short_name);
        }
        fputs(o->long_name, out);
        if (o->value[0] != '\0') {
            fputc(' ', out);
            tabledoc_cell(out, o->value);
        }
        fputs("` | ", out);
        tabledoc_cell(out, o->help);
        fputs(" |\n", out);
    }
}

static void command_section(FILE *out, const struct cli_command_row *c)
{
    const char *program = cli_program_name(c->program);
    fprintf(out, "\n### %s %s\n\n```\n%s %s%s%s [options]\n```\n\n%s\n", program, c->name, program, c->name,
            c->arguments[0] != '\0' ? " " : "", c->arguments, c->description);
    command_options(out, c);
    fprintf(out, "\nExamples:\n\n```sh\n%s\n```\n\nStability: %s, since %s\n", c->examples, c->stability, c->since);
}

static void write_cli(FILE *out)
{
    tabledoc_head(
        out, "Commands", "client/cli/commands.def and client/cli/options.def",
        "`everyo` asks and checks daemons, `everyo-submit` sends and follows jobs, `everyod` is the daemon "
        "([config.md](config.md)).\nOptions may stand before and after the command, as `--option VALUE` or "
        "`--option=VALUE`. A host is `host`, `host:port`,\n`[v6]:port` or `unix:PATH`, port 17743 when none is "
        "given; several are separated by commas. A host that is named is never\nreplaced by another one. "
        "Results go to standard output, everything else to standard error; `--json` documents are\ndescribed in "
        "[json.md](json.md).");
    for (int p = CLI_EVERYO; p <= CLI_SUBMIT; p++) {
        fprintf(out, "\n## %s\n", cli_program_name((enum cli_program)p));
        for (int i = 0; i < CLI_N_COMMANDS; i++) {
            if ((int)cli_commands[i].program == p) {
                command_section(out, &cli_commands[i]);
            }
        }
    }
    fact_table(out, "Exit codes", "code", tabledoc_exit_codes);
    fact_table(out, "Environment", "variable", tabledoc_tool_environment);
}

/* ---- settings ---- */

static void duration_text(double ms, char *out, size_t size)
{
    static const struct {
        double ms;
        const char *unit;
    } units[] = {{86400000, "d"}, {3600000, "h"}, {60000, "m"}, {1000, "s"}};
    for (size_t i = 0; i < EO_COUNT_OF(units); i++) {
        const double n = ms / units[i].ms;
        if (n >= 1 && n - (double)(int64_t)n <= 0) {
            snprintf(out, size, "%.0f%s", n, units[i].unit);
            return;
        }
    }
    snprintf(out, size, "%.0fms", ms);
}

static void setting_range(FILE *out, const struct tabledoc_setting *s)
{
    char min[32];
    char max[32];
    if (s->max <= 0) {
        fputs("-", out);
    } else if (strcmp(s->kind, "DURATION") == 0) {
        duration_text(s->min, min, sizeof min);
        duration_text(s->max, max, sizeof max);
        fprintf(out, "%s to %s", min, max);
    } else if (strcmp(s->kind, "SIZE") == 0) {
        fprintf(out, "up to %.0f TiB", s->max / 1024 / 1024 / 1024 / 1024);
    } else {
        fprintf(out, "%.0f to %.0f", s->min, s->max);
    }
}

static void setting_row(FILE *out, const struct tabledoc_setting *s)
{
    fputs("| ", out);
    if (s->key[0] != '\0') {
        fprintf(out, "`%s`", s->key);
    } else {
        fputs("-", out);
    }
    fputs(" | ", out);
    if (s->flag[0] != '\0') {
        fprintf(out, "`%s%s", s->flag, s->argument[0] != '\0' ? " " : "");
        fputs(s->argument[0] != '\0' ? "" : "` | ", out);
        if (s->argument[0] != '\0') {
            tabledoc_cell(out, s->argument);
            fputs("` | ", out);
        }
    } else {
        fputs("- | ", out);
    }
    tabledoc_cell(out, s->fallback);
    fputs(" | ", out);
    setting_range(out, s);
    fprintf(out, " | %s | ", strcmp(s->when, "RELOAD") == 0 ? "yes" : "no");
    tabledoc_cell(out, s->help);
    fputs(" |\n", out);
}

static void write_config(FILE *out)
{
    tabledoc_head(
        out, "Settings of everyod", "daemon/server/config.def",
        "A setting is a flag of `everyod`, or a line `key = value` of the file that `--config` names; `#` "
        "starts a comment. The\ncommand line wins over the file, the file over the default. Sizes take KiB, "
        "MiB, GiB (or kB, MB, GB), times take ms, s, m, h, d.\nAn unknown key is an error with its line and the "
        "nearest valid one; `everyod --check-config --config FILE` only looks.\nSIGHUP takes over the reloadable "
        "ones.\n\n| key | flag | default | range | reload | meaning |\n| --- | --- | --- | --- | --- | --- |");
    for (int i = 0; i < tabledoc_n_settings; i++) {
        setting_row(out, &tabledoc_settings[i]);
    }
    fact_table(out, "Signals", "signal", tabledoc_daemon_signals);
    fact_table(out, "Environment", "variable", tabledoc_daemon_environment);
}

/* ---- errors ---- */

static void write_errors(FILE *out)
{
    static const char *const affected[] = {NULL,     "Protocol", "Request or shape", "Session",
                                           "Device", "Peer",     "Daemon",           "Job or file"};
    int group = 0;
    tabledoc_head(
        out, "Errors", "proto/tables/errors.def",
        "Every code keeps its number and meaning. The thousands digit says what is affected. `everyo explain "
        "CODE` prints the page of a\ncode; the exit code is that of a command that ends with it. What the report "
        "holds beside code and message is in\n[json.md](json.md#errors).");
    for (int i = 0; i < eo_code_count(); i++) {
        const int code = eo_code_at(i);
        if (code / 1000 != group) {
            group = code / 1000;
            fprintf(out,
                    "\n## %d: %s\n\n| code | name | meaning | exit | trying again may help |\n"
                    "| --- | --- | --- | --- | --- |\n",
                    group, affected[group]);
        }
        fprintf(out, "| [EO-%04d](../errors/EO-%04d.md) | `%s` | ", code, code, eo_code_name(code));
        tabledoc_cell(out, eo_code_summary(code));
        fprintf(out, " | %d | %s |\n", eo_code_exit(code), eo_code_retryable(code) ? "yes" : "no");
    }
}

const struct tabledoc_page tabledoc_tools_pages[] = {{"reference/cli.md", write_cli},
                                                     {"reference/config.md", write_config},
                                                     {"reference/errors.md", write_errors},
                                                     {NULL, NULL}};
