/* One element of a tensor of any dtype, widened: floats to float64, integers to 64 bits, bool to 0 or 1.
 * Reading and writing one element at a time is slow and plain; that is what the reference backend is for. */
#ifndef EO_BACKENDS_REFERENCE_ELEMENT_H
#define EO_BACKENDS_REFERENCE_ELEMENT_H

#include "proto/dtype.h"

struct element {
    enum eo_dtype_kind kind;
    union {
        double f;   /* EO_KIND_FLOAT */
        int64_t i;  /* EO_KIND_SIGNED */
        uint64_t u; /* EO_KIND_UNSIGNED, EO_KIND_BOOL */
    } v;
};

static inline struct element element_float(double f)
{
    return (struct element){EO_KIND_FLOAT, {.f = f}};
}
static inline struct element element_signed(int64_t i)
{
    return (struct element){EO_KIND_SIGNED, {.i = i}};
}
static inline struct element element_unsigned(uint64_t u)
{
    return (struct element){EO_KIND_UNSIGNED, {.u = u}};
}
static inline struct element element_bool(bool b)
{
    return (struct element){EO_KIND_BOOL, {.u = b ? 1 : 0}};
}

struct element element_get(const void *data, enum eo_dtype dtype, int64_t index);
/* e.kind is the kind of dtype. Floats are rounded once, integers wrap. */
void element_set(void *data, enum eo_dtype dtype, int64_t index, struct element e);

/* For rows that take floats only. */
double element_get_float(const void *data, enum eo_dtype dtype, int64_t index);
void element_set_float(void *data, enum eo_dtype dtype, int64_t index, double value);

/* The bytes of one element, whatever they mean: bool bytes and NaN payloads arrive as they were. */
void element_move(void *out, int64_t to, const void *in, int64_t from, size_t size);

/* The cast rule of ops.def: float to integer truncates, clamps to the range of dtype and turns NaN into 0; integers
 * wrap; to bool is x != 0. The result has the kind of dtype. */
struct element element_cast(struct element e, enum eo_dtype dtype);
/* value as an element of dtype's kind: the attribute `value` of full, the bounds of clip. Clamps like a cast. */
struct element element_from_double(double value, enum eo_dtype dtype);

#endif
