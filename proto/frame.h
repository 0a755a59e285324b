/* The 16-byte frame header (design section 6), little-endian:
 *   0 'E'  1 'O'  2 framing version (1)  3 flags (0; unknown bits are an error)
 *   4 u32 envelope length  8 u64 payload length
 * followed by the msgpack envelope and then the raw payload. */
#ifndef EO_PROTO_FRAME_H
#define EO_PROTO_FRAME_H

#include "proto/base/error.h"

enum { EO_FRAME_HEADER_SIZE = 16, EO_FRAME_VERSION = 1, EO_ENVELOPE_MAX = 1 << 20, EO_CHUNK_MAX = 4 << 20 };

struct eo_frame_header {
    uint8_t flags;
    uint32_t envelope_size; /* 1..EO_ENVELOPE_MAX */
    uint64_t payload_size;  /* bounded by the caller against the limit that hello gave */
};

void eo_frame_encode(const struct eo_frame_header *h, uint8_t out[EO_FRAME_HEADER_SIZE]);
/* Errors: BAD_FRAME (magic, version, flags, empty envelope), FRAME_TOO_LARGE (envelope, or payload over payload_limit).
 */
int eo_frame_decode(const uint8_t in[EO_FRAME_HEADER_SIZE], uint64_t payload_limit, struct eo_frame_header *out,
                    struct eo_error *err);

#endif
