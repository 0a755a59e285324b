#include "distributed/engines/tcp.h"

#include "proto/base/clock.h"
#include "proto/base/compiler.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

struct tcp_peer *tcp_peer_of_rank(const struct collective_comm *c, int rank)
{
    int i = (rank - c->config.rank - 1 + c->config.world_size) % c->config.world_size;

    return rank == c->config.rank ? NULL : &c->peers[i];
}

/* ---- receiving ---- */

static void note_progress(struct collective_comm *c, size_t bytes)
{
    atomic_fetch_add_explicit(&c->progress, bytes, memory_order_relaxed);
    c->last_progress_ns = eo_now_ns();
    c->stall++;
    c->pinged = false;
}

static size_t inbox_size(const struct tcp_peer *p)
{
    return p->inbox_end - p->inbox_begin;
}

static void inbox_drop(struct tcp_peer *p, size_t bytes)
{
    p->inbox_begin += bytes;
    if (p->inbox_begin == p->inbox_end) {
        p->inbox_begin = p->inbox_end = 0;
    }
}

static struct tcp_span *incoming(struct tcp_peer *p, uint8_t phase)
{
    return phase == TCP_PHASE_INPUT ? &p->input_in : &p->result_in;
}

bool tcp_peer_received_all(const struct tcp_peer *p)
{
    return p->opened && p->input_in.next == p->input_in.end && p->result_in.next == p->result_in.end;
}

/* Bytes of payload are where they belong. */
static void payload_arrived(struct collective_comm *c, struct tcp_peer *p, size_t bytes)
{
    note_progress(c, bytes);
    p->payload_left -= (uint32_t)bytes;
    if (p->payload != NULL) {
        p->payload += bytes;
        if (p->payload_left == 0) {
            incoming(p, p->payload_phase)->next += p->payload_size;
        }
    }
}

static void payload_from_inbox(struct collective_comm *c, struct tcp_peer *p)
{
    size_t bytes = EO_MIN(inbox_size(p), (size_t)p->payload_left);

    if (p->payload != NULL) {
        memcpy(p->payload, p->inbox + p->inbox_begin, bytes);
    }
    inbox_drop(p, bytes);
    payload_arrived(c, p, bytes);
}

static void expect_payload(struct tcp_peer *p, const struct tcp_chunk *chunk, uint8_t *destination)
{
    inbox_drop(p, TCP_CHUNK_HEADER);
    p->payload = destination;
    p->payload_left = p->payload_size = chunk->length;
    p->payload_phase = chunk->phase;
}

/* The only place a data chunk is let in: who sends it, in which collective, and exactly which bytes come next. */
static int accept_data(struct collective_comm *c, struct tcp_peer *p, const struct tcp_chunk *chunk,
                       struct eo_error *err)
{
    struct tcp_span *span = incoming(p, chunk->phase);
    uint64_t expected = EO_MIN((uint64_t)c->tuning.chunk_bytes, span->end - span->next);
    uint64_t at = span->next - c->own.begin;

    if (p->skipping) {
        expect_payload(p, chunk, NULL);
        return EO_OK;
    }
    if (tcp_peer_received_all(p) && chunk->print.epoch == c->print.epoch && chunk->print.seq == c->print.seq + 1) {
        p->parked = true;
        return EO_OK;
    }
    if (!tcp_fingerprint_equal(&chunk->print, &c->print)) {
        return tcp_abort_raise_mismatch(c, p, &chunk->print, err);
    }
    if (chunk->phase == TCP_PHASE_OPEN) {
        if (p->opened) {
            return tcp_abort_raise_bad_chunk(c, p, err, "a second opening");
        }
        p->opened = true;
        note_progress(c, 0);
        inbox_drop(p, TCP_CHUNK_HEADER);
        return EO_OK;
    }
    if (chunk->offset != span->next || chunk->length != expected) {
        return tcp_abort_raise_bad_chunk(c, p, err,
                                         "%" PRIu32 " bytes at %" PRIu64 " where %" PRIu64 " at %" PRIu64 " come next",
                                         chunk->length, chunk->offset, expected, span->next);
    }
    p->opened = true;
    if (chunk->phase == TCP_PHASE_RESULT) {
        expect_payload(p, chunk, c->data + span->next);
    } else if (span->next >= c->own.next + (uint64_t)TCP_SLOTS * c->tuning.chunk_bytes) {
        p->parked = true;
    } else {
        expect_payload(p, chunk, p->slots + at % ((uint64_t)TCP_SLOTS * c->tuning.chunk_bytes));
    }
    return EO_OK;
}

/* Handles the header at the head of the inbox. *more: it was consumed and the next one can be looked at. */
static int accept_header(struct collective_comm *c, struct tcp_peer *p, bool *more, struct eo_error *err)
{
    const uint8_t *head = p->inbox + p->inbox_begin;
    struct tcp_chunk chunk;
    const char *why;
    int code;

    *more = false;
    if (!tcp_chunk_decode(head, &chunk, &why)) {
        return tcp_abort_raise_bad_chunk(c, p, err, "%s", why);
    }
    switch (chunk.type) {
    case TCP_CHUNK_DATA:
        code = accept_data(c, p, &chunk, err);
        *more = code == EO_OK && !p->parked;
        return code;
    case TCP_CHUNK_ABORT:
        if (inbox_size(p) < TCP_CHUNK_HEADER + chunk.length) {
            return EO_OK;
        }
        return tcp_abort_raise_received(c, p, head + TCP_CHUNK_HEADER, chunk.length, err);
    case TCP_CHUNK_PING:
        p->pong_due = true;
        break;
    default: /* TCP_CHUNK_PONG */
        break;
    }
    /* Who asks is waiting as much as who answers. */
    p->answered_in = c->stall;
    inbox_drop(p, TCP_CHUNK_HEADER);
    *more = true;
    return EO_OK;
}

static int parse_inbox(struct collective_comm *c, struct tcp_peer *p, struct eo_error *err)
{
    bool more = true;
    int code = EO_OK;

    p->parked = false;
    while (code == EO_OK && more) {
        if (p->payload_left > 0) {
            payload_from_inbox(c, p);
            more = p->payload_left == 0;
        } else if (inbox_size(p) >= TCP_CHUNK_HEADER) {
            code = accept_header(c, p, &more, err);
        } else {
            more = false;
        }
    }
    return code;
}

/* Payload goes straight to its place. Behind it the inbox takes the next header and, for small messages, all that is
 * there: one call then brings a whole message. Large payloads are not read ahead, so they are not copied. */
static int fill_iov(const struct collective_comm *c, struct tcp_peer *p, struct iovec iov[2])
{
    size_t room;
    int n = 0;

    if (p->inbox_begin > 0) {
        memmove(p->inbox, p->inbox + p->inbox_begin, inbox_size(p));
        p->inbox_end -= p->inbox_begin;
        p->inbox_begin = 0;
    }
    room = TCP_INBOX - p->inbox_end;
    if (p->payload_left > 0 && p->payload != NULL) {
        iov[n++] = (struct iovec){p->payload, p->payload_left};
    }
    if (!c->small && !p->skipping && p->inbox_end < TCP_CHUNK_HEADER) {
        room = TCP_CHUNK_HEADER - p->inbox_end;
    }
    iov[n++] = (struct iovec){p->inbox + p->inbox_end, room};
    return n;
}

bool tcp_peer_wants_read(const struct tcp_peer *p)
{
    return !p->eof && !p->parked;
}

/* The end of the stream is no fault of a peer that has done its part: it may have finished the last collective. */
static int end_of_stream(struct collective_comm *c, struct tcp_peer *p, struct eo_error *err)
{
    p->eof = true;
    if (p->skipping || inbox_size(p) > 0 || !tcp_peer_received_all(p)) {
        return tcp_abort_raise_lost(c, p, 0, err);
    }
    return EO_OK;
}

/* One read and what follows from it. *again: the read was full, more may be there. */
static int read_once(struct collective_comm *c, struct tcp_peer *p, bool *again, struct eo_error *err)
{
    struct iovec iov[2];
    int n_iov = fill_iov(c, p, iov);
    size_t direct = n_iov == 2 ? iov[0].iov_len : 0;
    ssize_t n = readv(p->fd, iov, n_iov);

    *again = false;
    p->dry = n < 0;
    if (n < 0) {
        return errno == EAGAIN || errno == EINTR ? EO_OK : tcp_abort_raise_lost(c, p, errno, err);
    }
    if (n == 0) {
        return end_of_stream(c, p, err);
    }
    if (direct > 0) {
        payload_arrived(c, p, EO_MIN((size_t)n, direct));
    }
    p->inbox_end += (size_t)n - EO_MIN((size_t)n, direct);
    *again = (size_t)n == direct + iov[n_iov - 1].iov_len;
    return parse_inbox(c, p, err);
}

int tcp_peer_receive(struct collective_comm *c, struct tcp_peer *p, struct eo_error *err)
{
    bool again = true;
    int code = parse_inbox(c, p, err);

    /* Two reads: a header and its payload; then the others have their turn. */
    for (int i = 0; i < 2 && code == EO_OK && again && tcp_peer_wants_read(p); i++) {
        code = read_once(c, p, &again, err);
    }
    return code;
}

/* The socket takes nothing more. An abort may lie unread in front of its end, and that is the cause to name. */
static int lost_while_sending(struct collective_comm *c, struct tcp_peer *p, int errnum, struct eo_error *err)
{
    int code = EO_OK;

    p->skipping = true;
    p->dry = false;
    /* Bounded, because a peer could go on sending for ever. */
    for (int i = 0; i < 4096 && code == EO_OK && !p->dry && !p->eof; i++) {
        code = tcp_peer_receive(c, p, err);
    }
    return code != EO_OK ? code : tcp_abort_raise_lost(c, p, errnum, err);
}

/* ---- sending ---- */

static struct tcp_span *outgoing(struct tcp_peer *p, uint8_t phase)
{
    return phase == TCP_PHASE_INPUT ? &p->input_out : &p->result_out;
}

static bool sending(const struct tcp_peer *p)
{
    return p->header_left + p->out_left > 0;
}

bool tcp_peer_sent_all(const struct tcp_peer *p)
{
    return p->open_sent && !sending(p) && p->input_out.next == p->input_out.end &&
           p->result_out.next == p->result_out.end;
}

static void queue_chunk(struct collective_comm *c, struct tcp_peer *p, uint8_t type, uint8_t phase, uint64_t offset,
                        uint32_t length)
{
    struct tcp_chunk chunk = {.type = type, .phase = phase, .length = length, .offset = offset, .print = c->print};

    tcp_chunk_encode(&chunk, p->header);
    p->header_left = TCP_CHUNK_HEADER;
    p->out = length > 0 ? c->data + offset : NULL;
    p->out_left = p->out_size = length;
    p->out_type = type;
    p->out_phase = phase;
    p->open_sent |= type == TCP_CHUNK_DATA;
}

/* Large data wait for the peer's opening: a rank that has not come yet holds nothing but headers and small messages
 * unread, so that an abort or the end of the stream always gets through to it. */
static bool may_send_data(const struct collective_comm *c, const struct tcp_peer *p)
{
    return c->small || p->opened;
}

static uint64_t results_until(const struct collective_comm *c, const struct tcp_peer *p)
{
    return may_send_data(c, p) ? EO_MIN(p->result_out.end, c->ready) : p->result_out.next;
}

/* A result from the owner of a slice says that it has room for another input, for the same reason. */
static uint64_t inputs_until(const struct collective_comm *c, const struct tcp_peer *p)
{
    uint64_t room = c->direct ? p->input_out.end : p->result_in.next + (uint64_t)TCP_SLOTS * c->tuning.chunk_bytes;

    return may_send_data(c, p) ? EO_MIN(p->input_out.end, room) : p->input_out.next;
}

static void queue_data(struct collective_comm *c, struct tcp_peer *p, uint8_t phase, uint64_t until)
{
    uint64_t next = outgoing(p, phase)->next;

    queue_chunk(c, p, TCP_CHUNK_DATA, phase, next, (uint32_t)EO_MIN((uint64_t)c->tuning.chunk_bytes, until - next));
}

/* What may be sent next, in this order; results first, because they wait for nobody at the receiver. */
static bool queue_next(struct collective_comm *c, struct tcp_peer *p)
{
    uint64_t results = results_until(c, p), inputs = inputs_until(c, p);

    if (p->pong_due) {
        queue_chunk(c, p, TCP_CHUNK_PONG, TCP_PHASE_OPEN, 0, 0);
        p->pong_due = false;
    } else if (p->ping_due) {
        queue_chunk(c, p, TCP_CHUNK_PING, TCP_PHASE_OPEN, 0, 0);
        p->ping_due = false;
    } else if (p->result_out.next < results) {
        queue_data(c, p, TCP_PHASE_RESULT, results);
    } else if (p->input_out.next < inputs) {
        queue_data(c, p, TCP_PHASE_INPUT, inputs);
    } else if (!p->open_sent) {
        queue_chunk(c, p, TCP_CHUNK_DATA, TCP_PHASE_OPEN, 0, 0);
    } else {
        return false;
    }
    return true;
}

bool tcp_peer_wants_write(const struct collective_comm *c, const struct tcp_peer *p)
{
    return sending(p) || p->pong_due || p->ping_due || !p->open_sent || p->input_out.next < inputs_until(c, p) ||
           p->result_out.next < results_until(c, p);
}

static void bytes_sent(struct collective_comm *c, struct tcp_peer *p, size_t bytes)
{
    size_t header = EO_MIN(bytes, p->header_left);

    p->header_left -= header;
    p->out_left -= bytes - header;
    if (p->out != NULL) {
        p->out += bytes - header;
    }
    if (p->out_type == TCP_CHUNK_DATA) {
        note_progress(c, bytes - header);
        if (!sending(p) && p->out_size > 0) {
            outgoing(p, p->out_phase)->next += p->out_size;
        }
    }
}

int tcp_peer_flush(struct collective_comm *c, struct tcp_peer *p)
{
    /* sendmsg does not write to the bytes, but struct iovec knows no const. */
    struct iovec iov[2] = {{p->header + TCP_CHUNK_HEADER - p->header_left, p->header_left}, {NULL, p->out_left}};
    struct msghdr message = {.msg_iov = iov, .msg_iovlen = 2};
    ssize_t n;

    memcpy(&iov[1].iov_base, &p->out, sizeof(p->out));
    n = sendmsg(p->fd, &message, MSG_NOSIGNAL);
    if (n < 0) {
        return errno;
    }
    bytes_sent(c, p, (size_t)n);
    return 0;
}

int tcp_peer_send(struct collective_comm *c, struct tcp_peer *p, struct eo_error *err)
{
    int errnum = sending(p) || queue_next(c, p) ? tcp_peer_flush(c, p) : 0;

    p->blocked = errnum == EAGAIN;
    return errnum == 0 || errnum == EAGAIN || errnum == EINTR ? EO_OK : lost_while_sending(c, p, errnum, err);
}
