/* The methods of the protocol (tables/messages.def) as data. */
#ifndef EO_PROTO_MESSAGE_SCHEMA_H
#define EO_PROTO_MESSAGE_SCHEMA_H

#include "proto/frame.h"

enum eo_message {
    EO_MESSAGE_NONE = 0,
#define EO_MESSAGE(method, NAME, ...) EO_MSG_##NAME,
#include "proto/tables/messages.def"
    EO_MESSAGE_COUNT
};

enum eo_message_from { EO_FROM_CLIENT, EO_FROM_PEER, EO_FROM_EVENT, EO_FROM_TASK, EO_FROM_REPORT };
enum eo_message_needs { EO_NEEDS_NOTHING, EO_NEEDS_HELLO, EO_NEEDS_SESSION, EO_NEEDS_PEER_HELLO, EO_NEEDS_INSIDE };

struct eo_message_schema {
    enum eo_message message;
    const char *method;
    enum eo_message_from from;
    enum eo_message_needs needs;
    uint64_t max_payload;
    const char *summary, *params, *result, *stability, *since;
};

/* The wire protocol's own version, negotiated in hello: [min, max] this build speaks. */
enum { EO_PROTOCOL_MIN = 1, EO_PROTOCOL_MAX = 1 };

const struct eo_message_schema *eo_message_schema(enum eo_message m); /* NULL outside the table */
const struct eo_message_schema *eo_message_by_method(const char *method);

#endif
