/* Worker processes: started late, lost, started again; nothing of them is left behind. */
#include "tests/server/live.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

static struct raw_client c;

static void start(void)
{
    live_start(NULL);
    ASSERT_OK(raw_open(&c, &d.endpoint, &err));
}

static pid_t only_worker(void)
{
    pid_t workers[8];
    ASSERT_OK(daemon_wait_workers(&d, 1, &err));
    ck_assert_int_eq(daemon_workers(&d, workers, 8), 1);
    return workers[0];
}

static int run(const char *op, uint32_t in, uint32_t out)
{
    raw_pack_op(&c, op, (uint32_t[]){in}, 1, out, 1);
    return raw_call(&c, NULL, 0, NULL, &err);
}

START_TEST(started_at_first_use)
{
    pid_t workers[8];
    char dir[160];
    start();
    ck_assert_int_eq(daemon_workers(&d, workers, 8), 0);
    ASSERT_OK(raw_create(&c, 0, 1, (int64_t[]){1}, 1, (const float[]){1}, &err));
    ASSERT_OK(run("exp", 0, 1));
    pid_t worker = only_worker();
    snprintf(dir, sizeof(dir), "%s", d.state_dir);
    ck_assert(process_has_argument(worker, "--device"));
    ck_assert(process_has_argument(worker, "cpu"));
    ck_assert(process_has_argument(worker, "--state-dir"));
    ck_assert(process_has_argument(worker, dir));
    raw_close(&c);
    live_stop(); /* and checks that it is gone */
}
END_TEST

/* kill -9 between calls: complete tensors are still there, the next call starts another worker. */
START_TEST(killed_between_calls)
{
    float y = 0;
    start();
    ASSERT_OK(raw_create(&c, 0, 1, (int64_t[]){1}, 1, (const float[]){0}, &err));
    ASSERT_OK(run("exp", 0, 1));
    for (uint32_t i = 0; i < 5; i++) {
        pid_t worker = only_worker();
        ck_assert_int_eq(kill(worker, SIGKILL), 0);
        while (kill(worker, 0) == 0) { /* until everyod has noticed */
            ASSERT_OK(raw_ping(&c, &err));
        }
        ASSERT_OK(raw_download(&c, 1, 1, &y, 4, &err));
        ck_assert(y == 1);
        ASSERT_OK(run("exp", 1, 2 + i));
        ck_assert_int_ne(only_worker(), worker);
    }
    ck_assert(daemon_logged(&d, "signal 9"));
    raw_close(&c);
    live_stop();
}
END_TEST

/* kill -9 in the middle of a call: the call and those behind it that were on their way fail with the signal's name,
 * their results are poisoned by it, and the daemon goes on. */
START_TEST(killed_in_a_call)
{
    float y;
    start();
    struct eo_bytes *b = raw_request(&c, "tensor.create");
    eo_pack_map(b, 5);
    eo_pack_str(b, "handle");
    raw_pack_handle(b, 0, 1);
    eo_pack_kv_str(b, "dtype", "float32");
    eo_pack_str(b, "shape");
    eo_pack_i64_array(b, (int64_t[]){1500, 1500}, 2);
    eo_pack_kv_str(b, "device", "reference");
    eo_pack_kv_f64(b, "fill", 1);
    ASSERT_OK(raw_call(&c, NULL, 0, NULL, &err));
    pid_t worker = only_worker();
    const uint32_t first = c.last_id + 1;
    for (uint32_t i = 1; i <= 3; i++) {
        raw_pack_op(&c, "matmul", (uint32_t[]){0, i - 1}, 2, i, 1);
        ASSERT_OK(raw_send(&c, NULL, 0, &err));
    }
    eo_pack_map(raw_request(&c, "ping"), 0); /* answered when the three above were taken */
    ASSERT_OK(raw_call(&c, NULL, 0, NULL, &err));
    ck_assert_int_eq(kill(worker, SIGKILL), 0);
    for (uint32_t id = first; id < first + 3; id++) {
        struct raw_reply r;
        ASSERT_OK(raw_receive(&c, &r, RAW_TIMEOUT_MS, &err));
        ck_assert_int_eq(r.error.code, EO_E_WORKER_LOST);
        ASSERT_CONTAINS(r.error.message, "signal 9");
        ASSERT_CONTAINS(r.error.message, "reference");
        raw_reply_fini(&r);
    }
    ASSERT_CODE(raw_download(&c, 1, 1, &y, 4, &err), EO_E_WORKER_LOST);
    ASSERT_CODE(run("exp", 3, 10), EO_E_POISONED);
    ASSERT_OK(run("relu", 0, 11)); /* the operand survived */
    raw_close(&c);
    live_stop();
}
END_TEST

/* A worker that cannot open its device says why, and is not started over and over. */
START_TEST(cannot_start)
{
    start();
    struct eo_bytes *b = raw_request(&c, "tensor.create");
    eo_pack_map(b, 5);
    eo_pack_str(b, "handle");
    raw_pack_handle(b, 0, 1);
    eo_pack_kv_str(b, "dtype", "float32");
    eo_pack_str(b, "shape");
    eo_pack_i64_array(b, (int64_t[]){1}, 1);
    eo_pack_kv_str(b, "device", "cpu:7");
    eo_pack_kv_f64(b, "fill", 1);
    ASSERT_CODE(raw_call(&c, NULL, 0, NULL, &err), EO_E_NO_DEVICE);
    ASSERT_CONTAINS(err.message, "cpu:7");
    ASSERT_OK(raw_ping(&c, &err));
    ASSERT_OK(daemon_wait_workers(&d, 0, &err));
    raw_close(&c);
    live_stop();
}
END_TEST

/* The daemon is killed: its workers end by themselves. */
START_TEST(no_worker_outlives_its_daemon)
{
    int status = 0;
    start();
    ASSERT_OK(raw_create(&c, 0, 1, (int64_t[]){1}, 1, (const float[]){1}, &err));
    ASSERT_OK(run("exp", 0, 1));
    pid_t worker = only_worker();
    ASSERT_OK(daemon_signal(&d, SIGKILL, &err));
    ASSERT_OK(daemon_wait_exit(&d, DAEMON_WAIT_MS, &status, &err));
    const uint64_t until = eo_now_ns() + UINT64_C(20) * 1000000000;
    while (kill(worker, 0) == 0) {
        ck_assert_uint_lt(eo_now_ns(), until);
        poll(NULL, 0, 1);
    }
    raw_close(&c);
    ASSERT_OK(daemon_start(&d, NULL, &err)); /* the lock went with it */
    live_stop();
}
END_TEST

/* Nothing adds up over many lost workers. */
START_TEST(no_descriptor_is_left)
{
    start();
    ASSERT_OK(raw_create(&c, 0, 1, (int64_t[]){1}, 1, (const float[]){1}, &err));
    ASSERT_OK(run("exp", 0, 1));
    int before = daemon_descriptors(&d);
    for (uint32_t i = 0; i < 20; i++) {
        pid_t worker = only_worker();
        ck_assert_int_eq(kill(worker, i % 2 ? SIGKILL : SIGSEGV), 0);
        while (kill(worker, 0) == 0) {
            ASSERT_OK(raw_ping(&c, &err));
        }
        ASSERT_OK(run("exp", 0, 2 + i));
    }
    live_expect_descriptors(before);
    raw_close(&c);
    live_stop();
}
END_TEST

EO_SUITE("workers", started_at_first_use, killed_between_calls, killed_in_a_call, cannot_start,
         no_worker_outlives_its_daemon, no_descriptor_is_left)
