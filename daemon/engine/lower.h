/* Composite rows rewritten to primitives. The lowering is the definition and the test oracle of the composite. One
 * function per LOWERED row of ops.def in daemon/engine/lower/ (a missing one is a link error). Pure; as thread-safe as
 * the builder's graph. */
#ifndef EO_DAEMON_ENGINE_LOWER_H
#define EO_DAEMON_ENGINE_LOWER_H

#include "proto/graph_build.h"

/* Emits primitives for a composite node whose inputs are values of the builder's graph; out receives the node's
 * n_outputs values. Raises UNSUPPORTED for other rows. Returns the builder's status. */
int lower_node(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out);

#endif
