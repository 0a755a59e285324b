#include "proto/base/error.h"

#include "proto/base/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- facts of a code ---- */

enum {
#define EO_ERROR(name, number, exit_code, retryable, summary) ROW_##name,
#include "proto/tables/errors.def"
    N_ROWS
};

struct code_row {
    const char *name;
    const char *summary;
    int code;
    int exit_code;
    bool retryable;
};

static const struct code_row rows[N_ROWS] = {
#define EO_ERROR(name, number, exit_code, retryable, summary)                                                          \
    [ROW_##name] = {#name, summary, (number), (exit_code), (retryable) != 0},
#include "proto/tables/errors.def"
};

static const struct code_row unknown_row = {"UNKNOWN", "unknown error", 0, 70, false};

/* A switch, so that a number used twice does not compile. */
static const struct code_row *row_of(int code)
{
    switch (code) {
#define EO_ERROR(name, number, exit_code, retryable, summary)                                                          \
    case (number):                                                                                                     \
        return &rows[ROW_##name];
#include "proto/tables/errors.def"
    }
    return &unknown_row;
}

const char *eo_code_name(int code)
{
    return row_of(code)->name;
}
const char *eo_code_summary(int code)
{
    return row_of(code)->summary;
}
int eo_code_exit(int code)
{
    return row_of(code)->exit_code;
}
bool eo_code_retryable(int code)
{
    return row_of(code)->retryable;
}
int eo_code_count(void)
{
    return N_ROWS;
}
int eo_code_at(int index)
{
    return index >= 0 && index < N_ROWS ? rows[index].code : EO_OK;
}

/* ---- storing text ---- */

/* Every formatted text passes through one of these, on the stack of the call: arguments may point into *err itself. */
struct draft {
    char text[sizeof(((struct eo_error *)0)->detail) + 4];
    bool cut;
};

EO_PRINTF(2, 0) static void draft_format(struct draft *d, const char *fmt, va_list args)
{
    int wanted = vsnprintf(d->text, sizeof(d->text), fmt, args);

    d->cut = wanted >= (int)sizeof(d->text);
    if (wanted < 0) {
        snprintf(d->text, sizeof(d->text), "(text could not be formatted)");
    }
}

static void draft_copy(struct draft *d, const char *text)
{
    d->cut = !eo_copy_text(d->text, sizeof(d->text), text == NULL ? "" : text);
}

/* Control bytes (C0, DEL, C1) and broken UTF-8 never reach a terminal or a log line, whatever a caller forgot to quote.
 * One byte stays one byte, so lengths do not change. */
static void make_printable(char *text, bool keep_newlines)
{
    size_t left = strlen(text);

    while (left > 0) {
        size_t step = eo_utf8_length(text, left);
        unsigned char c = (unsigned char)*text;

        if (step == 0) {
            *text = '?';
            step = 1;
        } else if (c == '\n' && keep_newlines) {
            step = 1;
        } else if (c == '\n' || c == '\t' || c == '\r') {
            *text = ' ';
        } else if (c < 0x20 || c == 0x7f) {
            *text = '?';
        } else if (c == 0xC2 && (unsigned char)text[1] < 0xA0) {
            text[0] = '?';
            text[1] = '?';
        }
        text += step;
        left -= step;
    }
}

/* Copies a draft to a field; what does not fit ends in "..." at a character boundary. Returns true when it was cut. */
static bool draft_store(const struct draft *d, char *field, size_t size, bool keep_newlines)
{
    size_t length = strlen(d->text);
    bool cut = d->cut || length >= size;

    if (cut) {
        length = EO_MIN(length, size - 1 - 3);
        while (length > 0 && ((unsigned char)d->text[length] & 0xC0) == 0x80) {
            length--;
        }
    }
    memcpy(field, d->text, length);
    memcpy(field + length, "...", cut ? 4 : 1);
    if (!cut) {
        field[length] = '\0';
    }
    make_printable(field, keep_newlines);
    return cut;
}

static void store_text(struct eo_error *err, char *field, size_t size, const char *text)
{
    struct draft d;

    draft_copy(&d, text);
    err->truncated |= draft_store(&d, field, size, false);
}

/* __FILE__ without the path of the source tree, which is as long as the part of this file's own before its name. */
static const char *relative_source(const char *file)
{
    static const char here[] = __FILE__;
    static const char own[] = "proto/base/error.c";
    size_t prefix = sizeof(here) - sizeof(own);

    if (file != NULL && strncmp(file, here, prefix) == 0) {
        return file + prefix;
    }
    return file;
}

/* ---- raising ---- */

void eo_error_clear(struct eo_error *err)
{
    if (err != NULL) {
        memset(err, 0, sizeof(*err));
        err->rank = -1;
    }
}

static void raise_draft(struct eo_error *err, int code, const char *file, int line, const struct draft *d)
{
    eo_error_clear(err);
    err->code = code;
    err->file = relative_source(file);
    err->line = line;
    err->truncated = draft_store(d, err->message, sizeof(err->message), false);
}

int eo_error_raise(struct eo_error *err, int code, const char *file, int line, const char *fmt, ...)
{
    int saved_errno = errno;
    struct draft d;
    va_list args;

    if (err != NULL) {
        va_start(args, fmt);
        draft_format(&d, fmt, args);
        va_end(args);
        raise_draft(err, code, file, line, &d);
    }
    errno = saved_errno;
    return code;
}

int eo_error_raise_errno(struct eo_error *err, int code, int errnum, const char *file, int line, const char *fmt, ...)
{
    int saved_errno = errno;
    char reason[128];
    struct draft d;
    va_list args;

    if (err != NULL) {
        va_start(args, fmt);
        draft_format(&d, fmt, args);
        va_end(args);
        raise_draft(err, code, file, line, &d);
        eo_error_cause(err, "errno", errnum, strerror_r(errnum, reason, sizeof(reason)));
    }
    errno = saved_errno;
    return code;
}

int eo_error_bug(struct eo_error *err, const char *file, int line, const char *fmt, ...)
{
    int saved_errno = errno;
    struct draft d;
    va_list args;

    if (err != NULL) {
        va_start(args, fmt);
        draft_format(&d, fmt, args);
        va_end(args);
        raise_draft(err, EO_E_INTERNAL, file, line, &d);
        eo_error_detail(err, "This is a fault in EveryO itself, found at %s:%d.", err->file, line);
        eo_error_hint(err, "Please report it, with these lines and what you did.");
    }
    errno = saved_errno;
    return EO_E_INTERNAL;
}

/* ---- decorations ---- */

void eo_error_detail(struct eo_error *err, const char *fmt, ...)
{
    struct draft d;
    va_list args;

    if (err == NULL) {
        return;
    }
    va_start(args, fmt);
    draft_format(&d, fmt, args);
    va_end(args);
    err->truncated |= draft_store(&d, err->detail, sizeof(err->detail), true);
}

void eo_error_hint(struct eo_error *err, const char *fmt, ...)
{
    struct draft d;
    va_list args;

    if (err == NULL) {
        return;
    }
    va_start(args, fmt);
    draft_format(&d, fmt, args);
    va_end(args);
    err->truncated |= draft_store(&d, err->hint, sizeof(err->hint), true);
}

/* When the list is full the innermost contexts stay: they are nearest to what went wrong. */
void eo_error_push(struct eo_error *err, const char *fmt, ...)
{
    struct draft d;
    va_list args;

    if (err == NULL) {
        return;
    }
    if (err->n_contexts >= EO_ERROR_CONTEXTS) {
        err->truncated = true;
        return;
    }
    va_start(args, fmt);
    draft_format(&d, fmt, args);
    va_end(args);
    err->truncated |= draft_store(&d, err->contexts[err->n_contexts], sizeof(err->contexts[0]), false);
    err->n_contexts++;
}

void eo_error_at_op(struct eo_error *err, const char *op, const char *node)
{
    if (err != NULL) {
        store_text(err, err->op, sizeof(err->op), op);
        store_text(err, err->node, sizeof(err->node), node);
    }
}

void eo_error_at_device(struct eo_error *err, const char *backend, const char *device)
{
    if (err != NULL) {
        store_text(err, err->backend, sizeof(err->backend), backend);
        store_text(err, err->device, sizeof(err->device), device);
    }
}

void eo_error_at_host(struct eo_error *err, const char *host, int rank)
{
    if (err != NULL) {
        store_text(err, err->host, sizeof(err->host), host);
        err->rank = rank < 0 ? -1 : rank;
    }
}

void eo_error_input(struct eo_error *err, const char *name, const char *dtype, const int64_t *shape, int n_dims,
                    int marked_dim)
{
    struct eo_error_input *input;

    if (err == NULL) {
        return;
    }
    if (err->n_inputs >= EO_ERROR_INPUTS) {
        err->truncated = true;
        return;
    }
    input = &err->inputs[err->n_inputs++];
    store_text(err, input->name, sizeof(input->name), name);
    store_text(err, input->dtype, sizeof(input->dtype), dtype);
    if (n_dims > EO_ERROR_DIMS) {
        err->truncated = true;
    }
    n_dims = EO_MAX(0, EO_MIN(n_dims, (int)EO_ERROR_DIMS));
    input->n_dims = (uint8_t)n_dims;
    input->marked_dim = (int8_t)(marked_dim >= 0 && marked_dim < n_dims ? marked_dim : -1);
    for (int i = 0; i < n_dims; i++) {
        input->shape[i] = shape[i];
    }
}

void eo_error_cause(struct eo_error *err, const char *source, int64_t code, const char *text)
{
    struct eo_error_cause *cause;

    if (err == NULL) {
        return;
    }
    if (err->n_causes >= EO_ERROR_CAUSES) {
        err->truncated = true;
        return;
    }
    cause = &err->causes[err->n_causes++];
    store_text(err, cause->source, sizeof(cause->source), source);
    cause->code = code;
    store_text(err, cause->text, sizeof(cause->text), text);
}

/* ---- untrusted text ---- */

enum { QUOTE_MAX = 80 };

static size_t quote_byte(unsigned char c, char out[5])
{
    switch (c) {
    case '"':
    case '\\':
        out[0] = '\\';
        out[1] = (char)c;
        return 2;
    case '\n':
        memcpy(out, "\\n", 2);
        return 2;
    case '\r':
        memcpy(out, "\\r", 2);
        return 2;
    case '\t':
        memcpy(out, "\\t", 2);
        return 2;
    default:
        break;
    }
    if (c >= 0x20 && c < 0x7f) {
        out[0] = (char)c;
        return 1;
    }
    snprintf(out, 5, "\\x%02x", (unsigned)c);
    return 4;
}

char *eo_quote(const char *text, size_t length, char *out, size_t size)
{
    static const char tail[] = "\"...";
    size_t shown = text == NULL ? 0 : EO_MIN(length, (size_t)QUOTE_MAX);
    size_t used = 1;
    bool cut = text != NULL && length > shown;

    if (size < 1 + sizeof(tail)) { /* no room for quotes and the mark of a cut: say nothing rather than half */
        if (size > 0) {
            out[0] = '\0';
        }
        return out;
    }
    out[0] = '"';
    for (size_t i = 0; i < shown; i++) {
        char escaped[5];
        size_t n = quote_byte((unsigned char)text[i], escaped);

        if (used + n + sizeof(tail) > size) {
            cut = true;
            break;
        }
        memcpy(out + used, escaped, n);
        used += n;
    }
    memcpy(out + used, tail, sizeof(tail));
    if (!cut) {
        out[used + 1] = '\0';
    }
    return out;
}
