/* Man pages, in the man(7) macros that groff and mandoc both know. */
#include "client/cli/cli.h"
#include "docs/tabledoc.h"
#include "proto/version.h"

#include <string.h>

/* ---- roff ---- */

/* Text of a line: what roff would take for a command is escaped, `code` becomes bold. */
static void text(FILE *out, const char *s)
{
    bool bold = false;
    bool at_start = true;
    for (; *s != '\0'; s++) {
        if (at_start && (*s == '.' || *s == '\'')) {
            fputs("\\&", out);
        }
        at_start = *s == '\n';
        if (*s == '`') {
            bold = !bold;
            fputs(bold ? "\\fB" : "\\fR", out);
        } else if (*s == '\\') {
            fputs("\\e", out);
        } else if (*s == '-') {
            fputs("\\-", out); /* to be typed, not a hyphen */
        } else {
            fputc(*s, out);
        }
    }
}

/* The same without markup. */
static void literal(FILE *out, const char *s)
{
    bool at_start = true;
    for (; *s != '\0'; s++) {
        if (at_start && (*s == '.' || *s == '\'')) {
            fputs("\\&", out);
        }
        at_start = *s == '\n';
        fputs(*s == '\\' ? "\\e" : *s == '-' ? "\\-" : (const char[]){*s, '\0'}, out);
    }
}

static void head(FILE *out, const char *name, const char *section, const char *summary)
{
    fprintf(out, ".\\\" Made from the tables by the target docs-generate: edit those, not this page.\n.TH \"");
    for (const char *c = name; *c != '\0'; c++) {
        if (*c == '-') {
            fputs("\\-", out);
        } else {
            fputc(*c >= 'a' && *c <= 'z' ? *c - 'a' + 'A' : *c, out);
        }
    }
    fprintf(out, "\" %s \"\" \"EveryO %s\" \"EveryO manual\"\n.SH NAME\n", section, eo_version());
    literal(out, name);
    fputs(" \\- ", out);
    literal(out, summary);
    fputc('\n', out);
}

static void section(FILE *out, const char *title)
{
    fprintf(out, ".SH %s\n", title);
}

static void paragraph(FILE *out, const char *s)
{
    fputs(".PP\n", out);
    text(out, s);
    fputc('\n', out);
}

static void example(FILE *out, const char *s)
{
    fputs(".PP\n.RS 4\n.EX\n", out);
    literal(out, s);
    fputs("\n.EE\n.RE\n", out);
}

static void facts(FILE *out, const char *title, const struct tabledoc_fact *list)
{
    section(out, title);
    for (; list->name != NULL; list++) {
        fputs(".TP\n\\fB", out);
        literal(out, list->name);
        fputs("\\fR\n", out);
        text(out, list->text);
        fputc('\n', out);
    }
}

static void see_also(FILE *out, const char *pages)
{
    section(out, "SEE ALSO");
    fputs(pages, out);
}

/* ---- the tools ---- */

static void option(FILE *out, const struct cli_option_row *o)
{
    fputs(".TP\n", out);
    if (o->short_name[0] != '\0') {
        fputs("\\fB", out);
        literal(out, o->short_name);
        fputs("\\fR, ", out);
    }
    fputs("\\fB", out);
    literal(out, o->long_name);
    fputs("\\fR", out);
    if (o->value[0] != '\0') {
        fputs(" \\fI", out);
        literal(out, o->value);
        fputs("\\fR", out);
    }
    fputc('\n', out);
    text(out, o->help);
    fputc('\n', out);
}

static void command(FILE *out, const struct cli_command_row *c)
{
    fputs(".SS ", out);
    literal(out, c->name);
    fputs(c->arguments[0] != '\0' ? " " : "", out);
    literal(out, c->arguments);
    fputc('\n', out);
    text(out, c->description);
    fputc('\n', out);
    if (strcmp(c->stability, "stable") != 0) {
        paragraph(out, "This command is experimental: it may change in any release.");
    }
    fputs(".PP\nOptions:", out);
    const char *separator = " ";
    for (int i = 0; i < CLI_N_OPTIONS; i++) {
        if ((c->options & (1u << i)) != 0) {
            fprintf(out, "%s\\fB", separator);
            literal(out, cli_options[i].long_name);
            fputs("\\fR", out);
            separator = ", ";
        }
    }
    fputs(".\n", out);
    example(out, c->examples);
}

static void tool(FILE *out, enum cli_program program)
{
    uint32_t used = 1u << CLI_OPT_HELP | 1u << CLI_OPT_VERSION;
    section(out, "COMMANDS");
    for (int i = 0; i < CLI_N_COMMANDS; i++) {
        if (cli_commands[i].program == program) {
            command(out, &cli_commands[i]);
            used |= cli_commands[i].options;
        }
    }
    section(out, "OPTIONS");
    fputs("They may stand before and after the command.\n", out);
    for (int i = 0; i < CLI_N_OPTIONS; i++) {
        if ((used & (1u << i)) != 0) {
            option(out, &cli_options[i]);
        }
    }
    facts(out, "EXIT STATUS", tabledoc_exit_codes);
    facts(out, "ENVIRONMENT", tabledoc_tool_environment);
}

static void synopsis(FILE *out, const char *program, const char *rest)
{
    fputs(".PP\n\\fB", out);
    literal(out, program);
    fputs("\\fR ", out);
    text(out, rest);
    fputc('\n', out);
}

static void write_everyo(FILE *out)
{
    head(out, "everyo", "1", "ask and check EveryO daemons");
    section(out, "SYNOPSIS");
    synopsis(out, "everyo", "[-H HOST[:PORT],...] COMMAND [options]");
    section(out, "DESCRIPTION");
    fputs("EveryO turns a handful of machines into one place to train neural networks. ", out);
    text(out, "`everyo` asks the daemons for what they are and finds out what keeps them from working.\n");
    paragraph(out,
              "A host is `host`, `host:port`, `[v6]:port` or `unix:PATH`; the port is 17743 when none is given. A "
              "host that is named is never replaced by another one. Results go to standard output, everything else "
              "to standard error.");
    tool(out, CLI_EVERYO);
    see_also(out, ".BR everyo\\-submit (1),\n.BR everyod (8)\n");
}

static void write_submit(FILE *out)
{
    head(out, "everyo-submit", "1", "train neural networks on EveryO daemons");
    section(out, "SYNOPSIS");
    synopsis(out, "everyo-submit", "[run] JOB.yaml [-H HOST[:PORT],...] [options]");
    synopsis(out, "everyo-submit", "COMMAND [options]");
    section(out, "DESCRIPTION");
    text(out, "`everyo-submit` sends a job file and the data it names to a daemon, shows how training goes and fetches "
              "what it leaves. With several hosts they train together, and the first one coordinates.\n");
    paragraph(out, "A job file names model, loss, optimizer and data:");
    example(out, "name: digits-mlp\nmodel:\n  - linear: {in: 64, out: 128}\n  - relu\n  - linear: {in: 128, out: 10}\n"
                 "loss: cross_entropy\nmetrics: [accuracy]\noptimizer: {adam: {lr: 0.005}}\ndata:\n"
                 "  train: {csv: digits.csv, target: label}\n  validation: {split: 0.2, stratified: true}\n"
                 "  scale: {divide: 16}\n  batch: 32\ntrain: {epochs: 25, seed: 0}");
    paragraph(out,
              "Relative paths start at the job file. An unknown key, a wrong type or an impossible shape is reported "
              "with file, line and the nearest valid choice before anything starts.");
    tool(out, CLI_SUBMIT);
    see_also(out, ".BR everyo (1),\n.BR everyod (8)\n");
}

/* ---- the daemon ---- */

static void setting(FILE *out, const struct tabledoc_setting *s)
{
    const bool file_only = s->flag[0] == '\0';
    fputs(".TP\n\\fB", out);
    literal(out, file_only ? s->key : s->flag);
    fputs("\\fR", out);
    if (s->argument[0] != '\0') {
        fputs(file_only ? " = \\fI" : " \\fI", out);
        literal(out, s->argument);
        fputs("\\fR", out);
    }
    fputc('\n', out);
    text(out, s->help);
    if (s->fallback[0] != '\0' && strcmp(s->kind, "FLAG") != 0) {
        fputs(" (default ", out);
        literal(out, s->fallback);
        fputc(')', out);
    }
    fputc('\n', out);
}

static void write_everyod(FILE *out)
{
    head(out, "everyod", "8", "the EveryO daemon");
    section(out, "SYNOPSIS");
    synopsis(out, "everyod", "[options]");
    section(out, "DESCRIPTION");
    text(out,
         "`everyod` runs on each machine that computes. It owns the machine's devices and the tensors in their "
         "memory, executes operations and graphs for clients, runs training jobs, and joins its peers for training "
         "across machines. It stays in the foreground and logs to standard error.\n");
    paragraph(out, "It listens on 127.0.0.1:17743 unless told otherwise. Connections are neither encrypted nor "
                   "authenticated in this version, so that it refuses to listen beyond loopback unless `--insecure` is "
                   "spelled out.");
    section(out, "OPTIONS");
    for (int i = 0; i < tabledoc_n_settings; i++) {
        if (tabledoc_settings[i].flag[0] != '\0') {
            setting(out, &tabledoc_settings[i]);
        }
    }
    section(out, "CONFIGURATION FILE");
    text(out,
         "The file that `--config` names holds one `key = value` a line; `#` starts a comment. Every long option but "
         "`--config`, `--check-config`, `--lifeline-fd`, `--help` and `--version` is a key there, without its "
         "dashes. The command line wins. Sizes take KiB, MiB, GiB (or kB, MB, GB), times take ms, s, m, h, d. These "
         "keys stand in the file only:\n");
    for (int i = 0; i < tabledoc_n_settings; i++) {
        if (tabledoc_settings[i].flag[0] == '\0') {
            setting(out, &tabledoc_settings[i]);
        }
    }
    facts(out, "SIGNALS", tabledoc_daemon_signals);
    facts(out, "ENVIRONMENT", tabledoc_daemon_environment);
    section(out, "EXIT STATUS");
    fputs("0 after a drain, 64 for a wrong command line, 69 when an address is in use, 73 when the state directory "
          "cannot be used, 78 for a wrong configuration, 70 for a fault inside EveryO.\n",
          out);
    section(out, "EXAMPLES");
    example(out, "everyod\neveryod --listen 127.0.0.1:0 --port-file /run/user/1000/everyod.port\n"
                 "everyod --listen unix:/run/everyod/socket --state-dir /var/lib/everyod\n"
                 "everyod --check-config --config /etc/everyo/everyod.conf");
    see_also(out, ".BR everyo (1),\n.BR everyo\\-submit (1)\n");
}

const struct tabledoc_page tabledoc_man_pages[] = {{"man/everyo.1", write_everyo},
                                                   {"man/everyo-submit.1", write_submit},
                                                   {"man/everyod.8", write_everyod},
                                                   {NULL, NULL}};
