#include "distributed/engines/tcp.h"

#include "proto/base/clock.h"
#include "proto/base/compiler.h"

/* ---- what goes where ---- */

/* Slices begin at multiples of 64 bytes, so no element is cut. */
static struct tcp_span slice_of(uint64_t bytes, int rank, int world_size)
{
    uint64_t each = bytes / (uint64_t)world_size + (bytes % (uint64_t)world_size != 0);
    uint64_t step = (each + 63) / 64 * 64;
    uint64_t begin = EO_MIN(step * (uint64_t)rank, bytes);

    return (struct tcp_span){begin, begin, EO_MIN(begin + step, bytes)};
}

static void plan_peer(const struct collective_comm *c, struct tcp_peer *p, uint64_t bytes)
{
    const struct tcp_span all = {0, 0, bytes}, nothing = {0, 0, 0};

    p->input_in = p->input_out = p->result_in = p->result_out = nothing;
    if (c->print.kind == COLLECTIVE_BROADCAST) {
        p->result_out = c->print.root == c->config.rank ? all : nothing;
        p->result_in = c->print.root == p->rank ? all : nothing;
    } else if (c->direct) {
        p->input_in = p->input_out = all;
    } else if (c->print.kind == COLLECTIVE_ALL_REDUCE) {
        p->input_out = p->result_in = slice_of(bytes, p->rank, c->config.world_size);
        p->input_in = p->result_out = c->own;
    }
    p->opened = p->open_sent = p->blocked = p->parked = p->ping_due = false;
    p->readable = true;
}

static void plan_exchange(struct collective_comm *c, uint64_t bytes)
{
    bool reducing = c->print.kind == COLLECTIVE_ALL_REDUCE && c->n_peers > 0;

    c->small = bytes <= c->tuning.direct_bytes && bytes <= c->tuning.chunk_bytes;
    c->direct = reducing && (bytes <= c->tuning.direct_bytes || (c->config.world_size == 2 && c->tuning.direct_pair));
    c->own = c->direct   ? (struct tcp_span){0, 0, bytes}
             : !reducing ? (struct tcp_span){0, 0, 0}
                         : slice_of(bytes, c->config.rank, c->config.world_size);
    c->ready = reducing ? c->own.begin : bytes;
    for (int i = 0; i < c->n_peers; i++) {
        plan_peer(c, &c->peers[i], bytes);
    }
    c->last_progress_ns = eo_now_ns();
    c->stall++;
    c->pinged = false;
}

/* ---- combining ---- */

/* All inputs of [own.next, end) are here, and in direct mode mine was sent to all before it is overwritten. */
static bool segment_complete(const struct collective_comm *c, uint64_t end)
{
    for (int i = 0; i < c->n_peers; i++) {
        const struct tcp_peer *p = &c->peers[i];

        if (p->input_in.next < end || (c->direct && p->input_out.next < end)) {
            return false;
        }
    }
    return true;
}

/* True when a segment was finished: its slot is free and, in slices, its result can be sent. */
static bool combine_complete_segments(struct collective_comm *c)
{
    uint64_t before = c->own.next;
    uint64_t ring = (uint64_t)TCP_SLOTS * c->tuning.chunk_bytes;

    while (c->own.next < c->own.end) {
        uint64_t at = c->own.next;
        uint64_t bytes = EO_MIN((uint64_t)c->tuning.chunk_bytes, c->own.end - at);
        const void *in[COLLECTIVE_MAX_RANKS];

        if (!segment_complete(c, at + bytes)) {
            break;
        }
        in[c->config.rank] = c->data + at;
        for (int i = 0; i < c->n_peers; i++) {
            in[c->peers[i].rank] = c->peers[i].slots + (at - c->own.begin) % ring;
        }
        c->combine(c->data + at, in, c->config.world_size, bytes / c->element_bytes);
        c->own.next += bytes;
        c->ready = c->own.next;
    }
    return c->own.next > before;
}

/* ---- waiting ---- */

static bool can_send_now(const struct collective_comm *c)
{
    for (int i = 0; i < c->n_peers; i++) {
        if (!c->peers[i].blocked && tcp_peer_wants_write(c, &c->peers[i])) {
            return true;
        }
    }
    return false;
}

/* Half-way to the deadline every peer is asked whether it is there, so that the deadline names only those who are not.
 */
static int check_deadline(struct collective_comm *c, int *timeout_ms, struct eo_error *err)
{
    uint64_t deadline_ns = c->config.deadline_ms * 1000000;
    uint64_t waited_ns = eo_now_ns() - c->last_progress_ns;

    if (waited_ns >= deadline_ns) {
        return tcp_abort_raise_timeout(c, err);
    }
    if (!c->pinged && waited_ns >= deadline_ns / 2) {
        c->pinged = true;
        for (int i = 0; i < c->n_peers; i++) {
            c->peers[i].ping_due = true;
        }
    }
    *timeout_ms = (int)EO_MIN(((c->pinged ? deadline_ns : deadline_ns / 2) - waited_ns) / 1000000 + 1, 1000000U);
    return EO_OK;
}

/* A short spin saves the wake-up of a small message. It shrinks when it was in vain and costs at most spin_max_ns. */
static int poll_after_spin(struct collective_comm *c, int timeout_ms)
{
    nfds_t n_fds = (nfds_t)c->n_peers + 1;

    if (c->small && c->spin_max_ns > 0 && timeout_ms > 0) {
        uint64_t until_ns = eo_now_ns() + c->spin_ns;

        do {
            int n = poll(c->polled, n_fds, 0);

            if (n != 0) {
                c->spin_ns = c->spin_max_ns;
                return n;
            }
        } while (eo_now_ns() < until_ns);
        c->spin_ns = EO_MAX(c->spin_ns / 2, c->spin_max_ns / 16);
    }
    return poll(c->polled, n_fds, timeout_ms);
}

static void watch(struct collective_comm *c)
{
    for (int i = 0; i < c->n_peers; i++) {
        struct tcp_peer *p = &c->peers[i];
        int events = 0;

        if (tcp_peer_wants_read(p)) {
            events |= POLLIN;
        } else if (!p->eof) {
            events |= POLLRDHUP;
        }
        if (p->blocked && tcp_peer_wants_write(c, p)) {
            events |= POLLOUT;
        }
        c->polled[i] = (struct pollfd){.fd = events == 0 ? -1 : p->fd, .events = (short)events};
    }
    c->polled[c->n_peers] = (struct pollfd){.fd = c->wake_fd, .events = POLLIN};
}

static int wait_for_peers(struct collective_comm *c, struct eo_error *err)
{
    int timeout_ms = 0;
    int code = check_deadline(c, &timeout_ms, err);

    if (code != EO_OK) {
        return code;
    }
    watch(c);
    if (poll_after_spin(c, can_send_now(c) ? 0 : timeout_ms) <= 0) {
        return EO_OK;
    }
    for (int i = 0; i < c->n_peers; i++) {
        struct tcp_peer *p = &c->peers[i];
        int events = c->polled[i].revents;

        if (events & (POLLOUT | POLLERR | POLLHUP)) {
            p->blocked = false;
        }
        if (p->parked && (events & (POLLRDHUP | POLLERR | POLLHUP))) {
            /* It gave up or died with data unread that will never be needed: look behind them for the cause. */
            p->skipping = true;
            p->parked = false;
        }
        p->readable = (events & (POLLIN | POLLRDHUP | POLLERR | POLLHUP)) != 0;
    }
    return EO_OK;
}

/* ---- running ---- */

static bool exchange_done(const struct collective_comm *c)
{
    bool done = c->own.next == c->own.end;

    for (int i = 0; i < c->n_peers && done; i++) {
        done = tcp_peer_received_all(&c->peers[i]) && tcp_peer_sent_all(&c->peers[i]);
    }
    return done;
}

static int serve_peers(struct collective_comm *c, struct eo_error *err)
{
    int code = EO_OK;

    for (int i = 0; i < c->n_peers && code == EO_OK; i++) {
        struct tcp_peer *p = &c->peers[i];

        if (!p->blocked) {
            code = tcp_peer_send(c, p, err);
        }
        if (code == EO_OK && (p->readable || p->parked)) {
            p->readable = false;
            code = tcp_peer_receive(c, p, err);
        }
    }
    return code;
}

int tcp_exchange_run(struct collective_comm *c, uint64_t bytes, struct eo_error *err)
{
    int code = EO_OK;

    plan_exchange(c, bytes);
    for (int i = 0; i < c->n_peers && code == EO_OK; i++) {
        code = c->peers[i].eof ? tcp_abort_raise_lost(c, &c->peers[i], 0, err) : EO_OK;
    }
    while (code == EO_OK) {
        if (atomic_load_explicit(&c->abort_requested, memory_order_acquire)) {
            return tcp_abort_raise_requested(c, err);
        }
        code = serve_peers(c, err);
        if (code == EO_OK && combine_complete_segments(c)) {
            continue;
        }
        if (code != EO_OK || exchange_done(c)) {
            return code;
        }
        code = wait_for_peers(c, err);
    }
    return code;
}
