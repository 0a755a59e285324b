/* Reverse-mode autodiff as graph rewriting: gradients are ordinary nodes appended to the same graph, so second
 * derivatives are gradients of gradients. Rules live in daemon/engine/grad/, one function per differentiable row of
 * ops.def (a missing one is a link error). Pure functions over the graph; as thread-safe as the graph itself. */
#ifndef EO_DAEMON_ENGINE_AUTODIFF_H
#define EO_DAEMON_ENGINE_AUTODIFF_H

#include "proto/graph_build.h"

/* Gradient of y with respect to wrt[0..n_wrt-1]. seed: the gradient of y itself, of y's shape and dtype; EO_NO_VALUE =
 * ones, allowed only when y has one element. A wrt that y does not depend on gets zeros (a `full` node). Gradients flow
 * through float values only: what passes through integers or bools (arg_max, comparisons) is constant.
 * Errors: NO_GRADIENT (y or a wrt not float, seed missing, path through an op without gradient: named),
 * SHAPE_MISMATCH and DTYPE_MISMATCH (seed), BAD_GRAPH (a value that is not in g), NO_MEMORY. The graph may have grown
 * when it fails; what was there before is unchanged. */
int autodiff_gradients(struct eo_graph *g, eo_value y, eo_value seed, const eo_value *wrt, int n_wrt, eo_value *out,
                       struct eo_error *err);

/* What a gradient rule sees and fills: it emits forward ops through b and sets in_grads[i] for the inputs it has a
 * gradient for, each of its input's shape and dtype. */
struct grad_site {
    struct eo_builder *b;
    const struct eo_graph_node *node;
    const eo_value *out_grads; /* per output; EO_NO_VALUE where nothing flows */
    const bool *needs;         /* per input: its gradient is wanted */
    eo_value *in_grads;        /* per input; EO_NO_VALUE on entry; left so where no gradient flows */
};
typedef void (*grad_rule_fn)(const struct grad_site *s);
grad_rule_fn grad_rule(enum eo_op op); /* NULL for NO_GRAD rows */

#endif
