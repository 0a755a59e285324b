#include "daemon/worker/ring.h"

#include <errno.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Positions count bytes since the start and never wrap in practice (2^64); the place is position modulo RING_BYTES.
 * Records begin at multiples of 8. head and what the producer writes, tail and what the consumer writes, lie on lines
 * of their own. */
struct ring {
    alignas(64) _Atomic uint64_t head;
    _Atomic uint32_t producer_waits; /* for room */
    alignas(64) _Atomic uint64_t tail;
    _Atomic uint32_t consumer_sleeps;
    alignas(64) uint8_t data[RING_BYTES];
};

_Static_assert((RING_BYTES & (RING_BYTES - 1)) == 0, "places are masks of positions");
_Static_assert(RING_RECORD_MAX + 8 <= RING_BYTES, "the largest record fits");

static uint64_t record_bytes(size_t size)
{
    return (4 + (uint64_t)size + 7) & ~(uint64_t)7;
}

static void copy_in(struct ring *r, uint64_t at, const void *data, size_t size)
{
    size_t place = (size_t)(at & (RING_BYTES - 1));
    size_t first = EO_MIN(size, RING_BYTES - place);
    memcpy(r->data + place, data, first);
    memcpy(r->data, (const uint8_t *)data + first, size - first);
}

static void copy_out(const struct ring *r, uint64_t at, void *data, size_t size)
{
    size_t place = (size_t)(at & (RING_BYTES - 1));
    size_t first = EO_MIN(size, RING_BYTES - place);
    memcpy(data, r->data + place, first);
    memcpy((uint8_t *)data + first, r->data, size - first);
}

static void wake(int fd)
{
    const uint64_t one = 1;
    ssize_t n;
    do {
        n = write(fd, &one, sizeof(one));
    } while (n < 0 && errno == EINTR);
}

static void use(struct ring_pair *p, bool daemon_side)
{
    struct ring *rings = (struct ring *)(void *)p->shm.data;
    p->out = daemon_side ? &rings[0] : &rings[1];
    p->in = daemon_side ? &rings[1] : &rings[0];
    p->out_head = atomic_load(&p->out->head);
    p->in_tail = atomic_load(&p->in->tail);
}

int ring_pair_create(struct ring_pair *p, struct eo_error *err)
{
    *p = (struct ring_pair){.shm = {.fd = -1}, .wake_me = -1, .wake_peer = -1};
    int code = shm_create(&p->shm, "everyo-ring", 2 * sizeof(struct ring), err);
    if (code != EO_OK) {
        return code;
    }
    p->wake_me = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    p->wake_peer = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (p->wake_me < 0 || p->wake_peer < 0) {
        int errnum = errno;
        ring_pair_close(p);
        return EO_RAISE_ERRNO(err, EO_E_NO_MEMORY, errnum, "no eventfd for a command ring");
    }
    use(p, true);
    atomic_store(&p->in->consumer_sleeps, 1);
    atomic_store(&p->out->consumer_sleeps, 1);
    return EO_OK;
}

int ring_pair_attach(struct ring_pair *p, int shm_fd, int wake_worker, int wake_daemon, struct eo_error *err)
{
    *p = (struct ring_pair){.shm = {.fd = -1}, .wake_me = -1, .wake_peer = -1};
    int code = shm_attach(&p->shm, shm_fd, 2 * sizeof(struct ring), err);
    if (code != EO_OK) {
        return code;
    }
    p->wake_me = wake_worker;
    p->wake_peer = wake_daemon;
    use(p, false);
    return EO_OK;
}

void ring_pair_close(struct ring_pair *p)
{
    if (p->wake_me >= 0) {
        close(p->wake_me);
    }
    if (p->wake_peer >= 0) {
        close(p->wake_peer);
    }
    shm_close(&p->shm);
    *p = (struct ring_pair){.shm = {.fd = -1}, .wake_me = -1, .wake_peer = -1};
}

static bool has_room(const struct ring_pair *p, uint64_t need)
{
    uint64_t used = p->out_head - atomic_load(&p->out->tail);
    return used <= RING_BYTES && need <= RING_BYTES - used;
}

int ring_send(struct ring_pair *p, const void *data, size_t size, struct eo_error *err)
{
    if (size > RING_RECORD_MAX) {
        return EO_RAISE(err, EO_E_TOO_LARGE, "a command of %zu bytes exceeds %d", size, RING_RECORD_MAX);
    }
    const uint64_t need = record_bytes(size);
    if (!has_room(p, need)) {
        /* Announce, then look again: the consumer frees room, then looks for the announcement. */
        atomic_store(&p->out->producer_waits, 1);
        if (!has_room(p, need)) {
            return EO_RAISE(err, EO_E_BUSY, "the command ring is full");
        }
    }
    const uint32_t length = (uint32_t)size;
    copy_in(p->out, p->out_head, &length, sizeof(length));
    copy_in(p->out, p->out_head + sizeof(length), data, size);
    p->out_head += need;
    atomic_store(&p->out->head, p->out_head);
    if (atomic_load(&p->out->consumer_sleeps)) {
        wake(p->wake_peer);
    }
    return EO_OK;
}

bool ring_readable(const struct ring_pair *p)
{
    return atomic_load(&p->in->head) != p->in_tail;
}

int ring_receive(struct ring_pair *p, struct eo_bytes *out, bool *out_got, struct eo_error *err)
{
    *out_got = false;
    const uint64_t available = atomic_load(&p->in->head) - p->in_tail;
    if (available == 0) {
        return EO_OK;
    }
    uint32_t length = 0;
    if (available < 8 || available > RING_BYTES) {
        return EO_RAISE(err, EO_E_INTERNAL, "the command ring is broken: %llu bytes are said to lie in it",
                        (unsigned long long)available);
    }
    copy_out(p->in, p->in_tail, &length, sizeof(length));
    if (length > RING_RECORD_MAX || record_bytes(length) > available) {
        return EO_RAISE(err, EO_E_INTERNAL, "the command ring is broken: a record of %lu bytes", (unsigned long)length);
    }
    eo_bytes_clear(out);
    uint8_t *to = eo_bytes_extend(out, length);
    if (length > 0 && !to) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a command of %lu bytes", (unsigned long)length);
    }
    if (length > 0) {
        copy_out(p->in, p->in_tail + sizeof(length), to, length);
    }
    p->in_tail += record_bytes(length);
    atomic_store(&p->in->tail, p->in_tail);
    if (atomic_load(&p->in->producer_waits) && atomic_exchange(&p->in->producer_waits, 0)) {
        wake(p->wake_peer);
    }
    *out_got = true;
    return EO_OK;
}

bool ring_prepare_sleep(struct ring_pair *p)
{
    atomic_store(&p->in->consumer_sleeps, 1);
    return !ring_readable(p);
}

void ring_awake(struct ring_pair *p)
{
    atomic_store(&p->in->consumer_sleeps, 0);
}

void ring_woken(struct ring_pair *p)
{
    ring_awake(p);
    uint64_t count;
    ssize_t n;
    do {
        n = read(p->wake_me, &count, sizeof(count));
    } while (n < 0 && errno == EINTR);
}
