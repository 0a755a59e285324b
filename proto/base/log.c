#include "proto/base/log.h"

#include "proto/base/clock.h"
#include "proto/base/error.h"
#include "proto/base/json.h"
#include "proto/base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 16 * 1024, MESSAGE_MAX_BYTES = 2048 };

static const char *const level_names[] = {"debug", "info", "warn", "error"};
static const int journal_priorities[] = {7, 6, 4, 3}; /* sd-daemon(3) */

/* Set once at start, read by every thread; relaxed is enough, since a line more or less at start does not matter. */
static atomic_int current_level = EO_LOG_INFO;
static atomic_int current_format = EO_LOG_TEXT;
static atomic_bool to_journal = false;

/* systemd names the journal's stream as device:inode; it is ours only if stderr still is that stream. */
static bool stderr_is_journal(void)
{
    const char *stream = getenv("JOURNAL_STREAM");
    struct stat st;
    char own[48];

    if (stream == NULL || fstat(STDERR_FILENO, &st) != 0) {
        return false;
    }
    snprintf(own, sizeof(own), "%" PRIu64 ":%" PRIu64, (uint64_t)st.st_dev, (uint64_t)st.st_ino);
    return strcmp(stream, own) == 0;
}

void eo_log_setup(enum eo_log_level level, enum eo_log_format format)
{
    atomic_store_explicit(&current_level, (int)level, memory_order_relaxed);
    atomic_store_explicit(&current_format, (int)format, memory_order_relaxed);
    atomic_store_explicit(&to_journal, stderr_is_journal(), memory_order_relaxed);
}

/* A line is built in a fixed buffer: logging that memory is out must not need memory. It is sized so that the longest
 * message or error fits with every byte escaped; the last bytes are kept for the end of the line. */
struct line {
    char text[LINE_MAX_BYTES];
    size_t used;
    bool cut;
};

enum { LINE_RESERVE = 16 };

static void line_put_n(struct line *l, const char *text, size_t n)
{
    if (l->cut || n > sizeof(l->text) - LINE_RESERVE - l->used) {
        l->cut = true;
        return;
    }
    memcpy(l->text + l->used, text, n);
    l->used += n;
}

static void line_put(struct line *l, const char *text)
{
    line_put_n(l, text, strlen(text));
}

/* Text lines escape as JSON does, without the backslash doubling of quotes: `"` is common in messages and harmless. */
static void line_put_escaped(struct line *l, const char *text, bool quotes)
{
    const char *end = text + strlen(text);
    char escaped[EO_JSON_ESCAPE_MAX];

    while (text < end) {
        const char *start = text;
        size_t n = eo_json_escape(&text, end, escaped);

        if (!quotes && (*start == '"' || *start == '\\')) {
            line_put_n(l, start, 1);
        } else {
            line_put_n(l, escaped, n);
        }
    }
}

static void line_send(struct line *l, const char *ending)
{
    size_t n = strlen(ending);
    size_t sent = 0;

    memcpy(l->text + l->used, ending, n);
    l->used += n;
    /* One write is one line, also between threads and processes; only a signal or a full pipe makes it two. */
    while (sent < l->used) {
        ssize_t moved = write(STDERR_FILENO, l->text + sent, l->used - sent);

        if (moved < 0 && errno == EINTR) {
            continue;
        }
        if (moved <= 0) {
            return;
        }
        sent += (size_t)moved;
    }
}

static void line_begin(struct line *l, enum eo_log_level level, const char *component, bool json)
{
    char when[32];
    char priority[8];

    l->used = 0;
    l->cut = false;
    eo_rfc3339(eo_wall_ms(), when, sizeof(when));
    if (atomic_load_explicit(&to_journal, memory_order_relaxed)) {
        snprintf(priority, sizeof(priority), "<%d>", journal_priorities[level]);
        line_put(l, priority);
    }
    line_put(l, json ? "{\"time\":\"" : "");
    line_put(l, when);
    line_put(l, json ? "\",\"level\":\"" : " ");
    line_put(l, level_names[level]);
    if (json) {
        line_put(l, "\",\"component\":\"");
        line_put_escaped(l, component, true);
        line_put(l, "\"");
    } else {
        line_put(l, strlen(level_names[level]) < 5 ? "  " : " ");
        line_put_escaped(l, component, false);
        line_put(l, ": ");
    }
}

static bool enabled(enum eo_log_level level)
{
    return (int)level >= atomic_load_explicit(&current_level, memory_order_relaxed);
}

void eo_log(enum eo_log_level level, const char *component, const char *fmt, ...)
{
    bool json = atomic_load_explicit(&current_format, memory_order_relaxed) == EO_LOG_JSON;
    int saved_errno = errno;
    char message[MESSAGE_MAX_BYTES];
    struct line l;
    va_list args;
    int wanted;

    if (!enabled(level)) {
        return;
    }
    va_start(args, fmt);
    wanted = vsnprintf(message, sizeof(message), fmt, args);
    va_end(args);
    if (wanted < 0) {
        eo_copy_text(message, sizeof(message), "(message could not be formatted)");
    } else if ((size_t)wanted >= sizeof(message)) {
        memcpy(message + sizeof(message) - 4, "...", 4);
    }
    line_begin(&l, level, component, json);
    line_put(&l, json ? ",\"message\":\"" : "");
    line_put_escaped(&l, message, json);
    line_send(&l, json ? "\"}\n" : "\n");
    errno = saved_errno;
}

/* One line for people: code, message, then what narrows it down. */
static void line_put_error(struct line *l, const struct eo_error *err)
{
    char text[64];

    snprintf(text, sizeof(text), "EO-%04d ", err->code);
    line_put(l, text);
    line_put_escaped(l, err->message, false);
    for (int i = 0; i < err->n_causes; i++) {
        line_put(l, "; ");
        line_put_escaped(l, err->causes[i].source, false);
        snprintf(text, sizeof(text), " %" PRId64 ": ", err->causes[i].code);
        line_put(l, text);
        line_put_escaped(l, err->causes[i].text, false);
    }
    if (err->host[0] != '\0') {
        line_put(l, "; peer ");
        line_put_escaped(l, err->host, false);
    }
    if (err->op[0] != '\0') {
        line_put(l, "; op ");
        line_put_escaped(l, err->op, false);
    }
    for (int i = 0; i < err->n_contexts; i++) {
        line_put(l, "; while ");
        line_put_escaped(l, err->contexts[i], false);
    }
    if (err->file != NULL) {
        snprintf(text, sizeof(text), ":%d)", err->line);
        line_put(l, " (");
        line_put(l, err->file);
        line_put(l, text);
    }
}

void eo_log_error(const char *component, const struct eo_error *err)
{
    bool json = atomic_load_explicit(&current_format, memory_order_relaxed) == EO_LOG_JSON;
    int saved_errno = errno;
    struct line l;

    if (!enabled(EO_LOG_ERROR)) {
        return;
    }
    line_begin(&l, EO_LOG_ERROR, component, json);
    if (json) {
        char report[LINE_MAX_BYTES / 2];
        size_t length = eo_error_json(err, report, sizeof(report));

        line_put(&l, ",\"message\":\"");
        line_put_escaped(&l, err->message, true);
        line_put(&l, "\"");
        if (length < sizeof(report)) { /* always, unless every field is full of characters to escape */
            line_put(&l, ",\"error\":");
            line_put(&l, report);
        }
        line_send(&l, "}\n");
    } else {
        line_put_error(&l, err);
        line_send(&l, "\n");
    }
    errno = saved_errno;
}
