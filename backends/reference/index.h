/* What reference.c must know about the rows of index.c before they run. */
#ifndef EO_BACKENDS_REFERENCE_INDEX_H
#define EO_BACKENDS_REFERENCE_INDEX_H

#include "backends/backend.h"

uint64_t index_workspace(const struct eo_node_view *node); /* scatter_elements, scatter_nd: x widened */

#endif
