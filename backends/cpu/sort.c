/* sort and top_k. Elements become unsigned keys whose order is the one asked for; pairs of key and index are sorted by
 * radix, or kept in a heap where few of many are wanted: linear and n log k, whatever the data. Lines are shared
 * between threads; a few long ones are cut into blocks of fixed size that are sorted (searched) by themselves and
 * merged, each piece of a merge found by bisection. Keys and indices order all pairs strictly, so how lines are cut
 * changes nothing. */
#include "backends/cpu/cpu.h"
#include "backends/cpu/parallel.h"
#include "proto/base/checked.h"
#include "proto/shape_rules.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK = 1 << 16, FEW_LINES = 8, SHORT = 24, HEAP_FROM = 8 /* times k */ };

struct pair {
    uint64_t key;
    int64_t index;
};

struct sort {
    struct cpu_node node;
    int64_t outer, axis, inner, take, size;
    enum eo_dtype_kind kind;
    uint64_t sign, infinity; /* bits of the dtype; floats: those of +infinity */
    bool descending, use_heap, split;
    int64_t block, n_blocks; /* of a split line */
    int64_t scratch;         /* pairs per thread, or in all where lines are split */
};

/* ---- keys ---- */

/* Keys rise in the order of the results. NaN is above all numbers, zeros are equal. */
static uint64_t key_of(const struct sort *s, const char *x)
{
    uint64_t raw = 0, mask = s->sign | (s->sign - 1), key;
    memcpy(&raw, x, (size_t)s->size);
    if (s->kind == EO_KIND_FLOAT) {
        uint64_t magnitude = raw & ~s->sign;
        if (magnitude > s->infinity)
            key = mask;
        else if (magnitude == 0)
            key = s->sign;
        else
            key = raw & s->sign ? ~raw & mask : raw | s->sign;
    } else {
        key = s->kind == EO_KIND_SIGNED ? raw ^ s->sign : raw;
    }
    return s->descending ? ~key & mask : key;
}

static void load(const struct sort *s, const char *line, int64_t first, int64_t n, struct pair *out)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = (struct pair){key_of(s, line + (first + i) * s->inner * s->size), first + i};
}

static bool is_before(const struct pair *a, const struct pair *b)
{
    return a->key < b->key || (a->key == b->key && a->index < b->index);
}

/* ---- radix ---- */

static void sort_short(struct pair *p, int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        struct pair x = p[i];
        int64_t j = i;
        for (; j > 0 && is_before(&x, &p[j - 1]); j--)
            p[j] = p[j - 1];
        p[j] = x;
    }
}

/* Stable by key, from the lowest byte; bytes that are the same in all keys are passed over. p comes in index order. */
static void sort_pairs(struct pair *p, struct pair *other, int64_t n, int64_t bytes)
{
    int64_t counts[8][256] = {{0}};
    struct pair *from = p, *to = other;
    if (n <= SHORT) {
        sort_short(p, n);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t b = 0; b < bytes; b++)
            counts[b][p[i].key >> (8 * b) & 0xFF]++;
    for (int64_t b = 0; b < bytes; b++) {
        int64_t at[256], total = 0;
        if (counts[b][p[0].key >> (8 * b) & 0xFF] == n)
            continue;
        for (int v = 0; v < 256; v++) {
            at[v] = total;
            total += counts[b][v];
        }
        for (int64_t i = 0; i < n; i++)
            to[at[from[i].key >> (8 * b) & 0xFF]++] = from[i];
        struct pair *swap = from;
        from = to;
        to = swap;
    }
    if (from != p)
        memcpy(p, from, (size_t)n * sizeof *p);
}

/* ---- heap: the first k pairs, the last of them on top ---- */

static void sink(struct pair *heap, int64_t n, int64_t i, struct pair x)
{
    for (int64_t child = 2 * i + 1; child < n; child = 2 * i + 1) {
        if (child + 1 < n && is_before(&heap[child], &heap[child + 1]))
            child++;
        if (!is_before(&x, &heap[child]))
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = x;
}

/* n pairs, in any order, as a heap. */
static void make_heap(struct pair *heap, int64_t n)
{
    for (int64_t i = n / 2 - 1; i >= 0; i--)
        sink(heap, n, i, heap[i]);
}

static void offer_pair(struct pair *heap, int64_t k, struct pair x)
{
    if (is_before(&x, &heap[0]))
        sink(heap, k, 0, x);
}

static void heap_to_order(struct pair *heap, int64_t n)
{
    for (int64_t end = n - 1; end > 0; end--) {
        struct pair last = heap[0];
        sink(heap, end, 0, heap[end]);
        heap[end] = last;
    }
}

/* The first k of elements first..first+n-1 of a line, as a heap; k <= n. */
static void select_range(const struct sort *s, const char *line, int64_t first, int64_t n, int64_t k, struct pair *heap)
{
    load(s, line, first, k, heap);
    make_heap(heap, k);
    for (int64_t i = first + k; i < first + n; i++)
        offer_pair(heap, k, (struct pair){key_of(s, line + i * s->inner * s->size), i});
}

/* ---- lines ---- */

struct job {
    const struct sort *s;
    const struct eo_launch *l;
    const char *line; /* of a split one */
    struct pair *from, *to;
    int64_t width; /* of sorted runs that are merged */
    int64_t base;  /* of the line in the results, elements */
};

static const char *line_at(const struct job *j, int64_t line, int64_t *out_base)
{
    const struct sort *s = j->s;
    int64_t o = line / s->inner, i = line % s->inner;
    *out_base = o * s->take * s->inner + i;
    return (const char *)j->l->in[0] + (o * s->axis * s->inner + i) * s->size;
}

/* Results from..to-1 of a line. */
static void store(const struct job *j, const char *line, int64_t base, const struct pair *p, int64_t from, int64_t to)
{
    const struct sort *s = j->s;
    char *values = j->l->out[0];
    int64_t *indices = j->l->out[1];
    for (int64_t i = from; i < to; i++) {
        int64_t at = base + i * s->inner;
        memcpy(values + at * s->size, line + p[i].index * s->inner * s->size, (size_t)s->size);
        indices[at] = p[i].index;
    }
}

static void whole_lines(void *context, int64_t begin, int64_t end, int thread)
{
    const struct job *j = context;
    const struct sort *s = j->s;
    struct pair *p = (struct pair *)j->l->workspace + thread * s->scratch;
    for (int64_t i = begin; i < end; i++) {
        int64_t base;
        const char *line = line_at(j, i, &base);
        if (s->use_heap) {
            select_range(s, line, 0, s->axis, s->take, p);
            heap_to_order(p, s->take);
        } else {
            load(s, line, 0, s->axis, p);
            sort_pairs(p, p + s->axis, s->axis, s->size);
        }
        store(j, line, base, p, 0, s->take);
    }
}

/* ---- one long line, by all threads ---- */

static void sort_blocks(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const struct job *j = context;
    const struct sort *s = j->s;
    for (int64_t b = begin; b < end; b++) {
        int64_t first = b * s->block, n = EO_MIN(s->block, s->axis - first);
        load(s, j->line, first, n, j->from + first);
        sort_pairs(j->from + first, j->to + first, n, s->size);
    }
}

/* How many of the first k merged pairs come from a. */
static int64_t split_at(const struct pair *a, int64_t n_a, const struct pair *b, int64_t n_b, int64_t k)
{
    int64_t low = k > n_b ? k - n_b : 0, high = EO_MIN(k, n_a);
    while (low < high) {
        int64_t i = low + (high - low) / 2;
        if (is_before(&a[i], &b[k - i - 1]))
            low = i + 1;
        else
            high = i;
    }
    return low;
}

/* Blocks of the result of merging runs of `width`, two by two. */
static void merge_blocks(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const struct job *j = context;
    const struct sort *s = j->s;
    for (int64_t block = begin; block < end; block++) {
        int64_t first = block * s->block, last = EO_MIN(first + s->block, s->axis);
        int64_t run = first / (2 * j->width) * (2 * j->width);
        int64_t n_a = EO_MIN(j->width, s->axis - run), n_b = EO_MIN(j->width, s->axis - run - n_a);
        const struct pair *a = j->from + run, *b = a + n_a;
        int64_t i = split_at(a, n_a, b, n_b, first - run), k = first - run - i;
        for (int64_t at = first; at < last; at++) {
            bool take_a = k == n_b || (i < n_a && is_before(&a[i], &b[k]));
            j->to[at] = take_a ? a[i++] : b[k++];
        }
    }
}

static void store_blocks(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const struct job *j = context;
    store(j, j->line, j->base, j->from, begin * j->s->block, EO_MIN(end * j->s->block, j->s->take));
}

static void sort_long_line(struct job *j, int threads)
{
    const struct sort *s = j->s;
    j->from = j->l->workspace;
    j->to = j->from + s->axis;
    parallel_for(threads, s->n_blocks, 1, sort_blocks, j);
    for (j->width = s->block; j->width < s->axis; j->width *= 2) {
        parallel_for(threads, s->n_blocks, 1, merge_blocks, j);
        struct pair *swap = j->from;
        j->from = j->to;
        j->to = swap;
    }
    parallel_for(threads, (s->take + s->block - 1) / s->block, 1, store_blocks, j);
}

static void select_blocks(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const struct job *j = context;
    const struct sort *s = j->s;
    for (int64_t b = begin; b < end; b++) {
        int64_t first = b * s->block, n = EO_MIN(s->block, s->axis - first);
        select_range(s, j->line, first, n, EO_MIN(n, s->take), j->from + b * s->take);
    }
}

/* The first of each block, then the first of those. */
static void select_long_line(struct job *j, int threads)
{
    const struct sort *s = j->s;
    int64_t last = (s->n_blocks - 1) * s->block, in_last = EO_MIN(s->axis - last, s->take);
    j->from = j->l->workspace;
    parallel_for(threads, s->n_blocks, 1, select_blocks, j);
    /* The first block is longer than k: its heap is full. */
    for (int64_t i = s->take; i < (s->n_blocks - 1) * s->take + in_last; i++)
        offer_pair(j->from, s->take, j->from[i]);
    heap_to_order(j->from, s->take);
    store(j, j->line, j->base, j->from, 0, s->take);
}

static int sort_run(struct cpu_device *dev, const struct eo_launch *l, struct eo_error *err)
{
    (void)err;
    const struct sort *s = l->state;
    struct job j = {.s = s, .l = l};
    int64_t lines = s->outer * s->inner;
    if (lines == 0 || s->take == 0)
        return EO_OK;
    if (!s->split) {
        int64_t cost = s->axis * (s->use_heap ? 8 : 10 + 16 * s->size);
        parallel_for(EO_MIN(dev->base.info.threads, (int)EO_MIN(lines, 1 << 16)), lines, parallel_grain(cost),
                     whole_lines, &j);
        return EO_OK;
    }
    for (int64_t i = 0; i < lines; i++) {
        j.line = line_at(&j, i, &j.base);
        if (s->use_heap)
            select_long_line(&j, dev->base.info.threads);
        else
            sort_long_line(&j, dev->base.info.threads);
    }
    return EO_OK;
}

/* ---- selection ---- */

static uint64_t infinity_of(enum eo_dtype dtype)
{
    switch (dtype) {
    case EO_FLOAT64:
        return UINT64_C(0x7FF0000000000000);
    case EO_FLOAT32:
        return UINT64_C(0x7F800000);
    case EO_BFLOAT16:
        return UINT64_C(0x7F80);
    default: /* float16 */
        return UINT64_C(0x7C00);
    }
}

static int plan_memory(struct sort *s, int threads, uint64_t *out_bytes, struct eo_error *err)
{
    int64_t lines = s->outer * s->inner;
    bool fits = true;
    s->split = lines < FEW_LINES && s->axis > 2 * BLOCK;
    if (lines == 0 || s->take == 0) { /* nothing to do, however long the axis */
        *out_bytes = 0;
        return EO_OK;
    }
    s->block = s->use_heap ? EO_MAX(BLOCK, HEAP_FROM * s->take) : BLOCK;
    s->n_blocks = s->axis / s->block + (s->axis % s->block != 0);
    if (s->use_heap)
        s->scratch = s->split ? s->n_blocks * s->take : s->take;
    else
        fits = eo_mul_i64(s->axis, 2, &s->scratch);
    fits = fits && eo_mul_u64((uint64_t)s->scratch, sizeof(struct pair), out_bytes) &&
           (s->split || eo_mul_u64(*out_bytes, (uint64_t)EO_MIN((int64_t)threads, EO_MAX(lines, 1)), out_bytes));
    return fits ? EO_OK
                : EO_RAISE(err, EO_E_TOO_LARGE, "memory to order %lld elements does not fit in 64 bits",
                           (long long)s->axis);
}

int sort_select(struct cpu_device *dev, const struct eo_node_view *node, struct eo_kernel *out,
                struct cpu_refusals *why, struct eo_error *err)
{
    const struct eo_tensor_desc *x = node->in[0];
    enum eo_dtype dtype = (enum eo_dtype)x->dtype;
    struct sort *s = NULL;
    int axis = 0;
    (void)why;
    int rc = eo_normalize_axis(eo_attr_int(node->op, node->attrs, "axis"), x->n_dims, &axis, node->op->name, err);
    if (rc == EO_OK)
        rc = cpu_node_new(sizeof *s, &s, err);
    if (rc != EO_OK)
        return rc;
    s->outer = s->inner = 1;
    for (int d = 0; d < x->n_dims; d++) {
        if (d != axis)
            *(d < axis ? &s->outer : &s->inner) *= x->shape[d];
    }
    s->axis = x->shape[axis];
    s->take = node->out[0]->shape[axis];
    s->size = (int64_t)eo_dtype_size(dtype);
    s->kind = eo_dtype_kind(dtype);
    s->sign = (uint64_t)1 << (s->size * 8 - 1);
    s->infinity = infinity_of(dtype);
    s->descending = eo_attr_int(node->op, node->attrs, node->op->op == EO_OP_SORT ? "descending" : "largest") != 0;
    s->use_heap = s->take > 0 && s->take <= s->axis / HEAP_FROM;
    rc = plan_memory(s, dev->base.info.threads, &out->workspace_bytes, err);
    if (rc != EO_OK) {
        free(s);
        return rc;
    }
    cpu_node_finish(&s->node, sort_run, out, "%s.%s.%s", node->op->name, eo_dtype_name(dtype),
                    s->use_heap ? "heap" : "radix");
    return EO_OK;
}
