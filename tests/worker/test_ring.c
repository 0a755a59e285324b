#include "daemon/worker/ring.h"
#include "tests/support/suite.h"

#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

/* Both sides in one process: the worker's over duplicates, as if they had come by SCM_RIGHTS. */
struct sides {
    struct ring_pair daemon, worker;
};

static void begin(struct sides *s)
{
    struct eo_error err = {0};
    ASSERT_OK(ring_pair_create(&s->daemon, &err));
    ASSERT_OK(
        ring_pair_attach(&s->worker, dup(s->daemon.shm.fd), dup(s->daemon.wake_peer), dup(s->daemon.wake_me), &err));
}

static void end(struct sides *s)
{
    ring_pair_close(&s->daemon);
    ring_pair_close(&s->worker);
    ring_pair_close(&s->worker); /* idempotent */
}

static bool signalled(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

START_TEST(both_ways)
{
    struct eo_error err = {0};
    struct sides s;
    struct eo_bytes b;
    bool got = true;
    begin(&s);
    eo_bytes_init(&b, RING_RECORD_MAX);
    ASSERT_OK(ring_receive(&s.worker, &b, &got, &err));
    ck_assert(!got);
    ASSERT_OK(ring_send(&s.daemon, "abc", 3, &err));
    ASSERT_OK(ring_send(&s.daemon, "", 0, &err));
    ASSERT_OK(ring_send(&s.worker, "xy", 2, &err));
    ck_assert(ring_readable(&s.worker));
    ASSERT_OK(ring_receive(&s.worker, &b, &got, &err));
    ck_assert(got && b.size == 3 && memcmp(b.data, "abc", 3) == 0);
    ASSERT_OK(ring_receive(&s.worker, &b, &got, &err));
    ck_assert(got && b.size == 0);
    ASSERT_OK(ring_receive(&s.daemon, &b, &got, &err));
    ck_assert(got && b.size == 2 && memcmp(b.data, "xy", 2) == 0);
    ck_assert(!ring_readable(&s.worker) && !ring_readable(&s.daemon));
    eo_bytes_fini(&b);
    end(&s);
}
END_TEST

START_TEST(sleepers_are_woken)
{
    struct eo_error err = {0};
    struct sides s;
    begin(&s);
    ck_assert(ring_prepare_sleep(&s.worker));
    ASSERT_OK(ring_send(&s.daemon, "a", 1, &err));
    ck_assert(signalled(s.worker.wake_me));
    ring_woken(&s.worker);
    ck_assert(!signalled(s.worker.wake_me));
    ASSERT_OK(ring_send(&s.daemon, "b", 1, &err));
    ck_assert(!signalled(s.worker.wake_me));   /* awake: no system call for it */
    ck_assert(!ring_prepare_sleep(&s.worker)); /* something is there: no sleeping */
    end(&s);
}
END_TEST

START_TEST(full_ring_says_busy)
{
    struct eo_error err = {0};
    struct sides s;
    static uint8_t big[RING_RECORD_MAX + 1];
    struct eo_bytes b;
    bool got;
    begin(&s);
    eo_bytes_init(&b, RING_RECORD_MAX);
    ASSERT_CODE(ring_send(&s.daemon, big, sizeof(big), &err), EO_E_TOO_LARGE);
    ASSERT_OK(ring_send(&s.daemon, big, RING_RECORD_MAX, &err));
    ASSERT_CODE(ring_send(&s.daemon, big, RING_RECORD_MAX, &err), EO_E_BUSY);
    ring_woken(&s.daemon);
    ASSERT_OK(ring_receive(&s.worker, &b, &got, &err));
    ck_assert(got && b.size == RING_RECORD_MAX);
    ck_assert(signalled(s.daemon.wake_me)); /* there is room again */
    ASSERT_OK(ring_send(&s.daemon, big, RING_RECORD_MAX, &err));
    eo_bytes_fini(&b);
    end(&s);
}
END_TEST

/* Records of many sizes across the end of the ring, many times over. */
START_TEST(wraps)
{
    struct eo_error err = {0};
    struct sides s;
    static uint8_t out[70000];
    struct eo_bytes b;
    bool got;
    begin(&s);
    eo_bytes_init(&b, RING_RECORD_MAX);
    for (uint32_t i = 0; i < 2000; i++) {
        size_t n = (size_t)(i * 7919u) % sizeof(out);
        memset(out, (int)i, n);
        ASSERT_OK(ring_send(&s.daemon, out, n, &err));
        ASSERT_OK(ring_receive(&s.worker, &b, &got, &err));
        ck_assert(got && b.size == n && (n == 0 || memcmp(b.data, out, n) == 0));
    }
    eo_bytes_fini(&b);
    end(&s);
}
END_TEST

enum { MANY = 200000 };

static void *produce(void *ctx)
{
    struct ring_pair *p = ctx;
    for (uint32_t i = 0; i < MANY; i++) {
        uint32_t record[8] = {i, i, i, i, i, i, i, i};
        while (ring_send(p, record, 4 + 4 * (i % 8), NULL) != EO_OK) {
            struct pollfd wait = {.fd = p->wake_me, .events = POLLIN};
            poll(&wait, 1, 10);
            ring_woken(p);
        }
    }
    return NULL;
}

START_TEST(two_threads)
{
    struct eo_error err = {0};
    struct sides s;
    struct eo_bytes b;
    pthread_t thread;
    begin(&s);
    eo_bytes_init(&b, RING_RECORD_MAX);
    ck_assert_int_eq(pthread_create(&thread, NULL, produce, &s.daemon), 0);
    for (uint32_t i = 0; i < MANY;) {
        bool got = false;
        ASSERT_OK(ring_receive(&s.worker, &b, &got, &err));
        if (!got) {
            if (ring_prepare_sleep(&s.worker)) {
                struct pollfd wait = {.fd = s.worker.wake_me, .events = POLLIN};
                ck_assert_int_eq(poll(&wait, 1, 10000), 1);
            }
            ring_woken(&s.worker);
            continue;
        }
        uint32_t first;
        memcpy(&first, b.data, 4);
        ck_assert_uint_eq(first, i);
        ck_assert_uint_eq(b.size, 4 + 4 * (i % 8));
        i++;
    }
    pthread_join(thread, NULL);
    eo_bytes_fini(&b);
    end(&s);
}
END_TEST

/* Whatever a process gone wild writes into the shared memory, the other side raises and reads nothing outside. */
START_TEST(broken_ring_is_noticed)
{
    struct eo_error err = {0};
    uint64_t seed = 88172645463325252u;
    int n_refused = 0;
    for (int turn = 0; turn < 300; turn++) {
        struct sides s;
        struct eo_bytes b;
        begin(&s);
        eo_bytes_init(&b, RING_RECORD_MAX);
        ASSERT_OK(ring_send(&s.daemon, "hello", 5, &err));
        for (int i = 0; i < 8; i++) { /* positions lie at the front, the first record 128 bytes in */
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            s.daemon.shm.data[seed % 140] = (uint8_t)(seed >> 32);
        }
        bool got = true;
        for (int k = 0; k < 4 && got; k++) {
            int code = ring_receive(&s.worker, &b, &got, &err);
            if (code != EO_OK) {
                ck_assert_int_eq(code, EO_E_INTERNAL);
                n_refused++;
                break;
            }
        }
        eo_bytes_fini(&b);
        end(&s);
    }
    ck_assert_int_gt(n_refused, 100);
}
END_TEST

START_TEST(shared_memory)
{
    struct eo_error err = {0};
    struct shm a, b;
    ASSERT_OK(shm_create(&a, "test", 100000, &err));
    ck_assert_uint_ge(a.size, 100000);
    ck_assert_int_ne(ftruncate(a.fd, 10), 0); /* sealed */
    ASSERT_OK(shm_attach(&b, dup(a.fd), a.size, &err));
    ASSERT_OK(shm_commit(&a, 0, a.size, &err));
    a.data[a.size - 1] = 7;
    ck_assert_uint_eq(b.data[a.size - 1], 7);
    shm_decommit(&a, 0, a.size);
    ck_assert_uint_eq(b.data[a.size - 1], 0);
    ASSERT_CODE(shm_commit(&a, a.size, 1, &err), EO_E_INTERNAL);
    ASSERT_CODE(shm_commit(&a, 1, UINT64_MAX, &err), EO_E_INTERNAL);
    ASSERT_OK(shm_commit(&a, a.size, 0, &err));
    shm_decommit(&a, a.size - 1, UINT64_MAX); /* out of range: nothing */
    shm_close(&a);
    shm_close(&b);
    shm_close(&b);
    ASSERT_CODE(shm_create(&a, "test", 0, &err), EO_E_TOO_LARGE);
    ASSERT_CODE(shm_create(&a, "test", UINT64_MAX, &err), EO_E_TOO_LARGE);
}
END_TEST

START_TEST(attach_refuses_strangers)
{
    struct eo_error err = {0};
    struct shm m;
    int pipes[2];
    ck_assert_int_eq(pipe(pipes), 0);
    ASSERT_CODE(shm_attach(&m, pipes[0], 1, &err), EO_E_INTERNAL);
    int unsealed = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    ck_assert_int_eq(ftruncate(unsealed, 4096), 0);
    ASSERT_CODE(shm_attach(&m, unsealed, 1, &err), EO_E_INTERNAL);
    close(unsealed);
    struct shm small;
    ASSERT_OK(shm_create(&small, "small", 4096, &err));
    ASSERT_CODE(shm_attach(&m, small.fd, 8192, &err), EO_E_INTERNAL);
    shm_close(&small);
    close(pipes[0]);
    close(pipes[1]);
}
END_TEST

EO_SUITE("ring", both_ways, sleepers_are_woken, full_ring_says_busy, wraps, two_threads, broken_ring_is_noticed,
         shared_memory, attach_refuses_strangers)
