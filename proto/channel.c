#include "proto/channel.h"

#include "proto/base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- the plain transport ---- */

static ssize_t plain_read(struct eo_channel *c, void *data, size_t size)
{
    ssize_t n;

    do {
        n = recv(c->fd, data, size, 0);
    } while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN) {
        c->want = EO_WANT_READ;
    }
    return n;
}

static ssize_t plain_writev(struct eo_channel *c, const struct iovec *iov, int n)
{
    /* sendmsg reads the vector only; its type is shared with recvmsg, so the const has to go. */
    union {
        const struct iovec *in;
        struct iovec *out;
    } vector = {.in = iov};
    struct msghdr message = {.msg_iov = vector.out, .msg_iovlen = (size_t)EO_MIN(n, IOV_MAX)};
    ssize_t moved;

    do {
        moved = sendmsg(c->fd, &message, MSG_NOSIGNAL); /* a vanished reader is an error, not a SIGPIPE */
    } while (moved < 0 && errno == EINTR);
    if (moved < 0 && errno == EAGAIN) {
        c->want = EO_WANT_WRITE;
    }
    return moved;
}

static const struct eo_transport plain_transport = {.name = "plain", .read = plain_read, .writev = plain_writev};

/* ---- set-up ---- */

static int set_option(int fd, int level, int option, int value)
{
    return setsockopt(fd, level, option, &value, sizeof(value));
}

/* A dead host is noticed after 10 + 3 * 5 s when idle, after 20 s when bytes are under way. */
static int tune_tcp(int fd)
{
    int failed = set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1) | set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1) |
                 set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 10) | set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 5) |
                 set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 3) | set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 20000);

    return failed;
}

static int set_flags(int fd)
{
    int status = fcntl(fd, F_GETFL);
    int flags = fcntl(fd, F_GETFD);

    if (status < 0 || flags < 0) {
        return -1;
    }
    return fcntl(fd, F_SETFL, status | O_NONBLOCK) < 0 || fcntl(fd, F_SETFD, flags | FD_CLOEXEC) < 0 ? -1 : 0;
}

/* Clients of a unix socket have no address; the kernel knows which process they are. */
static void name_peer(int fd, char *out, size_t size)
{
    struct sockaddr_storage address = {0};
    struct sockaddr *sa = (struct sockaddr *)&address;
    socklen_t length = sizeof(address);
    struct ucred who;
    socklen_t who_length = sizeof(who);

    if (getpeername(fd, sa, &length) != 0) {
        snprintf(out, size, "?");
        return;
    }
    eo_sockaddr_text(sa, length, out, size);
    if (sa->sa_family == AF_UNIX && strcmp(out, "unix:") == 0 &&
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &who_length) == 0) {
        snprintf(out, size, "unix:(pid %ld)", (long)who.pid);
    }
}

static int family_of(int fd)
{
    int family = 0;
    socklen_t length = sizeof(family);

    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &length) == 0 ? family : -1;
}

int eo_channel_init(struct eo_channel *c, int fd, struct eo_error *err)
{
    int family = family_of(fd);
    int failed = family < 0 || set_flags(fd) != 0;

    if (!failed && (family == AF_INET || family == AF_INET6)) {
        failed = tune_tcp(fd);
    }
    *c = (struct eo_channel){.fd = -1};
    if (failed) {
        int saved = errno;

        close(fd);
        return EO_RAISE_ERRNO(err, EO_E_IO, saved, "could not prepare a connection");
    }
    c->fd = fd;
    c->transport = &plain_transport;
    name_peer(fd, c->peer, sizeof(c->peer));
    return EO_OK;
}

void eo_channel_close(struct eo_channel *c)
{
    if (c->fd < 0) {
        return;
    }
    if (c->transport->close != NULL) {
        c->transport->close(c);
    } else {
        close(c->fd);
    }
    c->fd = -1;
    c->want = 0;
}

/* ---- one step ---- */

static int lost(struct eo_channel *c, const char *doing, int errnum, struct eo_error *err)
{
    char reason[96];

    EO_RAISE_ERRNO(err, EO_E_CONNECTION_LOST, errnum, "connection to %s lost while %s: %s", c->peer, doing,
                   strerror_r(errnum, reason, sizeof(reason)));
    eo_error_at_host(err, c->peer, -1);
    return EO_E_CONNECTION_LOST;
}

static int ended(struct eo_channel *c, struct eo_error *err)
{
    EO_RAISE(err, EO_E_CONNECTION_LOST, "%s closed the connection", c->peer);
    eo_error_at_host(err, c->peer, -1);
    return EO_E_CONNECTION_LOST;
}

int eo_channel_read(struct eo_channel *c, void *data, size_t size, size_t *out_n, bool *out_eof, struct eo_error *err)
{
    ssize_t n;

    *out_n = 0;
    if (out_eof != NULL) {
        *out_eof = false;
    }
    c->want = 0;
    if (size == 0) { /* recv would answer 0, which means the end of the stream */
        return EO_OK;
    }
    if (c->fd < 0) {
        return lost(c, "reading", EBADF, err);
    }
    n = c->transport->read(c, data, size);
    if (n > 0) {
        *out_n = (size_t)n;
        return EO_OK;
    }
    if (n == 0) {
        if (out_eof != NULL) {
            *out_eof = true;
        }
        return ended(c, err);
    }
    return errno == EAGAIN ? EO_OK : lost(c, "reading", errno, err);
}

int eo_channel_writev(struct eo_channel *c, const struct iovec *iov, int n, size_t *out_n, struct eo_error *err)
{
    ssize_t moved;

    *out_n = 0;
    c->want = 0;
    if (c->fd < 0) {
        return lost(c, "writing", EBADF, err);
    }
    moved = c->transport->writev(c, iov, n);
    if (moved >= 0) {
        *out_n = (size_t)moved;
        return EO_OK;
    }
    return errno == EAGAIN ? EO_OK : lost(c, "writing", errno, err);
}

/* ---- blocking helpers ---- */

/* Milliseconds for poll(2), rounded up so that a wait never ends just before its deadline; -1 for none. */
static int poll_timeout(uint64_t deadline_ns)
{
    uint64_t now = eo_now_ns();
    uint64_t left_ms;

    if (deadline_ns == 0) {
        return -1;
    }
    left_ms = deadline_ns > now ? (deadline_ns - now + 999999) / 1000000 : 0;
    return (int)EO_MIN(left_ms, (uint64_t)INT_MAX);
}

/* Waits for what the last call wanted. False when the deadline has passed. */
static bool wait_for(struct eo_channel *c, uint64_t deadline_ns)
{
    struct pollfd p = {.fd = c->fd};

    p.events = (short)((c->want & EO_WANT_READ ? POLLIN : 0) | (c->want & EO_WANT_WRITE ? POLLOUT : 0));
    for (;;) {
        int timeout_ms = poll_timeout(deadline_ns);
        int n = poll(&p, 1, timeout_ms);

        if (n > 0 || (n < 0 && errno != EINTR)) {
            return true; /* the next read or write says what is the matter */
        }
        if (n == 0 && poll_timeout(deadline_ns) == 0) {
            return false;
        }
    }
}

static int late(struct eo_channel *c, const char *doing, size_t done, size_t size, struct eo_error *err)
{
    EO_RAISE(err, EO_E_TIMED_OUT, "%s %s did not finish in time: %zu of %zu bytes done", doing, c->peer, done, size);
    eo_error_at_host(err, c->peer, -1);
    return EO_E_TIMED_OUT;
}

int eo_channel_read_full(struct eo_channel *c, void *data, size_t size, uint64_t deadline_ns, struct eo_error *err)
{
    uint8_t *to = data;
    size_t done = 0;

    while (done < size) {
        size_t n = 0;
        int code = eo_channel_read(c, to + done, size - done, &n, NULL, err);

        if (code != EO_OK) {
            eo_error_push(err, "reading %zu bytes, %zu of them received", size, done);
            return code;
        }
        done += n;
        if (n == 0 && !wait_for(c, deadline_ns)) {
            return late(c, "reading from", done, size, err);
        }
    }
    return EO_OK;
}

enum { WRITE_BATCH = 16 };

/* The unsent rest of iov, which starts `skip` bytes into its first entry, at most WRITE_BATCH entries of it.
 * n >= 1. */
static int rest_of(const struct iovec *iov, int n, size_t skip, struct iovec out[WRITE_BATCH])
{
    int count = EO_MIN(n, WRITE_BATCH);

    out[0].iov_base = (uint8_t *)iov[0].iov_base + skip;
    out[0].iov_len = iov[0].iov_len - skip;
    for (int i = 1; i < count; i++) {
        out[i] = iov[i];
    }
    return count;
}

int eo_channel_write_full(struct eo_channel *c, const struct iovec *iov, int n, uint64_t deadline_ns,
                          struct eo_error *err)
{
    size_t total = 0;
    size_t done = 0;
    size_t skip = 0;

    for (int i = 0; i < n; i++) {
        total += iov[i].iov_len;
    }
    while (done < total) {
        struct iovec rest[WRITE_BATCH];
        size_t moved = 0;
        int count;
        int code;

        while (skip >= iov->iov_len) { /* done < total: an entry with bytes to send follows */
            skip -= iov->iov_len;
            iov++;
            n--;
        }
        count = rest_of(iov, n, skip, rest);
        code = eo_channel_writev(c, rest, count, &moved, err);
        if (code != EO_OK) {
            eo_error_push(err, "writing %zu bytes, %zu of them sent", total, done);
            return code;
        }
        done += moved;
        skip += moved;
        if (moved == 0 && !wait_for(c, deadline_ns)) {
            return late(c, "writing to", done, total, err);
        }
    }
    return EO_OK;
}
