/* The geometry of windows that move over spatial axes: convolutions, pooling, unfold and fold. All numbers are resolved
 * here, once, for shape rules, lowerings, gradients, kernels and importers. Pure functions; thread-safe. */
#ifndef EO_PROTO_SHAPE_RULES_WINDOW_H
#define EO_PROTO_SHAPE_RULES_WINDOW_H

#include "proto/op_schema.h"

enum { EO_WINDOW_AXES = 3 }; /* spatial axes at most: 8 dimensions hold (N, O, O, O, K, K, K, C) */

/* The words of the attribute padding, in their order. */
enum eo_padding { EO_PADDING_EXPLICIT, EO_PADDING_VALID, EO_PADDING_SAME, EO_PADDING_SAME_LOWER };

/* Cell k (0..kernel-1) of window o (0..count-1) lies at position o * stride + k * dilation - pad_begin of the axis;
 * positions outside of 0..size-1 are padding. None of these sums overflows. kernel, stride and dilation are at least 1,
 * the others at least 0. */
struct eo_window_axis {
    int64_t size, kernel, stride, dilation, pad_begin, pad_end, count;
    int64_t beyond; /* the part of pad_end that nobody asked for: it completes the last window of a pool in ceil_mode */
};

/* One call, resolved. "cells" is the tensor that windows look at: x of unfold, conv, conv_weight and pools, the result
 * of fold and conv_transpose. For the others the windows' results: (batch, count..., out_channels). */
struct eo_window_shape {
    int n_axes;
    struct eo_window_axis axis[EO_WINDOW_AXES];
    int64_t batch;
    int64_t channels;     /* of the cells */
    int64_t out_channels; /* of the windows' results; where no weight is involved: channels */
    int64_t groups;       /* divide channels and out_channels; 1 where the row has none */
    bool channels_first;  /* (N, C, spatial...) and weights (O, C/groups, kernel...); else (N, spatial..., C) and
                             (kernel..., C/groups, O) */
};

/* unfold, fold, conv, conv_transpose, conv_weight and the pools. Errors: SHAPE_MISMATCH (ranks, channels, windows that
 * do not fit), BAD_ATTRIBUTE, TOO_LARGE. */
int eo_window_resolve(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                      const struct eo_attrs *attrs, struct eo_window_shape *out, struct eo_error *err);

static inline int64_t eo_window_at(const struct eo_window_axis *a, int64_t window, int64_t cell)
{
    return window * a->stride + cell * a->dilation - a->pad_begin;
}

/* The cells first..end-1 of window `window` that are no padding (first == end: none). */
void eo_window_inside(const struct eo_window_axis *a, int64_t window, int64_t *out_first, int64_t *out_end);
bool eo_window_has_padding(const struct eo_window_shape *w); /* some cell is outside */
/* Of calls that eo_op_infer accepted: */
int64_t eo_window_cells(const struct eo_window_shape *w);     /* cells of one window */
int64_t eo_window_count(const struct eo_window_shape *w);     /* windows of one image */
int64_t eo_window_positions(const struct eo_window_shape *w); /* positions of one image */

#endif
