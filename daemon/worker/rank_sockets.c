#include "daemon/worker/rank_sockets.h"

#include "proto/base/clock.h"
#include "proto/channel.h"
#include "proto/codec.h"
#include "proto/error_codec.h"
#include "proto/frame.h"
#include "proto/message_schema.h"
#include "proto/version.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CONNECT_MS = 20000, ONE_CONNECT_MS = 5000, WAIT_SLICE_MS = 100 };

struct rank_sockets {
    pthread_mutex_t lock;
    pthread_cond_t arrived; /* CLOCK_MONOTONIC */
    int fds[COLLECTIVE_MAX_RANKS];
    bool aborted;
};

int rank_sockets_new(struct rank_sockets **out, struct eo_error *err)
{
    struct rank_sockets *s = calloc(1, sizeof *s);
    pthread_condattr_t attr;
    if (s == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for the data sockets");
    }
    for (int i = 0; i < COLLECTIVE_MAX_RANKS; i++) {
        s->fds[i] = -1;
    }
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&s->arrived, &attr);
    pthread_condattr_destroy(&attr);
    *out = s;
    return EO_OK;
}

void rank_sockets_free(struct rank_sockets *s)
{
    if (s == NULL) {
        return;
    }
    for (int i = 0; i < COLLECTIVE_MAX_RANKS; i++) {
        if (s->fds[i] >= 0) {
            close(s->fds[i]);
        }
    }
    pthread_cond_destroy(&s->arrived);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

void rank_sockets_give(struct rank_sockets *s, int fd, int from_rank)
{
    pthread_mutex_lock(&s->lock);
    if (from_rank >= 0 && from_rank < COLLECTIVE_MAX_RANKS && s->fds[from_rank] < 0) {
        s->fds[from_rank] = fd;
        fd = -1;
        pthread_cond_signal(&s->arrived);
    }
    pthread_mutex_unlock(&s->lock);
    if (fd >= 0) {
        close(fd);
    }
}

void rank_sockets_abort(struct rank_sockets *s)
{
    pthread_mutex_lock(&s->lock);
    s->aborted = true;
    pthread_cond_signal(&s->arrived);
    pthread_mutex_unlock(&s->lock);
}

/* ---- connecting to a lower rank ---- */

static void pack_hello(const struct collective_config *g, int to_rank, struct eo_bytes *b)
{
    char job[33];
    for (size_t i = 0; i < sizeof g->job; i++) {
        snprintf(job + 2 * i, 3, "%02x", g->job[i]);
    }
    eo_pack_request(b, 1, "hello");
    eo_pack_map(b, 8);
    eo_pack_str(b, "versions");
    eo_pack_i64_array(b, (const int64_t[]){EO_PROTOCOL_MIN, EO_PROTOCOL_MAX}, 2);
    eo_pack_kv_str(b, "role", "data");
    eo_pack_kv_str(b, "build", eo_build());
    eo_pack_kv_str(b, "job", job);
    eo_pack_kv_u64(b, "epoch", g->epoch);
    eo_pack_kv_i64(b, "from_rank", g->rank);
    eo_pack_kv_i64(b, "to_rank", to_rank);
    eo_pack_str(b, "token");
    eo_pack_bin(b, g->token, sizeof g->token);
}

static int read_welcome(struct eo_channel *c, uint64_t deadline_ns, struct eo_error *err)
{
    uint8_t header[EO_FRAME_HEADER_SIZE];
    struct eo_frame_header h;
    struct eo_doc doc;
    struct eo_envelope envelope;
    int rc = eo_channel_read_full(c, header, sizeof header, deadline_ns, err);
    if (rc == EO_OK) {
        rc = eo_frame_decode(header, 0, &h, err);
    }
    if (rc != EO_OK) {
        return rc;
    }
    uint8_t *body = malloc(h.envelope_size);
    if (body == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for an answer");
    }
    rc = eo_channel_read_full(c, body, h.envelope_size, deadline_ns, err);
    if (rc == EO_OK) {
        rc = eo_envelope_parse(&doc, &envelope, body, h.envelope_size, err);
    }
    if (rc == EO_OK) {
        if (envelope.error != NULL) {
            struct eo_error refusal = {0};
            rc = eo_error_unpack(envelope.error, &refusal);
            if (err != NULL) {
                *err = refusal;
            }
        }
        eo_doc_fini(&doc);
    }
    free(body);
    return rc;
}

static int connect_one(const struct collective_config *g, int to_rank, int *out_fd, struct eo_error *err)
{
    struct eo_endpoint ep;
    struct eo_channel c = {.fd = -1};
    struct eo_bytes hello;
    const uint64_t deadline = eo_now_ns() + (uint64_t)ONE_CONNECT_MS * 1000000;
    int rc = eo_endpoint_parse(g->hosts[to_rank], &ep, err);
    if (rc == EO_OK) {
        rc = eo_channel_connect(&c, &ep, deadline, err);
    }
    if (rc != EO_OK) {
        return rc;
    }
    uint8_t header[EO_FRAME_HEADER_SIZE];
    eo_bytes_init(&hello, 4096);
    pack_hello(g, to_rank, &hello);
    const struct eo_frame_header h = {.envelope_size = (uint32_t)hello.size};
    eo_frame_encode(&h, header);
    const struct iovec iov[2] = {{header, sizeof header}, {hello.data, hello.size}};
    rc = eo_channel_write_full(&c, iov, 2, deadline, err);
    if (rc == EO_OK) {
        rc = read_welcome(&c, deadline, err);
    }
    eo_bytes_fini(&hello);
    if (rc == EO_OK) {
        *out_fd = c.fd; /* a plain stream from here on; the channel itself has no memory */
    } else {
        eo_channel_close(&c);
    }
    return rc;
}

static bool should_stop(struct rank_sockets *s, const _Atomic int *stop)
{
    pthread_mutex_lock(&s->lock);
    const bool aborted = s->aborted;
    pthread_mutex_unlock(&s->lock);
    return aborted || atomic_load(stop) != 0;
}

static int connect_lower(struct rank_sockets *s, const struct collective_config *g, const _Atomic int *stop, int *fds,
                         struct eo_error *err)
{
    for (int r = 0; r < g->rank; r++) {
        if (should_stop(s, stop)) {
            return EO_RAISE(err, EO_E_PEER_LOST, "stopped while the ranks were connecting");
        }
        int rc = connect_one(g, r, &fds[r], err);
        if (rc != EO_OK) {
            eo_error_push(err, "while rank %d opened its data socket to rank %d", g->rank, r);
            eo_error_at_host(err, g->hosts[r], r);
            return rc;
        }
    }
    return EO_OK;
}

/* ---- waiting for the higher ranks ---- */

static bool all_here(const struct rank_sockets *s, const struct collective_config *g)
{
    for (int r = g->rank + 1; r < g->world_size; r++) {
        if (s->fds[r] < 0) {
            return false;
        }
    }
    return true;
}

static int missing(const struct rank_sockets *s, const struct collective_config *g, struct eo_error *err)
{
    char names[200] = "";
    size_t at = 0;
    int first = -1;
    for (int r = g->rank + 1; r < g->world_size && at < sizeof names; r++) {
        if (s->fds[r] < 0) {
            int n = snprintf(names + at, sizeof names - at, "%srank %d (%s)", at > 0 ? ", " : "", r, g->hosts[r]);
            at += n > 0 ? (size_t)n : 0;
            first = first < 0 ? r : first;
        }
    }
    EO_RAISE(err, EO_E_PEER_TIMEOUT, "no data socket came from %s within %d s", names, CONNECT_MS / 1000);
    eo_error_hint(err,
                  "Every host must reach every other one under the name given; `everyo doctor -H` checks all pairs.");
    eo_error_at_host(err, g->hosts[first >= 0 ? first : 0], first);
    return EO_E_PEER_TIMEOUT;
}

static int wait_higher(struct rank_sockets *s, const struct collective_config *g, const _Atomic int *stop, int *fds,
                       struct eo_error *err)
{
    const uint64_t deadline = eo_now_ns() + (uint64_t)CONNECT_MS * 1000000;
    int rc = EO_OK;
    pthread_mutex_lock(&s->lock);
    while (rc == EO_OK && !all_here(s, g)) {
        const uint64_t until = eo_now_ns() + (uint64_t)WAIT_SLICE_MS * 1000000;
        const struct timespec ts = {.tv_sec = (time_t)(until / 1000000000), .tv_nsec = (long)(until % 1000000000)};
        if (s->aborted || atomic_load(stop) != 0) {
            rc = EO_RAISE(err, EO_E_PEER_LOST, "stopped while the ranks were connecting");
        } else if (eo_now_ns() > deadline) {
            rc = missing(s, g, err);
        } else {
            pthread_cond_timedwait(&s->arrived, &s->lock, &ts);
        }
    }
    for (int r = g->rank + 1; r < g->world_size && rc == EO_OK; r++) {
        fds[r] = s->fds[r];
        s->fds[r] = -1;
    }
    pthread_mutex_unlock(&s->lock);
    return rc;
}

int rank_sockets_connect(struct rank_sockets *s, const struct collective_config *config, const _Atomic int *stop,
                         int *fds, struct eo_error *err)
{
    for (int r = 0; r < COLLECTIVE_MAX_RANKS; r++) {
        fds[r] = -1;
    }
    int rc = connect_lower(s, config, stop, fds, err);
    if (rc == EO_OK) {
        rc = wait_higher(s, config, stop, fds, err);
    }
    for (int r = 0; r < config->world_size && rc != EO_OK; r++) {
        if (fds[r] >= 0) {
            close(fds[r]);
            fds[r] = -1;
        }
    }
    return rc;
}
