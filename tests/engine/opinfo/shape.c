/* Functions that move elements or select them by index. */
#include "tests/engine/opinfo/sample.h"

#include <string.h>

static eo_value slice(struct sample *s, eo_value x, int64_t dim, int64_t start, int64_t stop, int64_t step)
{
    struct eo_tensor_desc d = sample_desc(s, x);
    int64_t starts[EO_MAX_DIMS] = {0}, steps[EO_MAX_DIMS] = {1, 1, 1, 1, 1, 1, 1, 1};
    char text[3][160];

    dim += dim < 0 ? d.n_dims : 0;
    starts[dim] = start;
    d.shape[dim] = stop;
    steps[dim] = step;
    return sample_row(s, EO_OP_SLICE, &x, 1, "starts=%s stops=%s steps=%s",
                      sample_list(starts, d.n_dims, text[0], sizeof(text[0])),
                      sample_list(d.shape, d.n_dims, text[1], sizeof(text[1])),
                      sample_list(steps, d.n_dims, text[2], sizeof(text[2])));
}

static eo_value emit_regroup(struct sample *s, enum eo_op op)
{
    EO_UNUSED(op);
    return sample_like_result(s, sample_input(s));
}

static eo_value emit_permute(struct sample *s, enum eo_op op)
{
    int64_t perm[EO_MAX_DIMS];
    int n = sample_ints(sample_arg(s, 0), sample_desc(s, sample_input(s)).n_dims, perm);

    EO_UNUSED(op);
    for (int i = 0; i < n; i++) {
        perm[i] += perm[i] < 0 ? n : 0;
    }
    return eo_build_transpose(&s->b, sample_input(s), perm, n);
}

static eo_value emit_swap(struct sample *s, enum eo_op op)
{
    int64_t perm[EO_MAX_DIMS] = {0, 1, 2, 3, 4, 5, 6, 7}, i = sample_arg_int(s, 0), j = sample_arg_int(s, 1);
    int n = sample_desc(s, sample_input(s)).n_dims;

    EO_UNUSED(op);
    i += i < 0 ? n : 0;
    j += j < 0 ? n : 0;
    perm[i] = j;
    perm[j] = i;
    return eo_build_transpose(&s->b, sample_input(s), perm, n);
}

static eo_value emit_expand(struct sample *s, enum eo_op op)
{
    int64_t shape[EO_MAX_DIMS];
    int n = sample_result_shape(s, shape);

    EO_UNUSED(op);
    return eo_build_expand(&s->b, sample_input(s), shape, n);
}

static eo_value emit_narrow(struct sample *s, enum eo_op op)
{
    const json_t *start = sample_arg(s, 1);
    int64_t first = json_integer_value(start);

    EO_UNUSED(op);
    if (!json_is_integer(start)) { /* a tensor, whose value the sample knows */
        first = json_integer_value(json_array_get(json_object_get(json_object_get(start, "tensor"), "data"), 0));
    }
    return slice(s, sample_input(s), sample_arg_int(s, 0), first, first + sample_arg_int(s, 2), 1);
}

static eo_value emit_select(struct sample *s, enum eo_op op)
{
    int64_t dim = sample_arg_int(s, 0), i = sample_arg_int(s, 1);
    struct eo_tensor_desc d = sample_desc(s, sample_input(s));

    EO_UNUSED(op);
    i += i < 0 ? d.shape[dim < 0 ? dim + d.n_dims : dim] : 0;
    return sample_like_result(s, slice(s, sample_input(s), dim, i, i + 1, 1));
}

static eo_value emit_flip(struct sample *s, enum eo_op op)
{
    int64_t dims[EO_MAX_DIMS];
    int n = (int)json_array_size(sample_kwarg(s, "dims"));
    eo_value x = sample_input(s);
    char text[96];

    if (n == 0) { /* none of them; a row's empty list is all */
        return sample_like_result(s, x);
    }
    (void)sample_ints(sample_kwarg(s, "dims"), n, dims);
    return sample_row(s, op, &x, 1, "axes=%s", sample_list(dims, n, text, sizeof(text)));
}

/* x[start:] */
static eo_value emit_slice(struct sample *s, enum eo_op op)
{
    EO_UNUSED(op);
    return slice(s, sample_input(s), 0, sample_arg_int(s, 0), sample_desc(s, sample_input(s)).shape[0], 1);
}

static eo_value emit_diag(struct sample *s, enum eo_op op)
{
    eo_value x = sample_input(s);

    return sample_row(s, op, &x, 1, "offset=%d", (int)sample_arg_int(s, 0));
}

static eo_value emit_cat(struct sample *s, enum eo_op op)
{
    return sample_row(s, op, s->value, s->n_tensors, "axis=%d", (int)json_integer_value(sample_kwarg(s, "dim")));
}

static eo_value emit_stack(struct sample *s, enum eo_op op)
{
    return sample_row(s, op, s->value, s->n_tensors, "axis=%d", (int)sample_arg_int(s, 0));
}

static eo_value emit_unsqueeze(struct sample *s, enum eo_op op)
{
    eo_value x = sample_input(s);

    return sample_row(s, op, &x, 1, "axes=%d", (int)sample_arg_int(s, 0));
}

/* PyTorch leaves a dimension that has not size 1. */
static eo_value emit_squeeze(struct sample *s, enum eo_op op)
{
    eo_value x = sample_input(s);
    struct eo_tensor_desc d = sample_desc(s, x);
    int64_t dim = sample_arg_int(s, 0);

    if (sample_arg(s, 0) == NULL) {
        return sample_row(s, op, &x, 1, "axes=");
    }
    return d.shape[dim < 0 ? dim + d.n_dims : dim] == 1 ? sample_row(s, op, &x, 1, "axes=%d", (int)dim) : x;
}

/* Parts of one size, or of the sizes given; PyTorch's arguments are (sizes, dim). */
static eo_value emit_split(struct sample *s, enum eo_op op)
{
    struct eo_tensor_desc d = sample_desc(s, sample_input(s));
    int64_t dim = sample_arg(s, 1) != NULL ? sample_arg_int(s, 1) : 0, sizes[EO_MAX_DIMS], first = 0;
    eo_value x = sample_input(s), parts;
    char text[96];
    int n = 0;

    for (; first < d.shape[dim]; n++) {
        const json_t *size =
            json_is_integer(sample_arg(s, 0)) ? sample_arg(s, 0) : json_array_get(sample_arg(s, 0), (size_t)n);

        sizes[n] = EO_MIN(json_integer_value(size), d.shape[dim] - first);
        first += sizes[n];
    }
    parts = sample_row(s, op, &x, 1, "axis=%d sizes=%s", (int)dim, sample_list(sizes, n, text, sizeof(text)));
    for (int i = 1; i < n; i++) {
        sample_also(s, parts + (eo_value)i);
    }
    return parts;
}

/* ---- around and over ---- */

/* PyTorch's pads are pairs, the last dimension first. */
static eo_value emit_pad(struct sample *s, enum eo_op op)
{
    static const struct {
        const char *theirs, *ours;
    } modes[] = {{"constant", "constant"}, {"reflect", "reflect"}, {"replicate", "edge"}, {"circular", "wrap"}};
    const char *mode = json_is_string(sample_arg(s, 1)) ? json_string_value(sample_arg(s, 1)) : "constant";
    int64_t pairs[2 * EO_MAX_DIMS], pads[2 * EO_MAX_DIMS] = {0};
    int rank = sample_desc(s, sample_input(s)).n_dims, n = (int)json_array_size(sample_arg(s, 0)) / 2, m = 0;
    eo_value x = sample_input(s);
    char text[160];

    (void)sample_ints(sample_arg(s, 0), 1, pairs);
    for (int i = 0; i < n; i++) {
        pads[rank - 1 - i] = pairs[2 * i];
        pads[2 * rank - 1 - i] = pairs[2 * i + 1];
    }
    while (strcmp(modes[m].theirs, mode) != 0) {
        ck_assert_int_lt(++m, (int)EO_COUNT_OF(modes));
    }
    return sample_row(s, op, &x, 1, "pads=%s mode=%s value=%.17g", sample_list(pads, 2 * rank, text, sizeof(text)),
                      modes[m].ours, sample_arg(s, 2) != NULL ? sample_number(sample_arg(s, 2)) : 0);
}

static eo_value emit_tile(struct sample *s, enum eo_op op)
{
    int64_t repeats[EO_MAX_DIMS];
    int n = sample_ints(sample_arg(s, 0), 1, repeats);
    eo_value x = sample_input(s);
    char text[96];

    n = json_array_size(sample_arg(s, 0)) == 0 ? 0 : n;
    return sample_row(s, op, &x, 1, "repeats=%s", sample_list(repeats, n, text, sizeof(text)));
}

static eo_value emit_roll(struct sample *s, enum eo_op op)
{
    eo_value x = sample_input(s);

    return sample_row(s, op, &x, 1, "shifts=%d axes=%d", (int)sample_arg_int(s, 0), (int)sample_arg_int(s, 1));
}

static eo_value emit_triangle(struct sample *s, enum eo_op op)
{
    eo_value x = sample_input(s);

    return sample_row(s, op, &x, 1, "upper=%d k=%d",
                      strcmp(json_string_value(json_object_get(s->root, "op")), "triu") == 0,
                      (int)sample_arg_int(s, 0));
}

/* ---- by index ---- */

static eo_value emit_index_select(struct sample *s, enum eo_op op)
{
    eo_value in[2] = {sample_vector(s, sample_input(s)), sample_arg_tensor(s, 1)};

    return sample_like_result(s, sample_row(s, op, in, 2, "axis=%d", (int)sample_arg_int(s, 0)));
}

/* gather and scatter_add of PyTorch read the leading part of x that the indices cover. */
static eo_value covered(struct sample *s, eo_value x, eo_value indices, int64_t axis)
{
    struct eo_tensor_desc d = sample_desc(s, x), i = sample_desc(s, indices);

    for (int64_t k = 0; k < d.n_dims; k++) {
        if (k != axis && i.shape[k] < d.shape[k]) {
            x = slice(s, x, k, 0, i.shape[k], 1);
        }
    }
    return x;
}

static eo_value emit_gather(struct sample *s, enum eo_op op)
{
    eo_value x = sample_vector(s, sample_input(s)), in[2] = {x, sample_vector(s, sample_arg_tensor(s, 1))};
    int64_t axis = sample_arg_int(s, 0);

    in[0] = covered(s, x, in[1], axis < 0 ? axis + sample_desc(s, x).n_dims : axis);
    return sample_like_result(s, sample_row(s, op, in, 2, "axis=%d", (int)axis));
}

static eo_value emit_scatter_add(struct sample *s, enum eo_op op)
{
    eo_value in[3] = {sample_vector(s, sample_input(s)), sample_vector(s, sample_arg_tensor(s, 1)),
                      sample_vector(s, sample_arg_tensor(s, 2))};

    return sample_like_result(s, sample_row(s, op, in, 3, "axis=%d reduction=add", (int)sample_arg_int(s, 0)));
}

/* Row `at` of the table as a constant: a value without gradient. */
static eo_value held_row(struct sample *s, int64_t at)
{
    static struct eo_error err;
    struct eo_tensor_desc table = sample_desc(s, sample_input(s));
    struct eo_tensor_desc row = {.dtype = EO_FLOAT64, .n_dims = 1, .shape = {table.shape[1]}};
    eo_value out;

    ASSERT_OK(eo_graph_constant(s->g, &row, (const double *)s->data[0] + at * table.shape[1], &out, &err));
    return out;
}

/* The padding's row is read, but gets no gradient. */
static eo_value emit_embedding(struct sample *s, enum eo_op op)
{
    eo_value in[2] = {sample_input(s), sample_arg_tensor(s, 0)}, rows = sample_row(s, op, in, 2, "axis=0"), padded;
    int64_t at = (int64_t)sample_kwarg_number(s, "padding_idx", 0);
    struct eo_tensor_desc d = sample_desc(s, rows);

    if (sample_kwarg(s, "max_norm") != NULL) {
        return sample_leave_out(s, "max_norm changes the table itself, which the gradient does not see");
    }
    if (sample_kwarg(s, "padding_idx") == NULL) {
        return rows;
    }
    at += at < 0 ? sample_desc(s, in[0]).shape[0] : 0;
    padded = sample_two(s, EO_OP_EQUAL, in[1], eo_build_scalar(&s->b, EO_INT64, (double)at));
    d.shape[d.n_dims - 1] = 1;
    return eo_build_where(&s->b, eo_build_reshape(&s->b, padded, d.shape, d.n_dims), held_row(s, at), rows);
}

const struct function opinfo_shape[] = {
    {"reshape", NULL, emit_regroup, EO_OP_RESHAPE},
    {"squeeze", NULL, emit_squeeze, EO_OP_SQUEEZE},
    {"unsqueeze", NULL, emit_unsqueeze, EO_OP_UNSQUEEZE},
    {"permute", NULL, emit_permute, EO_OP_TRANSPOSE},
    {"transpose", NULL, emit_swap, EO_OP_TRANSPOSE},
    {"expand", NULL, emit_expand, EO_OP_EXPAND},
    {"narrow", NULL, emit_narrow, EO_OP_SLICE},
    {"select", NULL, emit_select, EO_OP_SLICE},
    {"flip", NULL, emit_flip, EO_OP_REVERSE},
    {"slice", NULL, emit_slice, EO_OP_SLICE},
    {"diag", NULL, emit_diag, EO_OP_DIAGONAL},
    {"split", NULL, emit_split, EO_OP_SPLIT},
    {"cat", NULL, emit_cat, EO_OP_CONCATENATE},
    {"stack", NULL, emit_stack, EO_OP_STACK},
    {"nn.functional.pad", NULL, emit_pad, EO_OP_PAD},
    {"repeat", NULL, emit_tile, EO_OP_TILE},
    {"tile", NULL, emit_tile, EO_OP_TILE},
    {"roll", NULL, emit_roll, EO_OP_ROLL},
    {"tril", NULL, emit_triangle, EO_OP_TRILU},
    {"triu", NULL, emit_triangle, EO_OP_TRILU},
    {"gather", NULL, emit_gather, EO_OP_GATHER_ELEMENTS},
    {"scatter_add", NULL, emit_scatter_add, EO_OP_SCATTER_ELEMENTS},
    {"index_select", NULL, emit_index_select, EO_OP_GATHER},
    {"nn.functional.embedding", NULL, emit_embedding, EO_OP_GATHER},
    {NULL, NULL, NULL, EO_OP_NONE},
};
