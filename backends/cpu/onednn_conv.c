/* Convolutions by oneDNN. Three tensors take part: the cells (x of conv), the weight and the windows' results; the kind
 * says which one is computed from the other two. Each is described as the caller has it; where the primitive wants
 * another layout, a reorder moves it through the workspace. All objects are made when a plan is made; a run sets the
 * places of the data and executes. */
#include "backends/cpu/onednn.h"

#ifdef EO_HAVE_ONEDNN
#include "backends/cpu/onednn_api.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { CELLS, WEIGHT, RESULTS, TENSORS, ALIGNMENT = 64, WIDE_CHANNELS = 64 };

struct tensor {
    dnnl_memory_desc_t outside, inside; /* the caller's layout, the primitive's */
    dnnl_memory_t at_caller, at_primitive;
    dnnl_primitive_t reorder; /* NULL: one layout */
    uint64_t offset;          /* of the inside copy in the workspace */
};

struct onednn_conv {
    const struct onednn_api *api;
    enum onednn_conv_kind kind;
    bool has_bias;
    struct tensor t[TENSORS];
    dnnl_memory_t bias, scratch;
    uint64_t scratch_offset;
    dnnl_primitive_t primitive;
};

static int product_of(enum onednn_conv_kind kind)
{
    return kind == ONEDNN_CONV ? RESULTS : kind == ONEDNN_CONV_CELLS ? CELLS : WEIGHT;
}

/* ---- descriptions ---- */

/* (N, C, S...) as the library counts dimensions, in the memory order of w. */
static dnnl_status_t describe_image(const struct onednn_api *api, const struct eo_window_shape *w, bool cells,
                                    dnnl_memory_desc_t *out)
{
    dnnl_dims_t dims = {w->batch, cells ? w->channels : w->out_channels}, strides = {0};
    int64_t step = w->channels_first ? 1 : dims[1];
    for (int d = w->n_axes - 1; d >= 0; d--) {
        dims[2 + d] = cells ? w->axis[d].size : w->axis[d].count;
        strides[2 + d] = step;
        step *= dims[2 + d];
    }
    strides[1] = w->channels_first ? step : 1;
    strides[0] = w->channels_first ? step * dims[1] : step;
    return api->dnnl_memory_desc_init_by_strides(out, 2 + w->n_axes, dims, dnnl_f32, strides);
}

/* (G, O/G, C/G, K...), without G when it is 1; in memory (K..., C/G, O) or (O, C/G, K...). */
static dnnl_status_t describe_weight(const struct onednn_api *api, const struct eo_window_shape *w, bool any,
                                     dnnl_memory_desc_t *out)
{
    int64_t inner = w->channels / w->groups, outer = w->out_channels / w->groups;
    dnnl_dims_t dims = {w->groups, outer, inner}, strides = {0};
    int64_t step = w->channels_first ? 1 : w->out_channels * inner;
    for (int d = w->n_axes - 1; d >= 0; d--) {
        dims[3 + d] = w->axis[d].kernel;
        strides[3 + d] = step;
        step *= w->axis[d].kernel;
    }
    strides[2] = w->channels_first ? step : w->out_channels;
    strides[1] = w->channels_first ? step * inner : 1;
    strides[0] = w->channels_first ? step * inner * outer : outer;
    int skip = w->groups == 1 ? 1 : 0;
    dnnl_dims_t d = {0}, s = {0};
    for (int i = 0; i < 3 + w->n_axes - skip; i++) {
        d[i] = dims[i + skip];
        s[i] = strides[i + skip];
    }
    return any ? api->dnnl_memory_desc_init_by_tag(out, 3 + w->n_axes - skip, d, dnnl_f32, dnnl_format_tag_any)
               : api->dnnl_memory_desc_init_by_strides(out, 3 + w->n_axes - skip, d, dnnl_f32, s);
}

static dnnl_status_t let_library_choose(const struct onednn_api *api, dnnl_memory_desc_t *d)
{
    dnnl_dims_t dims = {0};
    memcpy(dims, d->dims, (size_t)d->ndims * sizeof dims[0]);
    return api->dnnl_memory_desc_init_by_tag(d, d->ndims, dims, dnnl_f32, dnnl_format_tag_any);
}

/* Channels last is taken as it is, but for many channels the library's own layout pays for the moves; channels first
 * always moves. Measured: README.md. */
static bool images_move(const struct eo_window_shape *w)
{
    int64_t cells = eo_window_cells(w), least = EO_MIN(w->channels, w->out_channels) / w->groups;
    return w->channels_first || (cells > 1 && least >= WIDE_CHANNELS);
}

/* ---- making ---- */

struct maker {
    const struct onednn_api *api;
    const struct eo_window_shape *w;
    struct onednn_conv *c;
    dnnl_primitive_attr_t attr;
    dnnl_primitive_desc_t forward, desc; /* desc is forward for ONEDNN_CONV */
    uint64_t workspace, scratch;
};

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        dnnl_status_t try_status = (call);                                                                             \
        if (try_status != dnnl_success)                                                                                \
            return try_status;                                                                                         \
    } while (0)

static dnnl_status_t make_desc(struct maker *m)
{
    const struct onednn_api *api = m->api;
    const struct eo_window_shape *w = m->w;
    dnnl_memory_desc_t image[TENSORS], bias;
    dnnl_dims_t strides = {0}, dilates = {0}, begin = {0}, end = {0}, n_bias = {w->out_channels};
    dnnl_convolution_desc_t f, b;
    for (int i = 0; i < TENSORS; i++)
        image[i] = m->c->t[i].outside;
    if (images_move(w)) {
        TRY(let_library_choose(api, &image[CELLS]));
        TRY(let_library_choose(api, &image[RESULTS]));
    }
    TRY(describe_weight(api, w, true, &image[WEIGHT]));
    TRY(api->dnnl_memory_desc_init_by_tag(&bias, 1, n_bias, dnnl_f32, dnnl_a));
    for (int d = 0; d < w->n_axes; d++) {
        strides[d] = w->axis[d].stride;
        dilates[d] = w->axis[d].dilation - 1;
        begin[d] = w->axis[d].pad_begin;
        end[d] = w->axis[d].pad_end;
    }
    TRY(api->dnnl_dilated_convolution_forward_desc_init(
        &f, m->c->kind == ONEDNN_CONV ? dnnl_forward_inference : dnnl_forward_training, dnnl_convolution_direct,
        &image[CELLS], &image[WEIGHT], m->c->has_bias ? &bias : NULL, &image[RESULTS], strides, dilates, begin, end));
    TRY(api->dnnl_primitive_desc_create(&m->forward, &f, m->attr, api->engine, NULL));
    m->desc = m->forward;
    if (m->c->kind == ONEDNN_CONV)
        return dnnl_success;
    m->desc = NULL;
    if (m->c->kind == ONEDNN_CONV_CELLS)
        TRY(api->dnnl_dilated_convolution_backward_data_desc_init(
            &b, dnnl_convolution_direct, &image[CELLS], &image[WEIGHT], &image[RESULTS], strides, dilates, begin, end));
    else
        TRY(api->dnnl_dilated_convolution_backward_weights_desc_init(&b, dnnl_convolution_direct, &image[CELLS],
                                                                     &image[WEIGHT], NULL, &image[RESULTS], strides,
                                                                     dilates, begin, end));
    return api->dnnl_primitive_desc_create(&m->desc, &b, m->attr, api->engine, m->forward);
}

static void need_scratch(struct maker *m, const_dnnl_primitive_desc_t desc)
{
    const dnnl_memory_desc_t *d = m->api->dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0);
    uint64_t bytes = d ? m->api->dnnl_memory_desc_get_size(d) : 0;
    m->scratch = EO_MAX(m->scratch, bytes);
}

static dnnl_status_t make_reorder(struct maker *m, struct tensor *t, bool out)
{
    const struct onednn_api *api = m->api;
    dnnl_primitive_desc_t desc = NULL;
    const dnnl_memory_desc_t *from = out ? &t->inside : &t->outside, *to = out ? &t->outside : &t->inside;
    TRY(api->dnnl_reorder_primitive_desc_create(&desc, from, api->engine, to, api->engine, m->attr));
    need_scratch(m, desc);
    dnnl_status_t status = api->dnnl_primitive_create(&t->reorder, desc);
    (void)api->dnnl_primitive_desc_destroy(desc);
    t->offset = m->workspace;
    m->workspace += (api->dnnl_memory_desc_get_size(&t->inside) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return status;
}

static dnnl_status_t make_tensors(struct maker *m)
{
    static const dnnl_query_t names[3][TENSORS] = {
        [ONEDNN_CONV] = {dnnl_query_src_md, dnnl_query_weights_md, dnnl_query_dst_md},
        [ONEDNN_CONV_CELLS] = {dnnl_query_diff_src_md, dnnl_query_weights_md, dnnl_query_diff_dst_md},
        [ONEDNN_CONV_WEIGHT] = {dnnl_query_src_md, dnnl_query_diff_weights_md, dnnl_query_diff_dst_md},
    };
    const struct onednn_api *api = m->api;
    for (int i = 0; i < TENSORS; i++) {
        struct tensor *t = &m->c->t[i];
        const dnnl_memory_desc_t *d = api->dnnl_primitive_desc_query_md(m->desc, names[m->c->kind][i], 0);
        if (!d)
            return dnnl_runtime_error;
        t->inside = *d;
        TRY(api->dnnl_memory_create(&t->at_caller, &t->outside, api->engine, DNNL_MEMORY_NONE));
        if (api->dnnl_memory_desc_equal(&t->inside, &t->outside))
            continue;
        TRY(api->dnnl_memory_create(&t->at_primitive, &t->inside, api->engine, DNNL_MEMORY_NONE));
        TRY(make_reorder(m, t, i == product_of(m->c->kind)));
    }
    return dnnl_success;
}

static dnnl_status_t make_rest(struct maker *m)
{
    const struct onednn_api *api = m->api;
    dnnl_memory_desc_t d;
    dnnl_dims_t n = {m->w->out_channels};
    if (m->c->has_bias) {
        TRY(api->dnnl_memory_desc_init_by_tag(&d, 1, n, dnnl_f32, dnnl_a));
        TRY(api->dnnl_memory_create(&m->c->bias, &d, api->engine, DNNL_MEMORY_NONE));
    }
    need_scratch(m, m->desc);
    n[0] = (dnnl_dim_t)m->scratch;
    m->c->scratch_offset = m->workspace;
    m->workspace += m->scratch;
    TRY(api->dnnl_memory_desc_init_by_tag(&d, 1, n, dnnl_u8, dnnl_a));
    TRY(api->dnnl_memory_create(&m->c->scratch, &d, api->engine, DNNL_MEMORY_NONE));
    return api->dnnl_primitive_create(&m->c->primitive, m->desc);
}

static dnnl_status_t make(struct maker *m, const char **out_why)
{
    const struct onednn_api *api = m->api;
    const char *name = "";
    TRY(api->dnnl_primitive_attr_create(&m->attr));
    TRY(api->dnnl_primitive_attr_set_scratchpad_mode(m->attr, dnnl_scratchpad_mode_user));
    TRY(describe_image(api, m->w, true, &m->c->t[CELLS].outside));
    TRY(describe_image(api, m->w, false, &m->c->t[RESULTS].outside));
    TRY(describe_weight(api, m->w, false, &m->c->t[WEIGHT].outside));
    TRY(make_desc(m));
    TRY(api->dnnl_primitive_desc_query(m->desc, dnnl_query_impl_info_str, 0, &name));
    if (strncmp(name, "ref", 3) == 0) {
        *out_why = "has plain loops only for this geometry";
        return dnnl_unimplemented;
    }
    TRY(make_tensors(m));
    return make_rest(m);
}

/* NULL when the geometry is one that the library counts in. */
static const char *why_not(const struct eo_window_shape *w)
{
    double images = (double)w->batch * (double)EO_MAX(w->channels, w->out_channels);
    double weight = (double)w->channels * (double)w->out_channels;
    for (int d = 0; d < w->n_axes; d++) {
        const struct eo_window_axis *a = &w->axis[d];
        images *= (double)EO_MAX(a->size, a->count);
        weight *= (double)a->kernel;
        if (a->stride > INT_MAX || a->dilation > INT_MAX || a->pad_begin > INT_MAX || a->pad_end > INT_MAX)
            return "counts in 32 bits";
        if (a->size == 0 || a->count == 0)
            return "leaves empty tensors to the lowering";
    }
    if (images == 0 || weight == 0)
        return "leaves empty tensors to the lowering";
    return images > INT_MAX || weight > INT_MAX ? "counts in 32 bits" : NULL;
}

int onednn_conv_new(const struct eo_window_shape *w, enum onednn_conv_kind kind, bool has_bias,
                    struct onednn_conv **out, uint64_t *out_workspace, const char **out_why, struct eo_error *err)
{
    const struct onednn_api *api = onednn_api();
    *out_why = !api ? "cannot be used" : !api->has_conv ? "has no convolutions" : why_not(w);
    if (*out_why)
        return EO_E_UNSUPPORTED;
    struct maker m = {.api = api, .w = w, .c = calloc(1, sizeof *m.c)};
    if (!m.c)
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a convolution");
    m.c->api = api;
    m.c->kind = kind;
    m.c->has_bias = has_bias;
    dnnl_status_t status = make(&m, out_why);
    if (m.desc && m.desc != m.forward)
        (void)api->dnnl_primitive_desc_destroy(m.desc);
    if (m.forward)
        (void)api->dnnl_primitive_desc_destroy(m.forward);
    if (m.attr)
        (void)api->dnnl_primitive_attr_destroy(m.attr);
    if (status == dnnl_success) {
        *out = m.c;
        *out_workspace = m.workspace;
        return EO_OK;
    }
    onednn_conv_free(m.c);
    if (status == dnnl_out_of_memory)
        return onednn_check(status, "preparing oneDNN's convolution", err);
    /* Whatever else it is that the library does not want to do, the lowering can. */
    if (!*out_why)
        *out_why = "has no kernel for this geometry";
    return EO_E_UNSUPPORTED;
}

void onednn_conv_free(struct onednn_conv *c)
{
    if (!c)
        return;
    const struct onednn_api *api = c->api;
    dnnl_memory_t memories[2 * TENSORS + 2] = {c->bias, c->scratch};
    for (int i = 0; i < TENSORS; i++) {
        memories[2 + 2 * i] = c->t[i].at_caller;
        memories[3 + 2 * i] = c->t[i].at_primitive;
        if (c->t[i].reorder)
            (void)api->dnnl_primitive_destroy(c->t[i].reorder);
    }
    for (size_t i = 0; i < EO_COUNT_OF(memories); i++)
        if (memories[i])
            (void)api->dnnl_memory_destroy(memories[i]);
    if (c->primitive)
        (void)api->dnnl_primitive_destroy(c->primitive);
    free(c);
}

/* ---- running ---- */

static dnnl_status_t run_reorder(const struct onednn_conv *c, const struct tensor *t, bool out)
{
    const dnnl_exec_arg_t args[3] = {{DNNL_ARG_FROM, out ? t->at_primitive : t->at_caller},
                                     {DNNL_ARG_TO, out ? t->at_caller : t->at_primitive},
                                     {DNNL_ARG_SCRATCHPAD, c->scratch}};
    return t->reorder ? c->api->dnnl_primitive_execute(t->reorder, c->api->stream, 3, args) : dnnl_success;
}

static dnnl_status_t run(const struct onednn_conv *c, const struct onednn_conv_operands *o)
{
    static const int names[3][TENSORS] = {
        [ONEDNN_CONV] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST},
        [ONEDNN_CONV_CELLS] = {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST},
        [ONEDNN_CONV_WEIGHT] = {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST},
    };
    const struct onednn_api *api = c->api;
    void *const places[TENSORS] = {o->cells, o->weight, o->results};
    dnnl_exec_arg_t args[TENSORS + 2];
    int n = 0, product = product_of(c->kind);
    char *workspace = o->workspace;
    /* A scratchpad of 0 bytes has no place. */
    TRY(api->dnnl_memory_set_data_handle(c->scratch, workspace ? workspace + c->scratch_offset : NULL));
    args[n++] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, c->scratch};
    for (int i = 0; i < TENSORS; i++) {
        const struct tensor *t = &c->t[i];
        TRY(api->dnnl_memory_set_data_handle(t->at_caller, places[i]));
        if (t->reorder)
            TRY(api->dnnl_memory_set_data_handle(t->at_primitive, workspace + t->offset));
        if (i != product)
            TRY(run_reorder(c, t, false));
        args[n++] = (dnnl_exec_arg_t){names[c->kind][i], t->reorder ? t->at_primitive : t->at_caller};
    }
    if (c->has_bias) {
        union {
            const void *given;
            void *plain; /* the library takes operands as it takes results */
        } bias = {.given = o->bias};
        TRY(api->dnnl_memory_set_data_handle(c->bias, bias.plain));
        args[n++] = (dnnl_exec_arg_t){DNNL_ARG_BIAS, c->bias};
    }
    TRY(api->dnnl_primitive_execute(c->primitive, api->stream, n, args));
    return run_reorder(c, &c->t[product], true);
}

int onednn_conv_run(const struct onednn_conv *c, const struct onednn_conv_operands *o, struct eo_error *err)
{
    return onednn_check(run(c, o), "oneDNN's convolution", err);
}

#else /* a build without oneDNN: nothing asks for these, for the probe says no */

int onednn_conv_new(const struct eo_window_shape *w, enum onednn_conv_kind kind, bool has_bias,
                    struct onednn_conv **out, uint64_t *out_workspace, const char **out_why, struct eo_error *err)
{
    (void)w;
    (void)kind;
    (void)has_bias;
    (void)out;
    (void)out_workspace;
    *out_why = "is not in this build";
    return EO_RAISE(err, EO_E_UNSUPPORTED, "this build has no oneDNN");
}

int onednn_conv_run(const struct onednn_conv *c, const struct onednn_conv_operands *o, struct eo_error *err)
{
    (void)c;
    (void)o;
    return EO_RAISE(err, EO_E_BACKEND_FAILED, "this build has no oneDNN");
}

void onednn_conv_free(struct onednn_conv *c)
{
    (void)c;
}

#endif
