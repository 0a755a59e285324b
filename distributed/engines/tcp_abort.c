#include "distributed/engines/tcp.h"

#include "proto/base/clock.h"
#include "proto/base/compiler.h"
#include "proto/error_codec.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/* Room for "all_reduce N of epoch N (sum of N float32)" with the longest numbers. */
enum { PRINT_TEXT = 128 };

static const char *host_of(const struct collective_comm *c, int rank)
{
    return c->config.hosts[rank];
}

/* ---- causes ---- */

int tcp_abort_raise_lost(const struct collective_comm *c, const struct tcp_peer *p, int errnum, struct eo_error *err)
{
    const char *host = host_of(c, p->rank);
    char what[PRINT_TEXT];

    tcp_fingerprint_text(&c->print, what, sizeof(what));
    if (errnum == 0) {
        EO_RAISE(err, EO_E_PEER_LOST, "rank %d (%s) was lost in %s: it closed the connection", p->rank, host, what);
    } else {
        EO_RAISE_ERRNO(err, EO_E_PEER_LOST, errnum, "rank %d (%s) was lost in %s", p->rank, host, what);
    }
    eo_error_at_host(err, host, p->rank);
    eo_error_hint(err, "Look at the log of the daemon on %s. The job can go on from its last checkpoint.", host);
    return EO_E_PEER_LOST;
}

/* The lower rank comes first, so that both ends say the same. */
int tcp_abort_raise_mismatch(const struct collective_comm *c, const struct tcp_peer *p,
                             const struct tcp_fingerprint *theirs, struct eo_error *err)
{
    bool mine_first = c->config.rank < p->rank;
    int low = mine_first ? c->config.rank : p->rank;
    int high = mine_first ? p->rank : c->config.rank;
    char a[PRINT_TEXT], b[PRINT_TEXT];

    tcp_fingerprint_text(mine_first ? &c->print : theirs, a, sizeof(a));
    tcp_fingerprint_text(mine_first ? theirs : &c->print, b, sizeof(b));
    EO_RAISE(err, EO_E_COLLECTIVE_MISMATCH, "rank %d started %s, but rank %d started %s", low, a, high, b);
    eo_error_at_host(err, host_of(c, p->rank), p->rank);
    eo_error_detail(err, "Rank %d is %s, rank %d is %s.", low, host_of(c, low), high, host_of(c, high));
    eo_error_hint(err, "All ranks must run the same job, data layout and version of EveryO.");
    return EO_E_COLLECTIVE_MISMATCH;
}

int tcp_abort_raise_bad_chunk(const struct collective_comm *c, const struct tcp_peer *p, struct eo_error *err,
                              const char *fmt, ...)
{
    char what[PRINT_TEXT], why[128];
    va_list args;

    va_start(args, fmt);
    vsnprintf(why, sizeof(why), fmt, args);
    va_end(args);
    tcp_fingerprint_text(&c->print, what, sizeof(what));
    EO_RAISE(err, EO_E_BAD_FRAME, "rank %d (%s) sent a bad chunk in %s: %s", p->rank, host_of(c, p->rank), what, why);
    eo_error_at_host(err, host_of(c, p->rank), p->rank);
    eo_error_hint(err, "All daemons of a job must run the same version of EveryO.");
    return EO_E_BAD_FRAME;
}

int tcp_abort_raise_requested(struct collective_comm *c, struct eo_error *err)
{
    pthread_mutex_lock(&c->cause_lock);
    *err = c->abort_cause;
    pthread_mutex_unlock(&c->cause_lock);
    return err->code;
}

int tcp_abort_raise_received(const struct collective_comm *c, const struct tcp_peer *p, const uint8_t *body,
                             size_t size, struct eo_error *err)
{
    struct eo_doc doc;

    if (eo_doc_parse(&doc, body, size, err) != EO_OK) {
        return tcp_abort_raise_bad_chunk(c, p, err, "an abort that is no error map");
    }
    eo_error_unpack(doc.root, err);
    eo_doc_fini(&doc);
    if (err->code == EO_OK) {
        return tcp_abort_raise_bad_chunk(c, p, err, "an abort without a cause");
    }
    eo_error_push(err, "reported by rank %d (%s)", p->rank, host_of(c, p->rank));
    return err->code;
}

/* ---- who kept us waiting ---- */

struct arrears {
    uint64_t got, due;   /* from it */
    uint64_t took, owed; /* to it */
};

static struct arrears arrears_of(const struct tcp_peer *p)
{
    uint64_t partial = p->payload_left > 0 ? p->payload_size - p->payload_left : 0;

    return (struct arrears){
        .got = (p->input_in.next - p->input_in.begin) + (p->result_in.next - p->result_in.begin) + partial,
        .due = (p->input_in.end - p->input_in.begin) + (p->result_in.end - p->result_in.begin),
        .took = (p->input_out.next - p->input_out.begin) + (p->result_out.next - p->result_out.begin),
        .owed = (p->input_out.end - p->input_out.begin) + (p->result_out.end - p->result_out.begin),
    };
}

/* Degrees of suspicion. Results may be late because somebody else's inputs are; a peer that answered is waiting itself.
 */
static int suspicion(const struct collective_comm *c, const struct tcp_peer *p)
{
    if (tcp_peer_received_all(p) && !p->blocked) {
        return 0;
    }
    if (p->answered_in == c->stall) {
        return 1;
    }
    return !p->opened || p->input_in.next < p->input_in.end || p->blocked ? 3 : 2;
}

static void describe(const struct collective_comm *c, const struct tcp_peer *p, char *out, size_t size)
{
    struct arrears a = arrears_of(p);

    if (!p->opened) {
        snprintf(out, size, "rank %d (%s) has not entered it", p->rank, host_of(c, p->rank));
    } else if (a.got < a.due) {
        snprintf(out, size, "rank %d (%s) sent %" PRIu64 " of %" PRIu64 " bytes", p->rank, host_of(c, p->rank), a.got,
                 a.due);
    } else {
        snprintf(out, size, "rank %d (%s) took %" PRIu64 " of %" PRIu64 " bytes", p->rank, host_of(c, p->rank), a.took,
                 a.owed);
    }
}

int tcp_abort_raise_timeout(const struct collective_comm *c, struct eo_error *err)
{
    char what[PRINT_TEXT], list[480] = "";
    const char *host = "";
    int worst = 0, first = -1;

    for (int i = 0; i < c->n_peers; i++) {
        worst = EO_MAX(worst, suspicion(c, &c->peers[i]));
    }
    for (int rank = 0; rank < c->config.world_size; rank++) {
        const struct tcp_peer *p = tcp_peer_of_rank(c, rank);
        size_t used = strlen(list);

        if (p != NULL && suspicion(c, p) == worst) {
            snprintf(list + used, sizeof(list) - used, "%s", used > 0 ? ", " : "");
            used = strlen(list);
            describe(c, p, list + used, sizeof(list) - used);
            host = first < 0 ? host_of(c, rank) : host;
            first = first < 0 ? rank : first;
        }
    }
    tcp_fingerprint_text(&c->print, what, sizeof(what));
    EO_RAISE(err, EO_E_PEER_TIMEOUT, "no progress for %" PRIu64 " ms in %s: %s", c->config.deadline_ms, what, list);
    eo_error_at_host(err, host, first);
    eo_error_detail(err, "Waiting for: %s.", list);
    eo_error_hint(err, "Look whether the host still runs, swaps or lost its network, and at the log of its daemon.");
    return EO_E_PEER_TIMEOUT;
}

/* ---- telling the others ---- */

/* The text of a cause that a peer's screen needs; fits TCP_CHUNK_ABORT_MAX. */
static void pack_abort(struct collective_comm *c)
{
    struct tcp_chunk chunk = {.type = TCP_CHUNK_ABORT, .print = c->print};
    struct eo_error told = c->cause;
    uint8_t *header;

    told.n_inputs = told.n_contexts = 0;
    eo_bytes_clear(&c->abort_frame);
    if (eo_bytes_extend(&c->abort_frame, TCP_CHUNK_HEADER) == NULL) {
        return;
    }
    eo_error_pack(&c->abort_frame, &told);
    header = c->abort_frame.data;
    chunk.length = (uint32_t)(c->abort_frame.size - TCP_CHUNK_HEADER);
    tcp_chunk_encode(&chunk, header);
}

/* Makes room at the peer's end. One that has ended its stream has failed or left: it waits for no news from us. */
static void discard_input(struct tcp_peer *p)
{
    ssize_t n = 1;

    /* Bounded: a peer that sends for ever does not keep us here. */
    for (int i = 0; i < 64 && n > 0; i++) {
        n = recv(p->fd, p->inbox, sizeof(p->inbox), MSG_DONTWAIT);
    }
    p->eof |= n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
    p->deaf |= p->eof;
}

/* What is half sent is finished first, or the peer could not tell the abort from data. True when nothing is left to do.
 */
static bool tell(struct collective_comm *c, struct tcp_peer *p)
{
    while (!p->deaf) {
        int errnum = 0;

        if (p->header_left + p->out_left > 0) {
            errnum = tcp_peer_flush(c, p);
        } else if (!p->told) {
            p->told = true;
            p->out = c->abort_frame.data;
            p->out_left = c->abort_frame.size;
            p->out_size = 0;
            p->out_type = TCP_CHUNK_ABORT;
        } else {
            /* The end of the stream wakes a peer that has stopped reading because it waits for somebody else. */
            shutdown(p->fd, SHUT_WR);
            p->deaf = true;
        }
        if (errnum == EAGAIN) {
            return false;
        }
        p->deaf |= errnum != 0 && errnum != EINTR;
    }
    return true;
}

static void tell_peers(struct collective_comm *c)
{
    uint64_t until_ns = eo_now_ns() + (uint64_t)TCP_FLUSH_MS * 1000000;
    uint64_t now_ns;

    while ((now_ns = eo_now_ns()) < until_ns) {
        bool all = true;

        for (int i = 0; i < c->n_peers; i++) {
            struct tcp_peer *p = &c->peers[i];
            bool done = tell(c, p);

            all &= done;
            c->polled[i] = (struct pollfd){.fd = done ? -1 : p->fd, .events = POLLOUT | POLLIN};
        }
        if (all) {
            return;
        }
        poll(c->polled, (nfds_t)c->n_peers, (int)((until_ns - now_ns) / 1000000) + 1);
        for (int i = 0; i < c->n_peers; i++) {
            if ((c->polled[i].revents & POLLIN) != 0) {
                discard_input(&c->peers[i]);
            }
        }
    }
}

void tcp_abort_fail(struct collective_comm *c, const struct eo_error *cause)
{
    if (c->failed) {
        return;
    }
    c->failed = true;
    c->cause = *cause;
    pack_abort(c);
    if (!c->abort_frame.failed) {
        tell_peers(c);
    }
}
