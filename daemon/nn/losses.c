/* The losses: for each row of losses.def what its targets look like and its per-row value as graph nodes. */
#include "daemon/nn/layer.h"

#include <string.h>

/* ---- facts of rows ---- */

static const struct {
    const char *name, *summary;
} rows[LOSS_COUNT] = {
#define LOSS(name_, NAME, summary_, ...) [LOSS_##NAME] = {.name = #name_, .summary = (summary_)},
#include "daemon/nn/losses.def"
};

const char *loss_name(enum loss_kind kind)
{
    return (int)kind >= 0 && kind < LOSS_COUNT ? rows[kind].name : "?";
}

const char *loss_summary(enum loss_kind kind)
{
    return (int)kind >= 0 && kind < LOSS_COUNT ? rows[kind].summary : "";
}

int loss_find(const char *name)
{
    for (int i = 0; i < LOSS_COUNT; i++) {
        if (strcmp(rows[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}

/* ---- targets ---- */

static int targets_LIKE_OUTPUT(const struct model *m, struct eo_tensor_desc *out, struct eo_error *err)
{
    EO_UNUSED(err);
    *out = m->output;
    return EO_OK;
}

static int targets_CLASSES(const struct model *m, struct eo_tensor_desc *out, struct eo_error *err)
{
    char row[160];

    if (m->output.n_dims != 2 || m->output.shape[1] < 2) {
        EO_RAISE(err, EO_E_BAD_SPEC,
                 "loss %s takes rows of at least 2 logits, but the model's output rows have shape %s",
                 rows[m->loss].name, layer_row_text(&m->output, row, sizeof(row)));
        eo_error_hint(err, "End the model with `linear: {..., out: CLASSES}`; for two classes and one output, "
                           "bce_with_logits is the loss.");
        return EO_E_BAD_SPEC;
    }
    *out = (struct eo_tensor_desc){.dtype = EO_INT64, .n_dims = 1, .shape = {m->output.shape[0]}};
    return EO_OK;
}

int model_target_desc(const struct model *m, struct eo_tensor_desc *out, struct eo_error *err)
{
    switch (m->loss) {
#define LOSS(name, NAME, summary, targets, ...)                                                                        \
    case LOSS_##NAME:                                                                                                  \
        return targets_##targets(m, out, err);
#include "daemon/nn/losses.def"
    case LOSS_COUNT:
        break;
    }
    return EO_BUG(err, "loss %d has no row", (int)m->loss);
}

/* ---- values: (N, ...) -> (N) ---- */

/* Mean over everything but the batch dimension. */
static eo_value row_mean(struct eo_builder *b, eo_value x)
{
    int64_t axes[EO_MAX_DIMS] = {1, 2, 3, 4, 5, 6, 7};
    int n_dims = eo_build_desc(b, x)->n_dims;

    return n_dims <= 1 ? x : eo_build_reduce(b, EO_OP_MEAN, x, axes, n_dims - 1, false);
}

/* Each element's loss by a row of ops.def, then their mean. */
static eo_value element_losses(struct eo_builder *b, enum eo_op op, eo_value output, eo_value targets)
{
    const struct eo_op_schema *row = eo_op_schema(op);
    struct eo_attrs attrs;

    eo_attrs_default(row, &attrs);
    if (b->status == EO_OK) {
        b->status = eo_attrs_set_text(row, &attrs, "reduction", "none", b->err);
    }
    return row_mean(b, eo_build_op(b, op, (eo_value[]){output, targets}, 2, &attrs));
}

static eo_value loss_build_mse(struct eo_builder *b, eo_value output, eo_value targets)
{
    return element_losses(b, EO_OP_MSE_LOSS, output, targets);
}

static eo_value loss_build_bce_with_logits(struct eo_builder *b, eo_value output, eo_value targets)
{
    return element_losses(b, EO_OP_BCE_WITH_LOGITS_LOSS, output, targets);
}

static eo_value loss_build_cross_entropy(struct eo_builder *b, eo_value output, eo_value targets)
{
    return eo_build_binary(b, EO_OP_CROSS_ENTROPY, output, targets);
}

eo_value model_losses(const struct model *m, struct eo_builder *b, eo_value output, eo_value targets)
{
    const char *outer = b->graph->label;
    eo_value losses = EO_NO_VALUE;

    b->graph->label = rows[m->loss].name;
    switch (m->loss) {
#define LOSS(name, NAME, ...)                                                                                          \
    case LOSS_##NAME:                                                                                                  \
        losses = loss_build_##name(b, output, targets);                                                                \
        break;
#include "daemon/nn/losses.def"
    case LOSS_COUNT:
        break;
    }
    b->graph->label = outer;
    return losses;
}
