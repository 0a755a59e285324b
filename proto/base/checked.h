/* Overflow-checked 64-bit arithmetic. Every size that comes from outside goes through these:
 * each returns true when the result fits and stores it, false (out untouched or unspecified) otherwise. */
#ifndef EO_PROTO_BASE_CHECKED_H
#define EO_PROTO_BASE_CHECKED_H

#include <stdbool.h>
#include <stdint.h>

static inline bool eo_add_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}
static inline bool eo_mul_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}
static inline bool eo_add_i64(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}
static inline bool eo_sub_i64(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_sub_overflow(a, b, out);
}
static inline bool eo_mul_i64(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

#endif
