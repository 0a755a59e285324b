#include "daemon/worker/control.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

union fds_space {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(CONTROL_MAX_FDS * sizeof(int))];
};

int control_send(int socket, const struct control_message *m, struct eo_error *err)
{
    uint8_t head[1 + CONTROL_TAG_MAX];
    if (m->tag_size > CONTROL_TAG_MAX || m->n_fds < 0 || m->n_fds > CONTROL_MAX_FDS) {
        return EO_BUG(err, "control message with %zu bytes and %d descriptors", m->tag_size, m->n_fds);
    }
    head[0] = (uint8_t)m->kind;
    memcpy(head + 1, m->tag, m->tag_size);
    struct iovec iov = {.iov_base = head, .iov_len = 1 + m->tag_size};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    union fds_space space;
    memset(&space, 0, sizeof(space));
    if (m->n_fds > 0) {
        const size_t size = (size_t)m->n_fds * sizeof(int);
        msg.msg_control = space.bytes;
        msg.msg_controllen = CMSG_SPACE(size);
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(size);
        memcpy(CMSG_DATA(c), m->fds, size);
    }
    ssize_t n;
    do {
        n = sendmsg(socket, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        int errnum = errno;
        int code = errnum == EAGAIN ? EO_E_BUSY : EO_E_WORKER_LOST;
        return EO_RAISE_ERRNO(err, code, errnum, "nothing can be passed to the worker");
    }
    return EO_OK;
}

static void take_fds(struct msghdr *msg, struct control_message *out)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        const size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
            if (out->n_fds < CONTROL_MAX_FDS) {
                out->fds[out->n_fds++] = fd;
            } else {
                close(fd);
            }
        }
    }
}

int control_receive(int socket, struct control_message *out, bool *out_eof, struct eo_error *err)
{
    uint8_t head[1 + CONTROL_TAG_MAX];
    union fds_space space;
    struct iovec iov = {.iov_base = head, .iov_len = sizeof(head)};
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = space.bytes, .msg_controllen = sizeof(space.bytes)};
    out->n_fds = 0;
    *out_eof = false;
    ssize_t n;
    do {
        n = recvmsg(socket, &msg, MSG_CMSG_CLOEXEC);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        int errnum = errno;
        *out_eof = errnum != EAGAIN;
        return EO_RAISE_ERRNO(err, errnum == EAGAIN ? EO_E_BUSY : EO_E_CONNECTION_LOST, errnum,
                              "the control socket cannot be read");
    }
    if (n == 0) {
        *out_eof = true;
        return EO_RAISE(err, EO_E_CONNECTION_LOST, "the control socket was closed");
    }
    take_fds(&msg, out);
    out->kind = (enum control_kind)head[0];
    out->tag_size = (size_t)n - 1;
    memcpy(out->tag, head + 1, out->tag_size);
    return EO_OK;
}
