#include "daemon/server/config.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <string.h>

static int parse(struct config *c, enum config_action *action, struct eo_error *err, int argc, const char *const *args)
{
    char *argv[20];
    union {
        const char *in;
        char *out;
    } text;
    for (int i = 0; i < argc; i++) {
        text.in = args[i];
        argv[i] = text.out;
    }
    argv[argc] = NULL;
    return config_parse(argc, argv, c, action, err);
}
#define PARSE(...)                                                                                                     \
    parse(&c, &action, &err, (int)EO_COUNT_OF(((const char *[]){"everyod", __VA_ARGS__})),                             \
          (const char *[]){"everyod", __VA_ARGS__})

static struct config c;
static enum config_action action;

static int parse_text(const char *text, struct eo_error *err)
{
    config_defaults(&c);
    return config_parse_text(text, strlen(text), "everyod.conf", &c, err);
}

/* Every default of the table is itself a valid value: parsing it again changes nothing. */
START_TEST(defaults_are_valid)
{
    struct eo_error err = {0};
    for (int i = 0; i < config_row_count(); i++) {
        const struct config_row *r = config_row(i);
        char line[400];
        if (r->key[0] == '\0' || r->default_text[0] == '\0') {
            continue;
        }
        snprintf(line, sizeof(line), "%s = %s\n", r->key, r->default_text);
        ASSERT_OK(parse_text(line, &err));
    }
    config_defaults(&c);
    ASSERT_OK(config_check(&c, &err));
    ck_assert_int_eq(c.listen.n, 1);
    ck_assert_int_eq(c.listen.items[0].port, EO_PORT);
    ck_assert_uint_eq(c.session_lease_ms, 30000);
    ck_assert_uint_eq(c.max_connections, 1024);
    ck_assert(!c.insecure);
}
END_TEST

START_TEST(rows_are_sane)
{
    for (int i = 0; i < config_row_count(); i++) {
        const struct config_row *r = config_row(i);
        ck_assert_msg(r->flag[0] || r->key[0], "%s has neither flag nor key", r->name);
        ck_assert_msg(r->help[0], "%s has no help", r->name);
        ck_assert_msg(r->kind == KIND_FLAG || r->argument[0], "%s has no argument name", r->name);
        ck_assert_msg(r->flag[0] == '\0' || r->key[0] == '\0' || strcmp(r->flag + 2, r->key) == 0,
                      "%s: the key is the flag without its dashes", r->name);
        for (int k = 0; k < i; k++) {
            const struct config_row *other = config_row(k);
            ck_assert(r->flag[0] == '\0' || strcmp(r->flag, other->flag) != 0);
            ck_assert(r->key[0] == '\0' || strcmp(r->key, other->key) != 0);
        }
    }
    ck_assert_ptr_null(config_row(-1));
    ck_assert_ptr_null(config_row(config_row_count()));
}
END_TEST

START_TEST(flags_in_both_spellings)
{
    struct eo_error err = {0};
    ASSERT_OK(PARSE("--listen", "127.0.0.1:1", "--listen=unix:/tmp/x", "--threads", "3", "--memory-limit=64MiB",
                    "--session-lease", "250ms", "--log-level", "debug", "--log-format=json", "--data-dir", "/data"));
    ck_assert_int_eq(action, CONFIG_RUN);
    ck_assert_int_eq(c.listen.n, 2);
    ck_assert(c.listen.items[1].is_unix);
    ck_assert_uint_eq(c.threads, 3);
    ck_assert_uint_eq(c.memory_limit_bytes, 64 << 20);
    ck_assert_uint_eq(c.session_lease_ms, 250);
    ck_assert_int_eq(c.log_level, EO_LOG_DEBUG);
    ck_assert_int_eq(c.log_format, EO_LOG_JSON);
    ck_assert_int_eq(c.data_dirs.n, 1);
    ASSERT_OK(PARSE("-h"));
    ck_assert_int_eq(action, CONFIG_HELP);
    ASSERT_OK(PARSE("--version"));
    ck_assert_int_eq(action, CONFIG_VERSION);
    ASSERT_OK(PARSE("--check-config"));
    ck_assert_int_eq(action, CONFIG_CHECK);
}
END_TEST

START_TEST(usage_errors_help)
{
    struct eo_error err = {0};
    ASSERT_CODE(PARSE("--lisen", "127.0.0.1:1"), EO_E_USAGE);
    ASSERT_CONTAINS(err.hint, "--listen");
    ASSERT_CODE(PARSE("--zzzzqqqq"), EO_E_USAGE);
    ASSERT_CONTAINS(err.hint, "--help");
    ASSERT_CODE(PARSE("start"), EO_E_USAGE);
    ASSERT_CONTAINS(err.message, "start");
    ASSERT_CODE(PARSE("--threads"), EO_E_USAGE);
    ASSERT_CONTAINS(err.message, "needs a value");
    ASSERT_CODE(PARSE("--threads", "many"), EO_E_USAGE);
    ASSERT_CODE(PARSE("--threads", "-1"), EO_E_USAGE);
    ASSERT_CODE(PARSE("--threads", "4097"), EO_E_USAGE);
    ASSERT_CONTAINS(err.message, "4096");
    ASSERT_CODE(PARSE("--memory-limit", "lots"), EO_E_USAGE);
    ASSERT_CODE(PARSE("--session-lease", "soon"), EO_E_USAGE);
    ASSERT_CODE(PARSE("--log-level", "chatty"), EO_E_USAGE);
    ASSERT_CODE(PARSE("--log-format", "xml"), EO_E_USAGE);
    ASSERT_CODE(PARSE("--insecure=maybe"), EO_E_USAGE);
    ASSERT_CODE(PARSE("--listen", "host:99999"), EO_E_USAGE);
    ASSERT_CODE(PARSE("--data-dir", "relative"), EO_E_USAGE);
    ASSERT_CODE(PARSE("--state-dir", ""), EO_E_USAGE);
}
END_TEST

START_TEST(listeners_are_bounded)
{
    struct eo_error err = {0};
    ASSERT_CODE(PARSE("--listen=127.0.0.1:1", "--listen=127.0.0.1:2", "--listen=127.0.0.1:3", "--listen=127.0.0.1:4",
                      "--listen=127.0.0.1:5", "--listen=127.0.0.1:6", "--listen=127.0.0.1:7", "--listen=127.0.0.1:8",
                      "--listen=127.0.0.1:9"),
                EO_E_USAGE);
    ASSERT_CODE(PARSE("--listen=127.0.0.1:1", "--listen=127.0.0.1:1"), EO_E_CONFIG);
    ASSERT_OK(PARSE("--listen=127.0.0.1:0", "--listen=127.0.0.1:0")); /* two ports that the kernel chooses */
}
END_TEST

START_TEST(off_loopback_needs_insecure)
{
    struct eo_error err = {0};
    const char *open[] = {"0.0.0.0:1", "[::]:1", "10.1.2.3:1", "example.org:1"};
    for (size_t i = 0; i < EO_COUNT_OF(open); i++) {
        ASSERT_CODE(PARSE("--listen", open[i]), EO_E_CONFIG);
        ASSERT_CONTAINS(err.message, open[i]);
        ASSERT_CONTAINS(err.hint, "--insecure");
        ck_assert_int_eq(eo_code_exit(err.code), 78);
        ASSERT_OK(PARSE("--listen", open[i], "--insecure"));
    }
    const char *closed[] = {"127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "localhost:1", "unix:/tmp/x"};
    for (size_t i = 0; i < EO_COUNT_OF(closed); i++) {
        ASSERT_OK(PARSE("--listen", closed[i]));
    }
}
END_TEST

START_TEST(file_forms)
{
    struct eo_error err = {0};
    ASSERT_OK(parse_text("# a comment\n\n  threads = 2   # why\nlisten=127.0.0.1:5\nlisten = unix:/tmp/a#b\r\n"
                         "session-pending\t=\t7\nlog-level = warn",
                         &err));
    ck_assert_uint_eq(c.threads, 2);
    ck_assert_int_eq(c.listen.n, 2);
    ck_assert_str_eq(c.listen.items[1].host, "/tmp/a#b"); /* '#' inside a value is no comment */
    ck_assert_uint_eq(c.session_pending, 7);
    ck_assert_int_eq(c.log_level, EO_LOG_WARN);
    ASSERT_OK(parse_text("", &err));
}
END_TEST

START_TEST(file_errors_name_the_line)
{
    struct eo_error err = {0};
    ASSERT_CODE(parse_text("threads = 2\n\nthread = 3\n", &err), EO_E_CONFIG);
    ASSERT_CONTAINS(err.message, "everyod.conf:3");
    ASSERT_CONTAINS(err.hint, "threads");
    ASSERT_CODE(parse_text("threads 2\n", &err), EO_E_CONFIG);
    ASSERT_CONTAINS(err.message, "everyod.conf:1");
    ASSERT_CODE(parse_text("\nthreads = x\n", &err), EO_E_CONFIG);
    ASSERT_CONTAINS(err.message, "everyod.conf:2");
    ASSERT_CODE(parse_text("threads =\n", &err), EO_E_CONFIG);
    ASSERT_CODE(parse_text("--threads = 2\n", &err), EO_E_CONFIG);
    ASSERT_CODE(parse_text("help = yes\n", &err), EO_E_CONFIG); /* command line only */
    ASSERT_CODE(config_parse_text("a\0b", 3, "everyod.conf", &c, &err), EO_E_CONFIG);
    char line[4000];
    memset(line, 'x', sizeof(line) - 1);
    line[sizeof(line) - 1] = '\0';
    ASSERT_CODE(parse_text(line, &err), EO_E_CONFIG);
    ASSERT_CONTAINS(err.message, "longer");
}
END_TEST

START_TEST(command_line_wins_over_file)
{
    struct eo_error err = {0};
    char path[] = "/tmp/everyo-test-conf-XXXXXX";
    int fd = mkstemp(path);
    FILE *f = fdopen(fd, "w");
    fputs("threads = 2\nlisten = 127.0.0.1:5\nlisten = 127.0.0.1:6\nsession-plans = 9\n", f);
    fclose(f);
    ASSERT_OK(PARSE("--threads", "4", "--config", path, "--listen", "127.0.0.1:7"));
    ck_assert_uint_eq(c.threads, 4);
    ck_assert_int_eq(c.listen.n, 1);
    ck_assert_int_eq(c.listen.items[0].port, 7);
    ck_assert_uint_eq(c.session_plans, 9);
    ck_assert_str_eq(c.config_file, path);
    remove(path);
    ASSERT_CODE(PARSE("--config", path), EO_E_CONFIG);
    ASSERT_CONTAINS(err.message, path);
}
END_TEST

START_TEST(reload_takes_what_may_change)
{
    struct eo_error err = {0};
    static struct config next;
    config_defaults(&c);
    config_defaults(&next);
    ck_assert_int_eq(config_reload(&c, &next), 0);
    next.log_level = EO_LOG_ERROR;
    next.session_plans = 1;
    next.threads = 7;
    next.slots = 3;
    ck_assert_int_eq(config_reload(&c, &next), 2);
    ck_assert_int_eq(c.log_level, EO_LOG_ERROR);
    ck_assert_uint_eq(c.session_plans, 1);
    ck_assert_uint_eq(c.threads, 0);
    ASSERT_OK(config_check(&c, &err));
    c.memory_limit_bytes = 1000;
    ASSERT_CODE(config_check(&c, &err), EO_E_CONFIG);
}
END_TEST

START_TEST(help_lists_every_row)
{
    struct eo_bytes text;
    eo_bytes_init(&text, 1 << 20);
    config_help(&text);
    for (int i = 0; i < config_row_count(); i++) {
        const struct config_row *r = config_row(i);
        ASSERT_CONTAINS(eo_bytes_text(&text), r->flag[0] ? r->flag : r->key);
        ASSERT_CONTAINS(eo_bytes_text(&text), r->help);
    }
    ASSERT_CONTAINS(eo_bytes_text(&text), "Examples");
    eo_bytes_fini(&text);
}
END_TEST

EO_SUITE("config", defaults_are_valid, rows_are_sane, flags_in_both_spellings, usage_errors_help, listeners_are_bounded,
         off_loopback_needs_insecure, file_forms, file_errors_name_the_line, command_line_wins_over_file,
         reload_takes_what_may_change, help_lists_every_row)
