#include "proto/base/log.h"

#include "proto/base/error.h"
#include "proto/base/text.h"
#include "tests/support/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* stderr goes to a file between these two calls; what was written is in `captured`. */
static char captured[1 << 20];
static int saved_stderr = -1;
static int capture_fd = -1;

static void capture_begin(void)
{
    char name[] = "/tmp/eo-test-log-XXXXXX";

    capture_fd = mkostemp(name, O_APPEND);
    ck_assert_int_ge(capture_fd, 0);
    unlink(name);
    saved_stderr = dup(STDERR_FILENO);
    ck_assert_int_ge(dup2(capture_fd, STDERR_FILENO), 0);
}

static void capture_end(void)
{
    ssize_t n;

    dup2(saved_stderr, STDERR_FILENO);
    close(saved_stderr);
    n = pread(capture_fd, captured, sizeof(captured) - 1, 0);
    close(capture_fd);
    ck_assert_int_ge(n, 0);
    captured[n] = '\0';
}

/* The line without its time stamp, whose form is checked. */
static const char *after_time(const char *line)
{
    static const char form[] = "dddd-dd-ddTdd:dd:dd.dddZ ";

    for (size_t i = 0; i < sizeof(form) - 1; i++) {
        ck_assert_msg(form[i] == 'd' ? line[i] >= '0' && line[i] <= '9' : line[i] == form[i], "%s", line);
    }
    return line + sizeof(form) - 1;
}

START_TEST(text_lines)
{
    capture_begin();
    eo_log_setup(EO_LOG_INFO, EO_LOG_TEXT);
    errno = 11;
    eo_log(EO_LOG_INFO, "server", "listening on %s", "127.0.0.1:17743");
    ck_assert_int_eq(errno, 11);
    capture_end();
    ck_assert_str_eq(after_time(captured), "info  server: listening on 127.0.0.1:17743\n");
    capture_begin();
    eo_log(EO_LOG_DEBUG, "server", "not shown");
    capture_end();
    ck_assert_str_eq(captured, "");
    capture_begin();
    eo_log_setup(EO_LOG_ERROR, EO_LOG_TEXT);
    eo_log(EO_LOG_WARN, "server", "not shown");
    eo_log(EO_LOG_ERROR, "jobs", "shown");
    capture_end();
    ck_assert_str_eq(after_time(captured), "error jobs: shown\n");
}
END_TEST

START_TEST(one_message_is_one_line)
{
    char longer[5000];

    memset(longer, 'y', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    eo_log_setup(EO_LOG_DEBUG, EO_LOG_TEXT);
    capture_begin();
    eo_log(EO_LOG_DEBUG, "x", "a \"quoted\" \\ thing\n2026-01-01T00:00:00.000Z error forged: line\x1b[2J");
    capture_end();
    ck_assert_str_eq(after_time(captured), "debug x: a \"quoted\" \\ thing\\n"
                                           "2026-01-01T00:00:00.000Z error forged: line\\u001b[2J\n");
    capture_begin();
    eo_log(EO_LOG_WARN, "x", "%s", longer);
    capture_end();
    ck_assert_uint_lt(strlen(captured), 2200);
    ck_assert_str_eq(captured + strlen(captured) - 5, "y...\n");
}
END_TEST

START_TEST(json_lines)
{
    json_error_t problem;
    json_t *doc;

    eo_log_setup(EO_LOG_INFO, EO_LOG_JSON);
    capture_begin();
    eo_log(EO_LOG_WARN, "server", "strange \"bytes\": \xFF\n%c", 7);
    capture_end();
    ck_assert_int_eq(captured[strlen(captured) - 1], '\n');
    doc = json_loads(captured, JSON_REJECT_DUPLICATES, &problem);
    ck_assert_msg(doc != NULL, "%s: %s", problem.text, captured);
    ck_assert_str_eq(json_string_value(json_object_get(doc, "level")), "warn");
    ck_assert_str_eq(json_string_value(json_object_get(doc, "component")), "server");
    ck_assert_str_eq(json_string_value(json_object_get(doc, "message")), "strange \"bytes\": \xEF\xBF\xBD\n\x07");
    ck_assert_uint_eq(json_string_length(json_object_get(doc, "time")), 24);
    json_decref(doc);
}
END_TEST

static void make_error(struct eo_error *err)
{
    EO_RAISE_ERRNO(err, EO_E_CONNECTION_LOST, ECONNRESET, "connection to b:1 lost");
    eo_error_at_host(err, "b:1", 1);
    eo_error_at_op(err, "matmul", "3");
    eo_error_push(err, "sending a reply");
}

START_TEST(errors)
{
    struct eo_error err;
    json_t *doc;
    char expected[512];

    make_error(&err);
    eo_log_setup(EO_LOG_INFO, EO_LOG_TEXT);
    capture_begin();
    eo_log_error("server", &err);
    capture_end();
    snprintf(expected, sizeof(expected),
             "error server: EO-1008 connection to b:1 lost; errno %d: Connection reset by peer; peer b:1; op matmul; "
             "while sending a reply (tests/base/test_log.c:%d)\n",
             ECONNRESET, err.line);
    ck_assert_str_eq(after_time(captured), expected);

    eo_log_setup(EO_LOG_INFO, EO_LOG_JSON);
    capture_begin();
    eo_log_error("server", &err);
    capture_end();
    doc = json_loads(captured, JSON_REJECT_DUPLICATES, NULL);
    ck_assert_msg(doc != NULL, "%s", captured);
    ck_assert_str_eq(json_string_value(json_object_get(json_object_get(doc, "error"), "code")), "EO-1008");
    ck_assert_str_eq(json_string_value(json_object_get(doc, "message")), "connection to b:1 lost");
    json_decref(doc);
}
END_TEST

START_TEST(the_worst_error_is_still_one_json_object)
{
    struct eo_error err;
    char quotes[600];
    json_t *doc;

    memset(quotes, '"', sizeof(quotes) - 1);
    quotes[sizeof(quotes) - 1] = '\0';
    EO_RAISE(&err, EO_E_IO, "%s", quotes);
    eo_error_detail(&err, "%s", quotes);
    eo_error_hint(&err, "%s", quotes);
    eo_error_at_op(&err, quotes, quotes);
    eo_error_at_device(&err, quotes, quotes);
    eo_error_at_host(&err, quotes, 1);
    for (int i = 0; i < 5; i++) {
        eo_error_push(&err, "%s", quotes);
        eo_error_cause(&err, quotes, 1, quotes);
    }
    eo_log_setup(EO_LOG_INFO, EO_LOG_JSON);
    capture_begin();
    eo_log_error("server", &err);
    capture_end();
    doc = json_loads(captured, JSON_REJECT_DUPLICATES, NULL);
    ck_assert_msg(doc != NULL, "%s", captured);
    ck_assert(json_is_object(json_object_get(doc, "error")));
    json_decref(doc);
}
END_TEST

START_TEST(journal_priorities)
{
    struct stat st;
    char stream[64];

    capture_begin();
    ck_assert_int_eq(fstat(STDERR_FILENO, &st), 0);
    snprintf(stream, sizeof(stream), "%" PRIu64 ":%" PRIu64, (uint64_t)st.st_dev, (uint64_t)st.st_ino);
    setenv("JOURNAL_STREAM", stream, 1);
    eo_log_setup(EO_LOG_DEBUG, EO_LOG_TEXT);
    eo_log(EO_LOG_WARN, "server", "careful");
    capture_end();
    ck_assert_mem_eq(captured, "<4>", 3);
    ck_assert_str_eq(after_time(captured + 3), "warn  server: careful\n");

    capture_begin();
    setenv("JOURNAL_STREAM", "1:1", 1); /* inherited, but stderr is something else now */
    eo_log_setup(EO_LOG_DEBUG, EO_LOG_TEXT);
    eo_log(EO_LOG_WARN, "server", "careful");
    capture_end();
    ck_assert_str_eq(after_time(captured), "warn  server: careful\n");
    unsetenv("JOURNAL_STREAM");
}
END_TEST

static void *chatter(void *arg)
{
    const char *who = arg;

    for (int i = 0; i < 200; i++) {
        eo_log(EO_LOG_INFO, who, "message %d of %s", i, who);
    }
    return NULL;
}

START_TEST(threads_do_not_mix_their_lines)
{
    static char names[4][8] = {"alpha", "beta", "gamma", "delta"};
    pthread_t threads[4];
    int lines = 0;
    char *rest = captured;

    eo_log_setup(EO_LOG_INFO, EO_LOG_TEXT);
    capture_begin();
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, chatter, names[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    capture_end();
    while (*rest != '\0') {
        char *end = strchr(rest, '\n');
        char who[16], again[16];
        int number;

        ck_assert_ptr_nonnull(end);
        *end = '\0';
        ck_assert_int_eq(sscanf(after_time(rest), "info %15[a-z]: message %d of %15s", who, &number, again), 3);
        ck_assert_str_eq(who, again);
        lines++;
        rest = end + 1;
    }
    ck_assert_int_eq(lines, 800);
}
END_TEST

EO_SUITE("log", text_lines, one_message_is_one_line, json_lines, errors, the_worst_error_is_still_one_json_object,
         journal_priorities, threads_do_not_mix_their_lines)
