/* Lowerings of tensors of one value. */
#include "daemon/engine/lower/rules.h"

static void filled(struct eo_builder *b, const struct eo_graph_node *node, double value, eo_value *out)
{
    int n;
    const int64_t *shape = lower_ints(node, "shape", &n);

    out[0] = eo_build_full(b, (enum eo_dtype)lower_int(node, "dtype"), shape, n, value);
}

void lower_zeros(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    filled(b, node, 0, out);
}

void lower_ones(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    filled(b, node, 1, out);
}
