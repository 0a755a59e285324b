/* A growable byte buffer with a hard limit. Owner: whoever calls eo_bytes_init; free with eo_bytes_fini.
 * Appending past the limit or when memory is out sets `failed` and appends nothing more, so that a writer checks once.
 */
#ifndef EO_PROTO_BASE_BYTES_H
#define EO_PROTO_BASE_BYTES_H

#include "proto/base/compiler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct eo_bytes {
    uint8_t *data;
    size_t size;
    size_t capacity;
    size_t limit;
    bool failed;
};

void eo_bytes_init(struct eo_bytes *b, size_t limit);
void eo_bytes_fini(struct eo_bytes *b);
void eo_bytes_clear(struct eo_bytes *b); /* size 0, memory kept, failed reset */
void eo_bytes_append(struct eo_bytes *b, const void *data, size_t size);
uint8_t *eo_bytes_extend(struct eo_bytes *b, size_t size); /* NULL when it fails; new bytes are not initialised */
void eo_bytes_printf(struct eo_bytes *b, const char *fmt, ...) EO_PRINTF(2, 3);
const char *eo_bytes_text(struct eo_bytes *b); /* NUL-terminated view, valid until the next change; "" on failure */
/* The memory, with a NUL behind its last byte; caller frees with free(). NULL when failed. b is empty again either way.
 */
uint8_t *eo_bytes_take(struct eo_bytes *b, size_t *out_size);

#endif
