#include "tests/support/fake_device.h"

#include "backends/registry.h"
#include "tests/support/fake_memory.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A node view that survives its owner. */
struct node_copy {
    struct eo_node_view view;
    struct eo_attrs attrs;
    struct eo_tensor_desc in[EO_MAX_INPUTS], out[EO_MAX_OUTPUTS];
};

enum work_kind { WORK_KERNEL, WORK_COPY, WORK_FREE };
/* One entry of the queue. Pointers are real ones, except that of WORK_FREE. */
struct work {
    struct work *next;
    enum work_kind kind;
    struct eo_kernel kernel;
    struct eo_launch launch;
    struct node_copy node;
    void *dst;
    const void *src;
    uint64_t bytes;
    char staged[]; /* source bytes of a copy from the host */
};

struct fake_device {
    struct eo_device base;
    struct fake_device_options options;
    struct eo_device *reference;
    struct fake_memory memory;
    pthread_mutex_t lock; /* guards everything below, and memory */
    pthread_cond_t changed;
    pthread_t thread;
    struct work *first, **last;
    bool busy, closing;
    struct eo_error error; /* of queued work; code 0 = none */
    struct fake_device_stats stats;
};

static struct fake_device_options configured;

void fake_device_configure(const struct fake_device_options *options)
{
    configured = options ? *options : (struct fake_device_options){0};
}

static struct fake_device *fake(struct eo_device *dev)
{
    return (struct fake_device *)dev;
}

/* ---- the queue ---- */

static int run_kernel(struct fake_device *f, struct work *w, uint64_t number, struct eo_error *err)
{
    if (number == f->options.fail_launch)
        return EO_RAISE(err, EO_E_BACKEND_FAILED, "the fake device was told to fail at launch %llu",
                        (unsigned long long)f->options.fail_launch);
    return w->kernel.run(f->reference, &w->launch, err);
}

/* Does one entry; lock is held, and given up while kernels run. Work after an error is dropped, as a device would. */
static void do_work(struct fake_device *f, struct work *w)
{
    struct eo_error err;
    bool failed = f->error.code != EO_OK;
    if (w->kind == WORK_FREE) {
        fake_memory_release(&f->memory, w->dst);
    } else if (w->kind == WORK_COPY && !failed) {
        memmove(w->dst, w->src ? w->src : w->staged, w->bytes);
    } else if (w->kind == WORK_KERNEL && !failed) {
        uint64_t number = ++f->stats.executed;
        pthread_mutex_unlock(&f->lock);
        int rc = run_kernel(f, w, number, &err);
        pthread_mutex_lock(&f->lock);
        if (rc != EO_OK)
            f->error = err;
    }
    free(w);
}

static bool take_one(struct fake_device *f)
{
    struct work *w = f->first;
    if (!w)
        return false;
    f->first = w->next;
    if (!f->first)
        f->last = &f->first;
    f->busy = true;
    do_work(f, w);
    f->busy = false;
    return true;
}

static void *run_queue(void *device)
{
    struct fake_device *f = device;
    pthread_mutex_lock(&f->lock);
    for (;;) {
        while (take_one(f))
            continue;
        pthread_cond_broadcast(&f->changed);
        if (f->closing)
            break;
        pthread_cond_wait(&f->changed, &f->lock);
    }
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

static void push(struct fake_device *f, struct work *w)
{
    w->next = NULL;
    *f->last = w;
    f->last = &w->next;
    f->stats.queued++;
    pthread_cond_broadcast(&f->changed);
}

/* Waits until the queue is empty; lock is held. */
static void drain(struct fake_device *f)
{
    if (!f->options.threaded) {
        while (take_one(f))
            continue;
        return;
    }
    while (f->first || f->busy)
        pthread_cond_wait(&f->changed, &f->lock);
}

static struct work *new_work(enum work_kind kind, uint64_t staged, struct eo_error *err)
{
    struct work *w = malloc(sizeof *w + staged);
    if (!w) {
        (void)EO_RAISE(err, EO_E_NO_MEMORY, "no memory for the fake device's queue");
        return NULL;
    }
    memset(w, 0, sizeof *w);
    w->kind = kind;
    return w;
}

/* ---- memory ---- */

static int bad_pointer(const char *what, const void *p, uint64_t bytes, struct eo_error *err)
{
    return EO_BUG(err, "%s: %llu bytes at %p are not inside one live block of the fake device", what,
                  (unsigned long long)bytes, p);
}

static int fake_alloc(struct eo_device *dev, uint64_t bytes, void **out, struct eo_error *err)
{
    struct fake_device *f = fake(dev);
    if (bytes == 0) {
        *out = NULL;
        return EO_OK;
    }
    pthread_mutex_lock(&f->lock);
    void *p = fake_memory_alloc(&f->memory, bytes);
    if (!p) {
        drain(f);
        p = fake_memory_alloc(&f->memory, bytes);
    }
    pthread_mutex_unlock(&f->lock);
    if (!p)
        return EO_RAISE(err, EO_E_DEVICE_MEMORY, "the fake device has no %llu bytes left", (unsigned long long)bytes);
    *out = p;
    return EO_OK;
}

static void fake_free(struct eo_device *dev, void *data, uint64_t bytes)
{
    struct fake_device *f = fake(dev);
    struct work *w = NULL;
    struct eo_error err;
    if (!data)
        return;
    pthread_mutex_lock(&f->lock);
    if (!fake_memory_retire(&f->memory, data, bytes)) {
        if (f->error.code == EO_OK)
            (void)bad_pointer("free", data, bytes, &f->error);
    } else if ((w = new_work(WORK_FREE, 0, &err))) {
        w->dst = data;
        push(f, w);
    }
    pthread_mutex_unlock(&f->lock);
}

static int fake_copy_in(struct eo_device *dev, void *dst, const void *src_host, uint64_t bytes, struct eo_error *err)
{
    struct fake_device *f = fake(dev);
    int rc = EO_OK;
    if (bytes == 0)
        return EO_OK;
    pthread_mutex_lock(&f->lock);
    void *real = fake_memory_real(&f->memory, dst, bytes);
    struct work *w = real ? new_work(WORK_COPY, bytes, err) : NULL;
    if (w) {
        w->dst = real;
        w->bytes = bytes;
        memcpy(w->staged, src_host, bytes);
        push(f, w);
    } else {
        rc = real ? EO_E_NO_MEMORY : bad_pointer("copy_in", dst, bytes, err);
    }
    pthread_mutex_unlock(&f->lock);
    return rc;
}

static int fake_copy(struct eo_device *dev, void *dst, const void *src, uint64_t bytes, struct eo_error *err)
{
    struct fake_device *f = fake(dev);
    int rc = EO_OK;
    if (bytes == 0)
        return EO_OK;
    pthread_mutex_lock(&f->lock);
    void *to = fake_memory_real(&f->memory, dst, bytes), *from = fake_memory_real(&f->memory, src, bytes);
    struct work *w = to && from ? new_work(WORK_COPY, 0, err) : NULL;
    if (w) {
        w->dst = to;
        w->src = from;
        w->bytes = bytes;
        push(f, w);
    } else {
        rc = to && from ? EO_E_NO_MEMORY : bad_pointer("copy", to ? src : dst, bytes, err);
    }
    pthread_mutex_unlock(&f->lock);
    return rc;
}

static int fake_copy_out(struct eo_device *dev, void *dst_host, const void *src, uint64_t bytes, struct eo_error *err)
{
    struct fake_device *f = fake(dev);
    int rc = EO_OK;
    if (bytes == 0)
        return EO_OK;
    pthread_mutex_lock(&f->lock);
    drain(f);
    const void *real = fake_memory_real(&f->memory, src, bytes);
    if (f->error.code != EO_OK) {
        rc = f->error.code;
        if (err)
            *err = f->error;
    } else if (!real) {
        rc = bad_pointer("copy_out", src, bytes, err);
    } else {
        memcpy(dst_host, real, bytes);
    }
    pthread_mutex_unlock(&f->lock);
    return rc;
}

static int fake_sync(struct eo_device *dev, struct eo_error *err)
{
    struct fake_device *f = fake(dev);
    pthread_mutex_lock(&f->lock);
    drain(f);
    f->stats.syncs++;
    int rc = f->error.code;
    if (rc != EO_OK && err)
        *err = f->error;
    f->error.code = EO_OK;
    pthread_mutex_unlock(&f->lock);
    return rc;
}

/* ---- kernels ---- */

static void copy_node(struct node_copy *to, const struct eo_node_view *from)
{
    to->view = *from;
    if (from->attrs) {
        to->attrs = *from->attrs;
        to->view.attrs = &to->attrs;
    }
    for (int i = 0; i < from->n_in; i++) {
        to->in[i] = *from->in[i];
        to->view.in[i] = &to->in[i];
    }
    for (int i = 0; i < from->n_out; i++) {
        to->out[i] = *from->out[i];
        to->view.out[i] = &to->out[i];
    }
}

/* Real pointers for all operands; lock is held. */
static int translate(struct fake_device *f, struct work *w, const struct eo_launch *l, struct eo_error *err)
{
    const struct eo_node_view *node = l->node;
    for (int i = 0; i < node->n_in + node->n_out; i++) {
        bool is_out = i >= node->n_in;
        int k = is_out ? i - node->n_in : i;
        void *alias = is_out ? l->out[k] : l->in[k];
        uint64_t bytes = eo_tensor_desc_bytes(is_out ? node->out[k] : node->in[k]);
        void *real = bytes > 0 ? fake_memory_real(&f->memory, alias, bytes) : NULL;
        if (bytes > 0 && !real)
            return bad_pointer(node->op->name, alias, bytes, err);
        *(is_out ? &w->launch.out[k] : &w->launch.in[k]) = real;
    }
    if (w->kernel.workspace_bytes > 0) {
        w->launch.workspace = fake_memory_real(&f->memory, l->workspace, w->kernel.workspace_bytes);
        if (!w->launch.workspace)
            return bad_pointer("workspace", l->workspace, w->kernel.workspace_bytes, err);
    }
    return EO_OK;
}

static int fake_launch(struct eo_device *dev, const struct eo_launch *l, struct eo_error *err)
{
    struct fake_device *f = fake(dev);
    struct work *w = new_work(WORK_KERNEL, 0, err);
    if (!w)
        return EO_E_NO_MEMORY;
    w->kernel = *(const struct eo_kernel *)l->state;
    copy_node(&w->node, l->node);
    w->launch.node = &w->node.view;
    w->launch.actual = l->actual;
    pthread_mutex_lock(&f->lock);
    int rc = translate(f, w, l, err);
    if (rc == EO_OK) {
        dev->n_launches++;
        push(f, w);
    } else {
        free(w);
    }
    pthread_mutex_unlock(&f->lock);
    return rc;
}

static int decline(const struct eo_device *dev, const struct eo_node_view *node, struct eo_error *err)
{
    const char *name = node->fused ? "fused programs" : node->op->name;
    int rc = EO_RAISE(err, EO_E_UNSUPPORTED, "the fake device has no kernel for %s", name);
    eo_error_detail(err, "fake.%s: declined by the test's options.", name);
    eo_error_at_device(err, "fake", dev->info.name);
    return rc;
}

static int fake_select(struct eo_device *dev, const struct eo_node_view *node, struct eo_kernel *out,
                       struct eo_error *err)
{
    struct fake_device *f = fake(dev);
    if (node->fused || (f->options.declines && f->options.declines(node)))
        return decline(dev, node, err);
    struct eo_kernel *inner = calloc(1, sizeof *inner);
    if (!inner)
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a kernel");
    int rc = f->reference->backend->select(f->reference, node, inner, err);
    if (rc != EO_OK) {
        free(inner);
        return rc;
    }
    memset(out, 0, sizeof *out);
    out->run = fake_launch;
    out->name = inner->name;
    out->workspace_bytes = inner->workspace_bytes;
    out->in_place = inner->in_place;
    out->state = inner;
    out->state_free = free;
    return EO_OK;
}

/* ---- facts and devices ---- */

static void fake_probe(struct eo_backend_facts *out)
{
    memset(out, 0, sizeof *out);
    for (int f = 0; f <= EO_FACT_SUPPORTED; f++) {
        enum eo_fact_state state = configured.facts[f];
        out->state[f] = state == EO_FACT_UNKNOWN ? EO_FACT_YES : state;
        (void)snprintf(out->why[f], sizeof out->why[f], "the test's options say so");
        if (out->state[f] == EO_FACT_NO)
            break;
    }
}

static int fake_count(void)
{
    return configured.no_devices ? 0 : 1;
}

static void fake_close(struct eo_device *dev)
{
    struct fake_device *f = fake(dev);
    pthread_mutex_lock(&f->lock);
    drain(f);
    f->closing = true;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
    if (f->options.threaded)
        (void)pthread_join(f->thread, NULL);
    registry_close(f->reference);
    fake_memory_fini(&f->memory);
    pthread_cond_destroy(&f->changed);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

static void describe(struct fake_device *f)
{
    struct eo_device_info *info = &f->base.info;
    f->base.backend = &fake_backend;
    (void)snprintf(info->name, sizeof info->name, "fake");
    (void)snprintf(info->description, sizeof info->description, "fake device, %s queue",
                   f->options.threaded ? "threaded" : "deferred");
    info->memory_total = info->memory_free = f->memory.size;
    info->threads = 1;
}

static int fake_open(int index, const struct eo_device_config *config, struct eo_device **out, struct eo_error *err)
{
    if (index != 0 || configured.no_devices)
        return EO_RAISE(err, EO_E_NO_DEVICE, "there is no device fake:%d", index);
    struct fake_device *f = calloc(1, sizeof *f);
    if (!f)
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a device");
    f->options = configured;
    f->last = &f->first;
    if (!fake_memory_init(&f->memory, configured.memory_bytes ? configured.memory_bytes : (uint64_t)1 << 30)) {
        free(f);
        return EO_RAISE(err, EO_E_DEVICE_MEMORY, "no address space for the fake device");
    }
    int rc = registry_open("reference", config, &f->reference, NULL, 0, err);
    if (rc != EO_OK) {
        fake_memory_fini(&f->memory);
        free(f);
        return rc;
    }
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->changed, NULL);
    describe(f);
    f->options.threaded = f->options.threaded && pthread_create(&f->thread, NULL, run_queue, f) == 0;
    *out = &f->base;
    return EO_OK;
}

struct fake_device_stats fake_device_stats(struct eo_device *dev)
{
    struct fake_device *f = fake(dev);
    pthread_mutex_lock(&f->lock);
    struct fake_device_stats stats = f->stats;
    stats.live_blocks = fake_memory_live(&f->memory);
    pthread_mutex_unlock(&f->lock);
    return stats;
}

const struct eo_backend fake_backend = {
    .abi = EO_BACKEND_ABI,
    .name = "fake",
    .summary = "a device for tests: own address space, asynchronous queue",
    .probe = fake_probe,
    .device_count = fake_count,
    .device_open = fake_open,
    .device_close = fake_close,
    .alloc = fake_alloc,
    .free = fake_free,
    .select = fake_select,
    .copy_in = fake_copy_in,
    .copy_out = fake_copy_out,
    .copy = fake_copy,
    .sync = fake_sync,
};
