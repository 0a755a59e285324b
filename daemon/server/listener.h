/* Listening sockets: accept, and say busy when there are too many connections. */
#ifndef EO_DAEMON_SERVER_LISTENER_H
#define EO_DAEMON_SERVER_LISTENER_H

#include "daemon/server/server.h"

struct listener {
    struct server *server;
    int fd;
    uint16_t port; /* 0 for unix sockets */
    bool is_unix, loopback, wildcard;
    struct loop_watch *watch;
    struct loop_timer *rest; /* accepting pauses while descriptors are short */
    char text[300];          /* "127.0.0.1:17743", "unix:/run/..." */
    char path[256];          /* of a unix socket, removed at the end */
};

int listener_open(struct server *s, const struct eo_endpoint *ep, struct listener **out, struct eo_error *err);
void listener_start(struct listener *l); /* accepts from now on */
void listener_close(struct listener *l);

#endif
