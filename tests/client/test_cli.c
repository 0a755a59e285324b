/* The command line: parser, help, local commands. */
#include "client/cli/item_json.h"
#include "client/cli/report.h"
#include "proto/version.h"
#include "tests/client/run_cli.h"
#include "tests/support/suite.h"

#include <fcntl.h>
#include <jansson.h>
#include <string.h>
#include <unistd.h>

static struct cli_run r;

/* The exit code and parts of the report on stderr; a usage error prints nothing on stdout. */
static void assert_fails(int exit_code, const char *part, const char *other_part)
{
    ck_assert_msg(r.exit_code == exit_code, "exit code %d\n%s%s", r.exit_code, r.out, r.err);
    ASSERT_CONTAINS(r.err, part);
    ASSERT_CONTAINS(r.err, other_part);
    ck_assert_str_eq(r.out, "");
    cli_run_fini(&r);
}

/* ---- help ---- */

START_TEST(every_command_has_help_with_examples)
{
    for (int i = 0; i < CLI_N_COMMANDS; i++) {
        const struct cli_command_row *c = &cli_commands[i];
        char call[64];
        for (int form = 0; form < 3; form++) {
            r = form == 0   ? RUN(c->program, c->name, "--help")
                : form == 1 ? RUN(c->program, c->name, "-h")
                            : RUN(c->program, "--help", c->name);
            ck_assert_msg(r.exit_code == 0, "%s: %d", c->name, r.exit_code);
            ck_assert_str_eq(r.err, "");
            snprintf(call, sizeof call, "usage: %s %s", cli_program_name(c->program), c->name);
            ASSERT_CONTAINS(r.out, call);
            ASSERT_CONTAINS(r.out, c->description);
            ASSERT_CONTAINS(r.out, "\nexamples:\n  ");
            ASSERT_CONTAINS(strstr(r.out, "examples:"), cli_program_name(c->program));
            for (int k = 0; k < CLI_N_OPTIONS; k++) {
                ck_assert_msg(((c->options >> k) & 1) == 0 || strstr(r.out, cli_options[k].long_name) != NULL,
                              "%s does not list %s", c->name, cli_options[k].long_name);
            }
            cli_run_fini(&r);
        }
    }
}
END_TEST

START_TEST(programs_have_help_and_version)
{
    for (int p = CLI_EVERYO; p <= CLI_SUBMIT; p++) {
        r = RUN((enum cli_program)p, "--help");
        ck_assert_int_eq(r.exit_code, 0);
        for (int i = 0; i < CLI_N_COMMANDS; i++) {
            if ((int)cli_commands[i].program == p) {
                ASSERT_CONTAINS(r.out, cli_commands[i].summary);
            }
        }
        cli_run_fini(&r);
        r = RUN((enum cli_program)p, "-V");
        ck_assert_int_eq(r.exit_code, 0);
        ASSERT_CONTAINS(r.out, eo_version());
        cli_run_fini(&r);
        r = run_cli((enum cli_program)p, (const char *const[]){NULL});
        assert_fails(64, "EO-7011", "command is missing");
    }
}
END_TEST

START_TEST(help_fits_a_terminal)
{
    for (int i = 0; i < CLI_N_COMMANDS; i++) {
        r = RUN(cli_commands[i].program, cli_commands[i].name, "--help");
        for (const char *line = r.out; *line != '\0';) {
            const size_t n = strcspn(line, "\n");
            ck_assert_msg(n <= 132, "%s: %.*s", cli_commands[i].name, (int)n, line);
            line += n + 1;
        }
        cli_run_fini(&r);
    }
}
END_TEST

/* ---- what is wrong with a command line ---- */

START_TEST(unknown_words_get_a_suggestion)
{
    r = RUN(CLI_EVERYO, "pnig");
    assert_fails(64, "unknown command \"pnig\"", "Did you mean `everyo ping`?");
    r = RUN(CLI_EVERYO, "zzzzzz");
    assert_fails(64, "unknown command", "`everyo --help`");
    r = RUN(CLI_SUBMIT, "statsu", "3f2a");
    assert_fails(64, "unknown command", "`everyo-submit status`");
    r = RUN(CLI_EVERYO, "ping", "--jsn");
    assert_fails(64, "unknown option \"--jsn\"", "Did you mean --json?");
    r = RUN(CLI_EVERYO, "--hots", "a", "ping");
    assert_fails(64, "unknown option", "Did you mean --host?");
    r = RUN(CLI_EVERYO, "ping", "--json=1"); /* a switch takes no value */
    assert_fails(64, "unknown option", "--json");
    r = RUN(CLI_SUBMIT, "ls", "--cuont", "3"); /* no command of this program counts */
    ck_assert_ptr_null(strstr(r.err, "--count"));
    assert_fails(64, "unknown option \"--cuont\"", "hint");
    r = RUN(CLI_EVERYO, "ping", "-x");
    assert_fails(64, "unknown option \"-x\"", "--help");
    r = RUN(CLI_EVERYO, "\x1b[31mred");
    ck_assert_ptr_null(strchr(r.err, '\x1b'));
    assert_fails(64, "unknown command", "red");
}
END_TEST

START_TEST(misused_options)
{
    r = RUN(CLI_EVERYO, "ping", "--count");
    assert_fails(64, "--count needs a value", "N");
    r = RUN(CLI_EVERYO, "ping", "-H", "");
    assert_fails(64, "--host is empty", "");
    r = RUN(CLI_EVERYO, "ping", "--host=");
    assert_fails(64, "--host is empty", "");
    r = RUN(CLI_EVERYO, "ping", "-H", "a", "--host", "b");
    assert_fails(64, "--host is given twice", "");
    r = RUN(CLI_EVERYO, "explain", "--output", "x", "2001");
    assert_fails(64, "explain does not take --output", "`everyo explain --help`");
    r = RUN(CLI_EVERYO, "ping", "--timeout", "soon");
    assert_fails(64, "soon", "500ms");
    r = RUN(CLI_EVERYO, "ping", "--timeout=0");
    assert_fails(64, "--timeout 0", "");
    r = RUN(CLI_EVERYO, "ping", "-c", "0");
    assert_fails(64, "--count takes 1 to", "0");
    r = RUN(CLI_EVERYO, "ping", "-c", "five");
    assert_fails(64, "--count", "five");
    r = RUN(CLI_EVERYO, "info", "--local", "-H", "a");
    assert_fails(64, "--local", "--host");
    r = RUN(CLI_SUBMIT, "run", "x.yaml", "--local", "--detach");
    assert_fails(64, "--detach", "--local");
    r = RUN(CLI_EVERYO, "ping", "-H", "a,a");
    assert_fails(64, "EO-1012", "a");
    r = RUN(CLI_EVERYO, "ping", "-H", "a:99999");
    assert_fails(64, "EO-1012", "99999");
}
END_TEST

START_TEST(misused_arguments)
{
    r = RUN(CLI_EVERYO, "ping", "somewhere");
    assert_fails(64, "ping takes no argument, not 1 argument", "");
    r = RUN(CLI_SUBMIT, "status");
    assert_fails(64, "status takes ID, not 0 arguments", "");
    r = RUN(CLI_SUBMIT, "fetch", "a", "b", "c");
    assert_fails(64, "fetch takes ID DIR, not 3", "");
    r = RUN(CLI_SUBMIT, "fetch", "a", "b", "c", "d", "e");
    assert_fails(64, "too many", "");
    r = RUN(CLI_SUBMIT, "ls", "-H", "a,b");
    assert_fails(64, "ls talks to one host", "2");
}
END_TEST

START_TEST(run_may_be_left_out)
{
    r = RUN(CLI_SUBMIT, "/nonexistent/job.yaml", "-H", "unix:/nonexistent/socket");
    assert_fails(66, "EO-7002", "/nonexistent/job.yaml");
    r = RUN(CLI_SUBMIT, "--", "./-strange.yaml");
    assert_fails(66, "EO-7002", "-strange.yaml");
    r = RUN(CLI_SUBMIT, "job"); /* no file name: a mistyped command */
    assert_fails(64, "unknown command", "");
}
END_TEST

/* ---- where options may stand ---- */

START_TEST(options_stand_anywhere)
{
    static const char *const nowhere = "unix:/nonexistent/socket";
    static const char *const joined = "--host=unix:/nonexistent/socket";
    static const char *const attached = "-Hunix:/nonexistent/socket";
    for (int form = 0; form < 6; form++) {
        r = form == 0   ? RUN(CLI_EVERYO, "-H", nowhere, "ping")
            : form == 1 ? RUN(CLI_EVERYO, "ping", "-H", nowhere)
            : form == 2 ? RUN(CLI_EVERYO, joined, "ping")
            : form == 3 ? RUN(CLI_EVERYO, "ping", joined)
            : form == 4 ? RUN(CLI_EVERYO, "ping", attached)
                        : RUN(CLI_EVERYO, "ping", "--host", nowhere, "-c1", "--timeout=1s");
        assert_fails(69, "EO-1009", nowhere);
    }
    setenv("EVERYO_HOST", nowhere, 1);
    r = RUN(CLI_EVERYO, "ping");
    assert_fails(69, "EO-1009", nowhere);
    r = RUN(CLI_SUBMIT, "ls");
    assert_fails(69, "EO-1009", nowhere);
    r = RUN(CLI_EVERYO, "ping", "-H", "unix:/nonexistent/other"); /* the flag wins */
    assert_fails(69, "EO-1009", "unix:/nonexistent/other");
    unsetenv("EVERYO_HOST");
}
END_TEST

/* ---- local commands ---- */

static json_t *parse_json(const char *text)
{
    json_error_t fault;
    json_t *doc = json_loads(text, JSON_REJECT_DUPLICATES, &fault);
    ck_assert_msg(doc != NULL, "%s\n%s", fault.text, text);
    ck_assert_int_eq(json_integer_value(json_object_get(doc, "schema")), 1);
    return doc;
}

START_TEST(explains_by_code_and_name)
{
    static const char *const words[] = {"EO-2001", "eo-2001", "2001", "SHAPE_MISMATCH", "shape_mismatch"};
    for (size_t i = 0; i < EO_COUNT_OF(words); i++) {
        r = RUN(CLI_EVERYO, "explain", words[i]);
        ck_assert_int_eq(r.exit_code, 0);
        ASSERT_CONTAINS(r.out, "# EO-2001: operand shapes do not fit together");
        cli_run_fini(&r);
    }
    r = RUN(CLI_EVERYO, "explain", "--json", "EO-1009");
    json_t *doc = parse_json(r.out);
    ck_assert_int_eq(json_integer_value(json_object_get(doc, "code")), 1009);
    ck_assert_str_eq(json_string_value(json_object_get(doc, "name")), "UNREACHABLE");
    ck_assert_int_eq(json_integer_value(json_object_get(doc, "exit_code")), 69);
    ck_assert(json_is_true(json_object_get(doc, "retryable")));
    ASSERT_CONTAINS(json_string_value(json_object_get(doc, "page")), "# EO-1009");
    json_decref(doc);
    cli_run_fini(&r);
    r = RUN(CLI_EVERYO, "explain", "SHAPE_MISSMATCH");
    assert_fails(64, "no error code", "Did you mean SHAPE_MISMATCH?");
    r = RUN(CLI_EVERYO, "explain", "9999");
    assert_fails(64, "no error code", "EO-2001");
}
END_TEST

START_TEST(lists_operations)
{
    r = RUN(CLI_EVERYO, "ops");
    ck_assert_int_eq(r.exit_code, 0);
    ASSERT_CONTAINS(r.out, "matmul ");
    cli_run_fini(&r);
    r = RUN(CLI_EVERYO, "ops", "matmul");
    ASSERT_CONTAINS(r.out, "matmul(a, b; transpose_a, transpose_b)");
    ASSERT_CONTAINS(r.out, "default false");
    cli_run_fini(&r);
    r = RUN(CLI_EVERYO, "ops", "--json");
    json_t *doc = parse_json(r.out);
    ck_assert_uint_gt(json_array_size(json_object_get(doc, "ops")), 30);
    json_decref(doc);
    cli_run_fini(&r);
    r = RUN(CLI_EVERYO, "ops", "mtmul");
    assert_fails(65, "EO-2003", "Did you mean matmul?");
    r = RUN(CLI_EVERYO, "ops", "");
    assert_fails(65, "EO-2003", "");
}
END_TEST

START_TEST(tells_its_version)
{
    r = RUN(CLI_EVERYO, "version", "--json");
    ck_assert_int_eq(r.exit_code, 0);
    json_t *doc = parse_json(r.out);
    ck_assert_str_eq(json_string_value(json_object_get(doc, "version")), eo_version());
    ck_assert_uint_eq(json_array_size(json_object_get(doc, "protocol")), 2);
    json_decref(doc);
    cli_run_fini(&r);
    r = RUN(CLI_EVERYO, "version", "--json", "-H", "unix:/nonexistent/socket");
    ck_assert_int_eq(r.exit_code, 69);
    doc = parse_json(r.out);
    const json_t *daemon = json_array_get(json_object_get(doc, "daemons"), 0);
    ck_assert_int_eq(json_integer_value(json_object_get(json_object_get(daemon, "error"), "code")), 1009);
    ck_assert(json_is_null(json_object_get(daemon, "build")));
    json_decref(doc);
    cli_run_fini(&r);
}
END_TEST

START_TEST(writes_completions)
{
    static const char *const shells[] = {"bash", "zsh", "fish"};
    for (size_t i = 0; i < EO_COUNT_OF(shells); i++) {
        r = RUN(CLI_EVERYO, "completion", shells[i]);
        ck_assert_int_eq(r.exit_code, 0);
        for (int k = 0; k < CLI_N_COMMANDS; k++) {
            ASSERT_CONTAINS(r.out, cli_commands[k].name);
        }
        ASSERT_CONTAINS(r.out, "everyo-submit");
        cli_run_fini(&r);
    }
    r = RUN(CLI_EVERYO, "completion", "tcsh");
    assert_fails(64, "\"tcsh\"", "bash, zsh and fish");
}
END_TEST

START_TEST(notices_that_nobody_can_read_it)
{
    fflush(stdout);
    const int saved = dup(STDOUT_FILENO);
    const int full = open("/dev/full", O_WRONLY);
    ck_assert_int_ge(full, 0);
    ck_assert_int_eq(dup2(full, STDOUT_FILENO), STDOUT_FILENO);
    char program[] = "everyo";
    char command[] = "ops";
    char *argv[] = {program, command, NULL};
    const int exit_code = cli_main(CLI_EVERYO, 2, argv);
    clearerr(stdout);
    ck_assert_int_eq(dup2(saved, STDOUT_FILENO), STDOUT_FILENO);
    close(saved);
    close(full);
    ck_assert_int_eq(exit_code, 74);
}
END_TEST

/* ---- terminals ---- */

/* Runs fn with stderr on a terminal; returns what it wrote there. */
static char *on_terminal(void (*fn)(void))
{
    static char text[4096];
    const int master = posix_openpt(O_RDWR | O_NOCTTY);
    ck_assert_int_ge(master, 0);
    ck_assert_int_eq(grantpt(master) | unlockpt(master), 0);
    char name[64];
    ck_assert_int_eq(ptsname_r(master, name, sizeof name), 0);
    const int terminal = open(name, O_RDWR | O_NOCTTY);
    ck_assert_int_ge(terminal, 0);
    fflush(stderr);
    const int saved = dup(STDERR_FILENO);
    ck_assert_int_eq(dup2(terminal, STDERR_FILENO), STDERR_FILENO);
    fn();
    fflush(stderr);
    ck_assert_int_eq(dup2(saved, STDERR_FILENO), STDERR_FILENO);
    close(saved);
    close(terminal);
    size_t at = 0;
    ssize_t n = 1;
    while (n > 0 && at < sizeof text - 1) { /* until the end, which a terminal reports as an error */
        n = read(master, text + at, sizeof text - 1 - at);
        at += n > 0 ? (size_t)n : 0;
    }
    text[at] = '\0';
    close(master);
    return text;
}

static void fails(void)
{
    struct eo_error err = {0};
    EO_RAISE(&err, EO_E_NO_JOB, "there is no job 3f2a");
    ck_assert_int_eq(report_failure(&err), 66);
}

START_TEST(color_only_where_it_is_wanted)
{
    setenv("TERM", "xterm", 1);
    unsetenv("NO_COLOR");
    ASSERT_CONTAINS(on_terminal(fails), "\033[");
    setenv("NO_COLOR", "1", 1);
    ck_assert_ptr_null(strchr(on_terminal(fails), '\033'));
    setenv("NO_COLOR", "", 1); /* empty counts as not set (no-color.org) */
    ASSERT_CONTAINS(on_terminal(fails), "\033[");
    setenv("TERM", "dumb", 1);
    ck_assert_ptr_null(strchr(on_terminal(fails), '\033'));
    unsetenv("NO_COLOR");
    setenv("TERM", "xterm", 1);
    r = RUN(CLI_EVERYO, "pnig"); /* no terminal */
    ck_assert_ptr_null(strchr(r.err, '\033'));
    cli_run_fini(&r);
}
END_TEST

static void shows_progress(void)
{
    progress_show("%s", "\xc3\xa9poch 1/3 with a text that is longer than any terminal is wide, surely, for it goes on "
                        "and on and on until there is no column left in which anything of it could be shown at all");
    report_note("done");
}

START_TEST(progress_is_one_line_and_then_gone)
{
    const char *text = on_terminal(shows_progress);
    ASSERT_CONTAINS(text, "\r\xc3\xa9poch 1/3");
    ck_assert_ptr_null(strstr(text, "at all"));
    ASSERT_CONTAINS(text, "\r\033[Kdone");
}
END_TEST

EO_SUITE("cli", every_command_has_help_with_examples, programs_have_help_and_version, help_fits_a_terminal,
         unknown_words_get_a_suggestion, misused_options, misused_arguments, run_may_be_left_out,
         options_stand_anywhere, explains_by_code_and_name, lists_operations, tells_its_version, writes_completions,
         notices_that_nobody_can_read_it, color_only_where_it_is_wanted, progress_is_one_line_and_then_gone)
