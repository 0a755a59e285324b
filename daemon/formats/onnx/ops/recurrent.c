/* Recurrent layers: operands, gate order and shapes of the rows are ONNX's. */
#include "daemon/formats/onnx/maps.h"
#include "daemon/formats/onnx/site.h"

#include <string.h>
#include <strings.h>

enum { MAX_OPERANDS = 8 };

/* X, W, R, B, sequence_lens, initial_h[, initial_c, P]: what is not given is a hole. */
static int operands(struct onnx_site *s, eo_value *out, int max)
{
    int n = 3;
    enum eo_dtype dtype = site_dtype(s, site_in(s, 0));

    for (int i = 0; i < max; i++) {
        out[i] = i < 3 ? site_in(s, i) : site_maybe(s, i);
        n = out[i] != EO_NO_VALUE ? EO_MAX(n, i + 1) : n;
    }
    for (int i = 3; i < n; i++) {
        bool lengths = i == 4;

        out[i] = site_or_hole(s, out[i], lengths ? EO_INT64 : dtype);
        out[i] = lengths ? site_cast(s, out[i], EO_INT64) : out[i];
    }
    return n;
}

/* Attributes of all three. ONNX's layout 1 is (B, T, ...). */
static void common(struct onnx_site *s, struct row *r)
{
    int64_t hidden = site_int(s, "hidden_size", -1), given = site_desc(s, site_in(s, 2))->shape[2];

    if (site_ok(s) && hidden >= 0 && hidden != given) {
        site_fail(s, EO_E_SHAPE_MISMATCH, "hidden_size of %s is not that of R", s->node->op_type);
    }
    row_word(r, "direction", site_text(s, "direction", "forward"));
    row_float(r, "clip", site_float(s, "clip", 0));
    if (site_int(s, "layout", 0) != 0) {
        row_word(r, "layout", "batch_first");
    }
    if (site_attr(s, "activation_alpha") != NULL || site_attr(s, "activation_beta") != NULL) {
        site_fail(s, EO_E_UNSUPPORTED, "%s with activation_alpha or activation_beta is not supported",
                  s->node->op_type);
    }
}

/* activations are these, once or for each direction */
static bool activations_are(const struct onnx_attr *a, const char *const *want, size_t n)
{
    if (a->n != n && a->n != 2 * n) {
        return false;
    }
    for (size_t i = 0; i < a->n; i++) {
        if (strcasecmp(a->texts[i], want[i % n]) != 0) {
            return false;
        }
    }
    return true;
}

static void need_activations(struct onnx_site *s, const char *const *want, size_t n)
{
    const struct onnx_attr *a = site_attr(s, "activations");

    if (a != NULL && (a->kind != ONNX_ATTR_TEXTS || !activations_are(a, want, n))) {
        site_fail(s, EO_E_UNSUPPORTED, "%s is supported with its own activations only", s->node->op_type);
    }
}

static void results(struct onnx_site *s, struct row *r, const eo_value *in, int n_in)
{
    eo_value out[EO_MAX_OUTPUTS];

    row_make_all(r, in, n_in, out);
    for (int o = 0; o < s->n_out && o < 3; o++) {
        s->out[o] = out[o];
    }
}

void map_rnn(struct onnx_site *s)
{
    static const char *const tanh_word[] = {"Tanh"}, *const relu_word[] = {"Relu"};
    const struct onnx_attr *a = site_attr(s, "activations");
    bool relu = a != NULL && a->kind == ONNX_ATTR_TEXTS && activations_are(a, relu_word, 1);
    struct row r = row_of(s, "rnn");
    eo_value in[MAX_OPERANDS];
    int n = operands(s, in, 6);

    need_activations(s, relu ? relu_word : tanh_word, 1);
    common(s, &r);
    row_word(&r, "activation", relu ? "relu" : "tanh");
    results(s, &r, in, n);
}

void map_gru(struct onnx_site *s)
{
    static const char *const words[] = {"Sigmoid", "Tanh"};
    struct row r = row_of(s, "gru");
    eo_value in[MAX_OPERANDS];
    int n = operands(s, in, 6);

    need_activations(s, words, 2);
    common(s, &r);
    row_int(&r, "linear_before_reset", site_int(s, "linear_before_reset", 0) != 0);
    results(s, &r, in, n);
}

void map_lstm(struct onnx_site *s)
{
    static const char *const words[] = {"Sigmoid", "Tanh", "Tanh"};
    struct row r = row_of(s, "lstm");
    eo_value in[MAX_OPERANDS];
    int n = operands(s, in, 8);

    need_activations(s, words, 3);
    common(s, &r);
    row_int(&r, "input_forget", site_int(s, "input_forget", 0) != 0);
    results(s, &r, in, n);
}
