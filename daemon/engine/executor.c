#include "daemon/engine/executor.h"

#include "daemon/engine/kernels.h"
#include "proto/attrs.h"
#include "proto/base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Keys are bytes; the first one tells graphs from ops. */
struct entry {
    uint64_t hash;
    uint64_t used; /* tick of the last use */
    struct plan *plan;
    void *key;
    size_t key_size;
};

struct executor {
    struct eo_device *dev;
    void *arena;
    uint64_t arena_bytes;
    struct executor_counters counters;
    struct entry entries[EXECUTOR_MAX_PLANS];
    int n_entries;
    uint64_t tick;
    uint64_t constant_bytes; /* of all cached plans */
};

int executor_new(struct eo_device *dev, struct executor **out, struct eo_error *err)
{
    struct executor *x = calloc(1, sizeof(*x));

    if (x == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for an executor");
    }
    x->dev = dev;
    *out = x;
    return EO_OK;
}

static int wait_for_device(struct executor *x, struct eo_error *err)
{
    return x->dev->backend->sync != NULL ? x->dev->backend->sync(x->dev, err) : EO_OK;
}

static void drop(struct executor *x, int i)
{
    x->constant_bytes -= plan_stats(x->entries[i].plan)->constant_bytes;
    plan_free(x->entries[i].plan);
    free(x->entries[i].key);
    x->entries[i] = x->entries[--x->n_entries];
}

void executor_free(struct executor *x)
{
    if (x == NULL) {
        return;
    }
    (void)wait_for_device(x, NULL);
    while (x->n_entries > 0) {
        drop(x, x->n_entries - 1);
    }
    if (x->arena != NULL) {
        x->dev->backend->free(x->dev, x->arena, x->arena_bytes);
    }
    free(x);
}

struct eo_device *executor_device(struct executor *x)
{
    return x->dev;
}

struct executor_counters executor_counters(const struct executor *x)
{
    return x->counters;
}

/* ---- running ---- */

static int reserve(struct executor *x, uint64_t bytes, struct eo_error *err)
{
    int rc;

    if (bytes <= x->arena_bytes) {
        return EO_OK;
    }
    rc = wait_for_device(x, err);
    if (rc != EO_OK) {
        return rc;
    }
    /* The old one first: nothing in it is needed, and both together may not fit. */
    if (x->arena != NULL) {
        x->dev->backend->free(x->dev, x->arena, x->arena_bytes);
        x->arena = NULL;
        x->arena_bytes = 0;
    }
    rc = x->dev->backend->alloc(x->dev, bytes, &x->arena, err);
    if (rc != EO_OK) {
        eo_error_push(err, "reserving %llu bytes for intermediate results", (unsigned long long)bytes);
        return rc;
    }
    x->arena_bytes = bytes;
    return EO_OK;
}

int executor_reserve(struct executor *x, const struct plan *p, struct eo_error *err)
{
    return reserve(x, plan_arena_bytes(p), err);
}

int executor_run(struct executor *x, const struct plan *p, void *const *buffers, struct plan_profile *profile,
                 struct eo_error *err)
{
    const struct plan_stats *stats = plan_stats(p);
    int rc = executor_reserve(x, p, err);

    if (rc == EO_OK) {
        rc = plan_run(p, buffers, x->arena, profile, err);
    }
    if (rc == EO_OK) {
        x->counters.runs++;
        x->counters.launches += stats->n_steps - stats->n_copies;
        x->counters.fallbacks += stats->n_fallback;
    }
    return rc;
}

/* ---- the cache ---- */

static const struct plan *lookup(struct executor *x, uint64_t hash, const void *key, size_t key_size)
{
    for (int i = 0; i < x->n_entries; i++) {
        struct entry *e = &x->entries[i];

        if (e->hash == hash && e->key_size == key_size && memcmp(e->key, key, key_size) == 0) {
            e->used = ++x->tick;
            x->counters.hits++;
            return e->plan;
        }
    }
    return NULL;
}

static void drop_oldest(struct executor *x)
{
    int oldest = 0;

    for (int i = 1; i < x->n_entries; i++) {
        if (x->entries[i].used < x->entries[oldest].used) {
            oldest = i;
        }
    }
    drop(x, oldest);
    x->counters.evictions++;
}

/* Queued work may still use a plan that goes; its errors are reported here, for nobody else will ask. */
static int make_room(struct executor *x, const struct plan *plan, struct eo_error *err)
{
    uint64_t bytes = plan_stats(plan)->constant_bytes;
    bool synced = false;

    while (x->n_entries == EXECUTOR_MAX_PLANS ||
           (x->n_entries > 0 && x->constant_bytes + bytes > EXECUTOR_MAX_CONSTANT_BYTES)) {
        int rc = synced ? EO_OK : wait_for_device(x, err);

        if (rc != EO_OK) {
            return rc;
        }
        synced = true;
        drop_oldest(x);
    }
    return EO_OK;
}

static int insert(struct executor *x, uint64_t hash, const void *key, size_t key_size, struct plan *plan,
                  struct eo_error *err)
{
    void *copy = malloc(key_size + 1);
    int rc = copy == NULL ? EO_RAISE(err, EO_E_NO_MEMORY, "no memory to keep a plan") : make_room(x, plan, err);

    if (rc != EO_OK) {
        free(copy);
        plan_free(plan);
        return rc;
    }
    memcpy(copy, key, key_size);
    x->entries[x->n_entries++] = (struct entry){hash, ++x->tick, plan, copy, key_size};
    x->constant_bytes += plan_stats(plan)->constant_bytes;
    return EO_OK;
}

static int cached(struct executor *x, const void *key, size_t key_size, const struct plan_spec *spec,
                  const struct plan **out, struct eo_error *err)
{
    uint64_t hash = eo_hash64(key, key_size, 0);
    struct plan *fresh;
    int rc;

    *out = lookup(x, hash, key, key_size);
    if (*out != NULL) {
        return EO_OK;
    }
    rc = plan_compile(spec, x->dev, &fresh, err);
    if (rc == EO_OK) {
        rc = insert(x, hash, key, key_size, fresh, err);
    }
    if (rc == EO_OK) {
        x->counters.misses++;
        *out = fresh;
    }
    return rc;
}

/* The key of a graph is "g" and the caller's text, so that it can never be taken for an op's. */
int executor_cached(struct executor *x, const char *key, const struct plan_spec *spec, const struct plan **out,
                    struct eo_error *err)
{
    size_t length = strlen(key);
    char *tagged = malloc(length + 1);
    int rc;

    if (tagged == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory to look up a plan");
    }
    tagged[0] = 'g';
    memcpy(tagged + 1, key, length);
    rc = cached(x, tagged, length + 1, spec, out, err);
    free(tagged);
    return rc;
}

/* ---- single ops ---- */

/* Everything that decides the plan of one op, in bytes. */
struct op_key {
    unsigned char bytes[8 + EO_MAX_ATTRS * (1 + EO_MAX_INTS * 8) + EO_MAX_INPUTS * (2 + EO_MAX_DIMS * 8)];
    size_t size;
};

static void key_add(struct op_key *k, const void *data, size_t size)
{
    memcpy(k->bytes + k->size, data, size);
    k->size += size;
}

static void make_op_key(struct op_key *k, const struct eo_op_schema *op, const struct eo_attrs *attrs,
                        const struct eo_tensor_desc *const *in, int n_in, enum plan_fallback fallback)
{
    unsigned char head[5] = {'o', (unsigned char)(op->wire_id & 0xff), (unsigned char)(op->wire_id >> 8),
                             (unsigned char)n_in, (unsigned char)fallback};

    k->size = 0;
    key_add(k, head, sizeof(head));
    for (int i = 0; i < op->n_attrs; i++) {
        size_t size;
        const void *data = eo_attr_value_data(op->attrs[i].kind, &attrs->v[i], &size);

        key_add(k, &(unsigned char){(unsigned char)size}, 1);
        key_add(k, data, size);
    }
    for (int i = 0; i < n_in; i++) {
        key_add(k, &in[i]->dtype, 1);
        key_add(k, &in[i]->n_dims, 1);
        key_add(k, in[i]->shape, EO_MIN(in[i]->n_dims, EO_MAX_DIMS) * sizeof(in[i]->shape[0]));
    }
}

/* A graph of the one node: operand i in buffer i, result o in buffer n_in + o. */
static int op_graph(struct eo_graph *g, const struct eo_op_schema *op, const struct eo_attrs *attrs,
                    const struct eo_tensor_desc *const *in, int n_in, struct plan_place *places, struct eo_error *err)
{
    eo_value values[EO_MAX_INPUTS], results[EO_MAX_OUTPUTS];
    int rc = EO_OK;

    for (int i = 0; rc == EO_OK && i < n_in; i++) {
        char name[16];

        (void)snprintf(name, sizeof(name), "%d", i);
        rc = eo_graph_input(g, name, in[i], &values[i], err);
        places[i] = (struct plan_place){values[i], (uint32_t)i, 0};
    }
    if (rc == EO_OK) {
        rc = eo_graph_add(g, op->op, values, n_in, attrs, results, err);
    }
    for (int o = 0; rc == EO_OK && o < eo_op_n_outputs(op, attrs); o++) {
        places[n_in + o] = (struct plan_place){results[o], (uint32_t)(n_in + o), 0};
    }
    return rc;
}

static int compile_op(struct executor *x, const struct op_key *key, const struct eo_op_schema *op,
                      const struct eo_attrs *attrs, const struct eo_tensor_desc *const *in, int n_in,
                      enum plan_fallback fallback, const struct plan **out, struct eo_error *err)
{
    struct plan_place places[EO_MAX_INPUTS + EO_MAX_OUTPUTS];
    struct eo_graph *g = eo_graph_new();
    struct plan_spec spec = {.graph = g,
                             .inputs = places,
                             .n_inputs = (uint32_t)n_in,
                             .outputs = places + n_in,
                             .n_outputs = (uint32_t)eo_op_n_outputs(op, attrs),
                             .fallback = fallback};
    int rc = g == NULL ? EO_RAISE(err, EO_E_NO_MEMORY, "no memory for an operation")
                       : op_graph(g, op, attrs, in, n_in, places, err);

    if (rc == EO_OK) {
        rc = cached(x, key->bytes, key->size, &spec, out, err);
    }
    eo_graph_free(g);
    return rc;
}

int executor_run_op(struct executor *x, const struct eo_op_schema *op, const struct eo_attrs *attrs,
                    const struct eo_tensor_desc *const *in_desc, void *const *in, int n_in, void *const *out,
                    enum plan_fallback fallback, char *out_fallback, size_t fallback_size, struct eo_error *err)
{
    void *buffers[EO_MAX_INPUTS + EO_MAX_OUTPUTS];
    const struct plan *plan;
    struct eo_attrs defaults;
    struct op_key key;
    int rc = EO_OK;

    if (n_in < 0 || n_in > EO_MAX_INPUTS) {
        return EO_RAISE(err, EO_E_BAD_ARITY, "%s was given %d inputs", op->name, n_in);
    }
    if (attrs == NULL) {
        eo_attrs_default(op, &defaults);
        attrs = &defaults;
    }
    make_op_key(&key, op, attrs, in_desc, n_in, fallback);
    plan = lookup(x, eo_hash64(key.bytes, key.size, 0), key.bytes, key.size);
    if (plan == NULL) {
        rc = compile_op(x, &key, op, attrs, in_desc, n_in, fallback, &plan, err);
    }
    if (rc != EO_OK) {
        return rc;
    }
    memcpy(buffers, in, (size_t)n_in * sizeof(*buffers));
    memcpy(buffers + n_in, out, (size_t)eo_op_n_outputs(op, attrs) * sizeof(*buffers));
    if (out_fallback != NULL) {
        (void)eo_copy_text(out_fallback, fallback_size, plan_stats(plan)->fallback_ops);
    }
    return executor_run(x, plan, buffers, NULL, err);
}

/* ---- single ops whose result's shape depends on data ---- */

/* What the kernel says is checked: memory is given back by it. */
static int check_actual(const struct eo_node_view *view, const struct eo_tensor_desc *actual, struct eo_error *err)
{
    const struct eo_tensor_desc *most = view->out[0];
    bool fits = eo_tensor_desc_check(actual, NULL) == EO_OK && actual->dtype == most->dtype &&
                actual->n_dims == most->n_dims && eo_tensor_desc_bytes(actual) <= eo_tensor_desc_bytes(most);

    return fits ? EO_OK : EO_BUG(err, "a kernel of %s says that its result is larger than it can be", view->op->name);
}

static int run_sized(struct executor *x, struct ir *ir, const struct eo_node_view *view, void *const *in, void *out,
                     struct eo_tensor_desc *actual, char *out_fallback, size_t fallback_size, struct eo_error *err)
{
    struct ir_node node = {.op = view->op, .attrs = view->attrs, .origin = IR_NONE};
    struct kernels_choice choice = {.fallback = NULL};
    struct eo_launch launch = {.node = view, .out = {out}, .actual = actual};
    char why[160] = "";
    int rc = kernels_choose(ir, &node, view, &choice, why, sizeof(why), err);

    if (rc == EO_OK) {
        rc = reserve(x, choice.kernel.workspace_bytes, err);
    }
    if (rc == EO_OK) {
        memcpy(launch.in, in, (size_t)view->n_in * sizeof(*in));
        launch.workspace = x->arena;
        launch.state = choice.kernel.state;
        rc = choice.kernel.run(x->dev, &launch, err);
        if (rc == EO_OK) {
            rc = wait_for_device(x, err);
        } else {
            (void)wait_for_device(x, NULL); /* what is queued may use the choice */
        }
        if (rc == EO_OK) {
            rc = check_actual(view, actual, err);
        }
        if (rc != EO_OK) {
            kernels_annotate(err, view, NULL, IR_NONE, x->dev);
        }
        x->counters.runs++;
        x->counters.launches++;
        x->counters.fallbacks += choice.fallback != NULL ? 1 : 0;
    }
    if (rc == EO_OK && choice.fallback != NULL && out_fallback != NULL) {
        (void)snprintf(out_fallback, fallback_size, "%s (%s: %s)", view->op->name, x->dev->info.name, why);
    }
    kernels_release(&choice);
    return rc;
}

int executor_run_sized_op(struct executor *x, const struct eo_op_schema *op, const struct eo_attrs *attrs,
                          const struct eo_tensor_desc *const *in_desc, void *const *in, int n_in, void *out,
                          struct eo_tensor_desc *actual, enum plan_fallback fallback, char *out_fallback,
                          size_t fallback_size, struct eo_error *err)
{
    const struct plan_spec spec = {.fallback = fallback};
    struct eo_tensor_desc most[EO_MAX_OUTPUTS];
    struct eo_node_view view = {.op = op, .attrs = attrs, .n_in = n_in, .n_out = 1, .out = {&most[0]}};
    struct eo_attrs defaults;
    struct ir ir;
    int rc;

    if ((op->flags & EO_OPF_DATA_SHAPE) == 0) {
        return EO_BUG(err, "%s is no row whose shape depends on data", op->name);
    }
    if (n_in < 0 || n_in > EO_MAX_INPUTS) {
        return EO_RAISE(err, EO_E_BAD_ARITY, "%s was given %d inputs", op->name, n_in);
    }
    if (attrs == NULL) {
        eo_attrs_default(op, &defaults);
        view.attrs = &defaults;
    }
    rc = eo_op_infer(op, in_desc, n_in, view.attrs, most, err);
    if (rc != EO_OK) {
        return rc;
    }
    memcpy(view.in, in_desc, (size_t)n_in * sizeof(*in_desc));
    if (out_fallback != NULL && fallback_size > 0) {
        out_fallback[0] = '\0';
    }
    *actual = most[0];
    ir_init(&ir, &spec, x->dev);
    rc = run_sized(x, &ir, &view, in, out, actual, out_fallback, fallback_size, err);
    ir_fini(&ir);
    return rc;
}
