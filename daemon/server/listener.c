#include "daemon/server/listener.h"

#include "daemon/server/request.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ACCEPT_TURN = 64, REST_MS = 200 };

/* One frame with request id 0, as far as the socket takes it at once, then the end. */
static void refuse_busy(struct server *s, struct eo_channel *ch)
{
    struct eo_error why = {0};
    EO_RAISE(&why, EO_E_BUSY, "this daemon has %lu connections and takes no more", (unsigned long)s->n_connections);
    eo_error_hint(&why, "Try again later, or raise --max-connections.");
    struct eo_bytes *b = &s->scratch;
    eo_bytes_clear(b);
    eo_pack_failure(b, 0, &why);
    uint8_t header[EO_FRAME_HEADER_SIZE];
    const struct eo_frame_header h = {.envelope_size = (uint32_t)b->size};
    eo_frame_encode(&h, header);
    const struct iovec iov[2] = {{.iov_base = header, .iov_len = sizeof(header)},
                                 {.iov_base = b->data, .iov_len = b->size}};
    size_t moved = 0;
    (void)eo_channel_writev(ch, iov, 2, &moved, NULL);
    eo_log(EO_LOG_DEBUG, "server", "%s: %s", ch->peer, why.message);
    eo_channel_close(ch);
}

static void take(struct listener *l, int fd)
{
    struct server *s = l->server;
    struct eo_channel ch;
    struct eo_error err = {0};
    if (eo_channel_init(&ch, fd, &err) != EO_OK) {
        eo_log(EO_LOG_DEBUG, "server", "%s", err.message);
        return;
    }
    if (s->n_connections >= s->config->max_connections) {
        refuse_busy(s, &ch);
        return;
    }
    if (connection_accept(s, &ch, &err) != EO_OK) {
        eo_log_error("server", &err);
    }
}

static void on_rested(void *ctx)
{
    struct listener *l = ctx;
    loop_watch_set(l->watch, LOOP_READ);
}

static void on_readable(void *ctx, int events)
{
    struct listener *l = ctx;
    EO_UNUSED(events);
    for (int i = 0; i < ACCEPT_TURN; i++) {
        int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            take(l, fd);
            continue;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            /* Trying at once would turn the loop into a spin; clients wait in the backlog. */
            eo_log(EO_LOG_WARN, "server", "%s: no more connections can be accepted now: %s", l->text, strerror(errno));
            loop_watch_set(l->watch, 0);
            loop_timer_start(l->rest, REST_MS, 0);
            return;
        }
        if (errno == EAGAIN) {
            return;
        }
        /* EINTR, ECONNABORTED and network errors of that one connection: the next one */
    }
}

static void describe(struct listener *l, const struct eo_endpoint *ep)
{
    struct sockaddr_storage sa;
    socklen_t length = sizeof(sa);
    snprintf(l->text, sizeof(l->text), "%s", ep->text);
    if (!ep->is_unix && getsockname(l->fd, (struct sockaddr *)&sa, &length) == 0) {
        eo_sockaddr_text((const struct sockaddr *)&sa, length, l->text, sizeof(l->text));
        l->wildcard = strncmp(l->text, "0.0.0.0:", 8) == 0 || strncmp(l->text, "[::]:", 5) == 0;
    }
    l->is_unix = ep->is_unix;
    l->loopback = eo_endpoint_is_loopback(ep);
    if (ep->is_unix) {
        snprintf(l->path, sizeof(l->path), "%s", ep->host);
    }
}

int listener_open(struct server *s, const struct eo_endpoint *ep, struct listener **out, struct eo_error *err)
{
    struct listener *l = calloc(1, sizeof(*l));
    if (!l) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a listener");
    }
    l->server = s;
    int code = eo_listen(ep, &l->fd, &l->port, err);
    if (code != EO_OK) {
        free(l);
        return code;
    }
    describe(l, ep);
    l->watch = loop_watch_new(s->loop, l->fd, on_readable, l);
    l->rest = loop_timer_new(s->loop, on_rested, l);
    if (!l->watch || !l->rest) {
        listener_close(l);
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a listener");
    }
    *out = l;
    return EO_OK;
}

void listener_start(struct listener *l)
{
    loop_watch_set(l->watch, LOOP_READ);
}

void listener_close(struct listener *l)
{
    loop_watch_free(l->watch);
    loop_timer_free(l->rest);
    close(l->fd);
    if (l->path[0]) {
        (void)unlink(l->path);
    }
    free(l);
}
