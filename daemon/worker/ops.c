/* task.op: one operation on pool memory. */
#include "daemon/engine/executor.h"
#include "daemon/worker/places.h"
#include "daemon/worker/plans.h"
#include "proto/op_schema.h"

#include <string.h>

struct operation {
    const struct eo_op_schema *op;
    struct eo_attrs attrs;
    uint32_t n_in, n_out;
    struct eo_tensor_desc in_desc[EO_MAX_INPUTS], out_desc[EO_MAX_OUTPUTS];
    const struct eo_tensor_desc *in_at[EO_MAX_INPUTS];
    struct place in[EO_MAX_INPUTS], out[EO_MAX_OUTPUTS];
    enum plan_fallback fallback;
};

int task_fallback(const struct eo_item *params, enum plan_fallback *out, struct eo_error *err)
{
    char text[8];
    int code = eo_get_str(params, "fallback", "strict", text, sizeof(text), err);
    *out = code == EO_OK && strcmp(text, "report") == 0 ? PLAN_REPORT : PLAN_STRICT;
    return code;
}

static int take_inputs(const struct worker *w, struct operation *o, const struct eo_item *params, struct eo_error *err)
{
    const struct eo_item *list = NULL;
    int code = eo_need_array(params, "in", EO_MAX_INPUTS, &list, err);
    for (size_t i = 0; code == EO_OK && i < eo_item_count(list); i++) {
        const struct eo_item *it = eo_item_at(list, i);
        code = eo_tensor_desc_unpack(it, &o->in_desc[i], err);
        if (code == EO_OK) {
            code = place_unpack(w, eo_item_get(it, "at"), eo_tensor_desc_bytes(&o->in_desc[i]), &o->in[i], err);
        }
        o->in_at[i] = &o->in_desc[i];
        o->n_in++;
    }
    return code;
}

/* Shapes of results are worked out again here: nothing that runs trusts what was sent. */
static int take_outputs(const struct worker *w, struct operation *o, const struct eo_item *params, struct eo_error *err)
{
    const struct eo_item *list = NULL;
    int code = eo_op_infer(o->op, o->in_at, (int)o->n_in, &o->attrs, o->out_desc, err);
    if (code == EO_OK) {
        code = eo_need_array(params, "out", EO_MAX_OUTPUTS, &list, err);
    }
    if (code == EO_OK && (int)eo_item_count(list) != eo_op_n_outputs(o->op, &o->attrs)) {
        code = EO_RAISE(err, EO_E_INTERNAL, "%s has %d outputs, %zu places were given", o->op->name,
                        eo_op_n_outputs(o->op, &o->attrs), eo_item_count(list));
    }
    for (size_t i = 0; code == EO_OK && i < eo_item_count(list); i++) {
        code = place_unpack(w, eo_item_at(list, i), eo_tensor_desc_bytes(&o->out_desc[i]), &o->out[i], err);
        o->n_out++;
    }
    return code == EO_OK ? places_check_apart(o->in, o->n_in, o->out, o->n_out, err) : code;
}

static int parse(const struct worker *w, struct operation *o, const struct eo_item *params, struct eo_error *err)
{
    char name[48];
    int code = eo_need_str(params, "op", name, sizeof(name), err);
    if (code != EO_OK) {
        return code;
    }
    o->op = eo_op_by_name(name, strlen(name));
    if (!o->op || (o->op->flags & EO_OPF_INTERNAL)) {
        return EO_RAISE(err, EO_E_UNKNOWN_OP, "there is no operation %s", name);
    }
    code = eo_attrs_unpack(eo_item_get(params, "attrs"), o->op, &o->attrs, err);
    if (code == EO_OK) {
        code = task_fallback(params, &o->fallback, err);
    }
    if (code == EO_OK) {
        code = take_inputs(w, o, params, err);
    }
    return code == EO_OK ? take_outputs(w, o, params, err) : code;
}

static bool is_sized_by_data(const struct operation *o)
{
    return (o->op->flags & EO_OPF_DATA_SHAPE) != 0;
}

static int execute(struct worker *w, struct operation *o, void *const *in, void *const *out, char *fallback,
                   size_t size, struct eo_error *err)
{
    if (is_sized_by_data(o)) {
        return executor_run_sized_op(w->executor, o->op, &o->attrs, o->in_at, in, (int)o->n_in, out[0], &o->out_desc[0],
                                     o->fallback, fallback, size, err);
    }
    return executor_run_op(w->executor, o->op, &o->attrs, o->in_at, in, (int)o->n_in, out, o->fallback, fallback, size,
                           err);
}

static int run(struct worker *w, struct operation *o, char *fallback, size_t size, struct eo_error *err)
{
    void *in[EO_MAX_INPUTS], *out[EO_MAX_OUTPUTS];
    int code = places_enter(w, o->in, o->n_in, o->out, o->n_out, err);
    if (code == EO_OK) {
        for (uint32_t i = 0; i < o->n_in; i++) {
            in[i] = o->in[i].data;
        }
        for (uint32_t i = 0; i < o->n_out; i++) {
            out[i] = o->out[i].data;
        }
        code = execute(w, o, in, out, fallback, size, err);
    }
    int left = places_leave(w, o->in, o->n_in, o->out, o->n_out, code == EO_OK, err);
    return code == EO_OK ? left : code;
}

TASK(OP)
{
    struct operation o;
    char fallback[256] = "";
    o.n_in = o.n_out = 0;
    if (!w->executor) {
        return EO_RAISE(err, EO_E_NO_DEVICE, "this worker has no device");
    }
    int code = parse(w, &o, call->params, err);
    if (code == EO_OK) {
        code = places_commit(w, call->params, err);
    }
    if (code == EO_OK) {
        code = run(w, &o, fallback, sizeof(fallback), err);
    }
    if (code != EO_OK) {
        return code;
    }
    eo_pack_map(result, (fallback[0] ? 1u : 0u) + (is_sized_by_data(&o) ? 1u : 0u));
    if (fallback[0]) {
        eo_pack_kv_str(result, "fallback", fallback);
    }
    if (is_sized_by_data(&o)) {
        eo_pack_str(result, "outputs");
        eo_pack_array(result, 1);
        eo_tensor_desc_pack(result, &o.out_desc[0]);
    }
    return EO_OK;
}
