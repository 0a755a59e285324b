/* A stream of frames as a connection reads it: header, envelope, payload, next header. What is accepted must hold the
 * promises of frame.h and encode to the bytes it came from. */
#include "proto/codec.h"
#include "proto/frame.h"

#include <string.h>

enum { PAYLOAD_LIMIT = EO_CHUNK_MAX };

static void promise(bool holds)
{
    if (!holds) {
        __builtin_trap();
    }
}

/* Bytes used by the frame at data, 0 when the stream ends here: refused, or not complete yet. */
static size_t one_frame(const uint8_t *data, size_t size)
{
    uint8_t again[EO_FRAME_HEADER_SIZE];
    struct eo_frame_header h;
    struct eo_envelope envelope;
    struct eo_error err;
    struct eo_doc doc;
    int code;

    if (size < EO_FRAME_HEADER_SIZE) {
        return 0;
    }
    code = eo_frame_decode(data, PAYLOAD_LIMIT, &h, &err);
    if (code != EO_OK) {
        promise(code == EO_E_BAD_FRAME || code == EO_E_FRAME_TOO_LARGE);
        promise(err.code == code && err.message[0] != '\0');
        return 0;
    }
    promise(h.envelope_size >= 1 && h.envelope_size <= EO_ENVELOPE_MAX && h.payload_size <= PAYLOAD_LIMIT);
    eo_frame_encode(&h, again);
    promise(memcmp(again, data, sizeof(again)) == 0);
    size -= EO_FRAME_HEADER_SIZE;
    if (size < h.envelope_size || size - h.envelope_size < h.payload_size) {
        return 0;
    }
    code = eo_envelope_parse(&doc, &envelope, data + EO_FRAME_HEADER_SIZE, h.envelope_size, &err);
    if (code != EO_OK) {
        promise(err.code == code && doc.zone == NULL);
        return 0;
    }
    promise(envelope.type >= 0 && envelope.type <= 2 && memchr(envelope.method, '\0', sizeof(envelope.method)) != NULL);
    eo_doc_fini(&doc);
    return EO_FRAME_HEADER_SIZE + h.envelope_size + (size_t)h.payload_size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t used;

    while ((used = one_frame(data, size)) > 0) {
        data += used;
        size -= used;
    }
    return 0;
}
