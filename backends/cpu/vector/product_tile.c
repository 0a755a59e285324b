/* Matrix products on register tiles, for products too small to be worth a library call and for builds without BLAS.
 *
 * A tile of up to TILE_ROWS rows and two vectors of columns of C stays in registers while k runs. Rows of B are read in
 * place when they are contiguous and few rows of A use them; otherwise a panel of B is packed first. Each element of C
 * is one sum over k, in order, in blocks of DEPTH: how the rows and columns are split between tiles or threads changes
 * no bit.
 *
 * Compiled with -ffp-contract=fast: the tile is the one place where multiply and add are fused, where the instruction
 * set can. Products are therefore equal between threads and runs, not between instruction sets. */
#include "backends/cpu/vector/vector.h"

#include <string.h>

#if defined(__AVX512F__)
enum { VECTOR_BYTES = 64, TILE_ROWS = 8 };
#elif defined(__AVX__)
enum { VECTOR_BYTES = 32, TILE_ROWS = 6 };
#else
enum { VECTOR_BYTES = 16, TILE_ROWS = 6 };
#endif
enum { DEPTH = 256, PACK_FROM_ROWS = 64 };

#define INLINE static inline __attribute__((always_inline))

#define T float
#define SUFFIX f32
#include "backends/cpu/vector/product_tile_body.h"
#define T double
#define SUFFIX f64
#include "backends/cpu/vector/product_tile_body.h"
/* Integers as unsigned: wrapping is defined there. */
#define T uint32_t
#define SUFFIX i32
#include "backends/cpu/vector/product_tile_body.h"
#define T uint64_t
#define SUFFIX i64
#include "backends/cpu/vector/product_tile_body.h"
