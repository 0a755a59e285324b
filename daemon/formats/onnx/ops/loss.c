/* Losses over classes, which are axis 1. */
#include "daemon/formats/onnx/maps.h"
#include "daemon/formats/onnx/site.h"

/* The operands and attributes that both losses share. */
static int class_loss(struct onnx_site *s, struct row *r, eo_value in[3])
{
    in[0] = site_in(s, 0);
    in[1] = site_cast(s, site_in(s, 1), EO_INT64);
    in[2] = site_maybe(s, 2);
    row_int(r, "axis", 1);
    row_word(r, "reduction", site_text(s, "reduction", "mean"));
    if (site_attr(s, "ignore_index") != NULL) {
        row_int(r, "ignore_index", site_int(s, "ignore_index", 0));
    }
    return in[2] != EO_NO_VALUE ? 3 : 2;
}

void map_nll_loss(struct onnx_site *s)
{
    struct row r = row_of(s, "nll_loss");
    eo_value in[3];
    int n = class_loss(s, &r, in);

    s->out[0] = row_make(&r, in, n);
}

void map_softmax_cross_entropy_loss(struct onnx_site *s)
{
    struct row r = row_of(s, "cross_entropy_loss");
    eo_value in[3], out[EO_MAX_OUTPUTS];
    int n = class_loss(s, &r, in);

    row_make_all(&r, in, n, out);
    for (int o = 0; o < s->n_out && o < 2; o++) {
        s->out[o] = out[o];
    }
}
