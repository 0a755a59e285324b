#include "daemon/formats/onnx/wire.h"

#include "daemon/formats/onnx/onnx.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* What a file may take in memory: its bytes twice (data is copied, numbers and names are widened) and some. */
static const uint64_t spare_bytes = 64 << 20;

/* ---- bounded memory ---- */

/* Stands before each block: protobuf-c does not tell sizes when it frees. */
struct block_head {
    uint64_t size;
    uint64_t padding; /* blocks stay 16-byte aligned */
};

static void *bounded_alloc(void *data, size_t size)
{
    struct wire_message *m = data;
    uint64_t whole = (uint64_t)size + sizeof(struct block_head);
    struct block_head *head;

    if (whole < size || whole > m->limit_bytes - m->used_bytes) {
        m->refused = true;
        return NULL;
    }
    head = malloc((size_t)whole);
    if (head == NULL) {
        m->failed = true;
        return NULL;
    }
    head->size = whole;
    m->used_bytes += whole;
    return head + 1;
}

static void bounded_free(void *data, void *pointer)
{
    struct wire_message *m = data;

    if (pointer != NULL) {
        struct block_head *head = (struct block_head *)pointer - 1;

        m->used_bytes -= head->size;
        free(head);
    }
}

/* ---- a first walk ---- */

/* What is left of one message. */
struct span {
    const uint8_t *at, *end;
};

static bool read_varint(struct span *s, uint64_t *out)
{
    uint64_t v = 0;

    for (unsigned shift = 0; shift < 70 && s->at < s->end; shift += 7) {
        uint8_t byte = *s->at++;

        v |= shift < 64 ? (uint64_t)(byte & 0x7f) << shift : 0;
        if ((byte & 0x80) == 0) {
            *out = v;
            return true;
        }
    }
    return false;
}

static bool skip(struct span *s, uint64_t bytes)
{
    if (bytes > (uint64_t)(s->end - s->at)) {
        return false;
    }
    s->at += bytes;
    return true;
}

static const ProtobufCFieldDescriptor *submessage(const ProtobufCMessageDescriptor *type, uint64_t number)
{
    const ProtobufCFieldDescriptor *f =
        number <= UINT32_MAX ? protobuf_c_message_descriptor_get_field(type, (unsigned)number) : NULL;

    return f != NULL && f->type == PROTOBUF_C_TYPE_MESSAGE ? f : NULL;
}

/* NULL, or what is wrong with the message. */
static const char *walk(const ProtobufCMessageDescriptor *type, struct span s, int depth)
{
    if (depth > ONNX_MAX_DEPTH) {
        return "messages stand in each other more than 24 deep";
    }
    while (s.at < s.end) {
        const ProtobufCFieldDescriptor *f;
        uint64_t tag, value;
        bool whole;

        if (!read_varint(&s, &tag)) {
            return "a field's number is cut or too long";
        }
        switch (tag & 7) {
        case PROTOBUF_C_WIRE_TYPE_VARINT:
            whole = read_varint(&s, &value);
            break;
        case PROTOBUF_C_WIRE_TYPE_64BIT:
            whole = skip(&s, 8);
            break;
        case PROTOBUF_C_WIRE_TYPE_32BIT:
            whole = skip(&s, 4);
            break;
        case PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED:
            whole = read_varint(&s, &value) && value <= (uint64_t)(s.end - s.at);
            f = whole ? submessage(type, tag >> 3) : NULL;
            if (f != NULL) {
                const char *wrong = walk(f->descriptor, (struct span){s.at, s.at + value}, depth + 1);

                if (wrong != NULL) {
                    return wrong;
                }
            }
            whole = whole && skip(&s, value);
            break;
        default:
            return "a field has a wire type that does not exist";
        }
        if (!whole) {
            return "a field goes past the end of its message";
        }
    }
    return NULL;
}

/* ---- both ---- */

int wire_unpack(const ProtobufCMessageDescriptor *type, const char *what, const void *data, size_t size,
                struct wire_message *out, struct eo_error *err)
{
    static const uint8_t nothing[1] = {0};
    const uint8_t *bytes = size > 0 ? data : nothing;
    const char *wrong;

    if (size > ONNX_MAX_BYTES) {
        return EO_RAISE(err, EO_E_TOO_LARGE, "the %s has %zu bytes, at most %d are read", what, size, ONNX_MAX_BYTES);
    }
    wrong = walk(type, (struct span){bytes, bytes + size}, 1);
    if (wrong != NULL) {
        return EO_RAISE(err, EO_E_BAD_FILE, "this is not an %s: %s", what, wrong);
    }
    *out = (struct wire_message){.limit_bytes = 2 * (uint64_t)size + spare_bytes};
    out->allocator = (ProtobufCAllocator){.alloc = bounded_alloc, .free = bounded_free, .allocator_data = out};
    out->root = protobuf_c_message_unpack(type, &out->allocator, size, bytes);
    if (out->root != NULL) {
        return EO_OK;
    }
    if (out->failed) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for an %s of %zu bytes", what, size);
    }
    if (out->refused) {
        return EO_RAISE(err, EO_E_TOO_LARGE,
                        "an %s of %zu bytes may take %" PRIu64 " bytes of memory, this one wants more", what, size,
                        out->limit_bytes);
    }
    return EO_RAISE(err, EO_E_BAD_FILE, "this is not an %s: a field does not have the type that it should", what);
}

void wire_free(struct wire_message *m)
{
    if (m->root != NULL) {
        protobuf_c_message_free_unpacked(m->root, &m->allocator);
    }
    *m = (struct wire_message){0};
}

const char *onnx_library(void)
{
    return protobuf_c_version();
}
