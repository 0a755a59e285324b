#include "tests/client/fake_server.h"

#include "proto/base/clock.h"
#include "tests/support/suite.h"

#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PATIENCE_MS = 20000 };

struct fake_server {
    pthread_t thread;
    int listener, stop_fd;
    struct eo_endpoint endpoint;
    fake_script script;
    void *ctx;
    char complaint[512]; /* the first one; read after the join */
};

static uint64_t deadline(void)
{
    return eo_now_ns() + (uint64_t)PATIENCE_MS * 1000000;
}

void fake_complain(struct fake_peer *p, const char *fmt, ...)
{
    va_list args;
    if (p->server->complaint[0] == '\0') {
        va_start(args, fmt);
        vsnprintf(p->server->complaint, sizeof p->server->complaint, fmt, args);
        va_end(args);
    }
}

static void serve(struct fake_server *s, int fd, int number)
{
    struct fake_peer p = {.server = s, .ctx = s->ctx, .number = number};
    struct eo_error err = {0};
    if (eo_channel_init(&p.channel, fd, &err) != EO_OK) {
        fake_complain(&p, "accepted socket: %s", err.message);
        return;
    }
    eo_bytes_init(&p.envelope, EO_ENVELOPE_MAX);
    eo_bytes_init(&p.payload, 64 << 20);
    eo_bytes_init(&p.out, EO_ENVELOPE_MAX);
    s->script(&p);
    eo_channel_close(&p.channel);
    eo_doc_fini(&p.doc);
    eo_bytes_fini(&p.envelope);
    eo_bytes_fini(&p.payload);
    eo_bytes_fini(&p.out);
}

static void *run(void *arg)
{
    struct fake_server *s = arg;
    for (int number = 0;; number++) {
        struct pollfd wait[2] = {{.fd = s->stop_fd, .events = POLLIN}, {.fd = s->listener, .events = POLLIN}};
        if (poll(wait, 2, -1) < 0 || wait[0].revents != 0) {
            return NULL;
        }
        const int fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0) {
            serve(s, fd, number);
        }
    }
}

struct fake_server *fake_server_start(fake_script script, void *ctx)
{
    struct eo_error err = {0};
    uint16_t port = 0;
    struct fake_server *s = calloc(1, sizeof *s);
    char text[64];
    ck_assert_ptr_nonnull(s);
    s->script = script;
    s->ctx = ctx;
    s->stop_fd = eventfd(0, EFD_CLOEXEC);
    ck_assert_int_ge(s->stop_fd, 0);
    ASSERT_OK(eo_endpoint_parse("127.0.0.1:0", &s->endpoint, &err));
    ASSERT_OK(eo_listen(&s->endpoint, &s->listener, &port, &err));
    snprintf(text, sizeof text, "127.0.0.1:%u", port);
    ASSERT_OK(eo_endpoint_parse(text, &s->endpoint, &err));
    ck_assert_int_eq(pthread_create(&s->thread, NULL, run, s), 0);
    return s;
}

const struct eo_endpoint *fake_server_endpoint(const struct fake_server *s)
{
    return &s->endpoint;
}

void fake_server_stop(struct fake_server *s)
{
    const uint64_t one = 1;
    ck_assert_int_eq(write(s->stop_fd, &one, sizeof one), (int)sizeof one);
    ck_assert_int_eq(pthread_join(s->thread, NULL), 0);
    close(s->stop_fd);
    close(s->listener);
    char complaint[sizeof s->complaint];
    memcpy(complaint, s->complaint, sizeof complaint);
    free(s);
    ck_assert_msg(complaint[0] == '\0', "the fake server says: %s", complaint);
}

/* ---- frames ---- */

bool fake_read(struct fake_peer *p, const char *method)
{
    uint8_t header[EO_FRAME_HEADER_SIZE];
    struct eo_frame_header h;
    struct eo_error err = {0};
    eo_doc_fini(&p->doc);
    eo_bytes_clear(&p->envelope);
    eo_bytes_clear(&p->payload);
    int rc = eo_channel_read_full(&p->channel, header, sizeof header, deadline(), &err);
    if (rc == EO_OK) {
        rc = eo_frame_decode(header, 64 << 20, &h, &err);
    }
    if (rc == EO_OK) {
        rc = eo_channel_read_full(&p->channel, eo_bytes_extend(&p->envelope, h.envelope_size), h.envelope_size,
                                  deadline(), &err);
    }
    if (rc == EO_OK && h.payload_size > 0) {
        rc = eo_channel_read_full(&p->channel, eo_bytes_extend(&p->payload, (size_t)h.payload_size),
                                  (size_t)h.payload_size, deadline(), &err);
    }
    if (rc == EO_OK) {
        rc = eo_envelope_parse(&p->doc, &p->request, p->envelope.data, p->envelope.size, &err);
    }
    if (rc == EO_E_CONNECTION_LOST) { /* a client may give up in the middle of a frame */
        return false;
    }
    if (rc != EO_OK) {
        fake_complain(p, "reading a request: %s", err.message);
        return false;
    }
    if (p->request.type != 0 || (method != NULL && strcmp(p->request.method, method) != 0)) {
        fake_complain(p, "%s came, %s was expected", p->request.method, method);
        return false;
    }
    return true;
}

struct eo_bytes *fake_result(struct fake_peer *p, uint32_t id)
{
    eo_bytes_clear(&p->out);
    eo_pack_result(&p->out, id);
    return &p->out;
}

struct eo_bytes *fake_event(struct fake_peer *p, const char *method)
{
    eo_bytes_clear(&p->out);
    eo_pack_notification(&p->out, method);
    return &p->out;
}

void fake_raw(struct fake_peer *p, const void *data, size_t size)
{
    union {
        const void *in;
        void *out;
    } bytes = {.in = data};
    const struct iovec iov = {.iov_base = bytes.out, .iov_len = size};
    struct eo_error err = {0};
    if (eo_channel_write_full(&p->channel, &iov, 1, deadline(), &err) == EO_E_TIMED_OUT) {
        fake_complain(p, "writing: %s", err.message);
    }
}

void fake_send(struct fake_peer *p, const void *payload, size_t size)
{
    uint8_t header[EO_FRAME_HEADER_SIZE];
    const struct eo_frame_header h = {.envelope_size = (uint32_t)p->out.size, .payload_size = size};
    eo_frame_encode(&h, header);
    fake_raw(p, header, sizeof header);
    fake_raw(p, p->out.data, p->out.size);
    if (size > 0) {
        fake_raw(p, payload, size);
    }
}

void fake_ok(struct fake_peer *p, uint32_t id)
{
    eo_pack_map(fake_result(p, id), 0);
    fake_send(p, NULL, 0);
}

void fake_fail(struct fake_peer *p, uint32_t id, int code, const char *message)
{
    struct eo_error why = {0};
    EO_RAISE(&why, code, "%s", message);
    eo_bytes_clear(&p->out);
    eo_pack_failure(&p->out, id, &why);
    fake_send(p, NULL, 0);
}

bool fake_hello(struct fake_peer *p, uint32_t pending)
{
    if (!fake_read(p, "hello")) {
        return false;
    }
    struct eo_bytes *b = fake_result(p, p->request.id);
    eo_pack_map(b, 5);
    eo_pack_kv_u64(b, "version", 1);
    eo_pack_kv_str(b, "build", "0.1.0 (fake)");
    eo_pack_kv_str(b, "node", "00112233");
    eo_pack_kv_str(b, "session", "s1");
    eo_pack_str(b, "limits");
    eo_pack_map(b, 4);
    eo_pack_kv_u64(b, "payload", 64 << 20);
    eo_pack_kv_u64(b, "chunk", EO_CHUNK_MAX);
    eo_pack_kv_u64(b, "handles", 100);
    eo_pack_kv_u64(b, "pending", pending);
    fake_send(p, NULL, 0);
    return true;
}

void fake_wait_closed(struct fake_peer *p)
{
    const uint64_t until = deadline();
    uint8_t dropped[4096];
    while (eo_now_ns() < until) {
        size_t n = 0;
        struct pollfd pfd = {.fd = p->channel.fd, .events = POLLIN};
        if (poll(&pfd, 1, PATIENCE_MS) < 0 || eo_channel_read(&p->channel, dropped, sizeof dropped, &n, NULL, NULL)) {
            return;
        }
    }
    fake_complain(p, "the client did not close");
}
