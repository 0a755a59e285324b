#include "backends/cpu/strided.h"

#include "backends/cpu/parallel.h"
#include "proto/base/compiler.h"

#include <string.h>

enum { SRC, DST };
/* Results from this size on go around the caches: they are larger than what a core has of them. */
enum { AROUND_FROM = 8 << 20 };

void strided_init(struct strided *s, const int64_t *shape, int n_dims, const int64_t *src_stride, int64_t src_first,
                  const int64_t *dst_stride, int64_t dst_first, size_t size)
{
    space_init(&s->space, shape, n_dims);
    space_add_strided(&s->space, src_stride);
    space_add_strided(&s->space, dst_stride);
    space_merge(&s->space);
    s->src_first = src_first;
    s->dst_first = dst_first;
    s->size = size;
    s->tile_dim = -1;
    int inner = s->space.n_dims - 1;
    if (inner < 1 || s->space.stride[DST][inner] != 1 || s->space.stride[SRC][inner] <= 1)
        return;
    for (int d = 0; d < inner; d++) {
        if (s->space.stride[SRC][d] == 1 && s->space.shape[d] > 1)
            s->tile_dim = d;
    }
}

bool strided_is_plain(const struct strided *s)
{
    const struct space *p = &s->space;
    return p->n_dims == 0 || (p->n_dims == 1 && p->stride[SRC][0] == 1 && p->stride[DST][0] == 1);
}

/* One loop over n elements of T; steps in elements. */
#define LINE(T)                                                                                                        \
    static void line_##T(char *dst, const char *src, int64_t n, int64_t dst_step, int64_t src_step)                    \
    {                                                                                                                  \
        T *d = (void *)dst;                                                                                            \
        const T *s = (const void *)src;                                                                                \
        if (src_step == 0) {                                                                                           \
            const T one = *s;                                                                                          \
            for (int64_t i = 0; i < n; i++)                                                                            \
                d[i * dst_step] = one;                                                                                 \
        } else {                                                                                                       \
            for (int64_t i = 0; i < n; i++)                                                                            \
                d[i * dst_step] = s[i * src_step];                                                                     \
        }                                                                                                              \
    }
LINE(uint8_t)
LINE(uint16_t)
LINE(uint32_t)
LINE(uint64_t)

static void line(const struct strided *s, char *dst, const char *src)
{
    int inner = s->space.n_dims - 1;
    int64_t n = s->space.shape[inner], src_step = s->space.stride[SRC][inner], dst_step = s->space.stride[DST][inner];
    if (src_step == 1 && dst_step == 1)
        memcpy(dst, src, (size_t)n * s->size);
    else if (s->size == 1)
        line_uint8_t(dst, src, n, dst_step, src_step);
    else if (s->size == 2)
        line_uint16_t(dst, src, n, dst_step, src_step);
    else if (s->size == 4)
        line_uint32_t(dst, src, n, dst_step, src_step);
    else
        line_uint64_t(dst, src, n, dst_step, src_step);
}

struct job {
    const struct vector_block *block;
    const struct strided *s;
    bool around;
    char *dst;
    const char *src;
};

/* Lines begin..end-1: all dimensions but the last. */
static void run_lines(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const struct job *j = context;
    const struct space *p = &j->s->space;
    int64_t size = (int64_t)j->s->size;
    for (int64_t i = begin; i < end; i++)
        line(j->s, j->dst + space_offset(p, DST, p->n_dims - 1, i) * size,
             j->src + space_offset(p, SRC, p->n_dims - 1, i) * size);
}

/* Part of a long single line. */
static void run_pieces(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const struct job *j = context;
    struct strided piece = *j->s;
    int64_t size = (int64_t)piece.size;
    piece.space.shape[0] = end - begin;
    line(&piece, j->dst + begin * piece.space.stride[DST][0] * size,
         j->src + begin * piece.space.stride[SRC][0] * size);
}

/* The other dimensions than tile_dim and the last, as a space of their own. */
static struct space outer_space(const struct strided *s)
{
    struct space outer = {.n_operands = 2};
    for (int d = 0; d < s->space.n_dims - 1; d++) {
        if (d == s->tile_dim)
            continue;
        outer.shape[outer.n_dims] = s->space.shape[d];
        outer.stride[SRC][outer.n_dims] = s->space.stride[SRC][d];
        outer.stride[DST][outer.n_dims++] = s->space.stride[DST][d];
    }
    return outer;
}

/* Strips begin..end-1: a strip is one tile's height of rows of the destination at one place of the outer dimensions. */
static void run_strips(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const struct job *j = context;
    const struct strided *s = j->s;
    const struct space outer = outer_space(s);
    int inner = s->space.n_dims - 1, kind = s->size == 1 ? 0 : s->size == 2 ? 1 : s->size == 4 ? 2 : 3;
    int64_t dst_row = s->space.stride[DST][s->tile_dim], src_row = s->space.stride[SRC][inner];
    int64_t rows = s->space.shape[s->tile_dim], columns = s->space.shape[inner], size = (int64_t)s->size;
    int64_t strips = (rows + VECTOR_TILE_ROWS - 1) / VECTOR_TILE_ROWS;
    for (int64_t i = begin; i < end; i++) {
        int64_t row = i % strips * VECTOR_TILE_ROWS;
        char *dst = j->dst + (space_offset(&outer, DST, outer.n_dims, i / strips) + row * dst_row) * size;
        const char *src = j->src + (space_offset(&outer, SRC, outer.n_dims, i / strips) + row) * size;
        for (int64_t c = 0; c < columns; c += VECTOR_TILE_COLUMNS)
            j->block->tile[kind](EO_MIN(rows - row, VECTOR_TILE_ROWS), EO_MIN(columns - c, VECTOR_TILE_COLUMNS),
                                 dst + c * size, dst_row, src + c * src_row * size, src_row, j->around);
    }
    if (j->around)
        j->block->stream_end();
}

void strided_run(const struct cpu_device *dev, const struct strided *s, void *dst, const void *src)
{
    int threads = dev->base.info.threads;
    const struct space *p = &s->space;
    int64_t count = space_count(p);
    if (count == 0)
        return;
    bool around = count >= AROUND_FROM / (int64_t)s->size;
    struct job j = {dev->vec->block, s, around, (char *)dst + s->dst_first * (int64_t)s->size,
                    (const char *)src + s->src_first * (int64_t)s->size};
    if (p->n_dims == 0) {
        memcpy(j.dst, j.src, s->size);
    } else if (s->tile_dim >= 0) {
        int64_t strips = (p->shape[s->tile_dim] + VECTOR_TILE_ROWS - 1) / VECTOR_TILE_ROWS,
                n = count / p->shape[s->tile_dim] / p->shape[p->n_dims - 1];
        parallel_for(threads, n * strips, parallel_grain(count * 4 / (n * strips)), run_strips, &j);
    } else if (p->n_dims == 1) {
        parallel_for(threads, count, parallel_grain(1), run_pieces, &j);
    } else {
        int64_t length = p->shape[p->n_dims - 1];
        parallel_for(threads, count / length, parallel_grain(length + 16), run_lines, &j);
    }
}
