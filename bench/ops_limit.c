#include "bench/ops_limit.h"

#include "backends/cpu/parallel.h"

#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* Bytes of the largest operand that one step takes: operands go through side by side, as in a kernel. */
enum { STEP = 16384, LINE = 64 };

struct job {
    const struct limit *l;
    int64_t steps;
    bool streaming;
    bool is_even; /* one result, one or two operands, all of one size */
};

/* Slice `step` of `bytes`, cut at lines of the cache. */
static uint64_t cut(uint64_t bytes, int64_t step, int64_t steps)
{
    if (step == steps)
        return bytes;
    return (uint64_t)((double)bytes * (double)step / (double)steps) / LINE * LINE;
}

#if defined(__x86_64__)
static __m128i read_slice(const char *x, uint64_t n)
{
    __m128i s[4] = {_mm_setzero_si128(), _mm_setzero_si128(), _mm_setzero_si128(), _mm_setzero_si128()};
    for (uint64_t i = 0; i + LINE <= n; i += LINE)
        for (int k = 0; k < 4; k++)
            s[k] = _mm_xor_si128(s[k], _mm_loadu_si128((const __m128i *)(const void *)(x + i + k * 16)));
    return _mm_xor_si128(_mm_xor_si128(s[0], s[1]), _mm_xor_si128(s[2], s[3]));
}

static void write_slice(char *y, uint64_t n, __m128i value, bool streaming)
{
    for (uint64_t i = 0; i + 16 <= n; i += 16) {
        if (streaming)
            _mm_stream_si128((__m128i *)(void *)(y + i), value);
        else
            _mm_store_si128((__m128i *)(void *)(y + i), value);
    }
}

/* One result and one or two operands of its size: line by line, as an element-wise kernel runs. */
static void pass_lines(char *y, const char *a, const char *b, uint64_t n, bool streaming)
{
    for (uint64_t i = 0; i + LINE <= n; i += LINE)
        for (int k = 0; k < 4; k++) {
            __m128i v = _mm_load_si128((const __m128i *)(const void *)(a + i + k * 16));
            if (b)
                v = _mm_xor_si128(v, _mm_load_si128((const __m128i *)(const void *)(b + i + k * 16)));
            if (streaming)
                _mm_stream_si128((__m128i *)(void *)(y + i + k * 16), v);
            else
                _mm_store_si128((__m128i *)(void *)(y + i + k * 16), v);
        }
}
typedef __m128i word;
static const word nothing;
static word mix(word a, word b)
{
    return _mm_xor_si128(a, b);
}
#else
typedef uint64_t word;
static const word nothing;
static word mix(word a, word b)
{
    return a ^ b;
}
static word read_slice(const char *x, uint64_t n)
{
    word s = 0;
    for (uint64_t i = 0; i + sizeof s <= n; i += sizeof s) {
        word v;
        memcpy(&v, x + i, sizeof v);
        s ^= v;
    }
    return s;
}
static void write_slice(char *y, uint64_t n, word value, bool streaming)
{
    (void)streaming;
    memset(y, (int)(value & 0xff), n);
}
#endif

static void run_steps(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const struct job *j = context;
    const struct limit *l = j->l;
    word s = nothing;
    for (int64_t i = begin; i < end; i++) {
#if defined(__x86_64__)
        if (j->is_even) {
            uint64_t from = cut(l->out_bytes[0], i, j->steps);
            pass_lines((char *)l->out[0] + from, (const char *)l->in[0] + from,
                       l->n_in > 1 ? (const char *)l->in[1] + from : NULL, cut(l->out_bytes[0], i + 1, j->steps) - from,
                       j->streaming);
            continue;
        }
#endif
        for (int k = 0; k < l->n_in; k++) {
            uint64_t from = cut(l->in_bytes[k], i, j->steps);
            s = mix(s, read_slice((const char *)l->in[k] + from, cut(l->in_bytes[k], i + 1, j->steps) - from));
        }
        for (int k = 0; k < l->n_out; k++) {
            uint64_t from = cut(l->out_bytes[k], i, j->steps);
            write_slice((char *)l->out[k] + from, cut(l->out_bytes[k], i + 1, j->steps) - from, s, j->streaming);
        }
    }
    volatile word sink = s;
    (void)sink;
#if defined(__x86_64__)
    if (j->streaming)
        _mm_sfence();
#endif
}

void limit_run(const struct limit *l, bool streaming)
{
    uint64_t largest = 0;
    for (int k = 0; k < l->n_in; k++)
        largest = EO_MAX(largest, l->in_bytes[k]);
    for (int k = 0; k < l->n_out; k++)
        largest = EO_MAX(largest, l->out_bytes[k]);
    bool is_even = l->n_out == 1 && l->n_in <= 2;
    for (int k = 0; k < l->n_in; k++)
        is_even = is_even && l->in_bytes[k] == l->out_bytes[0];
    struct job j = {l, (int64_t)(largest / STEP) + 1, streaming, is_even};
    parallel_for(l->threads, j.steps, parallel_grain(STEP / 4), run_steps, &j);
}
