#include "tests/proto/transcript.h"

#include "proto/base/file.h"
#include "proto/base/text.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

void transcript_init(struct transcript *t)
{
    memset(t, 0, sizeof *t);
    eo_bytes_init(&t->envelope, EO_ENVELOPE_MAX);
}

void transcript_fini(struct transcript *t)
{
    for (int i = 0; i < t->n; i++) {
        eo_bytes_fini(&t->frames[i].bytes);
    }
    eo_bytes_fini(&t->envelope);
}

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool add_line(struct transcript *t, const char *line, size_t length)
{
    if (length == 0 || line[0] == '#') {
        return true;
    }
    if (line[0] == '>' || line[0] == '<') {
        struct transcript_frame *f = &t->frames[t->n];
        if (t->n == TRANSCRIPT_MAX) {
            return false;
        }
        t->n++;
        f->direction = line[0];
        snprintf(f->label, sizeof f->label, "%.*s", (int)(length - 2), line + 2);
        eo_bytes_init(&f->bytes, 1 << 20);
        return length > 2;
    }
    int high = -1;
    for (size_t i = 0; i < length; i++) {
        const int d = digit(line[i]);
        if (line[i] == ' ') {
            continue;
        }
        if (d < 0 || t->n == 0) {
            return false;
        }
        if (high < 0) {
            high = d;
        } else {
            const uint8_t byte = (uint8_t)(high << 4 | d);
            eo_bytes_append(&t->frames[t->n - 1].bytes, &byte, 1);
            high = -1;
        }
    }
    return high < 0;
}

bool transcript_read(struct transcript *t, const char *path, struct eo_error *err)
{
    struct eo_bytes text;
    bool ok = true;
    transcript_init(t);
    if (eo_file_read(path, 1 << 20, &text, err) != EO_OK) {
        return false;
    }
    const char *at = eo_bytes_text(&text);
    for (int number = 1; *at != '\0' && ok; number++) {
        const size_t n = strcspn(at, "\n");
        ok = add_line(t, at, n);
        if (!ok) {
            EO_RAISE(err, EO_E_BAD_FILE, "%s:%d is no line of a transcript", path, number);
        }
        at += n + (at[n] == '\n');
    }
    eo_bytes_fini(&text);
    return ok;
}

bool transcript_split(const struct transcript_frame *f, struct eo_doc *doc, struct eo_envelope *out,
                      const uint8_t **payload, size_t *payload_size, struct eo_error *err)
{
    struct eo_frame_header h;
    if (f->bytes.size < EO_FRAME_HEADER_SIZE || eo_frame_decode(f->bytes.data, 64 << 20, &h, err) != EO_OK ||
        f->bytes.size != EO_FRAME_HEADER_SIZE + h.envelope_size + h.payload_size) {
        return false;
    }
    *payload = f->bytes.data + EO_FRAME_HEADER_SIZE + h.envelope_size;
    *payload_size = (size_t)h.payload_size;
    return eo_envelope_parse(doc, out, f->bytes.data + EO_FRAME_HEADER_SIZE, h.envelope_size, err) == EO_OK;
}
