#include "tests/conformance/runner.h"

#include "backends/cpu/cpu.h"
#include "backends/cpu/isa.h"
#include "daemon/engine/executor.h"
#include "tests/support/fake_device.h"

#include <stdio.h>
#include <string.h>

enum { GUARD_BYTES = 64, GUARD = 0xC3 };

int run_init(struct run *r, const struct eo_op_schema *op, const struct eo_attrs *attrs,
             const struct eo_tensor_desc *in, int n_in, struct eo_error *err)
{
    const struct eo_tensor_desc *pointers[EO_MAX_INPUTS];
    memset(r, 0, sizeof *r);
    r->op = op;
    r->n_in = n_in;
    if (attrs)
        r->attrs = *attrs;
    for (int i = 0; i < n_in; i++) {
        r->in[i] = in[i];
        pointers[i] = &r->in[i];
        r->in_data[i] = calloc(1, eo_tensor_desc_bytes(&in[i]) + 1);
        CHECK(r->in_data[i], "no memory");
    }
    if (!op)
        return EO_OK;
    r->n_out = eo_op_n_outputs(op, &r->attrs);
    return eo_op_infer(op, pointers, n_in, &r->attrs, r->out, err);
}

void run_fini(struct run *r)
{
    for (int i = 0; i < r->n_in; i++)
        free(r->in_data[i]);
    r->n_in = 0;
}

void results_fini(struct results *r)
{
    for (int i = 0; i < EO_MAX_OUTPUTS; i++) {
        free(r->out[i]);
        r->out[i] = NULL;
    }
}

/* Device memory of one run. */
struct memory {
    void *in[EO_MAX_INPUTS], *out[EO_MAX_OUTPUTS], *workspace;
};

/* Memory with guard bytes behind it; NULL for nothing, as backend.h allows. */
static void *device_block(struct eo_device *dev, uint64_t bytes)
{
    struct eo_error err;
    void *p = NULL;
    unsigned char guard[GUARD_BYTES];
    if (bytes == 0)
        return NULL;
    memset(guard, GUARD, sizeof guard);
    ASSERT_OK(dev->backend->alloc(dev, bytes + GUARD_BYTES, &p, &err));
    ASSERT_OK(dev->backend->copy_in(dev, (char *)p + bytes, guard, sizeof guard, &err));
    return p;
}

static void check_and_free_block(struct eo_device *dev, void *p, uint64_t bytes, const char *what)
{
    struct eo_error err;
    unsigned char guard[GUARD_BYTES];
    if (!p)
        return;
    ASSERT_OK(dev->backend->copy_out(dev, guard, (const char *)p + bytes, sizeof guard, &err));
    for (int i = 0; i < GUARD_BYTES; i++)
        CHECK(guard[i] == GUARD, "%s: byte %d behind a result was written", what, i);
    dev->backend->free(dev, p, bytes + GUARD_BYTES);
}

static void allocate(struct eo_device *dev, const struct run *r, int share, uint64_t workspace, struct memory *m)
{
    struct eo_error err;
    for (int i = 0; i < r->n_in; i++) {
        uint64_t bytes = eo_tensor_desc_bytes(&r->in[i]);
        m->in[i] = device_block(dev, bytes);
        ASSERT_OK(dev->backend->copy_in(dev, m->in[i], r->in_data[i], bytes, &err));
    }
    for (int o = 0; o < r->n_out; o++)
        m->out[o] = o == 0 && share >= 0 ? m->in[share] : device_block(dev, eo_tensor_desc_bytes(&r->out[o]));
    m->workspace = device_block(dev, workspace);
}

static void check_and_free(struct eo_device *dev, const struct run *r, int share, uint64_t workspace, struct memory *m)
{
    const char *what = r->op ? r->op->name : "fused";
    for (int o = 0; o < r->n_out; o++)
        if (o != 0 || share < 0)
            check_and_free_block(dev, m->out[o], eo_tensor_desc_bytes(&r->out[o]), what);
    for (int i = 0; i < r->n_in; i++)
        check_and_free_block(dev, m->in[i], eo_tensor_desc_bytes(&r->in[i]), what);
    check_and_free_block(dev, m->workspace, workspace, what);
}

/* actual: receives the shape of output 0 when data decides it. */
static int launch(struct eo_device *dev, const struct eo_node_view *node, const struct eo_kernel *k,
                  const struct memory *m, struct eo_tensor_desc *actual, struct eo_error *err)
{
    struct eo_launch l = {.node = node, .workspace = m->workspace, .state = k->state};
    l.actual = node->op && (node->op->flags & EO_OPF_DATA_SHAPE) ? actual : NULL;
    memcpy(l.in, m->in, sizeof m->in);
    memcpy(l.out, m->out, sizeof m->out);
    int rc = k->run(dev, &l, err);
    if (rc == EO_OK && dev->backend->sync)
        rc = dev->backend->sync(dev, err);
    return rc;
}

static int fetch(struct eo_device *dev, const struct run *r, const struct memory *m, struct results *out,
                 struct eo_error *err)
{
    int rc = EO_OK;
    for (int o = 0; rc == EO_OK && o < r->n_out; o++) {
        uint64_t bytes = eo_tensor_desc_bytes(&out->desc[o]);
        CHECK(bytes <= eo_tensor_desc_bytes(&r->out[o]), "%s: a result larger than the largest", out->kernel);
        out->out[o] = calloc(1, bytes + 1);
        CHECK(out->out[o], "no memory");
        rc = dev->backend->copy_out(dev, out->out[o], m->out[o], bytes, err);
    }
    return rc;
}

/* A composite row that the device does not claim: by its lowering, as the engine runs it. */
static int run_lowered(struct eo_device *dev, const struct run *r, struct results *out, struct eo_error *err)
{
    const struct eo_tensor_desc *in[EO_MAX_INPUTS];
    struct executor *x;
    struct memory m = {0};
    CHECK(executor_new(dev, &x, err) == EO_OK, "no executor");
    for (int i = 0; i < r->n_in; i++)
        in[i] = &r->in[i];
    (void)snprintf(out->kernel, sizeof out->kernel, "lowered");
    allocate(dev, r, -1, 0, &m);
    int rc = executor_run_op(x, r->op, &r->attrs, in, m.in, r->n_in, m.out, PLAN_STRICT, NULL, 0, err);
    if (rc == EO_OK && dev->backend->sync)
        rc = dev->backend->sync(dev, err);
    if (rc == EO_OK)
        rc = fetch(dev, r, &m, out, err);
    executor_free(x);
    check_and_free(dev, r, -1, 0, &m);
    return rc;
}

int run_on(struct eo_device *dev, const struct run *r, int share, struct results *out, struct eo_error *err)
{
    struct eo_node_view node = {.op = r->op, .attrs = &r->attrs, .fused = r->fused, .n_in = r->n_in, .n_out = r->n_out};
    struct eo_kernel k;
    struct memory m = {0};
    memset(out, 0, sizeof *out);
    memcpy(out->desc, r->out, sizeof out->desc);
    for (int i = 0; i < r->n_in; i++)
        node.in[i] = &r->in[i];
    for (int o = 0; o < r->n_out; o++)
        node.out[o] = &r->out[o];
    int rc = dev->backend->select(dev, &node, &k, err);
    if (rc == EO_E_UNSUPPORTED && r->op && (r->op->flags & EO_OPF_COMPOSITE))
        return run_lowered(dev, r, out, err);
    if (rc != EO_OK)
        return rc;
    snprintf(out->kernel, sizeof out->kernel, "%s", k.name);
    out->in_place = k.in_place;
    CHECK(share < 0 || (k.in_place >> share & 1), "%s does not work in place", k.name);
    allocate(dev, r, share, k.workspace_bytes, &m);
    rc = launch(dev, &node, &k, &m, &out->desc[0], err);
    if (rc == EO_OK)
        rc = fetch(dev, r, &m, out, err);
    check_and_free(dev, r, share, k.workspace_bytes, &m);
    if (k.state_free)
        k.state_free(k.state);
    return rc;
}

static void open_one(struct devices *d, const char *device, const char *name)
{
    struct eo_error err;
    ASSERT_OK(registry_open(device, &(struct eo_device_config){.threads = 2}, &d->under_test[d->n], NULL, 0, &err));
    d->names[d->n++] = name;
}

static void open_cpus(struct devices *d)
{
    open_one(d, "cpu", "cpu");
    for (int i = 0; i < isa_count(); i++) {
        const struct cpu_device *best = (const struct cpu_device *)d->under_test[0];
        if (isa_at(i) == best->vec)
            continue;
        if (!isa_runs_here(i)) {
            printf("%s is left out: this processor does not have it\n", isa_at(i)->description);
            continue;
        }
        (void)setenv("EVERYO_CPU_ISA", isa_at(i)->name, 1);
        open_one(d, "cpu", isa_at(i)->name);
        (void)unsetenv("EVERYO_CPU_ISA");
    }
}

void devices_open(struct devices *d)
{
    struct eo_error err;
    struct eo_backend_facts facts;
    char refusal[224];
    memset(d, 0, sizeof *d);
    registry_reset();
    ASSERT_OK(registry_add(&fake_backend, &err));
    ASSERT_OK(registry_open("reference", NULL, &d->reference, NULL, 0, &err));
    registry_find("cpu")->probe(&facts);
    registry_first_refusal(&facts, refusal, sizeof refusal);
    if (refusal[0])
        printf("cpu is left out: %s\n", refusal);
    else
        open_cpus(d);
    fake_device_configure(NULL);
    open_one(d, "fake", "fake");
    fake_device_configure(&(struct fake_device_options){.threaded = true});
    open_one(d, "fake", "fake, threaded");
    fake_device_configure(NULL);
}

void devices_close(struct devices *d)
{
    for (int i = 0; i < d->n; i++)
        registry_close(d->under_test[i]);
    registry_close(d->reference);
    registry_reset();
}
