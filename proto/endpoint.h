/* Endpoints as users type them: `host`, `host:port`, `[v6]:port`, `unix:PATH`; port 17743 when none is given. */
#ifndef EO_PROTO_ENDPOINT_H
#define EO_PROTO_ENDPOINT_H

#include "proto/base/error.h"

#include <sys/socket.h>

enum { EO_PORT = 17743 };

struct eo_endpoint {
    char text[300]; /* as typed; used in every message about it */
    bool is_unix;
    char host[256]; /* without brackets; or the path */
    uint16_t port;
};

int eo_endpoint_parse(const char *text, struct eo_endpoint *out, struct eo_error *err); /* BAD_ENDPOINT */
/* "a:1,b:2" -> up to max endpoints; duplicates are an error. */
int eo_endpoint_parse_list(const char *text, struct eo_endpoint *out, size_t max, size_t *out_n, struct eo_error *err);
bool eo_endpoint_is_loopback(const struct eo_endpoint *ep); /* 127/8, ::1, localhost, unix */
void eo_sockaddr_text(const struct sockaddr *sa, socklen_t length, char *out, size_t size); /* "127.0.0.1:4711" */

#endif
