/* What lowerings and gradients of windows share: the resolved geometry of a node, and rows emitted from it. */
#ifndef EO_DAEMON_ENGINE_WINDOWS_H
#define EO_DAEMON_ENGINE_WINDOWS_H

#include "proto/graph_build.h"
#include "proto/shape_rules_window.h"

/* The node was accepted by eo_op_infer; errors stick in the builder. */
struct eo_window_shape windows_of(struct eo_builder *b, const struct eo_graph_node *node);
/* Sets those of size, kernel, strides, dilations, pads, groups and layout that the row has; others keep their default.
 */
void windows_describe(struct eo_builder *b, enum eo_op op, const struct eo_window_shape *w, struct eo_attrs *out);
/* A row with those attributes. */
eo_value windows_emit(struct eo_builder *b, enum eo_op op, const struct eo_window_shape *w, const eo_value *in,
                      int n_in);

/* (N, C, S...) to (N, S..., C) and back where the node has its channels first; else v itself. */
eo_value windows_channels_last(struct eo_builder *b, const struct eo_window_shape *w, eo_value v);
eo_value windows_channels_first(struct eo_builder *b, const struct eo_window_shape *w, eo_value v);

#endif
