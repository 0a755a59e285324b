/* The handlers of client and peer requests, one per row of messages.def; a missing one is a link error.
 *
 * A handler runs on the loop's thread with a checked envelope, the needs of its row fulfilled and the payload complete.
 * It returns 0 when it has answered or keeps the request (request_ref) to answer later; an error code makes the
 * dispatcher answer with *err. */
#ifndef EO_DAEMON_SERVER_HANDLERS_H
#define EO_DAEMON_SERVER_HANDLERS_H

#include "daemon/server/server.h"

#define HANDLER(NAME) int handle_##NAME(struct request *r, struct eo_error *err)

#define HANDLED_CLIENT(NAME) HANDLER(NAME);
#define HANDLED_PEER(NAME) HANDLER(NAME);
#define HANDLED_EVENT(NAME)
#define HANDLED_TASK(NAME)
#define HANDLED_REPORT(NAME)
#define EO_MESSAGE(method, NAME, from, ...) HANDLED_##from(NAME)
#include "proto/tables/messages.def"
#undef HANDLED_CLIENT
#undef HANDLED_PEER
#undef HANDLED_EVENT
#undef HANDLED_TASK
#undef HANDLED_REPORT

#endif
