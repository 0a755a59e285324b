/* What a row of layers.def is made of in C: the inside of daemon/nn, used by model.c and layers.c only. */
#ifndef EO_DAEMON_NN_LAYER_H
#define EO_DAEMON_NN_LAYER_H

#include "daemon/nn/model.h"

/* Collects parameters in the order of the forward pass. */
struct param_list {
    struct model_param *out; /* NULL: only counts */
    int n, max;
    enum eo_dtype dtype;
};

/* State of one forward pass being written. */
struct forward_pass {
    struct eo_builder *b;
    const eo_value *params;
    int next_param;
    eo_value rng;     /* EO_NO_VALUE: evaluation */
    int64_t n_random; /* streams handed out so far: each random layer has its own */
};

struct layer_ops {
    /* in: checked, batch dimension (1) first; raises BAD_SPEC with what does not fit and the remedy. The caller adds
     * which layer it was: l, or what a row with children left in *refused. */
    int (*infer)(const struct layer *l, const struct eo_tensor_desc *in, struct eo_tensor_desc *out,
                 const struct layer **refused, struct eo_error *err);
    int (*params)(const struct layer *l, struct param_list *list, struct eo_error *err); /* NULL: none */
    eo_value (*forward)(const struct layer *l, struct forward_pass *f, eo_value x);
};

const struct layer_ops *layer_ops(enum layer_kind kind);
/* Rows of a tensor as text: "[28, 28]" for shape (N, 28, 28); returns out. */
char *layer_row_text(const struct eo_tensor_desc *d, char *out, size_t size);
int param_list_add(struct param_list *list, const struct layer *l, const char *name, const int64_t *shape, int n_dims,
                   const char *initializer, int64_t fan_in, int64_t fan_out, struct eo_error *err);

/* Sequences, in model.c: the whole model and the `sequential` row share them. */
int layers_infer(const struct layer *layers, int n, const struct eo_tensor_desc *in, struct eo_tensor_desc *out,
                 const struct layer **refused, struct eo_error *err);
int layers_params(const struct layer *layers, int n, struct param_list *list, struct eo_error *err);
eo_value layers_forward(const struct layer *layers, int n, struct forward_pass *f, eo_value x);

#endif
