/* task.op, task.plan, task.run, task.free, task.facts, task.caps in this process, on the reference backend and on the
 * fake device, whose memory is not the pool's. What everyod would never send is sent here as well. */
#include "backends/registry.h"
#include "daemon/engine/executor.h"
#include "daemon/worker/plans.h"
#include "daemon/worker/worker.h"
#include "proto/graph_build.h"
#include "tests/support/fake_device.h"
#include "tests/support/suite.h"

#include <string.h>

enum { POOL = 1 << 20 };

static struct worker w;
static struct eo_error err;
static struct eo_bytes params, result;
static struct eo_doc doc, answer;

static void begin(const char *device)
{
    const struct eo_device_config config = {.threads = 1};
    char reason[200];
    memset(&w, 0, sizeof(w));
    memset(&err, 0, sizeof(err));
    memset(&answer, 0, sizeof(answer));
    registry_reset();
    if (strcmp(device, "fake") == 0) {
        fake_device_configure(NULL);
        ASSERT_OK(registry_add(&fake_backend, &err));
    }
    ASSERT_OK(shm_create(&w.pool, "test-pool", POOL, &err));
    ASSERT_OK(registry_open(device, &config, &w.device, reason, sizeof(reason), &err));
    ASSERT_OK(executor_new(w.device, &w.executor, &err));
    ASSERT_OK(plans_new(&w.plans, &err));
    eo_bytes_init(&params, 1 << 20);
    eo_bytes_init(&result, 1 << 20);
}

static void finish(void)
{
    plans_free(w.plans, &w);
    executor_free(w.executor);
    if (w.device->backend == &fake_backend) {
        ck_assert_int_eq(fake_device_stats(w.device).live_blocks, 0); /* everything that was staged was freed */
    }
    registry_close(w.device);
    shm_close(&w.pool);
    eo_bytes_fini(&params);
    eo_bytes_fini(&result);
    registry_reset();
}

/* Runs the task with what was packed; its result stays in `answer` until the next call of forget. */
static int run(int (*task)(TASK_ARGUMENTS))
{
    struct worker_call call = {.id = 1};
    ck_assert(!params.failed);
    ASSERT_OK(eo_doc_parse(&doc, params.data, params.size, &err));
    call.params = doc.root;
    eo_bytes_clear(&result);
    int code = task(&w, &call, &result, &err);
    if (code == EO_OK) {
        ck_assert(!call.deferred);
        ASSERT_OK(eo_doc_parse(&answer, result.data, result.size, &err)); /* exactly one map */
        ck_assert_int_eq(eo_item_kind(answer.root), EO_ITEM_MAP);
    }
    eo_doc_fini(&doc);
    return code;
}

static void forget(void)
{
    eo_doc_fini(&answer);
    memset(&answer, 0, sizeof(answer));
}

static float *floats_at(uint64_t offset)
{
    return (float *)(void *)(w.pool.data + offset);
}

static void pack_place(uint64_t offset, uint64_t bytes)
{
    eo_pack_array(&params, 2);
    eo_pack_u64(&params, offset);
    eo_pack_u64(&params, bytes);
}

struct operand {
    const char *dtype;
    int64_t shape[2];
    uint64_t offset, bytes;
};

/* op(a, b) -> one output. */
static void pack_op(const char *op, const struct operand *in, size_t n_in, uint64_t out, uint64_t out_bytes,
                    bool commits)
{
    eo_bytes_clear(&params);
    eo_pack_map(&params, commits ? 4 : 3);
    eo_pack_kv_str(&params, "op", op);
    if (commits) {
        eo_pack_str(&params, "commit");
        eo_pack_array(&params, 1);
        pack_place(out, out_bytes);
    }
    eo_pack_str(&params, "in");
    eo_pack_array(&params, n_in);
    for (size_t i = 0; i < n_in; i++) {
        eo_pack_map(&params, 3);
        eo_pack_kv_str(&params, "dtype", in[i].dtype);
        eo_pack_str(&params, "shape");
        eo_pack_i64_array(&params, in[i].shape, 2);
        eo_pack_str(&params, "at");
        pack_place(in[i].offset, in[i].bytes);
    }
    eo_pack_str(&params, "out");
    eo_pack_array(&params, 1);
    pack_place(out, out_bytes);
}

static void product_on(const char *device)
{
    const struct operand in[2] = {{"float32", {2, 2}, 0, 16}, {"float32", {2, 2}, 64, 16}};
    begin(device);
    memcpy(floats_at(0), (const float[]){1, 2, 3, 4}, 16);
    memcpy(floats_at(64), (const float[]){0, 1, 1, 0}, 16);
    pack_op("matmul", in, 2, 4096, 16, true);
    ASSERT_OK(run(task_TASK_OP));
    forget();
    const float *y = floats_at(4096);
    ck_assert(y[0] == 2 && y[1] == 1 && y[2] == 4 && y[3] == 3);
    const struct operand empty[2] = {{"float32", {0, 2}, 0, 0}, {"float32", {2, 2}, 64, 16}};
    pack_op("matmul", empty, 2, 0, 0, false);
    ASSERT_OK(run(task_TASK_OP));
    forget();
    finish();
}

START_TEST(product)
{
    product_on("reference");
    product_on("fake");
}
END_TEST

/* An error that the device finds late comes back with its own task, and with no other. */
START_TEST(late_errors)
{
    const struct operand in[2] = {{"float32", {2, 2}, 0, 16}, {"int64", {1, 1}, 64, 8}};
    begin("fake");
    memset(floats_at(0), 0, 16);
    memcpy(w.pool.data + 64, &(const int64_t){77}, 8);
    pack_op("gather", in, 2, 4096, 8, false);
    ASSERT_CODE(run(task_TASK_OP), EO_E_BAD_VALUE);
    memcpy(w.pool.data + 64, &(const int64_t){1}, 8);
    pack_op("gather", in, 2, 4096, 8, false);
    ASSERT_OK(run(task_TASK_OP));
    forget();
    finish();
}
END_TEST

/* everyod checks all this before it sends; a worker does not rely on that. */
START_TEST(places_are_checked)
{
    struct operand good[2] = {{"float32", {2, 2}, 0, 16}, {"float32", {2, 2}, 64, 16}};
    begin("reference");
    const struct {
        uint64_t offset, bytes;
    } bad_in[] = {{POOL, 16},
                  {POOL - 8, 16},
                  {UINT64_MAX, 16},
                  {UINT64_MAX - 15, 16},
                  {64, UINT64_MAX},
                  {64, 15},
                  {64, 17},
                  {65, 16},
                  {8, 16},
                  {UINT64_C(1) << 63, 16},
                  {0, 0}};
    for (size_t i = 0; i < EO_COUNT_OF(bad_in); i++) {
        struct operand in[2] = {good[0], {"float32", {2, 2}, bad_in[i].offset, bad_in[i].bytes}};
        pack_op("matmul", in, 2, 4096, 16, false);
        ck_assert_msg(run(task_TASK_OP) == EO_E_INTERNAL, "operand %zu was taken", i);
        pack_op("matmul", good, 2, bad_in[i].offset, bad_in[i].bytes, false);
        ck_assert_msg(run(task_TASK_OP) == EO_E_INTERNAL, "result %zu was taken", i);
    }
    pack_op("matmul", good, 2, 64, 16, false); /* the result over an operand */
    ASSERT_CODE(run(task_TASK_OP), EO_E_INTERNAL);
    pack_op("matmul", good, 2, POOL, 16, true); /* pages beyond the pool */
    ASSERT_CODE(run(task_TASK_OP), EO_E_INTERNAL);
    good[1].shape[0] = 3;
    good[1].bytes = 24;
    pack_op("matmul", good, 2, 4096, 16, false); /* shapes are inferred again */
    ASSERT_CODE(run(task_TASK_OP), EO_E_SHAPE_MISMATCH);
    pack_op("adam_update", good, 2, 4096, 16, false);
    ASSERT_CODE(run(task_TASK_OP), EO_E_UNKNOWN_OP);
    pack_op("", good, 2, 4096, 16, false);
    ASSERT_CODE(run(task_TASK_OP), EO_E_UNKNOWN_OP);
    eo_bytes_clear(&params);
    eo_pack_map(&params, 0);
    ASSERT_CODE(run(task_TASK_OP), EO_E_BAD_PARAMS);
    ASSERT_CODE(run(task_TASK_PLAN), EO_E_BAD_PARAMS);
    ASSERT_CODE(run(task_TASK_RUN), EO_E_BAD_PARAMS);
    ASSERT_CODE(run(task_TASK_FREE), EO_E_BAD_PARAMS);
    finish();
}
END_TEST

/* ---- plans ---- */

/* a = x + y, s = sum(a); the bytes go into the pool at offset 64 KiB. Returns their number. */
static uint64_t put_graph(void)
{
    struct eo_graph *g = eo_graph_new();
    struct eo_builder b;
    struct eo_tensor_desc desc;
    struct eo_bytes bytes;
    eo_value x, y;
    ASSERT_OK(eo_tensor_desc_init(&desc, EO_FLOAT32, (int64_t[]){4}, 1, &err));
    ASSERT_OK(eo_graph_input(g, "x", &desc, &x, &err));
    ASSERT_OK(eo_graph_input(g, "y", &desc, &y, &err));
    eo_build_init(&b, g, &err);
    eo_value a = eo_build_binary(&b, EO_OP_ADD, x, y);
    eo_value s = eo_build_reduce(&b, EO_OP_SUM, a, NULL, 0, false);
    ASSERT_OK(b.status);
    ASSERT_OK(eo_graph_output(g, "a", a, &err));
    ASSERT_OK(eo_graph_output(g, "s", s, &err));
    eo_bytes_init(&bytes, 1 << 16);
    ASSERT_OK(eo_graph_encode(g, &bytes, &err));
    memcpy(w.pool.data + 65536, bytes.data, bytes.size);
    uint64_t size = bytes.size;
    eo_bytes_fini(&bytes);
    eo_graph_free(g);
    return size;
}

static void pack_plan(uint64_t id, uint64_t at, uint64_t size)
{
    eo_bytes_clear(&params);
    eo_pack_map(&params, 3);
    eo_pack_kv_u64(&params, "plan", id);
    eo_pack_kv_u64(&params, "at", at);
    eo_pack_kv_u64(&params, "size", size);
}

/* in: x at 0, y at 64; out: a at 128 or absent, s at 192 or absent. */
static void pack_run(uint64_t id, bool wants_a, bool wants_s)
{
    eo_bytes_clear(&params);
    eo_pack_map(&params, 3);
    eo_pack_kv_u64(&params, "plan", id);
    eo_pack_str(&params, "in");
    eo_pack_array(&params, 2);
    pack_place(0, 16);
    pack_place(64, 16);
    eo_pack_str(&params, "out");
    eo_pack_array(&params, 2);
    if (wants_a) {
        pack_place(128, 16);
    } else {
        eo_pack_nil(&params);
    }
    if (wants_s) {
        pack_place(192, 4);
    } else {
        eo_pack_nil(&params);
    }
}

static void pack_free(uint64_t id)
{
    eo_bytes_clear(&params);
    eo_pack_map(&params, 1);
    eo_pack_kv_u64(&params, "plan", id);
}

static void plans_on(const char *device)
{
    begin(device);
    pack_plan(9, 65536, put_graph());
    ASSERT_OK(run(task_TASK_PLAN));
    ck_assert_uint_eq(eo_item_count(eo_item_get(answer.root, "inputs")), 2);
    ck_assert_uint_eq(eo_item_count(eo_item_get(answer.root, "outputs")), 2);
    forget();
    memcpy(floats_at(0), (const float[]){1, 2, 3, 4}, 16);
    memcpy(floats_at(64), (const float[]){10, 10, 10, 10}, 16);
    for (int i = 0; i < 4; i++) { /* all and nothing wanted */
        memset(floats_at(128), 0, 128);
        pack_run(9, i & 1, i & 2);
        ASSERT_OK(run(task_TASK_RUN));
        forget();
        ck_assert(floats_at(128)[3] == (i & 1 ? 14 : 0));
        ck_assert(floats_at(192)[0] == (i & 2 ? 50 : 0));
    }
    pack_plan(9, 65536, put_graph());
    ASSERT_CODE(run(task_TASK_PLAN), EO_E_INTERNAL); /* the number is taken */
    pack_free(9);
    ASSERT_OK(run(task_TASK_FREE));
    forget();
    ASSERT_CODE(run(task_TASK_FREE), EO_E_INTERNAL);
    pack_run(9, true, true);
    ASSERT_CODE(run(task_TASK_RUN), EO_E_INTERNAL);
    finish();
}

START_TEST(plans)
{
    plans_on("reference");
    plans_on("fake");
}
END_TEST

START_TEST(plan_refusals)
{
    begin("reference");
    uint64_t size = put_graph();
    pack_plan(1, POOL + 1, 10);
    ASSERT_CODE(run(task_TASK_PLAN), EO_E_BAD_PARAMS);
    pack_plan(1, 65536, POOL);
    ASSERT_CODE(run(task_TASK_PLAN), EO_E_BAD_PARAMS);
    pack_plan(1, 65536, size - 1);
    ck_assert_int_ne(run(task_TASK_PLAN), EO_OK);
    pack_plan(1, 0, 100); /* zeros */
    ck_assert_int_ne(run(task_TASK_PLAN), EO_OK);
    w.memory_limit_bytes = 1;
    pack_plan(1, 65536, size);
    int code = run(task_TASK_PLAN); /* whether it needs an arena is the compiler's business */
    ck_assert(code == EO_OK || code == EO_E_DEVICE_MEMORY);
    if (code == EO_OK) {
        forget();
    }
    w.memory_limit_bytes = 0;
    pack_plan(2, 65536, size);
    ASSERT_OK(run(task_TASK_PLAN));
    forget();
    eo_bytes_clear(&params);
    eo_pack_map(&params, 3);
    eo_pack_kv_u64(&params, "plan", 2);
    eo_pack_str(&params, "in");
    eo_pack_array(&params, 2);
    eo_pack_nil(&params); /* operands are never absent */
    eo_pack_nil(&params);
    eo_pack_str(&params, "out");
    eo_pack_array(&params, 2);
    eo_pack_nil(&params);
    eo_pack_nil(&params);
    ASSERT_CODE(run(task_TASK_RUN), EO_E_INTERNAL);
    finish();
}
END_TEST

/* ---- facts and caps ---- */

START_TEST(facts)
{
    begin("fake");
    eo_bytes_clear(&params);
    eo_pack_map(&params, 1);
    eo_pack_kv_bool(&params, "self_check", true);
    ASSERT_OK(run(task_TASK_FACTS));
    const struct eo_item *backends = eo_item_get(answer.root, "backends");
    ck_assert_uint_eq(eo_item_count(backends), (size_t)registry_count());
    bool own = false;
    for (size_t i = 0; i < eo_item_count(backends); i++) {
        char name[32];
        ASSERT_OK(eo_need_str(eo_item_at(backends, i), "name", name, sizeof(name), &err));
        own |= strcmp(name, "fake") == 0;
        ck_assert_uint_eq(eo_item_count(eo_item_get(eo_item_at(backends, i), "facts")), EO_FACT_COUNT);
    }
    ck_assert(own);
    ck_assert_int_eq(eo_item_kind(eo_item_get(answer.root, "device")), EO_ITEM_MAP);
    forget();
    finish();
}
END_TEST

/* The reference computes every row with every dtype of it, so caps must find a way to call each. */
START_TEST(caps_are_complete)
{
    begin("reference");
    eo_bytes_clear(&params);
    eo_pack_map(&params, 0);
    ASSERT_OK(run(task_TASK_CAPS));
    const struct eo_item *ops = eo_item_get(answer.root, "ops");
    for (int i = EO_OP_NONE + 1; i < EO_OP_COUNT; i++) {
        const struct eo_op_schema *op = eo_op_schema((enum eo_op)i);
        const struct eo_item *dtypes = eo_item_get(ops, op->name);
        if (op->flags & EO_OPF_INTERNAL) {
            ck_assert_ptr_null(dtypes);
            continue;
        }
        size_t n = 0;
        for (int dtype = 1; dtype < EO_DTYPE_LIMIT; dtype++) {
            n += (op->dtypes & EO_DTYPE_BIT(dtype)) ? 1 : 0;
        }
        ck_assert_msg(eo_item_count(dtypes) == n, "%s: %zu of %zu dtypes", op->name, eo_item_count(dtypes), n);
    }
    forget();
    finish();
}
END_TEST

EO_SUITE("tasks", product, late_errors, places_are_checked, plans, plan_refusals, facts, caps_are_complete)
