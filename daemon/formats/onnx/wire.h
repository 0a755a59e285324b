/* Protocol buffers from strangers, unpacked within bounds: a message is walked first (depth, lengths, wire types), then
 * unpacked by protobuf-c into memory whose total is limited. Includes the library: only for the files that read
 * messages. Not thread-safe. */
#ifndef EO_DAEMON_FORMATS_ONNX_WIRE_H
#define EO_DAEMON_FORMATS_ONNX_WIRE_H

#include "onnx.pb-c.h"
#include "proto/base/error.h"

/* A message with the memory that it lives in; must not move while it lives. */
struct wire_message {
    ProtobufCMessage *root;
    ProtobufCAllocator allocator;
    uint64_t used_bytes, limit_bytes;
    bool refused; /* the limit was reached */
    bool failed;  /* the system had no memory */
};

/* what: "ONNX model", for messages. Errors: BAD_FILE, TOO_LARGE (more than ONNX_MAX_BYTES or the memory that such a
 * file may take), NO_MEMORY. On failure there is nothing to free. */
int wire_unpack(const ProtobufCMessageDescriptor *type, const char *what, const void *data, size_t size,
                struct wire_message *out, struct eo_error *err);
void wire_free(struct wire_message *m); /* zeroed ones are fine */

#endif
