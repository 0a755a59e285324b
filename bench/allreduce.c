/* Sum all-reduce of float32 by the built-in engine, one process per rank, over TCP on 127.0.0.1.
 *
 * usage: bench_allreduce [world=2] [max_bytes=104857600]
 * Rank 0 prints one JSON line per size. us: one call after a barrier, the largest of the ranks, median of the repeats;
 * us_loop: mean of a back-to-back run, median of 5 runs of rank 0, which the bandwidths use.
 * algbw = bytes / time, busbw = algbw * 2 (n - 1) / n. */
#include "distributed/collective.h"
#include "proto/base/clock.h"
#include "proto/base/compiler.h"
#include "proto/base/text.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_WORLD = 8, MAX_REPEATS = 400, N_LOOPS = 5 };

static const struct collective_engine *engine;

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static void check(int code, const struct eo_error *err)
{
    if (code != EO_OK) {
        fprintf(stderr, "allreduce: %s: %s\n", eo_code_name(code), err->message);
        exit(1);
    }
}

static void connect_pair(int out[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    out[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || out[0] < 0 || bind(listener, (struct sockaddr *)&address, size) != 0 ||
        listen(listener, 1) != 0 || getsockname(listener, (struct sockaddr *)&address, &size) != 0 ||
        connect(out[0], (struct sockaddr *)&address, size) != 0) {
        die("connecting on 127.0.0.1");
    }
    out[1] = accept(listener, NULL, NULL);
    if (out[1] < 0) {
        die("accept");
    }
    close(listener);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double now_us(void)
{
    return (double)eo_now_ns() * 1e-3;
}

static bool correct(struct collective_comm *c, float *x, uint64_t count, int rank, int world)
{
    int expected = world * (world + 1) / 2;
    struct eo_error err;
    bool ok = true;

    for (uint64_t i = 0; i < count; i++) {
        x[i] = (float)(rank + 1);
    }
    check(engine->all_reduce(c, x, count, EO_FLOAT32, COLLECTIVE_SUM, &err), &err);
    for (uint64_t i = 0; i < count; i++) {
        ok &= x[i] == (float)expected;
        x[i] = 0; /* sums in place stay what they are */
    }
    return ok;
}

static double loop_us(struct collective_comm *c, float *x, uint64_t count, int calls)
{
    struct eo_error err;
    double begin;

    check(engine->barrier(c, &err), &err);
    begin = now_us();
    for (int i = 0; i < calls; i++) {
        check(engine->all_reduce(c, x, count, EO_FLOAT32, COLLECTIVE_SUM, &err), &err);
    }
    return (now_us() - begin) / calls;
}

static void measure(struct collective_comm *c, float *x, uint64_t bytes, int rank, int world)
{
    static double calls[MAX_REPEATS];
    double loops[N_LOOPS];
    uint64_t count = bytes / sizeof(*x);
    int repeats = bytes <= 1 << 16 ? 400 : bytes <= 1 << 20 ? 60 : bytes <= 16 << 20 ? 15 : 5;
    bool ok = correct(c, x, count, rank, world);
    struct eo_error err;

    for (int i = 0; i < repeats; i++) {
        calls[i] = loop_us(c, x, count, 1);
    }
    check(engine->all_reduce(c, calls, (uint64_t)repeats, EO_FLOAT64, COLLECTIVE_MAX, &err), &err);
    for (int i = 0; i < N_LOOPS; i++) {
        loops[i] = loop_us(c, x, count, EO_MAX(repeats / 5, 3));
    }
    if (rank == 0) {
        double bandwidth;

        qsort(calls, (size_t)repeats, sizeof(calls[0]), by_value);
        qsort(loops, N_LOOPS, sizeof(loops[0]), by_value);
        bandwidth = (double)bytes / loops[N_LOOPS / 2] * 1e-3;
        printf("{\"bench\":\"allreduce_everyo\",\"world\":%d,\"bytes\":%" PRIu64 ",\"correct\":%s,\"us\":%.1f,"
               "\"us_min\":%.1f,\"us_max\":%.1f,\"us_loop\":%.1f,\"us_loop_min\":%.1f,\"us_loop_max\":%.1f,"
               "\"algbw_GBps\":%.3f,\"busbw_GBps\":%.3f}\n",
               world, bytes, ok ? "true" : "false", calls[repeats / 2], calls[0], calls[repeats - 1],
               loops[N_LOOPS / 2], loops[0], loops[N_LOOPS - 1], bandwidth, bandwidth * 2 * (world - 1) / world);
        fflush(stdout);
    }
}

static void run_rank(int rank, int world, uint64_t max_bytes, int fds[MAX_WORLD][MAX_WORLD])
{
    static const uint64_t sizes[] = {1 << 10, 64 << 10, 1 << 20, 16 << 20, 100 << 20};
    static struct collective_config config;
    struct collective_comm *c;
    struct eo_error err;
    float *x = malloc(sizes[EO_COUNT_OF(sizes) - 1]);

    if (x == NULL) {
        die("malloc");
    }
    config.rank = rank;
    config.world_size = world;
    for (int r = 0; r < world; r++) {
        snprintf(config.hosts[r], sizeof(config.hosts[r]), "rank-%d", r);
        for (int s = 0; s < world; s++) {
            if (r != rank && r != s) {
                close(fds[r][s]);
            }
        }
    }
    check(engine->open(&config, fds[rank], &c, &err), &err);
    for (size_t i = 0; i < EO_COUNT_OF(sizes) && sizes[i] <= max_bytes; i++) {
        measure(c, x, sizes[i], rank, world);
    }
    check(engine->barrier(c, &err), &err);
    engine->close(c);
    free(x);
}

int main(int argc, char **argv)
{
    int fds[MAX_WORLD][MAX_WORLD];
    pid_t children[MAX_WORLD];
    int64_t world = 2, max_bytes = 100 << 20;
    int failed = 0;

    if ((argc > 1 && !eo_parse_i64(argv[1], &world)) || (argc > 2 && !eo_parse_i64(argv[2], &max_bytes)) || argc > 3 ||
        world < 1 || world > MAX_WORLD || max_bytes < 0) {
        fprintf(stderr, "usage: %s [world 1..%d] [max_bytes]\n", argv[0], MAX_WORLD);
        return 64;
    }
    engine = collective_engine_find("tcp");
    for (int r = 0; r < world; r++) {
        fds[r][r] = -1;
        for (int s = 0; s < r; s++) {
            int pair[2];

            connect_pair(pair);
            fds[r][s] = pair[0];
            fds[s][r] = pair[1];
        }
    }
    for (int r = 1; r < world; r++) {
        children[r] = fork();
        if (children[r] == 0) {
            run_rank(r, (int)world, (uint64_t)max_bytes, fds);
            return 0;
        }
    }
    run_rank(0, (int)world, (uint64_t)max_bytes, fds);
    for (int r = 1; r < world; r++) {
        int status = 1;

        failed |= children[r] < 0 || waitpid(children[r], &status, 0) < 0 || status != 0;
    }
    return failed;
}
