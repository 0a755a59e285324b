/* Lowering of einsum: operands are multiplied from left to right; each pair becomes one batched matrix product, or an
 * element-wise one where no index is summed. An index is summed as soon as nothing behind needs it. */
#include "proto/einsum.h"
#include "daemon/engine/lower/rules.h"

/* A value whose dimensions have labels, all different after `tidy`. */
struct term {
    eo_value v;
    int n;
    uint8_t label[EO_MAX_DIMS];
};

struct work {
    struct eo_builder *b;
    struct eo_einsum e;
};

/* Labels in an order, and the product of their sizes. */
struct group {
    int n;
    uint8_t label[EO_MAX_DIMS];
    int64_t count;
};

static bool has(uint64_t set, int label)
{
    return (set >> label & 1) != 0;
}

static uint64_t labels_of(const struct term *t)
{
    uint64_t set = 0;

    for (int d = 0; d < t->n; d++) {
        set |= (uint64_t)1 << t->label[d];
    }
    return set;
}

/* Dimensions of t in the order of perm. */
static void permute(struct work *w, struct term *t, const int64_t *perm)
{
    struct term old = *t;
    bool moves = false;

    for (int d = 0; d < t->n; d++) {
        t->label[d] = old.label[perm[d]];
        moves |= perm[d] != d;
    }
    t->v = moves ? eo_build_transpose(w->b, t->v, perm, t->n) : t->v;
}

/* ---- one operand ---- */

/* Drops the dimensions of 1 that others repeat. */
static void drop_repeated(struct work *w, struct term *t)
{
    struct eo_tensor_desc d = lower_desc(w->b, t->v);
    int64_t shape[EO_MAX_DIMS];
    int n = 0;

    for (int i = 0; i < d.n_dims; i++) {
        if (d.shape[i] == w->e.size[t->label[i]]) {
            t->label[n] = t->label[i];
            shape[n++] = d.shape[i];
        }
    }
    t->v = n < d.n_dims ? eo_build_reshape(w->b, t->v, shape, n) : t->v;
    t->n = n;
}

/* Dimensions i < j (n, n) of one label become their diagonal: moved behind the others, laid out as one of n n elements,
 * of which every (n + 1)th is taken. */
static void take_diagonal(struct work *w, struct term *t, int i, int j)
{
    int64_t perm[EO_MAX_DIMS], shape[EO_MAX_DIMS], starts[EO_MAX_DIMS] = {0}, steps[EO_MAX_DIMS];
    int64_t size = w->e.size[t->label[i]];
    const struct eo_op_schema *slice = eo_op_schema(EO_OP_SLICE);
    struct eo_attrs attrs;
    int n = 0;

    for (int d = 0; d < t->n; d++) {
        if (d != i && d != j) {
            perm[n++] = d;
        }
    }
    perm[n] = i;
    perm[n + 1] = j;
    permute(w, t, perm);
    for (int d = 0; d < n; d++) {
        shape[d] = w->e.size[t->label[d]];
        steps[d] = 1;
    }
    shape[n] = size * size; /* elements of a tensor that is there: fits */
    steps[n] = size + 1;
    t->n = n + 1;
    t->v = eo_build_reshape(w->b, t->v, shape, t->n);
    eo_attrs_default(slice, &attrs);
    if (w->b->status == EO_OK && (eo_attrs_set_ints(slice, &attrs, "starts", starts, t->n, w->b->err) != EO_OK ||
                                  eo_attrs_set_ints(slice, &attrs, "stops", shape, t->n, w->b->err) != EO_OK ||
                                  eo_attrs_set_ints(slice, &attrs, "steps", steps, t->n, w->b->err) != EO_OK)) {
        w->b->status = EO_E_BAD_ATTRIBUTE;
    }
    t->v = eo_build_op(w->b, EO_OP_SLICE, &t->v, 1, &attrs);
}

static bool find_pair(const struct term *t, int *out_i, int *out_j)
{
    for (int j = 1; j < t->n; j++) {
        for (int i = 0; i < j; i++) {
            if (t->label[i] == t->label[j]) {
                *out_i = i;
                *out_j = j;
                return true;
            }
        }
    }
    return false;
}

/* Sums the dimensions that are not in keep. */
static void sum_others(struct work *w, struct term *t, uint64_t keep)
{
    int64_t axes[EO_MAX_DIMS];
    int n_axes = 0, n = 0;

    for (int d = 0; d < t->n; d++) {
        if (has(keep, t->label[d])) {
            t->label[n++] = t->label[d];
        } else {
            axes[n_axes++] = d;
        }
    }
    t->v = n_axes > 0 ? eo_build_reduce(w->b, EO_OP_SUM, t->v, axes, n_axes, false) : t->v;
    t->n = n;
}

/* An operand with each label once, without those that nothing else has and the result does not need. */
static struct term tidy(struct work *w, eo_value v, int operand, uint64_t keep)
{
    struct term t = {.v = v, .n = lower_desc(w->b, v).n_dims};
    int i, j;

    for (int d = 0; d < t.n; d++) {
        t.label[d] = w->e.label[operand][d];
    }
    drop_repeated(w, &t);
    while (w->b->status == EO_OK && find_pair(&t, &i, &j)) {
        take_diagonal(w, &t, i, j);
    }
    sum_others(w, &t, keep);
    return t;
}

/* ---- two operands ---- */

static struct group group_of(const struct work *w, const struct term *t, uint64_t set)
{
    struct group g = {.count = 1};

    for (int d = 0; d < t->n; d++) {
        if (has(set, t->label[d])) {
            g.label[g.n++] = t->label[d];
            g.count *= w->e.size[t->label[d]];
        }
    }
    return g;
}

/* Moves the dimensions of t into the order of the groups. */
static void arrange(struct work *w, struct term *t, const struct group *const *groups, int n_groups)
{
    int64_t perm[EO_MAX_DIMS];
    int n = 0;

    for (int g = 0; g < n_groups; g++) {
        for (int k = 0; k < groups[g]->n; k++) {
            for (int d = 0; d < t->n; d++) {
                if (t->label[d] == groups[g]->label[k]) {
                    perm[n++] = d;
                }
            }
        }
    }
    permute(w, t, perm);
}

static int push_sizes(const struct work *w, const struct group *g, bool ones, int64_t *shape, int n)
{
    for (int k = 0; k < g->n; k++) {
        shape[n++] = ones ? 1 : w->e.size[g->label[k]];
    }
    return n;
}

/* One side of an element-wise product: (batch, left, right) with ones where it has no dimension. */
static eo_value spread(struct work *w, struct term *t, const struct group *const groups[3], int absent)
{
    int64_t shape[EO_MAX_DIMS];
    int n = 0;

    arrange(w, t, groups, 3);
    for (int g = 0; g < 3; g++) {
        n = push_sizes(w, groups[g], g == absent, shape, n);
    }
    return eo_build_reshape(w->b, t->v, shape, n);
}

/* One side of a matrix product as (batch, rows, columns). Where the dimensions lie in the other order already, they
 * stay and *out_transposed is set. */
static eo_value matrix(struct work *w, struct term *t, const struct group *batch, const struct group *rows,
                       const struct group *columns, bool *out_transposed)
{
    bool rows_last = rows->n > 0 && columns->n > 0 && t->label[t->n - 1] == rows->label[rows->n - 1];
    const struct group *const order[3] = {batch, rows_last ? columns : rows, rows_last ? rows : columns};

    arrange(w, t, order, 3);
    *out_transposed = rows_last;
    return eo_build_reshape(w->b, t->v, (int64_t[]){batch->count, order[1]->count, order[2]->count}, 3);
}

/* The product of a and b with the labels of keep: (batch, left, right). */
static struct term multiply(struct work *w, struct term a, struct term b, uint64_t keep)
{
    uint64_t in_a = labels_of(&a), in_b = labels_of(&b);
    struct group batch = group_of(w, &a, in_b & keep), summed = group_of(w, &a, in_b & ~keep);
    struct group left = group_of(w, &a, ~in_b), right = group_of(w, &b, ~in_a);
    const struct group *const result[3] = {&batch, &left, &right};
    struct term out = {.n = 0};
    int64_t shape[EO_MAX_DIMS];
    bool transpose_a, transpose_b;
    int n = 0;

    for (int g = 0; g < 3; g++) {
        for (int k = 0; k < result[g]->n; k++) {
            out.label[out.n++] = result[g]->label[k];
        }
        n = push_sizes(w, result[g], false, shape, n);
    }
    if (summed.n == 0) {
        eo_value x = spread(w, &a, result, 2), y = spread(w, &b, result, 1);

        out.v = eo_build_binary(w->b, EO_OP_MULTIPLY, x, y);
    } else {
        eo_value x = matrix(w, &a, &batch, &left, &summed, &transpose_a);
        eo_value y = matrix(w, &b, &batch, &summed, &right, &transpose_b);

        out.v = eo_build_reshape(w->b, eo_build_matmul(w->b, x, y, transpose_a, transpose_b), shape, n);
    }
    return out;
}

void lower_einsum(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    struct eo_tensor_desc descs[EO_EINSUM_OPERANDS];
    const struct eo_tensor_desc *in[EO_EINSUM_OPERANDS] = {NULL};
    int n = (int)node->n_inputs;
    struct work w = {.b = b};
    struct term t = {.n = 0};
    struct group result;

    for (int i = 0; i < n; i++) {
        descs[i] = lower_desc(b, node->inputs[i]);
        in[i] = &descs[i];
    }
    b->status = eo_einsum_read(node->op, in, n, node->attrs, &w.e, b->err);
    for (int i = 0; b->status == EO_OK && i < n; i++) {
        /* Products of products keep their bits in float32. */
        eo_value v = n > 2 ? lower_widen(b, node->inputs[i]) : node->inputs[i];
        struct term next = tidy(&w, v, i, w.e.needed[i] | (i > 0 ? labels_of(&t) : 0));

        t = i == 0 ? next : multiply(&w, t, next, w.e.needed[i]);
    }
    out[0] = EO_NO_VALUE;
    if (b->status != EO_OK) {
        return;
    }
    result = (struct group){.n = w.e.n_out};
    for (int k = 0; k < w.e.n_out; k++) {
        result.label[k] = w.e.out[k];
    }
    arrange(&w, &t, (const struct group *const[]){&result}, 1);
    out[0] = lower_narrow(b, t.v, node->inputs[0]);
}
