#include "daemon/server/pool.h"

#include "proto/base/checked.h"

#include <stdlib.h>
#include <string.h>

enum granule_state { GRANULE_NONE, GRANULE_PROMISED, GRANULE_COMMITTED };

struct pool_extent {
    uint64_t offset, bytes;
    bool used;
    struct pool_extent *before, *after; /* neighbours in memory */
    struct pool_extent *next, **link;   /* of its bin, while free */
};

/* ---- bins: 8 per power of two, as in a two-level segregated fit ---- */

/* Sizes are counted in units of POOL_ALIGN; below 8 units every size has its bin. */
static unsigned bin_of(uint64_t bytes)
{
    uint64_t units = bytes / POOL_ALIGN;
    if (units < 8) {
        return (unsigned)units;
    }
    unsigned top = 63u - (unsigned)__builtin_clzll(units); /* >= 3 */
    unsigned sub = (unsigned)((units >> (top - 3)) & 7);
    return (top - 2) * 8 + sub;
}

static void bin_insert(struct pool *p, struct pool_extent *e)
{
    unsigned bin = bin_of(e->bytes);
    e->next = p->bins[bin];
    e->link = &p->bins[bin];
    if (e->next) {
        e->next->link = &e->next;
    }
    p->bins[bin] = e;
    p->bin_map[bin / 64] |= UINT64_C(1) << (bin % 64);
}

static void bin_remove(struct pool *p, struct pool_extent *e)
{
    unsigned bin = bin_of(e->bytes);
    *e->link = e->next;
    if (e->next) {
        e->next->link = e->link;
    }
    if (!p->bins[bin]) {
        p->bin_map[bin / 64] &= ~(UINT64_C(1) << (bin % 64));
    }
}

/* The first of at most max_looks members of a bin that is large enough. */
static struct pool_extent *look_in(const struct pool *p, unsigned bin, uint64_t bytes, unsigned max_looks)
{
    struct pool_extent *e = p->bins[bin];
    for (unsigned i = 0; e && i < max_looks; i++, e = e->next) {
        if (e->bytes >= bytes) {
            return e;
        }
    }
    return NULL;
}

static struct pool_extent *find_free(const struct pool *p, uint64_t bytes)
{
    /* The own bin may hold smaller ones too: a few looks there, then any of a larger bin, and all of the own one before
     * giving up. */
    const unsigned own = bin_of(bytes);
    struct pool_extent *e = look_in(p, own, bytes, 8);
    const unsigned from = own + 1;
    for (unsigned word = from / 64; !e && word < EO_COUNT_OF(p->bin_map); word++) {
        uint64_t bits = p->bin_map[word];
        if (word == from / 64) {
            bits &= ~UINT64_C(0) << (from % 64);
        }
        if (bits) {
            return p->bins[word * 64 + (unsigned)__builtin_ctzll(bits)];
        }
    }
    return e ? e : look_in(p, own, bytes, UINT32_MAX);
}

/* ---- life ---- */

int pool_init(struct pool *p, uint64_t size, struct eo_error *err)
{
    memset(p, 0, sizeof(*p));
    p->shm.fd = -1;
    size = size / POOL_GRANULE * POOL_GRANULE;
    size = EO_MAX(size, (uint64_t)POOL_GRANULE);
    struct pool_extent *all = calloc(1, sizeof(*all));
    p->n_granules = size / POOL_GRANULE;
    p->granules = calloc(p->n_granules, 1);
    if (!all || !p->granules) {
        free(all);
        pool_fini(p);
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory to manage %llu bytes of tensors", (unsigned long long)size);
    }
    int code = shm_create(&p->shm, "everyo-pool", size, err);
    if (code != EO_OK) {
        free(all);
        pool_fini(p);
        return code;
    }
    all->bytes = size;
    p->first = all;
    bin_insert(p, all);
    return EO_OK;
}

void pool_fini(struct pool *p)
{
    struct pool_extent *e = p->first;
    while (e) {
        struct pool_extent *after = e->after;
        free(e);
        e = after;
    }
    free(p->granules);
    shm_close(&p->shm);
    memset(p, 0, sizeof(*p));
    p->shm.fd = -1;
}

/* ---- allocation ---- */

static int no_room(const struct pool *p, uint64_t bytes, struct eo_error *err)
{
    EO_RAISE(err, EO_E_DEVICE_MEMORY, "%llu bytes do not fit: %llu of %llu bytes of tensor memory are in use",
             (unsigned long long)bytes, (unsigned long long)p->used_bytes, (unsigned long long)p->shm.size);
    eo_error_hint(err, "Free tensors that are no longer needed, or start everyod with a larger --memory-limit.");
    return EO_E_DEVICE_MEMORY;
}

int pool_alloc(struct pool *p, uint64_t bytes, uint64_t *out_offset, struct pool_extent **out, struct eo_error *err)
{
    *out_offset = 0;
    *out = NULL;
    if (bytes == 0) {
        return EO_OK;
    }
    uint64_t need;
    if (!eo_add_u64(bytes, POOL_ALIGN - 1, &need) || need / POOL_ALIGN > p->shm.size / POOL_ALIGN) {
        return no_room(p, bytes, err);
    }
    need = need / POOL_ALIGN * POOL_ALIGN;
    struct pool_extent *e = find_free(p, need);
    if (!e) {
        return no_room(p, bytes, err);
    }
    struct pool_extent *rest = NULL;
    if (e->bytes > need) {
        rest = calloc(1, sizeof(*rest));
        if (!rest) {
            return EO_RAISE(err, EO_E_NO_MEMORY, "no memory to manage tensors");
        }
    }
    bin_remove(p, e);
    if (rest) {
        *rest =
            (struct pool_extent){.offset = e->offset + need, .bytes = e->bytes - need, .before = e, .after = e->after};
        if (rest->after) {
            rest->after->before = rest;
        }
        e->after = rest;
        e->bytes = need;
        bin_insert(p, rest);
    }
    e->used = true;
    p->used_bytes += need;
    *out_offset = e->offset;
    *out = e;
    return EO_OK;
}

/* Joins b to its left neighbour a; neither is in a bin. */
static void join(struct pool_extent *a, struct pool_extent *b)
{
    a->bytes += b->bytes;
    a->after = b->after;
    if (a->after) {
        a->after->before = a;
    }
    free(b);
}

void pool_free(struct pool *p, struct pool_extent *e)
{
    if (!e) {
        return;
    }
    e->used = false;
    p->used_bytes -= e->bytes;
    if (e->after && !e->after->used) {
        bin_remove(p, e->after);
        join(e, e->after);
    }
    if (e->before && !e->before->used) {
        struct pool_extent *left = e->before;
        bin_remove(p, left);
        join(left, e);
        e = left;
    }
    bin_insert(p, e);
}

void pool_shrink(struct pool *p, struct pool_extent **at, uint64_t bytes)
{
    struct pool_extent *e = *at, *rest;
    const uint64_t keep = (bytes + POOL_ALIGN - 1) / POOL_ALIGN * POOL_ALIGN;
    if (!e || bytes == 0) {
        pool_free(p, e);
        *at = NULL;
        return;
    }
    rest = keep < e->bytes ? calloc(1, sizeof(*rest)) : NULL;
    if (!rest) {
        return;
    }
    *rest = (struct pool_extent){
        .offset = e->offset + keep, .bytes = e->bytes - keep, .used = true, .before = e, .after = e->after};
    if (rest->after) {
        rest->after->before = rest;
    }
    e->after = rest;
    e->bytes = keep;
    pool_free(p, rest);
}

/* ---- pages ---- */

static void mark(struct pool *p, uint64_t granule, enum granule_state state)
{
    if (p->granules[granule] == GRANULE_NONE && state != GRANULE_NONE) {
        p->committed_bytes += POOL_GRANULE;
    } else if (p->granules[granule] != GRANULE_NONE && state == GRANULE_NONE) {
        p->committed_bytes -= POOL_GRANULE;
    }
    p->granules[granule] = (uint8_t)state;
}

/* Granules that [offset, offset + bytes) touches: [*first, *end). */
static void span(const struct pool *p, uint64_t offset, uint64_t bytes, uint64_t *first, uint64_t *end)
{
    *first = offset / POOL_GRANULE;
    *end = bytes == 0 ? *first : (offset + bytes - 1) / POOL_GRANULE + 1;
    *end = EO_MIN(*end, p->n_granules);
}

/* Calls fn for each run of granules that is not committed for sure. */
static void each_missing(struct pool *p, uint64_t offset, uint64_t bytes,
                         bool (*fn)(void *ctx, uint64_t first, uint64_t end), void *ctx)
{
    uint64_t at, end;
    span(p, offset, bytes, &at, &end);
    while (at < end) {
        if (p->granules[at] == GRANULE_COMMITTED) {
            at++;
            continue;
        }
        uint64_t first = at;
        while (at < end && p->granules[at] != GRANULE_COMMITTED) {
            at++;
        }
        if (!fn(ctx, first, at)) {
            return;
        }
    }
}

struct commit {
    struct pool *pool;
    struct eo_error *err;
    int code;
};

static bool commit_run(void *ctx, uint64_t first, uint64_t end)
{
    struct commit *c = ctx;
    c->code = shm_commit(&c->pool->shm, first * POOL_GRANULE, (end - first) * POOL_GRANULE, c->err);
    for (uint64_t i = first; c->code == EO_OK && i < end; i++) {
        mark(c->pool, i, GRANULE_COMMITTED);
    }
    return c->code == EO_OK;
}

int pool_commit(struct pool *p, uint64_t offset, uint64_t bytes, struct eo_error *err)
{
    struct commit c = {.pool = p, .err = err};
    each_missing(p, offset, bytes, commit_run, &c);
    return c.code;
}

struct promise {
    struct pool *pool;
    void (*fn)(void *ctx, uint64_t offset, uint64_t bytes);
    void *ctx;
};

static bool promise_run(void *ctx, uint64_t first, uint64_t end)
{
    struct promise *q = ctx;
    for (uint64_t i = first; i < end; i++) {
        mark(q->pool, i, GRANULE_PROMISED);
    }
    q->fn(q->ctx, first * POOL_GRANULE, (end - first) * POOL_GRANULE);
    return true;
}

void pool_promise(struct pool *p, uint64_t offset, uint64_t bytes,
                  void (*fn)(void *ctx, uint64_t offset, uint64_t bytes), void *ctx)
{
    struct promise q = {.pool = p, .fn = fn, .ctx = ctx};
    each_missing(p, offset, bytes, promise_run, &q);
}

static void settle(struct pool *p, uint64_t offset, uint64_t bytes, enum granule_state state)
{
    uint64_t at, end;
    for (span(p, offset, bytes, &at, &end); at < end; at++) {
        if (p->granules[at] == GRANULE_PROMISED) {
            mark(p, at, state);
        }
    }
}

void pool_kept(struct pool *p, uint64_t offset, uint64_t bytes)
{
    settle(p, offset, bytes, GRANULE_COMMITTED);
}

void pool_broken(struct pool *p, uint64_t offset, uint64_t bytes)
{
    settle(p, offset, bytes, GRANULE_NONE);
}

/* Gives the pages of whole granules inside a free extent back. */
static void trim_extent(struct pool *p, const struct pool_extent *e)
{
    uint64_t first = (e->offset + POOL_GRANULE - 1) / POOL_GRANULE;
    uint64_t end = (e->offset + e->bytes) / POOL_GRANULE;
    bool any = false;
    for (uint64_t i = first; i < end; i++) {
        any |= p->granules[i] != GRANULE_NONE;
        mark(p, i, GRANULE_NONE);
    }
    if (any) {
        shm_decommit(&p->shm, first * POOL_GRANULE, (end - first) * POOL_GRANULE);
    }
}

void pool_trim(struct pool *p, uint64_t keep_bytes)
{
    for (int bin = POOL_BINS - 1; bin >= 0; bin--) {
        for (struct pool_extent *e = p->bins[bin]; e; e = e->next) {
            uint64_t idle = p->committed_bytes > p->used_bytes ? p->committed_bytes - p->used_bytes : 0;
            if (idle <= keep_bytes || e->bytes < POOL_GRANULE) {
                return;
            }
            trim_extent(p, e);
        }
    }
}
