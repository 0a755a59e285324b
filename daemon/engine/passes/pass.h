/* The passes of a plan, in the order they run: one row, one file. Each rewrites the IR and leaves it valid and swept;
 * each may be left out (plan_spec.without), which must not change results beyond rounding.
 *
 * To add one: a row here, a file daemon/engine/passes/<name>.c with pass_<name>, and its case in test_passes. */
#ifndef EO_DAEMON_ENGINE_PASSES_PASS_H
#define EO_DAEMON_ENGINE_PASSES_PASS_H

#include "daemon/engine/ir.h"

/* Errors: NO_MEMORY, and what a backend raises besides UNSUPPORTED. */
#define PLAN_PASS(name, NAME, summary) int pass_##name(struct ir *ir, struct eo_error *err);
#include "daemon/engine/passes/passes.def"

/* Fills an empty IR from the spec's graph: only what the outputs need, composites lowered unless the device claims
 * them. Errors: BAD_GRAPH (an input without a place, an output that is no value), NO_MEMORY. */
int import_graph(struct ir *ir, struct eo_error *err);

/* Makes every plan output the result of a node of its own, with copies where a value is an input (unless it is in its
 * place), a constant or an output already. Copies of inputs come first, so that nodes may write straight over them. Not
 * optional. Errors: NO_MEMORY. */
int bind_outputs(struct ir *ir, struct eo_error *err);

/* True when the node's output has the bytes of its input 0, in the same order: what is left is a name. */
bool views_is_relabelling(const struct ir *ir, const struct ir_node *node);

#endif
