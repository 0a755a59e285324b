/* A collective allocates nothing, whatever its size: scratch is taken when the communicator opens. The linker sends the
 * engine's allocations through the counters below (--wrap). */
#include "tests/distributed/ranks.h"
#include "tests/support/suite.h"

static _Atomic int n_allocations;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);

void *__wrap_malloc(size_t size)
{
    atomic_fetch_add(&n_allocations, 1);
    return __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    atomic_fetch_add(&n_allocations, 1);
    return __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
    atomic_fetch_add(&n_allocations, 1);
    return __real_realloc(memory, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    atomic_fetch_add(&n_allocations, 1);
    return __real_aligned_alloc(alignment, size);
}

enum { RANKS = 3, COUNT_MAX = 1 << 19 };

static float data[RANKS][COUNT_MAX];

static int all_sizes(struct rank *r, struct eo_error *err)
{
    static const uint64_t counts[] = {0, 1, 100, 4096, 4097, COUNT_MAX};
    int code = EO_OK;

    for (size_t i = 0; i < EO_COUNT_OF(counts) && code == EO_OK; i++) {
        code = ranks_engine->all_reduce(r->comm, data[r->rank], counts[i], EO_FLOAT32, COLLECTIVE_SUM, err);
        code = code == EO_OK ? ranks_engine->broadcast(r->comm, data[r->rank], counts[i] * 4, 1, err) : code;
    }
    return code == EO_OK ? ranks_engine->barrier(r->comm, err) : code;
}

START_TEST(collectives_allocate_nothing)
{
    struct ranks *g = ranks_open(RANKS, RANKS_TCP, 20000, NULL);
    int during;

    ck_assert_int_gt(atomic_load(&n_allocations), 0); /* the counters are in place */
    atomic_store(&n_allocations, 0);
    ranks_run(g, all_sizes, NULL);
    during = atomic_load(&n_allocations); /* before libcheck makes its own */
    for (int r = 0; r < RANKS; r++) {
        ck_assert_msg(g->rank[r].code == EO_OK, "rank %d: %s", r, g->rank[r].err.message);
    }
    ck_assert_int_eq(during, 0);
    ranks_close(g);
}
END_TEST

EO_SUITE("tcp_allocations", collectives_allocate_nothing)
