/* Models for tests, written in C. */
#ifndef EO_TESTS_NN_MODELS_H
#define EO_TESTS_NN_MODELS_H

#include "daemon/nn/model.h"

#include <stdio.h>
#include <string.h>

static inline struct layer layer_of(enum layer_kind kind, int i)
{
    const struct layer_schema *row = layer_schema(kind);
    struct layer l = {.kind = kind};

    snprintf(l.path, sizeof(l.path), "%d", i);
    for (int k = 0; k < row->n_args; k++) {
        l.args[k].number = row->args[k].fallback;
        if (row->args[k].fallback_text != NULL) {
            snprintf(l.args[k].text, sizeof(l.args[k].text), "%s", row->args[k].fallback_text);
        }
    }
    return l;
}

static inline struct layer linear_of(int i, int64_t in, int64_t out, bool bias)
{
    struct layer l = layer_of(LAYER_LINEAR, i);

    l.args[0].number = (double)in;
    l.args[1].number = (double)out;
    l.args[2].number = bias;
    return l;
}

static inline struct model model_of(const struct layer *layers, int n, enum loss_kind loss, enum eo_dtype dtype,
                                    const int64_t *row, int n_row)
{
    struct model m = {.layers = layers, .n_layers = n, .loss = loss, .dtype = dtype};

    m.input.dtype = (uint8_t)dtype;
    m.input.n_dims = (uint8_t)(n_row + 1);
    for (int i = 0; i < n_row; i++) {
        m.input.shape[1 + i] = row[i];
    }
    return m;
}

#endif
