/* The terminal and the JSON form of an eo_error. Both write into the caller's buffer and allocate nothing, so that
 * running out of memory can be reported too. */
#include "proto/base/error.h"
#include "proto/base/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct sink {
    char *out;
    size_t size;
    size_t length; /* wanted so far; may pass size */
};

static void put_n(struct sink *s, const char *text, size_t n)
{
    if (s->length < s->size) {
        memcpy(s->out + s->length, text, EO_MIN(n, s->size - s->length));
    }
    s->length += n;
}

static void put(struct sink *s, const char *text)
{
    put_n(s, text, strlen(text));
}

static void put_spaces(struct sink *s, size_t n)
{
    while (n-- > 0) {
        put_n(s, " ", 1);
    }
}

static void put_i64(struct sink *s, int64_t v)
{
    char text[24];

    snprintf(text, sizeof(text), "%" PRId64, v);
    put(s, text);
}

static size_t finish(struct sink *s)
{
    if (s->size > 0) {
        s->out[EO_MIN(s->length, s->size - 1)] = '\0';
    }
    return s->length;
}

static int digits_of(int64_t v)
{
    char text[24];

    return snprintf(text, sizeof(text), "%" PRId64, v);
}

/* ---- terminal ---- */

enum { KEY_COLUMN = 2, TEXT_COLUMN = 11 };

struct palette {
    const char *error, *message, *key, *mark, *reset;
};

static const struct palette plain = {"", "", "", "", ""};
static const struct palette colored = {"\033[1;31m", "\033[1m", "\033[36m", "\033[1;31m", "\033[0m"};

static void put_key(struct sink *s, const struct palette *p, const char *key)
{
    size_t width = strlen(key);

    put_spaces(s, KEY_COLUMN);
    put(s, p->key);
    put(s, key);
    put(s, p->reset);
    put_spaces(s, width < TEXT_COLUMN - KEY_COLUMN ? TEXT_COLUMN - KEY_COLUMN - width : 1);
}

/* A key and its text; further lines of the text stay in its column. */
static void put_field(struct sink *s, const struct palette *p, const char *key, const char *text)
{
    const char *end;

    if (text[0] == '\0') {
        return;
    }
    put_key(s, p, key);
    while ((end = strchr(text, '\n')) != NULL) {
        put_n(s, text, (size_t)(end - text + 1));
        text = end + 1;
        put_spaces(s, text[0] != '\0' ? TEXT_COLUMN : 0);
    }
    put(s, text);
    put(s, "\n");
}

/* Columns a text takes, one per character: names hold no wide ones that would be worth a table. */
static size_t columns_of(const char *text)
{
    size_t n = 0;

    for (; *text != '\0'; text++) {
        n += ((unsigned char)*text & 0xC0) != 0x80;
    }
    return n;
}

/*   input 0  x  float32 [32, 784]
 *                            ^^^        */
static void put_input(struct sink *s, const struct palette *p, const struct eo_error_input *input, int index)
{
    char key[16];
    size_t column = TEXT_COLUMN;
    size_t mark_column = 0;

    snprintf(key, sizeof(key), "input %d", index);
    put_key(s, p, key);
    if (input->name[0] != '\0') {
        put(s, input->name);
        put(s, "  ");
        column += columns_of(input->name) + 2;
    }
    put(s, input->dtype);
    put(s, " [");
    column += columns_of(input->dtype) + 2;
    for (int i = 0; i < input->n_dims; i++) {
        if (i > 0) {
            put(s, ", ");
            column += 2;
        }
        if (i == input->marked_dim) {
            mark_column = column;
        }
        put_i64(s, input->shape[i]);
        column += (size_t)digits_of(input->shape[i]);
    }
    put(s, "]\n");
    if (mark_column > 0) {
        put_spaces(s, mark_column);
        put(s, p->mark);
        for (int i = digits_of(input->shape[input->marked_dim]); i > 0; i--) {
            put(s, "^");
        }
        put(s, p->reset);
        put(s, "\n");
    }
}

static void put_operation(struct sink *s, const struct palette *p, const struct eo_error *err)
{
    if (err->op[0] == '\0') {
        put_field(s, p, "at", err->node);
        return;
    }
    put_key(s, p, "op");
    put(s, err->op);
    if (err->node[0] != '\0') {
        put(s, ", node ");
        put(s, err->node);
    }
    put(s, "\n");
}

/* "cuda:0" says its backend already; "cpu:0" computed by "reference" does not. */
static void put_device(struct sink *s, const struct palette *p, const struct eo_error *err)
{
    size_t n = strlen(err->backend);
    bool device_says_it = strncmp(err->device, err->backend, n) == 0 && (err->device[n] == ':' || err->device[n] == 0);

    if (err->backend[0] == '\0' && err->device[0] == '\0') {
        return;
    }
    put_key(s, p, "backend");
    if (err->device[0] == '\0' || n == 0 || device_says_it) {
        put(s, err->device[0] == '\0' ? err->backend : err->device);
    } else {
        put(s, err->backend);
        put(s, " on ");
        put(s, err->device);
    }
    put(s, "\n");
}

static void put_host(struct sink *s, const struct palette *p, const struct eo_error *err)
{
    if (err->host[0] == '\0' && err->rank < 0) {
        return;
    }
    put_key(s, p, "peer");
    put(s, err->host);
    if (err->rank >= 0) {
        put(s, err->host[0] == '\0' ? "rank " : " (rank ");
        put_i64(s, err->rank);
        put(s, err->host[0] == '\0' ? "" : ")");
    }
    put(s, "\n");
}

static void put_causes(struct sink *s, const struct palette *p, const struct eo_error *err)
{
    for (int i = 0; i < err->n_causes; i++) {
        const struct eo_error_cause *cause = &err->causes[i];

        put_key(s, p, "cause");
        put(s, cause->source);
        put(s, " ");
        put_i64(s, cause->code);
        if (cause->text[0] != '\0') {
            put(s, ": ");
            put(s, cause->text);
        }
        put(s, "\n");
    }
}

size_t eo_error_text(const struct eo_error *err, bool color, char *out, size_t size)
{
    const struct palette *p = color ? &colored : &plain;
    struct sink s = {out, size, 0};
    char code[24];

    if (err->code == EO_OK) {
        put(&s, "no error\n");
        return finish(&s);
    }
    snprintf(code, sizeof(code), "error EO-%04d", err->code);
    put(&s, p->error);
    put(&s, code);
    put(&s, p->reset);
    put(&s, ": ");
    put(&s, p->message);
    put(&s, err->message);
    put(&s, p->reset);
    put(&s, "\n");
    put_operation(&s, p, err);
    for (int i = 0; i < err->n_inputs; i++) {
        put_input(&s, p, &err->inputs[i], i);
    }
    put_device(&s, p, err);
    put_host(&s, p, err);
    put_field(&s, p, "detail", err->detail);
    put_causes(&s, p, err);
    for (int i = 0; i < err->n_contexts; i++) {
        put_field(&s, p, "while", err->contexts[i]);
    }
    put_field(&s, p, "hint", err->hint);
    if (err->truncated) {
        put_field(&s, p, "note", "parts of this report were cut to fit");
    }
    if (strcmp(eo_code_name(err->code), "UNKNOWN") != 0) {
        snprintf(code, sizeof(code), "EO-%04d", err->code);
        put_key(&s, p, "more");
        put(&s, "everyo explain ");
        put(&s, code);
        put(&s, "\n");
    }
    return finish(&s);
}

/* ---- JSON ---- */

static void put_quoted(struct sink *s, const char *text)
{
    const char *end = text + strlen(text);
    char escaped[EO_JSON_ESCAPE_MAX];

    put(s, "\"");
    while (text < end) {
        size_t n = eo_json_escape(&text, end, escaped);

        put_n(s, escaped, n);
    }
    put(s, "\"");
}

static void put_member(struct sink *s, const char *key, const char *text)
{
    if (text[0] != '\0') {
        put(s, ",\"");
        put(s, key);
        put(s, "\":");
        put_quoted(s, text);
    }
}

static void put_number(struct sink *s, const char *key, int64_t v)
{
    put(s, ",\"");
    put(s, key);
    put(s, "\":");
    put_i64(s, v);
}

static void put_json_inputs(struct sink *s, const struct eo_error *err)
{
    if (err->n_inputs == 0) {
        return;
    }
    put(s, ",\"inputs\":[");
    for (int i = 0; i < err->n_inputs; i++) {
        const struct eo_error_input *input = &err->inputs[i];

        put(s, i > 0 ? ",{\"name\":" : "{\"name\":");
        put_quoted(s, input->name);
        put_member(s, "dtype", input->dtype);
        put(s, ",\"shape\":[");
        for (int d = 0; d < input->n_dims; d++) {
            put(s, d > 0 ? "," : "");
            put_i64(s, input->shape[d]);
        }
        put(s, "]");
        if (input->marked_dim >= 0) {
            put_number(s, "marked_dim", input->marked_dim);
        }
        put(s, "}");
    }
    put(s, "]");
}

static void put_json_chain(struct sink *s, const struct eo_error *err)
{
    for (int i = 0; i < err->n_causes; i++) {
        put(s, i == 0 ? ",\"causes\":[{\"source\":" : ",{\"source\":");
        put_quoted(s, err->causes[i].source);
        put_number(s, "code", err->causes[i].code);
        put_member(s, "text", err->causes[i].text);
        put(s, i + 1 == err->n_causes ? "}]" : "}");
    }
    for (int i = 0; i < err->n_contexts; i++) {
        put(s, i == 0 ? ",\"context\":[" : ",");
        put_quoted(s, err->contexts[i]);
        put(s, i + 1 == err->n_contexts ? "]" : "");
    }
}

size_t eo_error_json(const struct eo_error *err, char *out, size_t size)
{
    struct sink s = {out, size, 0};
    char code[24];

    snprintf(code, sizeof(code), "\"EO-%04d\"", err->code);
    put(&s, "{\"code\":");
    put(&s, code);
    put_member(&s, "name", eo_code_name(err->code));
    put(&s, ",\"message\":");
    put_quoted(&s, err->message);
    put_member(&s, "detail", err->detail);
    put_member(&s, "hint", err->hint);
    put_member(&s, "op", err->op);
    put_member(&s, "node", err->node);
    put_member(&s, "backend", err->backend);
    put_member(&s, "device", err->device);
    put_member(&s, "host", err->host);
    if (err->rank >= 0) {
        put_number(&s, "rank", err->rank);
    }
    put_json_inputs(&s, err);
    put_json_chain(&s, err);
    put(&s, eo_code_retryable(err->code) ? ",\"retryable\":true" : ",\"retryable\":false");
    put(&s, err->truncated ? ",\"truncated\":true" : "");
    if (err->file != NULL) {
        put_member(&s, "file", err->file);
        put_number(&s, "line", err->line);
    }
    put(&s, "}");
    return finish(&s);
}
