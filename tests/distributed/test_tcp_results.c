/* Exact results: algorithm x world size x size x dtype x reduction, compared bit for bit with the serial loop. */
#include "tests/distributed/oracle.h"
#include "tests/distributed/ranks.h"
#include "tests/support/suite.h"

#include "proto/base/text.h"

#include <string.h>

struct algorithm {
    const char *name;
    struct tcp_tuning tuning;
};

static const struct algorithm algorithms[] = {
    {"as shipped", {256 << 10, 16 << 10, true}},           {"direct", {256 << 10, UINT64_MAX, true}},
    {"direct, small chunks", {4 << 10, UINT64_MAX, true}}, {"slices", {256 << 10, 0, false}},
    {"slices, small chunks", {4 << 10, 0, false}},         {"slices, tiny chunks", {192, 0, false}},
};

struct grid_case {
    enum eo_dtype dtype;
    enum collective_reduce reduce;
    enum oracle_input input;
    uint64_t count;
};

static const enum eo_dtype dtypes[] = {EO_FLOAT32, EO_FLOAT64, EO_FLOAT16, EO_BFLOAT16, EO_INT32, EO_INT64};

static int one_case(struct rank *r, const struct grid_case *g, uint8_t *data, uint8_t *expected, struct eo_error *err)
{
    size_t bytes = (size_t)g->count * eo_dtype_size(g->dtype);
    uint64_t seed = g->count + (uint64_t)g->dtype;
    int code;

    oracle_fill(data, g->count, g->dtype, g->input, seed, r->rank);
    memset(data + bytes, 0x5A, 8);
    code = ranks_engine->all_reduce(r->comm, data, g->count, g->dtype, g->reduce, err);
    if (code != EO_OK) {
        return code;
    }
    r->hash = eo_hash64(data, bytes, r->hash);
    if (r->rank == 0 && r->arg != NULL) {
        oracle_combine(expected, expected + bytes + 8, g->count, g->dtype, g->reduce, g->input, seed, r->world_size);
        if (memcmp(data, expected, bytes) != 0) {
            return EO_RAISE(err, EO_E_BAD_VALUE, "%s reduction %d input %d count %d of %d ranks is wrong",
                            eo_dtype_name(g->dtype), g->reduce, g->input, (int)g->count, r->world_size);
        }
    }
    for (size_t i = 0; i < 8; i++) {
        if (data[bytes + i] != 0x5A) {
            return EO_RAISE(err, EO_E_BAD_VALUE, "bytes behind the array changed");
        }
    }
    return EO_OK;
}

/* What is combined, with which inputs. */
static const struct {
    enum collective_reduce reduce;
    enum oracle_input input;
} sorts[] = {
    {COLLECTIVE_SUM, ORACLE_ORDERED}, {COLLECTIVE_SUM, ORACLE_EXACT},   {COLLECTIVE_SUM, ORACLE_SPECIAL},
    {COLLECTIVE_MIN, ORACLE_SPECIAL}, {COLLECTIVE_MAX, ORACLE_SPECIAL},
};

/* All dtypes and reductions at sizes around every boundary of the algorithms (in bytes: nothing, one element, slices of
 * less than 64 bytes, odd, the direct limit and its neighbours). */
static int small_grid(struct rank *r, struct eo_error *err)
{
    static const uint64_t sizes[] = {0, 1, 9, 100, 1000, (16 << 10) - 8, 16 << 10, (16 << 10) + 8};
    static _Thread_local _Alignas(8) uint8_t data[(16 << 10) + 64], expected[2 * ((16 << 10) + 64)];
    int code = EO_OK;

    for (size_t i = 0; i < EO_COUNT_OF(dtypes) * EO_COUNT_OF(sizes) * EO_COUNT_OF(sorts) && code == EO_OK; i++) {
        enum eo_dtype dtype = dtypes[i / EO_COUNT_OF(sizes) / EO_COUNT_OF(sorts)];
        uint64_t bytes = sizes[i / EO_COUNT_OF(sorts) % EO_COUNT_OF(sizes)];
        size_t element = eo_dtype_size(dtype), sort = i % EO_COUNT_OF(sorts);
        struct grid_case g = {dtype, sorts[sort].reduce, sorts[sort].input, (bytes + element - 1) / element};

        code = one_case(r, &g, data, expected, err);
    }
    return code;
}

static int large_grid(struct rank *r, struct eo_error *err)
{
    static const struct grid_case cases[] = {
        {EO_FLOAT32, COLLECTIVE_SUM, ORACLE_ORDERED, (1 << 18) + 3},
        {EO_FLOAT16, COLLECTIVE_SUM, ORACLE_ORDERED, (1 << 16) + 3},
    };
    uint8_t *data = malloc((1 << 20) + 64), *expected = malloc(2 * ((1 << 20) + 64));
    int code = data == NULL || expected == NULL ? EO_RAISE(err, EO_E_NO_MEMORY, "no memory") : EO_OK;

    for (size_t i = 0; i < EO_COUNT_OF(cases) && code == EO_OK; i++) {
        code = one_case(r, &cases[i], data, expected, err);
    }
    free(expected);
    free(data);
    return code;
}

/* With an oracle rank 0 compares every result; without, only the hash of all results is returned. */
static uint64_t run_grid(int n, enum ranks_mesh mesh, const struct algorithm *a, rank_fn fn, const char *oracle)
{
    struct ranks *g = ranks_open(n, mesh, 20000, &a->tuning);
    uint64_t hash;

    ranks_run(g, fn, oracle);
    hash = g->rank[0].hash;
    for (int i = 0; i < n; i++) {
        ck_assert_msg(g->rank[i].code == EO_OK, "%s, rank %d of %d: %s", a->name, i, n, g->rank[i].err.message);
        ck_assert_msg(g->rank[i].hash == hash, "%s: rank %d of %d has other bits than rank 0", a->name, i, n);
    }
    ranks_close(g);
    return hash;
}

/* Sanitizers see all there is to see in some of the world sizes, and take their time. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const int worlds[] = {1, 2, 3, 5};
#else
static const int worlds[] = {1, 2, 3, 4, 5, 6, 7, 8};
#endif

/* Up to which algorithm, and whether with five to seven ranks too. */
static void every_algorithm(rank_fn fn, enum ranks_mesh mesh, size_t n_algorithms, bool odd_worlds)
{
    for (size_t w = 0; w < EO_COUNT_OF(worlds); w++) {
        int n = worlds[w];
        uint64_t hash;

        if (!odd_worlds && n > 4 && n < 8) {
            continue;
        }
        hash = run_grid(n, mesh, &algorithms[0], fn, "serial loop");

        for (size_t a = 1; a < n_algorithms; a++) {
            if (run_grid(n, mesh, &algorithms[a], fn, NULL) != hash) {
                run_grid(n, mesh, &algorithms[a], fn, "serial loop"); /* says where */
                ck_abort_msg("%s with %d ranks gives other bits now and then", algorithms[a].name, n);
            }
        }
    }
}

START_TEST(small_arrays_over_unix_sockets)
{
    every_algorithm(small_grid, RANKS_UNIX, EO_COUNT_OF(algorithms), true);
}
END_TEST

START_TEST(large_arrays_over_tcp)
{
    every_algorithm(large_grid, RANKS_TCP, EO_COUNT_OF(algorithms) - 1, false);
}
END_TEST

static int broadcasts(struct rank *r, struct eo_error *err)
{
    static const uint64_t sizes[] = {0, 1, 47, 48, 16 << 10, (256 << 10) + 1, (1 << 20) + 3};
    uint8_t *data = malloc((1 << 20) + 3);
    int code = data == NULL ? EO_RAISE(err, EO_E_NO_MEMORY, "no memory") : EO_OK;

    for (size_t s = 0; s < EO_COUNT_OF(sizes); s++) {
        for (int root = 0; root < r->world_size && code == EO_OK; root++) {
            for (uint64_t i = 0; i < sizes[s]; i++) {
                data[i] = (uint8_t)(r->rank == root ? (i * 31 + (uint64_t)root) % 253 : 0xEE);
            }
            code = ranks_engine->broadcast(r->comm, data, sizes[s], root, err);
            for (uint64_t i = 0; i < sizes[s] && code == EO_OK; i++) {
                if (data[i] != (i * 31 + (uint64_t)root) % 253) {
                    code = EO_RAISE(err, EO_E_BAD_VALUE, "byte %d of %d from rank %d", (int)i, (int)sizes[s], root);
                }
            }
        }
    }
    free(data);
    return code;
}

START_TEST(broadcast_reaches_everybody)
{
    for (int n = 1; n <= 5; n++) {
        run_grid(n, n % 2 ? RANKS_UNIX : RANKS_TCP, &algorithms[0], broadcasts, NULL);
        run_grid(n, RANKS_TCP, &algorithms[4], broadcasts, NULL);
    }
}
END_TEST

static _Atomic int entered;

/* Nobody leaves a barrier, or any other collective, before all have entered it. */
static int barriers(struct rank *r, struct eo_error *err)
{
    int code = EO_OK;

    for (int round = 1; round <= 200 && code == EO_OK; round++) {
        uint8_t nothing = 0;

        atomic_fetch_add(&entered, 1);
        code = round % 3 == 0   ? ranks_engine->barrier(r->comm, err)
               : round % 3 == 1 ? ranks_engine->broadcast(r->comm, &nothing, 1, round % r->world_size, err)
                                : ranks_engine->all_reduce(r->comm, NULL, 0, EO_FLOAT32, COLLECTIVE_SUM, err);
        if (code == EO_OK && atomic_load(&entered) < round * r->world_size) {
            code = EO_RAISE(err, EO_E_BAD_STATE, "round %d ended before all had begun it", round);
        }
    }
    return code;
}

START_TEST(collectives_synchronise)
{
    for (int n = 1; n <= 4; n++) {
        atomic_store(&entered, 0);
        run_grid(n, RANKS_TCP, &algorithms[0], barriers, NULL);
    }
}
END_TEST

static int moves_bytes(struct rank *r, struct eo_error *err)
{
    static _Thread_local float data[10000];
    uint64_t before = ranks_engine->progress_bytes(r->comm);
    int code = ranks_engine->all_reduce(r->comm, data, EO_COUNT_OF(data), EO_FLOAT32, COLLECTIVE_SUM, err);
    uint64_t moved = ranks_engine->progress_bytes(r->comm) - before;

    /* Out and in: an input of 40000 bytes, that is all of it for two ranks. */
    return code != EO_OK || moved == 2 * sizeof(data) ? code : EO_RAISE(err, EO_E_BAD_VALUE, "moved %d", (int)moved);
}

START_TEST(progress_counts_payload)
{
    run_grid(2, RANKS_TCP, &algorithms[0], moves_bytes, NULL);
}
END_TEST

EO_SUITE("tcp_results", small_arrays_over_unix_sockets, large_arrays_over_tcp, broadcast_reaches_everybody,
         collectives_synchronise, progress_counts_payload)
