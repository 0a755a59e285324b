#include "distributed/engines/tcp.h"

#include "distributed/engines/engines.h"
#include "proto/base/checked.h"
#include "proto/base/compiler.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

const struct tcp_tuning tcp_tuning_default = {.chunk_bytes = 256 << 10, .direct_bytes = 16 << 10, .direct_pair = true};

enum { DEADLINE_DEFAULT_MS = 30000, SPIN_MAX_NS = 50000 };

/* ---- opening and closing ---- */

static int check_config(const struct collective_config *config, const int *fds, const struct tcp_tuning *tuning,
                        struct eo_error *err)
{
    if (config->world_size < 1 || config->world_size > COLLECTIVE_MAX_RANKS || config->rank < 0 ||
        config->rank >= config->world_size) {
        return EO_BUG(err, "rank %d of %d", config->rank, config->world_size);
    }
    if (tuning->chunk_bytes == 0 || tuning->chunk_bytes % 64 != 0 || tuning->chunk_bytes > TCP_CHUNK_MAX) {
        return EO_BUG(err, "chunks of %" PRIu32 " bytes", tuning->chunk_bytes);
    }
    for (int r = 0; r < config->world_size; r++) {
        if (r != config->rank && fds[r] < 0) {
            return EO_BUG(err, "no socket to rank %d", r);
        }
    }
    return EO_OK;
}

/* Small messages must not wait for acknowledgements, and a dead link must not look like a quiet one. A unix socket has
 * none of these options and needs none. */
static void tune_socket(int fd)
{
    static const struct {
        int level, name, value;
    } options[] = {
        {IPPROTO_TCP, TCP_NODELAY, 1},   {SOL_SOCKET, SO_KEEPALIVE, 1}, {IPPROTO_TCP, TCP_KEEPIDLE, 10},
        {IPPROTO_TCP, TCP_KEEPINTVL, 5}, {IPPROTO_TCP, TCP_KEEPCNT, 3}, {IPPROTO_TCP, TCP_USER_TIMEOUT, 20000},
    };

    for (size_t i = 0; i < EO_COUNT_OF(options); i++) {
        setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof(options[i].value));
    }
}

static bool same_host(int fd)
{
    struct sockaddr_storage mine, theirs;
    socklen_t mine_size = sizeof(mine), theirs_size = sizeof(theirs);

    memset(&mine, 0, sizeof(mine));
    memset(&theirs, 0, sizeof(theirs));
    if (getsockname(fd, (struct sockaddr *)&mine, &mine_size) != 0 ||
        getpeername(fd, (struct sockaddr *)&theirs, &theirs_size) != 0 || mine.ss_family != theirs.ss_family) {
        return false;
    }
    switch (mine.ss_family) {
    case AF_UNIX:
        return true;
    case AF_INET:
        return ((struct sockaddr_in *)&mine)->sin_addr.s_addr == ((struct sockaddr_in *)&theirs)->sin_addr.s_addr;
    case AF_INET6:
        return memcmp(&((struct sockaddr_in6 *)&mine)->sin6_addr, &((struct sockaddr_in6 *)&theirs)->sin6_addr,
                      sizeof(struct in6_addr)) == 0;
    default:
        return false;
    }
}

/* Spinning is for ranks that have a core each; one that waits in vain soon stops (tcp_exchange.c). */
static uint64_t spin_limit_ns(const struct collective_comm *c)
{
    int ranks_here = 1;
    cpu_set_t cores;

    CPU_ZERO(&cores);
    if (sched_getaffinity(0, sizeof(cores), &cores) != 0) {
        return 0;
    }
    for (int i = 0; i < c->n_peers; i++) {
        ranks_here += same_host(c->peers[i].fd);
    }
    return CPU_COUNT(&cores) >= ranks_here ? SPIN_MAX_NS : 0;
}

static int open_peers(struct collective_comm *c, const int *fds, struct eo_error *err)
{
    size_t slots_bytes = (size_t)TCP_SLOTS * c->tuning.chunk_bytes;

    c->peers = calloc((size_t)c->n_peers + 1, sizeof(*c->peers));
    c->polled = calloc((size_t)c->n_peers + 1, sizeof(*c->polled));
    c->scratch = aligned_alloc(64, slots_bytes * (size_t)EO_MAX(c->n_peers, 1));
    if (c->peers == NULL || c->polled == NULL || c->scratch == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for the buffers of %d peers", c->n_peers);
    }
    for (int i = 0; i < c->n_peers; i++) {
        struct tcp_peer *p = &c->peers[i];
        int flags;

        p->rank = (c->config.rank + 1 + i) % c->config.world_size;
        p->fd = fds[p->rank];
        p->slots = c->scratch + slots_bytes * (size_t)i;
        flags = fcntl(p->fd, F_GETFL);
        if (flags < 0 || fcntl(p->fd, F_SETFL, flags | O_NONBLOCK) != 0) {
            return EO_RAISE_ERRNO(err, EO_E_IO, errno, "cannot use the socket to rank %d (%s)", p->rank,
                                  c->config.hosts[p->rank]);
        }
        tune_socket(p->fd);
    }
    c->spin_max_ns = c->spin_ns = spin_limit_ns(c);
    return EO_OK;
}

static void free_comm(struct collective_comm *c)
{
    if (c->wake_fd >= 0) {
        close(c->wake_fd);
    }
    eo_bytes_fini(&c->abort_frame);
    pthread_mutex_destroy(&c->cause_lock);
    pthread_mutex_destroy(&c->io);
    free(c->scratch);
    free(c->polled);
    free(c->peers);
    free(c);
}

int tcp_open_tuned(const struct collective_config *config, const int *fds, const struct tcp_tuning *tuning,
                   struct collective_comm **out, struct eo_error *err)
{
    struct collective_comm *c;
    int code = check_config(config, fds, tuning, err);

    if (code != EO_OK) {
        return code;
    }
    c = calloc(1, sizeof(*c));
    if (c == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a communicator");
    }
    c->config = *config;
    c->config.deadline_ms = config->deadline_ms == 0 ? DEADLINE_DEFAULT_MS : config->deadline_ms;
    c->tuning = *tuning;
    c->n_peers = config->world_size - 1;
    c->print.epoch = config->epoch;
    pthread_mutex_init(&c->io, NULL);
    pthread_mutex_init(&c->cause_lock, NULL);
    eo_bytes_init(&c->abort_frame, TCP_CHUNK_HEADER + TCP_CHUNK_ABORT_MAX);
    c->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    code = c->wake_fd < 0 ? EO_RAISE_ERRNO(err, EO_E_IO, errno, "cannot create an eventfd") : open_peers(c, fds, err);
    if (code != EO_OK) {
        free_comm(c);
        return code;
    }
    *out = c;
    return EO_OK;
}

int tcp_open(const struct collective_config *config, const int *fds, struct collective_comm **out, struct eo_error *err)
{
    return tcp_open_tuned(config, fds, &tcp_tuning_default, out, err);
}

void tcp_close(struct collective_comm *c)
{
    if (c == NULL) {
        return;
    }
    for (int i = 0; i < c->n_peers; i++) {
        close(c->peers[i].fd);
    }
    free_comm(c);
}

/* ---- collectives ---- */

static void begin(struct collective_comm *c, enum collective_kind kind, uint64_t count)
{
    c->print = (struct tcp_fingerprint){
        .epoch = c->config.epoch, .seq = c->print.seq + 1, .count = count, .kind = (uint8_t)kind};
    c->data = NULL;
    c->element_bytes = 1;
    c->combine = NULL;
}

/* Ends a call with what the exchange said. The first failure is told to the peers and kept for all later calls. */
static int finish(struct collective_comm *c, int code, const struct eo_error *raised, struct eo_error *err)
{
    if (code != EO_OK) {
        tcp_abort_fail(c, raised);
        if (err != NULL) {
            *err = c->cause;
        }
    }
    pthread_mutex_unlock(&c->io);
    /* An abort that came while io was held and after the last look at it has found nobody to tell the peers. */
    if (code == EO_OK && atomic_load(&c->abort_requested)) {
        struct eo_error cause;

        pthread_mutex_lock(&c->io);
        tcp_abort_raise_requested(c, &cause);
        tcp_abort_fail(c, &cause);
        pthread_mutex_unlock(&c->io);
    }
    return code;
}

/* Takes io for a collective; a communicator that has failed says so again. */
static int enter(struct collective_comm *c, struct eo_error *raised)
{
    pthread_mutex_lock(&c->io);
    if (c->failed) {
        *raised = c->cause;
        return raised->code;
    }
    return EO_OK;
}

static int begin_all_reduce(struct collective_comm *c, void *data, uint64_t count, enum eo_dtype dtype,
                            enum collective_reduce reduce, uint64_t *out_bytes, struct eo_error *err)
{
    size_t element = eo_dtype_valid((int)dtype) ? eo_dtype_size(dtype) : 1;

    begin(c, COLLECTIVE_ALL_REDUCE, count);
    c->combine = rank_reduce_find(dtype, reduce);
    if (c->combine == NULL) {
        return EO_RAISE(err, EO_E_DTYPE_MISMATCH, "all_reduce cannot combine %s", eo_dtype_name(dtype));
    }
    if (!eo_mul_u64(count, element, out_bytes) || *out_bytes > INT64_MAX) {
        return EO_RAISE(err, EO_E_TOO_LARGE, "all_reduce of %" PRIu64 " elements of %zu bytes", count, element);
    }
    if ((data == NULL && count > 0) || (uintptr_t)data % element != 0) {
        return EO_BUG(err, "all_reduce of %s at %p", eo_dtype_name(dtype), data);
    }
    c->print.dtype = (uint8_t)dtype;
    c->print.reduce = (uint8_t)reduce;
    c->data = data;
    c->element_bytes = element;
    return EO_OK;
}

int tcp_all_reduce(struct collective_comm *c, void *data, uint64_t count, enum eo_dtype dtype,
                   enum collective_reduce reduce, struct eo_error *err)
{
    struct eo_error raised;
    uint64_t bytes = 0;
    int code = enter(c, &raised);

    if (code == EO_OK) {
        code = begin_all_reduce(c, data, count, dtype, reduce, &bytes, &raised);
    }
    if (code == EO_OK) {
        code = tcp_exchange_run(c, bytes, &raised);
    }
    return finish(c, code, &raised, err);
}

int tcp_broadcast(struct collective_comm *c, void *data, uint64_t bytes, int root, struct eo_error *err)
{
    struct eo_error raised;
    int code = enter(c, &raised);

    if (code == EO_OK) {
        begin(c, COLLECTIVE_BROADCAST, bytes);
        c->data = data;
        c->print.root = (uint8_t)root;
        code = root < 0 || root >= c->config.world_size || (data == NULL && bytes > 0)
                   ? EO_BUG(&raised, "broadcast of %" PRIu64 " bytes at %p from rank %d", bytes, data, root)
                   : tcp_exchange_run(c, bytes, &raised);
    }
    return finish(c, code, &raised, err);
}

int tcp_barrier(struct collective_comm *c, struct eo_error *err)
{
    struct eo_error raised;
    int code = enter(c, &raised);

    if (code == EO_OK) {
        begin(c, COLLECTIVE_BARRIER, 0);
        code = tcp_exchange_run(c, 0, &raised);
    }
    return finish(c, code, &raised, err);
}

/* ---- from other threads ---- */

void tcp_abort(struct collective_comm *c, const struct eo_error *cause)
{
    const uint64_t one = 1;

    pthread_mutex_lock(&c->cause_lock);
    if (!atomic_load(&c->abort_requested)) {
        if (cause != NULL && cause->code != EO_OK) {
            c->abort_cause = *cause;
        } else {
            EO_RAISE(&c->abort_cause, EO_E_CANCELLED, "the collectives of rank %d were aborted", c->config.rank);
        }
        atomic_store(&c->abort_requested, true);
    }
    pthread_mutex_unlock(&c->cause_lock);
    /* Cannot fail but for a counter at its limit, and then the poll is awake anyway. */
    EO_UNUSED(write(c->wake_fd, &one, sizeof(one)) == sizeof(one));
    if (pthread_mutex_trylock(&c->io) == 0) {
        struct eo_error told;

        tcp_abort_raise_requested(c, &told);
        tcp_abort_fail(c, &told);
        pthread_mutex_unlock(&c->io);
    }
}

uint64_t tcp_progress_bytes(const struct collective_comm *c)
{
    return atomic_load_explicit(&c->progress, memory_order_relaxed);
}
