/* Lowerings of rnn, lstm and gru. One product gives the input's share of all gates of all steps; then each step adds
 * its state's product. Formulas and gate orders are ONNX's (operators RNN, LSTM, GRU of opset 14).
 *
 * Sequences of different lengths run through all steps alike: where a step does not count, the state stays and y is 0.
 * So the reverse direction needs no reordering: steps after the end come first and leave the initial state as it is. */
#include "daemon/engine/lower/rules.h"

#include <stdlib.h>
#include <string.h>

enum { X, W, R, BIAS, LENGTHS, INITIAL_H, INITIAL_C, PEEPHOLES };
enum { FORWARD, REVERSE, BIDIRECTIONAL };
enum { TIME_FIRST, BATCH_FIRST };
enum { MAX_GATES = 4, MAX_STATES = 2, MAX_JOINED = 64, RADIX = EO_MAX_OUTPUTS };

/* One direction of one call. All values are float32 or float64; matrices have rank 2. */
struct sweep {
    struct eo_builder *b;
    const struct eo_graph_node *node;
    int64_t steps, batch, hidden; /* T, B, H */
    int gates;
    double clip;
    bool reset_last;   /* gru with linear_before_reset */
    eo_value r;        /* (G H, H) */
    eo_value r_cut[2]; /* gru without reset_last: the first two gates of r, and the last */
    eo_value bias_n;   /* reset_last: r's bias of the last gate, (H), EO_NO_VALUE = 0 */
    eo_value peep[3];  /* lstm: of i, o, f, (H) each; EO_NO_VALUE without */
    eo_value lengths;  /* (B, 1), EO_NO_VALUE = all steps count */
    eo_value zero, one;
    eo_value *shares;           /* per step: x w + b, (B, G H) */
    eo_value *results;          /* per step: what y holds, (B, H) */
    eo_value state[MAX_STATES]; /* h and c, (B, H) */
};

/* The step: from the input's share and the states in s to the new states. */
typedef void (*cell_fn)(struct sweep *s, eo_value share, eo_value *out_state);

static eo_value binary(struct sweep *s, enum eo_op op, eo_value x, eo_value y)
{
    return eo_build_binary(s->b, op, x, y);
}

static eo_value add(struct sweep *s, eo_value x, eo_value y)
{
    return eo_build_binary(s->b, EO_OP_ADD, x, y);
}

static eo_value times(struct sweep *s, eo_value x, eo_value y)
{
    return eo_build_binary(s->b, EO_OP_MULTIPLY, x, y);
}

/* An activation of what was limited by clip. */
static eo_value activate(struct sweep *s, enum eo_op op, eo_value x)
{
    return eo_build_unary(s->b, op, s->clip > 0 ? lower_clip(s->b, x, s->clip) : x);
}

/* By the row, whose gradient is one concatenation. */
static void cut(struct sweep *s, eo_value x, int axis, const int64_t *sizes, int n, eo_value *out)
{
    const struct eo_op_schema *op = eo_op_schema(EO_OP_SPLIT);
    struct eo_attrs attrs;

    eo_attrs_default(op, &attrs);
    if (s->b->status == EO_OK) {
        s->b->status = eo_attrs_set_ints(op, &attrs, "sizes", sizes, n, s->b->err);
    }
    if (s->b->status == EO_OK) {
        s->b->status = eo_attrs_set_int(op, &attrs, "axis", axis, s->b->err);
    }
    out[0] = eo_build_op(s->b, EO_OP_SPLIT, &x, 1, &attrs);
    for (int i = 1; i < n; i++) { /* outputs of a node are numbered on */
        out[i] = out[0] == EO_NO_VALUE ? EO_NO_VALUE : out[0] + (eo_value)i;
    }
}

/* 1 - x */
static eo_value rest(struct sweep *s, eo_value x)
{
    return binary(s, EO_OP_SUBTRACT, s->one, x);
}

/* (B, G H) as G parts of (B, H). */
static void cut_gates(struct sweep *s, eo_value x, eo_value *out)
{
    const int64_t sizes[MAX_GATES] = {s->hidden, s->hidden, s->hidden, s->hidden};

    cut(s, x, 1, sizes, s->gates, out);
}

/* ---- cells ---- */

static void rnn_cell(struct sweep *s, eo_value share, eo_value *out_state)
{
    enum { TANH, RELU };
    eo_value sum = add(s, share, eo_build_matmul(s->b, s->state[0], s->r, false, true));

    out_state[0] = activate(s, lower_int(s->node, "activation") == RELU ? EO_OP_RELU : EO_OP_TANH, sum);
}

/* The gate's sum with the peephole's part of the cell. */
static eo_value peeped(struct sweep *s, eo_value sum, int which, eo_value cell)
{
    return s->peep[which] == EO_NO_VALUE ? sum : add(s, sum, times(s, s->peep[which], cell));
}

static void lstm_cell(struct sweep *s, eo_value share, eo_value *out_state)
{
    enum { IN, OUT, FORGET, CELL };
    eo_value c = s->state[1], gates[MAX_GATES], in, forget, out;

    cut_gates(s, add(s, share, eo_build_matmul(s->b, s->state[0], s->r, false, true)), gates);
    in = activate(s, EO_OP_SIGMOID, peeped(s, gates[IN], IN, c));
    forget = lower_int(s->node, "input_forget") != 0 ? rest(s, in)
                                                     : activate(s, EO_OP_SIGMOID, peeped(s, gates[FORGET], FORGET, c));
    c = add(s, times(s, forget, c), times(s, in, activate(s, EO_OP_TANH, gates[CELL])));
    out = activate(s, EO_OP_SIGMOID, peeped(s, gates[OUT], OUT, c));
    out_state[0] = times(s, out, activate(s, EO_OP_TANH, c));
    out_state[1] = c;
}

/* (B, 3 H) or (3 H, H) as its first two gates and the last. */
static void cut_last(struct sweep *s, eo_value x, int axis, eo_value *out)
{
    cut(s, x, axis, (int64_t[]){2 * s->hidden, s->hidden}, 2, out);
}

/* The last gate's share of h when the reset comes last: r (h R + b), else (r h) R. */
static eo_value reset(struct sweep *s, eo_value r, eo_value product)
{
    if (!s->reset_last) {
        return eo_build_matmul(s->b, times(s, r, s->state[0]), s->r_cut[1], false, true);
    }
    return times(s, r, s->bias_n == EO_NO_VALUE ? product : add(s, product, s->bias_n));
}

static void gru_cell(struct sweep *s, eo_value share, eo_value *out_state)
{
    enum { Z, RESET };
    const int64_t halves[2] = {s->hidden, s->hidden};
    eo_value h = s->state[0], of_x[2], of_h[2] = {EO_NO_VALUE, EO_NO_VALUE}, gates[2], n;

    cut_last(s, share, 1, of_x);
    if (s->reset_last) {
        cut_last(s, eo_build_matmul(s->b, h, s->r, false, true), 1, of_h);
    } else {
        of_h[0] = eo_build_matmul(s->b, h, s->r_cut[0], false, true);
    }
    cut(s, activate(s, EO_OP_SIGMOID, add(s, of_x[0], of_h[0])), 1, halves, 2, gates);
    n = activate(s, EO_OP_TANH, add(s, of_x[1], reset(s, gates[RESET], of_h[1])));
    out_state[0] = add(s, times(s, rest(s, gates[Z]), n), times(s, gates[Z], h));
}

/* ---- operands of one direction ---- */

/* Entry d of an operand's first axis, (D, ...) -> (...). */
static eo_value of_direction(struct sweep *s, eo_value v, int64_t d)
{
    struct eo_tensor_desc desc = lower_desc(s->b, v);
    int64_t ones[2] = {1, 1};
    eo_value parts[2] = {v, v};

    if (desc.shape[0] > 1) {
        cut(s, v, 0, ones, 2, parts);
    }
    return eo_build_reshape(s->b, parts[d], desc.shape + 1, desc.n_dims - 1);
}

static eo_value optional(struct sweep *s, int i)
{
    eo_value v = lower_optional(s->b, s->node, (uint32_t)i);

    return v == EO_NO_VALUE ? v : lower_widen(s->b, v);
}

static bool batch_first(const struct eo_graph_node *node)
{
    return lower_int(node, "layout") == BATCH_FIRST;
}

/* The initial state of this direction, zeros when it is not given. */
static eo_value initial(struct sweep *s, int i, int64_t d)
{
    eo_value v = optional(s, i);

    if (v == EO_NO_VALUE) {
        return eo_build_expand(s->b, s->zero, (int64_t[]){s->batch, s->hidden}, 2);
    }
    if (batch_first(s->node)) {
        v = eo_build_transpose(s->b, v, (int64_t[]){1, 0, 2}, 3);
    }
    return of_direction(s, v, d);
}

/* What is added to all steps at once: the sum of both biases, but for r's of the last gate when the reset comes last.
 */
static eo_value biases(struct sweep *s, int64_t d)
{
    int64_t rows = s->gates * s->hidden;
    eo_value b = optional(s, BIAS), halves[2], of_w[2], of_r[2];

    if (b == EO_NO_VALUE) {
        return b;
    }
    cut(s, of_direction(s, b, d), 0, (int64_t[]){rows, rows}, 2, halves);
    if (!s->reset_last) {
        return add(s, halves[0], halves[1]);
    }
    cut_last(s, halves[0], 0, of_w);
    cut_last(s, halves[1], 0, of_r);
    s->bias_n = of_r[1];
    of_w[0] = add(s, of_w[0], of_r[0]);
    return eo_build_op(s->b, EO_OP_CONCATENATE, of_w, 2, NULL);
}

static void open_direction(struct sweep *s, int64_t d)
{
    enum { N_PEEP = 3 };
    const int64_t sizes[N_PEEP] = {s->hidden, s->hidden, s->hidden};
    bool lstm = s->node->op->op == EO_OP_LSTM;
    eo_value peep = lstm ? optional(s, PEEPHOLES) : EO_NO_VALUE;

    s->bias_n = EO_NO_VALUE;
    s->r = of_direction(s, lower_widen(s->b, s->node->inputs[R]), d);
    if (s->node->op->op == EO_OP_GRU && !s->reset_last) {
        cut_last(s, s->r, 0, s->r_cut);
    }
    s->state[0] = initial(s, INITIAL_H, d);
    s->state[1] = lstm ? initial(s, INITIAL_C, d) : EO_NO_VALUE;
    for (int i = 0; i < N_PEEP; i++) {
        s->peep[i] = EO_NO_VALUE;
    }
    if (peep != EO_NO_VALUE) {
        cut(s, of_direction(s, peep, d), 0, sizes, N_PEEP, s->peep);
    }
}

/* ---- time ---- */

/* Rows of n steps, (n B, columns), as one value per step: a tree of splits. */
static void cut_steps(struct sweep *s, eo_value rows, int64_t n, eo_value *out)
{
    int64_t each = (n + RADIX - 1) / RADIX, sizes[RADIX];
    eo_value parts[RADIX];
    int n_parts = 0;

    if (n <= 1) {
        out[0] = rows;
        return;
    }
    for (int64_t left = n; left > 0; left -= each) {
        sizes[n_parts++] = EO_MIN(each, left) * s->batch;
    }
    cut(s, rows, 0, sizes, n_parts, parts);
    for (int i = 0; i < n_parts; i++) { /* as deep as the logarithm of the steps */
        cut_steps(s, parts[i], EO_MIN(each, n - i * each), out + i * each);
    }
}

/* (B, H) of n steps as one (n B, H); overwrites the list. */
static eo_value join_steps(struct sweep *s, eo_value *list, int64_t n)
{
    while (n > 1) {
        int64_t n_joined = 0;

        for (int64_t i = 0; i < n; i += MAX_JOINED) {
            list[n_joined++] = eo_build_op(s->b, EO_OP_CONCATENATE, list + i, (int)EO_MIN(MAX_JOINED, n - i), NULL);
        }
        n = n_joined;
    }
    return list[0];
}

/* x w + b of all steps in one product. */
static void share_inputs(struct sweep *s, eo_value x, int64_t d)
{
    eo_value w = of_direction(s, lower_widen(s->b, s->node->inputs[W]), d), bias = biases(s, d), all;
    struct eo_tensor_desc desc = lower_desc(s->b, x);

    x = eo_build_reshape(s->b, x, (int64_t[]){s->steps * s->batch, desc.shape[2]}, 2);
    all = eo_build_matmul(s->b, x, w, false, true);
    all = bias == EO_NO_VALUE ? all : add(s, all, bias);
    cut_steps(s, all, s->steps, s->shares);
}

static void run_step(struct sweep *s, int64_t t, cell_fn cell, int n_states)
{
    eo_value next[MAX_STATES], counts;

    cell(s, s->shares[t], next);
    s->results[t] = next[0];
    if (s->lengths != EO_NO_VALUE) {
        counts = binary(s, EO_OP_LESS, eo_build_scalar(s->b, EO_INT64, (double)t), s->lengths);
        s->results[t] = eo_build_where(s->b, counts, next[0], s->zero);
        for (int i = 0; i < n_states; i++) {
            next[i] = eo_build_where(s->b, counts, next[i], s->state[i]);
        }
    }
    memcpy(s->state, next, (size_t)n_states * sizeof(*next));
}

/* y of this direction, (T, 1, B, H). */
static eo_value run_steps(struct sweep *s, bool reverse, cell_fn cell, int n_states)
{
    const int64_t shape[4] = {s->steps, 1, s->batch, s->hidden};

    if (s->steps == 0) {
        return eo_build_expand(s->b, s->zero, shape, 4);
    }
    for (int64_t i = 0; i < s->steps && s->b->status == EO_OK; i++) {
        run_step(s, reverse ? s->steps - 1 - i : i, cell, n_states);
    }
    return s->b->status != EO_OK ? EO_NO_VALUE : eo_build_reshape(s->b, join_steps(s, s->results, s->steps), shape, 4);
}

/* ---- the row ---- */

/* Values of both directions side by side at axis 1 of (T, D, B, H), or at axis 0 of (D, B, H). */
static eo_value join_directions(struct eo_builder *b, const eo_value *v, int n, int axis)
{
    return n == 1 ? v[0] : lower_with_int(b, EO_OP_CONCATENATE, v, n, "axis", axis);
}

static eo_value reorder(struct eo_builder *b, const struct eo_graph_node *node, eo_value v, const int64_t *perm, int n)
{
    v = batch_first(node) ? eo_build_transpose(b, v, perm, n) : v;
    return lower_narrow(b, v, node->inputs[X]);
}

static void sweep_all(struct sweep *s, cell_fn cell, int n_states, eo_value *out)
{
    int64_t direction = lower_int(s->node, "direction");
    int n_directions = direction == BIDIRECTIONAL ? 2 : 1;
    eo_value y[2], state[MAX_STATES][2], x = lower_widen(s->b, s->node->inputs[X]);

    s->zero = eo_build_scalar_like(s->b, x, 0);
    s->one = eo_build_scalar_like(s->b, x, 1);
    x = batch_first(s->node) ? eo_build_transpose(s->b, x, (int64_t[]){1, 0, 2}, 3) : x;
    for (int d = 0; d < n_directions; d++) {
        open_direction(s, d);
        share_inputs(s, x, d);
        y[d] = run_steps(s, d == 1 || direction == REVERSE, cell, n_states);
        for (int i = 0; i < n_states; i++) {
            state[i][d] = eo_build_reshape(s->b, s->state[i], (int64_t[]){1, s->batch, s->hidden}, 3);
        }
    }
    out[0] = reorder(s->b, s->node, join_directions(s->b, y, n_directions, 1), (int64_t[]){2, 0, 1, 3}, 4);
    for (int i = 0; i < n_states; i++) {
        out[1 + i] = reorder(s->b, s->node, join_directions(s->b, state[i], n_directions, 0), (int64_t[]){1, 0, 2}, 3);
    }
}

static void lower_recurrent(struct eo_builder *b, const struct eo_graph_node *node, int gates, cell_fn cell,
                            int n_states, eo_value *out)
{
    struct eo_tensor_desc x = lower_desc(b, node->inputs[X]), r = lower_desc(b, node->inputs[R]);
    struct sweep s = {.b = b, .node = node, .gates = gates, .clip = lower_float(node, "clip")};
    eo_value lengths = lower_optional(b, node, LENGTHS);

    s.steps = x.shape[batch_first(node) ? 1 : 0];
    s.batch = x.shape[batch_first(node) ? 0 : 1];
    s.hidden = r.shape[2];
    s.reset_last = node->op->op == EO_OP_GRU && lower_int(node, "linear_before_reset") != 0;
    s.lengths = lengths == EO_NO_VALUE ? lengths : eo_build_reshape(b, lengths, (int64_t[]){s.batch, 1}, 2);
    s.shares = calloc((size_t)s.steps + 1, sizeof(*s.shares));
    s.results = calloc((size_t)s.steps + 1, sizeof(*s.results));
    if (s.shares == NULL || s.results == NULL) {
        b->status =
            EO_RAISE(b->err, EO_E_NO_MEMORY, "no memory for %lld steps of %s", (long long)s.steps, node->op->name);
    } else {
        sweep_all(&s, cell, n_states, out);
    }
    free(s.shares);
    free(s.results);
}

void lower_rnn(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    lower_recurrent(b, node, 1, rnn_cell, 1, out);
}

void lower_lstm(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    lower_recurrent(b, node, 4, lstm_cell, 2, out);
}

void lower_gru(struct eo_builder *b, const struct eo_graph_node *node, eo_value *out)
{
    lower_recurrent(b, node, 3, gru_cell, 1, out);
}
