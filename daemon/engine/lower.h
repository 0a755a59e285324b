/* Composite rows rewritten to primitives. The lowering is the definition and the test oracle of the composite. */
#ifndef EO_DAEMON_ENGINE_LOWER_H
#define EO_DAEMON_ENGINE_LOWER_H

#include "proto/graph_build.h"

/* Emits primitives for a composite node; out receives the node's outputs. Raises UNSUPPORTED for other rows. */
int lower_node(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out);

#endif
