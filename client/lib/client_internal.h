/* What the files of libeveryo share. */
#ifndef EO_CLIENT_LIB_CLIENT_INTERNAL_H
#define EO_CLIENT_LIB_CLIENT_INTERNAL_H

#include "client/include/everyo/everyo.h"

#include "client/lib/connection.h"
#include "client/lib/handles.h"
#include "proto/base/text.h"
#include "proto/frame.h"
#include "proto/op_schema.h"

struct eo_local_daemon;

struct everyo_client {
    struct eo_connection *connection;
    struct eo_handles handles;
    struct eo_local_daemon *local; /* NULL unless connected to "local:" */
    uint32_t next_plan;
};

/* Fills *out (NULL allowed) from err and returns its code. */
int everyo_fail(everyo_error *out, const struct eo_error *err);
int everyo_desc_of(const everyo_tensor *t, struct eo_tensor_desc *out, struct eo_error *err);
void everyo_set_tensor(everyo_tensor *t, uint64_t id, const struct eo_tensor_desc *d);
const struct eo_op_schema *everyo_op_row(const char *name, struct eo_error *err); /* NULL raises UNKNOWN_OP */

#endif
