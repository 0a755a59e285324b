#include "proto/base/bytes.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES_MIN_CAPACITY = 64 };

void eo_bytes_init(struct eo_bytes *b, size_t limit)
{
    b->data = NULL;
    b->size = 0;
    b->capacity = 0;
    /* One byte beyond the limit is reserved for the NUL of eo_bytes_text. */
    b->limit = limit < SIZE_MAX ? limit : SIZE_MAX - 1;
    b->failed = false;
}

void eo_bytes_fini(struct eo_bytes *b)
{
    free(b->data);
    b->data = NULL;
    b->size = 0;
    b->capacity = 0;
}

void eo_bytes_clear(struct eo_bytes *b)
{
    b->size = 0;
    b->failed = false;
}

/* Makes room for `more` bytes and a NUL behind them. */
static bool reserve(struct eo_bytes *b, size_t more)
{
    size_t need;
    size_t capacity;
    uint8_t *data;

    if (b->failed) {
        return false;
    }
    if (b->size > b->limit || more > b->limit - b->size) {
        b->failed = true;
        return false;
    }
    need = b->size + more + 1;
    if (need <= b->capacity) {
        return true;
    }
    capacity = b->capacity <= SIZE_MAX / 2 ? b->capacity * 2 : SIZE_MAX;
    capacity = EO_MAX(capacity, (size_t)BYTES_MIN_CAPACITY);
    capacity = EO_MIN(capacity, b->limit + 1);
    capacity = EO_MAX(capacity, need);
    data = realloc(b->data, capacity);
    if (data == NULL) {
        b->failed = true;
        return false;
    }
    b->data = data;
    b->capacity = capacity;
    return true;
}

uint8_t *eo_bytes_extend(struct eo_bytes *b, size_t size)
{
    uint8_t *start;

    if (!reserve(b, size)) {
        return NULL;
    }
    start = b->data + b->size;
    b->size += size;
    return start;
}

void eo_bytes_append(struct eo_bytes *b, const void *data, size_t size)
{
    uint8_t *start;

    if (size == 0) {
        return;
    }
    start = eo_bytes_extend(b, size);
    if (start != NULL) {
        memcpy(start, data, size);
    }
}

void eo_bytes_printf(struct eo_bytes *b, const char *fmt, ...)
{
    va_list args;
    int length;

    va_start(args, fmt);
    length = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (length < 0) {
        b->failed = true;
        return;
    }
    if (!reserve(b, (size_t)length)) {
        return;
    }
    va_start(args, fmt);
    /* reserve() left room for the NUL that vsnprintf writes; it is not counted in size. */
    vsnprintf((char *)b->data + b->size, (size_t)length + 1, fmt, args);
    va_end(args);
    b->size += (size_t)length;
}

const char *eo_bytes_text(struct eo_bytes *b)
{
    if (b->failed || b->size == 0) {
        return "";
    }
    b->data[b->size] = 0;
    return (const char *)b->data;
}

uint8_t *eo_bytes_take(struct eo_bytes *b, size_t *out_size)
{
    uint8_t *data = NULL;

    *out_size = 0;
    if (reserve(b, 0)) {
        data = b->data;
        data[b->size] = 0;
        *out_size = b->size;
    } else {
        free(b->data);
    }
    eo_bytes_init(b, b->limit);
    return data;
}
