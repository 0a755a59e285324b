/* Lowerings of rows that choose elements by masks and lengths. */
#include "daemon/engine/lower/rules.h"
#include "proto/shape_rules.h"

void lower_masked_fill(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    eo_value value = eo_build_scalar_like(b, node->inputs[0], lower_float(node, "value"));

    out[0] = eo_build_where(b, node->inputs[1], value, node->inputs[0]);
}

/* Element (i, j) is kept when j - i >= k (upper) or j - i <= k (lower). */
void lower_trilu(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    struct eo_tensor_desc x = lower_desc(b, node->inputs[0]);
    int64_t rows = x.shape[x.n_dims - 2], columns = x.shape[x.n_dims - 1], k = lower_int(node, "k");
    eo_value i, j, keep;

    k = EO_MAX(EO_MIN(k, columns), -rows);
    i = eo_build_reshape(b, lower_iota(b, rows), (const int64_t[]){rows, 1}, 2);
    i = eo_build_binary(b, EO_OP_ADD, i, eo_build_scalar(b, EO_INT64, (double)k));
    j = lower_iota(b, columns);
    keep = eo_build_binary(b, lower_int(node, "upper") != 0 ? EO_OP_GREATER_EQUAL : EO_OP_LESS_EQUAL, j, i);
    out[0] = eo_build_where(b, keep, node->inputs[0], eo_build_scalar_like(b, node->inputs[0], 0));
}

/* (B, T, ...) from x, taken at step lengths - 1 - t where t < lengths, else at t. */
void lower_reverse_sequence(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    struct eo_tensor_desc x = lower_desc(b, node->inputs[0]);
    int64_t batch = lower_int(node, "batch_axis"), time = lower_int(node, "time_axis");
    int64_t perm[EO_MAX_DIMS], back[EO_MAX_DIMS], steps;
    eo_value t, lengths, mirrored, at;
    int n = 2;

    batch += batch < 0 ? x.n_dims : 0;
    time += time < 0 ? x.n_dims : 0;
    perm[0] = batch;
    perm[1] = time;
    for (int d = 0; d < x.n_dims; d++) {
        if (d != batch && d != time) {
            perm[n++] = d;
        }
    }
    for (int d = 0; d < x.n_dims; d++) {
        back[perm[d]] = d;
    }
    steps = x.shape[time];
    t = lower_iota(b, steps);
    lengths = eo_build_reshape(b, node->inputs[1], (const int64_t[]){x.shape[batch], 1}, 2);
    mirrored = eo_build_binary(b, EO_OP_SUBTRACT, eo_build_binary(b, EO_OP_SUBTRACT, lengths, t),
                               eo_build_scalar(b, EO_INT64, 1));
    at = eo_build_where(b, eo_build_binary(b, EO_OP_LESS, t, lengths), mirrored, t);
    at = eo_build_reshape(b, at, (const int64_t[]){x.shape[batch], steps, 1}, 3);
    out[0] =
        lower_with_int(b, EO_OP_GATHER_ND, (eo_value[]){eo_build_transpose(b, node->inputs[0], perm, x.n_dims), at}, 2,
                       "batch_dims", 1);
    out[0] = eo_build_transpose(b, out[0], back, x.n_dims);
}
