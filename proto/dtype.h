/* Element types (tables/dtypes.def). */
#ifndef EO_PROTO_DTYPE_H
#define EO_PROTO_DTYPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum eo_dtype {
    EO_DTYPE_NONE = 0,
#define EO_DTYPE(name, id, size, kind, text, safetensors, npy) EO_##name = (id),
#include "proto/tables/dtypes.def"
    EO_DTYPE_LIMIT = 14 /* one above the largest id */
};

enum eo_dtype_kind { EO_KIND_FLOAT, EO_KIND_SIGNED, EO_KIND_UNSIGNED, EO_KIND_BOOL };

/* Sets of dtypes as bit masks: bit (1 << dtype). */
typedef uint32_t eo_dtype_set;
#define EO_DTYPE_BIT(dtype) ((eo_dtype_set)1 << (dtype))

bool eo_dtype_valid(int dtype);
size_t eo_dtype_size(enum eo_dtype dtype);
enum eo_dtype_kind eo_dtype_kind(enum eo_dtype dtype);
const char *eo_dtype_name(enum eo_dtype dtype); /* "float32"; "?" when not valid */
const char *eo_dtype_safetensors(enum eo_dtype dtype);
const char *eo_dtype_npy(enum eo_dtype dtype);
enum eo_dtype eo_dtype_by_name(const char *name); /* EO_DTYPE_NONE when unknown */
enum eo_dtype eo_dtype_by_safetensors(const char *name);
char *eo_dtype_set_text(eo_dtype_set set, char *out, size_t size); /* "float32, float64 or bool"; returns out */
/* Whether v is exactly a value of an integer dtype or bool (0, 1); every v is one of a float dtype (after rounding). */
bool eo_dtype_holds(enum eo_dtype dtype, double v);
enum eo_dtype eo_dtype_promote(enum eo_dtype a, enum eo_dtype b); /* the fixed promotion table for client helpers */

/* Conversions with IEEE round-to-nearest-even; NaN stays NaN, overflow becomes Inf. */
float eo_half_to_float(uint16_t h);
uint16_t eo_half_from_float(float f);
float eo_bfloat_to_float(uint16_t b);
uint16_t eo_bfloat_from_float(float f);
uint16_t eo_half_from_double(double d); /* one rounding */
uint16_t eo_bfloat_from_double(double d);

#endif
