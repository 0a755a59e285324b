/* float16 and bfloat16: operands are widened to float32 in the workspace, the float32 kernel runs, results are rounded
 * once. That is what ops.def says of these dtypes. Fused programs are declined: each of their steps has to round. */
#include "backends/cpu/cpu.h"
#include "backends/cpu/parallel.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64 };

/* One operand or result: where its float32 copy lies, or that it is used as it is. */
struct operand {
    bool widened;
    uint64_t offset; /* in the workspace */
    vector_map_fn convert;
    int64_t count;
};

struct half {
    struct cpu_node node;
    struct eo_node_view twin; /* the same node in float32 */
    struct eo_attrs attrs;
    struct eo_tensor_desc in_desc[EO_MAX_INPUTS], out_desc[EO_MAX_OUTPUTS];
    struct operand in[EO_MAX_INPUTS], out[EO_MAX_OUTPUTS];
    struct eo_kernel kernel; /* of the twin; its workspace is the first part of ours */
};

static bool is_half(int dtype)
{
    return dtype == EO_FLOAT16 || dtype == EO_BFLOAT16;
}

struct job {
    const struct operand *o;
    void *to;
    const void *from;
    int64_t to_size, from_size;
};

static void convert_range(void *context, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    const struct job *j = context;
    const void *const from[1] = {(const char *)j->from + begin * j->from_size};
    j->o->convert(end - begin, (char *)j->to + begin * j->to_size, from, 0, NULL);
}

static void convert(const struct cpu_device *dev, struct job *j)
{
    parallel_for(dev->base.info.threads, j->o->count, parallel_grain(2), convert_range, j);
}

static void *copy_of(const struct operand *o, const struct eo_launch *l)
{
    return o->count > 0 ? (char *)l->workspace + o->offset : NULL;
}

static int half_run(struct cpu_device *dev, const struct eo_launch *l, struct eo_error *err)
{
    const struct half *h = l->state;
    const struct cpu_node *inner = h->kernel.state;
    struct eo_launch twin = {.node = &h->twin, .workspace = l->workspace, .state = h->kernel.state};
    for (int i = 0; i < h->twin.n_in; i++) {
        const struct operand *o = &h->in[i];
        twin.in[i] = o->widened ? copy_of(o, l) : l->in[i];
        if (o->widened)
            convert(dev, &(struct job){o, twin.in[i], l->in[i], 4, 2});
    }
    for (int i = 0; i < h->twin.n_out; i++)
        twin.out[i] = h->out[i].widened ? copy_of(&h->out[i], l) : l->out[i];
    int rc = inner->run(dev, &twin, err);
    for (int i = 0; i < h->twin.n_out && rc == EO_OK; i++)
        if (h->out[i].widened)
            convert(dev, &(struct job){&h->out[i], l->out[i], twin.out[i], 2, 4});
    return rc;
}

static void half_free(void *state)
{
    struct half *h = state;
    if (h->kernel.state_free)
        h->kernel.state_free(h->kernel.state);
    free(h);
}

/* Describes the float32 twin of one operand and takes room for its copy. */
static void widen(struct operand *o, struct eo_tensor_desc *twin, const struct eo_tensor_desc *desc,
                  vector_map_fn convert_fn, uint64_t *workspace)
{
    *twin = *desc;
    if (!is_half(desc->dtype))
        return;
    twin->dtype = EO_FLOAT32;
    o->widened = true;
    o->convert = convert_fn;
    o->count = eo_tensor_desc_count(desc);
    o->offset = *workspace;
    *workspace += (eo_tensor_desc_bytes(twin) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static void make_twin(struct half *h, const struct cpu_device *dev, const struct eo_node_view *node,
                      uint64_t *workspace)
{
    const vector_cast_table *cast = dev->vec->cast;
    h->twin = *node;
    h->attrs = *node->attrs;
    h->twin.attrs = &h->attrs;
    for (int i = 0; i < node->n_in; i++) {
        widen(&h->in[i], &h->in_desc[i], node->in[i], (*cast)[node->in[i]->dtype][EO_FLOAT32], workspace);
        h->twin.in[i] = &h->in_desc[i];
    }
    for (int i = 0; i < node->n_out; i++) {
        widen(&h->out[i], &h->out_desc[i], node->out[i], (*cast)[EO_FLOAT32][node->out[i]->dtype], workspace);
        h->twin.out[i] = &h->out_desc[i];
    }
}

/* Moves the copies behind the twin's own workspace. */
static void shift_offsets(struct half *h, uint64_t by)
{
    for (int i = 0; i < h->twin.n_in; i++)
        h->in[i].offset += by;
    for (int i = 0; i < h->twin.n_out; i++)
        h->out[i].offset += by;
}

static uint32_t in_place_mask(const struct half *h, const struct eo_node_view *node)
{
    uint32_t mask = 0;
    /* All widened operands are read before the first result is written. */
    for (int i = 0; i < node->n_in && i < 32 && h->out[0].widened; i++)
        if (h->in[i].widened && eo_tensor_desc_bytes(node->in[i]) == eo_tensor_desc_bytes(node->out[0]))
            mask |= 1u << i;
    return mask;
}

bool half_applies(const struct eo_node_view *node)
{
    /* Random numbers of these dtypes have their own bits; casts go through float32 by themselves. */
    if (node->fused || node->op->op == EO_OP_UNIFORM || node->op->op == EO_OP_NORMAL || node->op->op == EO_OP_CAST)
        return false;
    for (int i = 0; i < node->n_in; i++)
        if (is_half(node->in[i]->dtype))
            return true;
    return false;
}

int half_select(struct cpu_device *dev, const struct eo_node_view *node, cpu_select_fn offer, struct eo_kernel *out,
                struct cpu_refusals *why, struct eo_error *err)
{
    struct half *h = NULL;
    uint64_t copies = 0;
    int rc = cpu_node_new(sizeof *h, &h, err);
    if (rc != EO_OK)
        return rc;
    make_twin(h, dev, node, &copies);
    rc = offer(dev, &h->twin, &h->kernel, why, err);
    if (rc != EO_OK) {
        free(h);
        return rc;
    }
    uint64_t inner = (h->kernel.workspace_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    shift_offsets(h, inner);
    cpu_node_finish(&h->node, half_run, out, "%s.%s.as-float32", node->op->name,
                    eo_dtype_name(is_half(node->in[0]->dtype) ? node->in[0]->dtype : node->in[node->n_in - 1]->dtype));
    out->state_free = half_free;
    out->workspace_bytes = inner + copies;
    out->in_place = in_place_mask(h, node);
    return EO_OK;
}
