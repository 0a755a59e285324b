/* Visits the elements of a shape in C order and tells, for each, the offset of up to four operands that broadcast to
 * it. */
#ifndef EO_BACKENDS_REFERENCE_WALK_H
#define EO_BACKENDS_REFERENCE_WALK_H

#include "proto/tensor_desc.h"

enum { WALK_OPERANDS = 4 };

struct walk {
    int n_dims;
    int64_t shape[EO_MAX_DIMS];
    int64_t count;  /* elements to visit */
    int64_t linear; /* index of the current one, 0..count-1 */
    int64_t index[EO_MAX_DIMS];
    int n_operands;
    int64_t stride[WALK_OPERANDS][EO_MAX_DIMS]; /* in elements; 0 along broadcast dimensions */
    int64_t offset[WALK_OPERANDS];
};

void walk_init(struct walk *w, const int64_t *shape, int n_dims);
/* Adds an operand whose shape broadcasts to the walk's (aligned at the last dimension); returns its number. */
int walk_broadcast(struct walk *w, const struct eo_tensor_desc *desc);
/* Adds an operand by strides (one per dimension of the walk) and the offset of its first element. */
int walk_strided(struct walk *w, const int64_t *stride, int64_t first);
/* for (; walk_more(w); walk_next(w)) */
static inline bool walk_more(const struct walk *w)
{
    return w->linear < w->count;
}
void walk_next(struct walk *w);
void walk_rewind(struct walk *w); /* to the first element; offsets start again from `first` */

/* Strides in elements of a dense tensor. */
void walk_dense_strides(const struct eo_tensor_desc *desc, int64_t out[EO_MAX_DIMS]);

#endif
