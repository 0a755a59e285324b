/* Scratch memory of the product row. */
#ifndef EO_BACKENDS_REFERENCE_MATMUL_H
#define EO_BACKENDS_REFERENCE_MATMUL_H

#include "backends/backend.h"

uint64_t matmul_workspace(const struct eo_node_view *node); /* bytes; node is matmul */

#endif
