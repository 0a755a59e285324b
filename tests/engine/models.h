/* Graphs that several tests run. */
#ifndef EO_TESTS_ENGINE_MODELS_H
#define EO_TESTS_ENGINE_MODELS_H

#include "daemon/engine/autodiff.h"
#include "tests/engine/harness.h"

/* A classifier as the trainer builds it: linear, relu, dropout, linear, cross entropy; the loss is the sum of the rows'
 * losses times inv_count; gradients of all parameters. */
struct mlp {
    struct eo_graph *g;
    eo_value x, targets, rng, inv_count;
    eo_value params[4]; /* weight, bias, weight, bias */
    eo_value loss, grads[4];
    int64_t n_rows, n_in, n_hidden, n_out;
    enum eo_dtype dtype;
};

void mlp_build(struct mlp *m, enum eo_dtype dtype, int64_t n_rows, int64_t n_in, int64_t n_hidden, int64_t n_out,
               bool dropout);
void mlp_free(struct mlp *m);
/* Loss and gradients, in this order. */
enum { MLP_OUTPUTS = 5 };
void mlp_outputs(const struct mlp *m, eo_value out[MLP_OUTPUTS]);
/* Deterministic data for all inputs. */
void mlp_feed(const struct mlp *m, struct harness *h);

#endif
