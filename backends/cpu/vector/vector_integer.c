/* Element-wise loops of integers, by the rules of ops.def: what wraps is worked out in an unsigned type W of at least
 * 32 bits, so that nothing is promoted to a signed one. */
#include "backends/cpu/vector/loops.h"

/* Rows that see bits only: one loop for signed and unsigned integers of a width. */
#define WIDTH_ROWS(suffix, U, W)                                                                                       \
    UNARY(negative, suffix, U, U, (W)0 - x)                                                                            \
    UNARY(bitwise_not, suffix, U, U, ~(W)x)                                                                            \
    UNARY(same, suffix, U, U, x)                                                                                       \
    UNARY(unsigned_sign, suffix, U, U, x != 0)                                                                         \
    BINARY(add, suffix, U, U, (W)a + b)                                                                                \
    BINARY(subtract, suffix, U, U, (W)a - b)                                                                           \
    BINARY(multiply, suffix, U, U, (W)a *b)                                                                            \
    BINARY(bitwise_and, suffix, U, U, a &b)                                                                            \
    BINARY(bitwise_or, suffix, U, U, a | b)                                                                            \
    BINARY(bitwise_xor, suffix, U, U, a ^ b)                                                                           \
    BINARY(shift_left, suffix, U, U, b < 8 * sizeof(U) ? (W)a << b : 0)                                                \
    BINARY(equal, suffix, U, uint8_t, a == b)                                                                          \
    BINARY(not_equal, suffix, U, uint8_t, a != b)

WIDTH_ROWS(u8, uint8_t, uint32_t)
WIDTH_ROWS(u16, uint16_t, uint32_t)
WIDTH_ROWS(u32, uint32_t, uint32_t)
WIDTH_ROWS(u64, uint64_t, uint64_t)

/* By squaring, modulo 2^64; the low bits are those of any width. */
static inline uint64_t power(uint64_t a, uint64_t b)
{
    uint64_t r = 1;
    for (; b; b >>= 1, a *= a)
        r *= b & 1 ? a : 1;
    return r;
}

static inline int64_t signed_power(int64_t a, int64_t b)
{
    if (b >= 0)
        return (int64_t)power((uint64_t)a, (uint64_t)b);
    return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
}

#define ORDERED_ROWS(suffix, T, field)                                                                                 \
    BINARY(maximum, suffix, T, T, a >= b ? a : b)                                                                      \
    BINARY(minimum, suffix, T, T, a <= b ? a : b)                                                                      \
    BINARY(less, suffix, T, uint8_t, a < b)                                                                            \
    BINARY(less_equal, suffix, T, uint8_t, a <= b)                                                                     \
    BINARY(greater, suffix, T, uint8_t, a > b)                                                                         \
    BINARY(greater_equal, suffix, T, uint8_t, a >= b)                                                                  \
    CLIP(suffix, T, field)

/* b is -1 or 0: the quotient wraps, or is 0; what is left over is 0. */
#define SIGNED_ROWS(suffix, T, U, W)                                                                                   \
    ORDERED_ROWS(suffix, T, i)                                                                                         \
    UNARY(abs, suffix, T, T, x < 0 ? (W)0 - (W)x : (W)x)                                                               \
    UNARY(sign, suffix, T, T, (x > 0) - (x < 0))                                                                       \
    UNARY(relu, suffix, T, T, x < 0 ? 0 : x)                                                                           \
    BINARY(shift_right, suffix, T, T, (U)b < 8 * sizeof(T) ? a >> b : a < 0 ? -1 : 0)                                  \
    static inline T over_##suffix(T a, T b)                                                                            \
    {                                                                                                                  \
        return (T)(b == 0 ? 0 : b == -1 ? (T)((W)0 - (W)a) : a / b);                                                   \
    }                                                                                                                  \
    static inline T left_##suffix(T a, T b)                                                                            \
    {                                                                                                                  \
        return (T)(b == 0 || b == -1 ? 0 : a % b);                                                                     \
    }                                                                                                                  \
    static inline bool crosses_##suffix(T a, T b)                                                                      \
    {                                                                                                                  \
        return left_##suffix(a, b) != 0 && (a < 0) != (b < 0);                                                         \
    }                                                                                                                  \
    BINARY_PLAIN(divide, suffix, T, T, over_##suffix(a, b))                                                            \
    BINARY_PLAIN(fmod, suffix, T, T, left_##suffix(a, b))                                                              \
    BINARY_PLAIN(floor_divide, suffix, T, T, over_##suffix(a, b) - crosses_##suffix(a, b))                             \
    BINARY_PLAIN(remainder, suffix, T, T, left_##suffix(a, b) + (crosses_##suffix(a, b) ? b : 0))                      \
    BINARY_PLAIN(power, suffix, T, T, signed_power(a, b))

SIGNED_ROWS(i8, int8_t, uint8_t, uint32_t)
SIGNED_ROWS(i16, int16_t, uint16_t, uint32_t)
SIGNED_ROWS(i32, int32_t, uint32_t, uint32_t)
SIGNED_ROWS(i64, int64_t, uint64_t, uint64_t)

#define UNSIGNED_ROWS(suffix, T)                                                                                       \
    ORDERED_ROWS(suffix, T, u)                                                                                         \
    BINARY(shift_right, suffix, T, T, b < 8 * sizeof(T) ? a >> b : 0)                                                  \
    BINARY_PLAIN(divide, suffix, T, T, b == 0 ? 0 : a / b)                                                             \
    BINARY_PLAIN(remainder, suffix, T, T, b == 0 ? 0 : a % b)                                                          \
    BINARY_PLAIN(power, suffix, T, T, power(a, b))

UNSIGNED_ROWS(u8, uint8_t)
UNSIGNED_ROWS(u16, uint16_t)
UNSIGNED_ROWS(u32, uint32_t)
UNSIGNED_ROWS(u64, uint64_t)

#define OF_SIGNED(op) [EO_INT8] = op##_i8, [EO_INT16] = op##_i16, [EO_INT32] = op##_i32, [EO_INT64] = op##_i64
#define OF_UNSIGNED(op) [EO_UINT8] = op##_u8, [EO_UINT16] = op##_u16, [EO_UINT32] = op##_u32, [EO_UINT64] = op##_u64
#define OF_WIDTH(op)                                                                                                   \
    [EO_INT8] = op##_u8, [EO_INT16] = op##_u16, [EO_INT32] = op##_u32, [EO_INT64] = op##_u64, OF_UNSIGNED(op)

#define FOR_SIGNED(op)                                                                                                 \
    {                                                                                                                  \
        OF_SIGNED(op)                                                                                                  \
    }
#define FOR_WIDTHS(op)                                                                                                 \
    {                                                                                                                  \
        OF_WIDTH(op)                                                                                                   \
    }
/* A signed row and the unsigned one of the same meaning. */
#define FOR_BOTH(op, unsigned_op)                                                                                      \
    {                                                                                                                  \
        OF_SIGNED(op), OF_UNSIGNED(unsigned_op)                                                                        \
    }
#define FOR_INTEGERS(op) FOR_BOTH(op, op)

const vector_map_table VECTOR_ISA(vector_integer) = {
    [EO_OP_NEGATIVE] = FOR_WIDTHS(negative),
    [EO_OP_ABS] = FOR_BOTH(abs, same),
    [EO_OP_SIGN] = FOR_BOTH(sign, unsigned_sign),
    [EO_OP_RELU] = FOR_SIGNED(relu),
    [EO_OP_BITWISE_NOT] = FOR_WIDTHS(bitwise_not),
    [EO_OP_CLIP] = FOR_INTEGERS(clip),
    [EO_OP_ADD] = FOR_WIDTHS(add),
    [EO_OP_SUBTRACT] = FOR_WIDTHS(subtract),
    [EO_OP_MULTIPLY] = FOR_WIDTHS(multiply),
    [EO_OP_DIVIDE] = FOR_INTEGERS(divide),
    [EO_OP_FLOOR_DIVIDE] = FOR_BOTH(floor_divide, divide),
    [EO_OP_REMAINDER] = FOR_INTEGERS(remainder),
    [EO_OP_FMOD] = FOR_BOTH(fmod, remainder),
    [EO_OP_POWER] = FOR_INTEGERS(power),
    [EO_OP_MAXIMUM] = FOR_INTEGERS(maximum),
    [EO_OP_MINIMUM] = FOR_INTEGERS(minimum),
    [EO_OP_BITWISE_AND] = FOR_WIDTHS(bitwise_and),
    [EO_OP_BITWISE_OR] = FOR_WIDTHS(bitwise_or),
    [EO_OP_BITWISE_XOR] = FOR_WIDTHS(bitwise_xor),
    [EO_OP_SHIFT_LEFT] = FOR_WIDTHS(shift_left),
    [EO_OP_SHIFT_RIGHT] = FOR_INTEGERS(shift_right),
    [EO_OP_EQUAL] = FOR_WIDTHS(equal),
    [EO_OP_NOT_EQUAL] = FOR_WIDTHS(not_equal),
    [EO_OP_LESS] = FOR_INTEGERS(less),
    [EO_OP_LESS_EQUAL] = FOR_INTEGERS(less_equal),
    [EO_OP_GREATER] = FOR_INTEGERS(greater),
    [EO_OP_GREATER_EQUAL] = FOR_INTEGERS(greater_equal),
};
