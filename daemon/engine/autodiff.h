/* Reverse-mode autodiff as graph rewriting: gradients are ordinary nodes appended to the same graph.
 * Rules live in daemon/engine/grad/, one function per differentiable row of ops.def (a missing one is a link error). */
#ifndef EO_DAEMON_ENGINE_AUTODIFF_H
#define EO_DAEMON_ENGINE_AUTODIFF_H

#include "proto/graph_build.h"

/* Gradient of y with respect to wrt[0..n_wrt-1]. seed: the gradient of y itself, of y's shape; EO_NO_VALUE = ones, allowed
 * only when y has one element. A wrt that y does not depend on gets zeros (a `full` node).
 * Errors: NO_GRADIENT (y not float, seed missing, path through an op without gradient: named), SHAPE_MISMATCH (seed). */
int autodiff_gradients(struct eo_graph *g, eo_value y, eo_value seed, const eo_value *wrt, int n_wrt, eo_value *out,
                       struct eo_error *err);

/* One gradient rule: given the node and the gradients of its outputs (EO_NO_VALUE where nothing flows), emits forward ops
 * and sets in_grads[i] (left EO_NO_VALUE where input i needs none). needs[i] says whether input i's gradient is wanted. */
typedef void (*grad_rule_fn)(struct eo_builder *b, const struct eo_graph_node *node, const eo_value *out_grads,
                             const bool *needs, eo_value *in_grads);
grad_rule_fn grad_rule(enum eo_op op); /* NULL for NO_GRAD rows */

#endif
