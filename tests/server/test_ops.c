/* op.run and plan.*: results, every way to ask wrongly, poison, pipelining, gradients, devices. */
#include "proto/graph_build.h"
#include "tests/server/live.h"

#include <stdlib.h>

static struct raw_client c;

static void start(void)
{
    live_start(NULL);
    ASSERT_OK(raw_open(&c, &d.endpoint, &err));
}

static void stop(void)
{
    ASSERT_OK(raw_ping(&c, &err));
    raw_close(&c);
    live_stop();
}

static int run(const char *op, const uint32_t *in, size_t n_in, uint32_t out)
{
    raw_pack_op(&c, op, in, n_in, out, 1);
    return raw_call(&c, NULL, 0, NULL, &err);
}

static void floats(uint32_t slot, const int64_t *shape, int n_dims, const float *x)
{
    ASSERT_OK(raw_create(&c, slot, 1, shape, n_dims, x, &err));
}

static void expect_floats(uint32_t slot, const float *wanted, size_t n)
{
    float got[64];
    ASSERT_OK(raw_download(&c, slot, 1, got, n * sizeof(float), &err));
    for (size_t i = 0; i < n; i++) {
        ck_assert_msg(got[i] == wanted[i], "slot %u [%zu] is %g, not %g", slot, i, (double)got[i], (double)wanted[i]);
    }
}

START_TEST(matmul)
{
    const float a[6] = {1, 2, 3, 4, 5, 6}, b[6] = {1, 0, 0, 1, 1, 1}, ab[4] = {4, 5, 10, 11};
    struct raw_reply r;
    const struct eo_item *outputs = NULL;
    struct eo_tensor_desc desc;
    start();
    floats(0, (int64_t[]){2, 3}, 2, a);
    floats(1, (int64_t[]){3, 2}, 2, b);
    raw_pack_op(&c, "matmul", (uint32_t[]){0, 1}, 2, 2, 1);
    ASSERT_OK(raw_call(&c, NULL, 0, &r, &err));
    ASSERT_OK(eo_need_array(r.result, "outputs", 1, &outputs, &err));
    ASSERT_OK(eo_tensor_desc_unpack(eo_item_at(outputs, 0), &desc, &err));
    ck_assert(desc.dtype == EO_FLOAT32 && desc.n_dims == 2 && desc.shape[0] == 2 && desc.shape[1] == 2);
    ck_assert_ptr_null(eo_item_get(r.result, "fallback"));
    raw_reply_fini(&r);
    expect_floats(2, ab, 4);
    stop();
}
END_TEST

START_TEST(refusals)
{
    const float x[4] = {1, 2, 3, 4};
    start();
    floats(0, (int64_t[]){2, 2}, 2, x);
    floats(1, (int64_t[]){4}, 1, x);
    floats(2, (int64_t[]){3, 1}, 2, x);
    const struct {
        const char *op;
        uint32_t in[3];
        size_t n_in;
        int code;
    } cases[] = {{"matmull", {0, 0}, 2, EO_E_UNKNOWN_OP},
                 {"", {0, 0}, 2, EO_E_UNKNOWN_OP},
                 {"sum_squares", {1}, 1, EO_E_UNKNOWN_OP},
                 {"matmul", {0}, 1, EO_E_BAD_ARITY},
                 {"matmul", {0, 0, 0}, 3, EO_E_BAD_ARITY},
                 {"matmul", {0, 2}, 2, EO_E_SHAPE_MISMATCH},
                 {"matmul", {0, 9}, 2, EO_E_BAD_HANDLE},
                 {"logical_not", {0}, 1, EO_E_DTYPE_MISMATCH},
                 {"gather", {0, 1}, 2, EO_E_DTYPE_MISMATCH},
                 {"reshape", {0}, 1, EO_E_BAD_ATTRIBUTE},
                 {"exp", {0}, 0, EO_E_BAD_ARITY}};
    for (size_t i = 0; i < EO_COUNT_OF(cases); i++) {
        int code = run(cases[i].op, cases[i].in, cases[i].n_in, 100 + (uint32_t)i);
        ck_assert_msg(code == cases[i].code, "%s: EO-%d %s", cases[i].op, code, err.message);
        /* The output is poisoned with that cause. */
        float y;
        ASSERT_CODE(raw_download(&c, 100 + (uint32_t)i, 1, &y, 4, &err), cases[i].code);
    }
    ck_assert_int_eq(run("matmul", (uint32_t[]){0, 2}, 2, 200), EO_E_SHAPE_MISMATCH);
    ck_assert_str_eq(err.op, "matmul");
    ck_assert_int_eq(err.n_inputs, 2);
    ck_assert_int_eq(run("matmull", (uint32_t[]){0, 0}, 2, 201), EO_E_UNKNOWN_OP);
    ASSERT_CONTAINS(err.hint, "matmul");
    /* Outputs that cannot be made. */
    ck_assert_int_eq(run("exp", (uint32_t[]){0}, 1, 0), EO_E_BAD_HANDLE); /* in use */
    ck_assert_int_eq(run("exp", (uint32_t[]){0}, 1, UINT32_MAX), EO_E_BAD_HANDLE);
    struct eo_bytes *b = raw_request(&c, "op.run");
    eo_pack_map(b, 3);
    eo_pack_kv_str(b, "op", "exp");
    eo_pack_str(b, "inputs");
    eo_pack_array(b, 1);
    raw_pack_handle(b, 0, 1);
    eo_pack_str(b, "outputs");
    eo_pack_array(b, 0);
    ASSERT_CODE(raw_call(&c, NULL, 0, NULL, &err), EO_E_BAD_ARITY);
    b = raw_request(&c, "op.run");
    eo_pack_map(b, 4);
    eo_pack_kv_str(b, "op", "exp");
    eo_pack_kv_str(b, "fallback", "silent");
    eo_pack_str(b, "inputs");
    eo_pack_array(b, 1);
    raw_pack_handle(b, 0, 1);
    eo_pack_str(b, "outputs");
    eo_pack_array(b, 1);
    raw_pack_handle(b, 300, 1);
    ASSERT_CODE(raw_call(&c, NULL, 0, NULL, &err), EO_E_BAD_PARAMS);
    eo_pack_map(raw_request(&c, "op.run"), 0);
    ASSERT_CODE(raw_call(&c, NULL, 0, NULL, &err), EO_E_BAD_PARAMS);
    stop();
}
END_TEST

static void pack_gather(uint32_t in, uint32_t index, uint32_t out)
{
    raw_pack_op(&c, "gather", (uint32_t[]){in, index}, 2, out, 1);
}

/* An error that only shows when the op runs poisons what depends on it, also what was sent before the error was known;
 * reading any of it tells the first cause. */
START_TEST(poison_travels)
{
    const float x[4] = {1, 2, 3, 4};
    const int64_t index[1] = {99};
    float y;
    start();
    floats(0, (int64_t[]){4}, 1, x);
    struct eo_bytes *b = raw_request(&c, "tensor.create");
    eo_pack_map(b, 3);
    eo_pack_str(b, "handle");
    raw_pack_handle(b, 1, 1);
    eo_pack_kv_str(b, "dtype", "int64");
    eo_pack_str(b, "shape");
    eo_pack_i64_array(b, (int64_t[]){1}, 1);
    ASSERT_OK(raw_call(&c, index, sizeof(index), NULL, &err));
    const uint32_t first_id = c.last_id + 1;
    pack_gather(0, 1, 2);
    ASSERT_OK(raw_send(&c, NULL, 0, &err));
    for (uint32_t i = 3; i < 30; i++) { /* a chain, sent without waiting */
        raw_pack_op(&c, "exp", (uint32_t[]){i - 1}, 1, i, 1);
        ASSERT_OK(raw_send(&c, NULL, 0, &err));
    }
    for (uint32_t id = first_id; id <= c.last_id; id++) {
        struct raw_reply r;
        ASSERT_OK(raw_receive(&c, &r, RAW_TIMEOUT_MS, &err));
        ck_assert_int_eq(r.error.code, r.envelope.id == first_id ? EO_E_BAD_VALUE : EO_E_POISONED);
        if (r.envelope.id != first_id) {
            ck_assert_int_eq(r.error.n_causes, 1);
            ck_assert_int_eq(r.error.causes[0].code, EO_E_BAD_VALUE);
        }
        raw_reply_fini(&r);
    }
    for (uint32_t i = 2; i < 30; i++) {
        ASSERT_CODE(raw_download(&c, i, 1, &y, 4, &err), EO_E_BAD_VALUE);
        ASSERT_CONTAINS(err.message, "99");
    }
    ASSERT_CODE(run("exp", (uint32_t[]){29}, 1, 40), EO_E_POISONED);
    ASSERT_CODE(raw_download(&c, 40, 1, &y, 4, &err), EO_E_BAD_VALUE);
    ASSERT_OK(run("exp", (uint32_t[]){0}, 1, 41)); /* what is whole stays whole */
    stop();
}
END_TEST

/* Create, compute and read without waiting for any answer in between; freed operands stay until they were read. */
START_TEST(pipelining)
{
    const float x[4] = {1, 1, 1, 1};
    float y[4];
    start();
    floats(0, (int64_t[]){2, 2}, 2, x);
    uint32_t sent = 0;
    for (uint32_t i = 1; i <= 200; i++) {
        raw_pack_op(&c, "add", (uint32_t[]){i - 1, 0}, 2, i, 1);
        if (i == 1) { /* nothing but its own handle is new */
            raw_pack_op(&c, "add", (uint32_t[]){0, 0}, 2, 1, 1);
        }
        ASSERT_OK(raw_send(&c, NULL, 0, &err));
        sent++;
        if (i > 1) {
            struct eo_bytes *b = raw_request(&c, "tensor.free");
            eo_pack_map(b, 1);
            eo_pack_str(b, "handles");
            eo_pack_array(b, 1);
            raw_pack_handle(b, i - 1, 1);
            ASSERT_OK(raw_send(&c, NULL, 0, &err));
            sent++;
        }
    }
    for (uint32_t i = 0; i < sent; i++) {
        struct raw_reply r;
        ASSERT_OK(raw_receive(&c, &r, RAW_TIMEOUT_MS, &err));
        ck_assert_msg(r.error.code == EO_OK, "%s", r.error.message);
        raw_reply_fini(&r);
    }
    ASSERT_OK(raw_download(&c, 200, 1, y, sizeof(y), &err));
    ck_assert(y[0] == 201 && y[3] == 201);
    stop();
}
END_TEST

static void pack_slot(const char *method, uint32_t slot)
{
    struct eo_bytes *b = raw_request(&c, method);
    eo_pack_map(b, 1);
    eo_pack_str(b, "handle");
    raw_pack_handle(b, slot, 1);
}

/* Receives n replies, all successes, and stores the shape that each tells in the order of the requests. */
static void receive_shapes(struct eo_tensor_desc *out, uint32_t n)
{
    const uint32_t first = c.last_id + 1 - n;
    for (uint32_t i = 0; i < n; i++) {
        struct raw_reply r;
        ASSERT_OK(raw_receive(&c, &r, RAW_TIMEOUT_MS, &err));
        ck_assert_msg(r.error.code == EO_OK, "%s", r.error.message);
        ck_assert(r.envelope.id >= first && r.envelope.id < first + n);
        const struct eo_item *outputs = eo_item_get(r.result, "outputs");
        ASSERT_OK(
            eo_tensor_desc_unpack(outputs ? eo_item_at(outputs, 0) : r.result, &out[r.envelope.id - first], &err));
        raw_reply_fini(&r);
    }
}

/* A result whose shape depends on data has its real one in the reply, for whoever uses it, also for what was sent
 * before the reply, and for the memory that it takes. */
START_TEST(data_decides_shapes)
{
    static const float x[6] = {0, 2, 0, -0.0F, 3, 4};
    static const int64_t wanted[6] = {0, 1, 1, 1, 1, 2}, turned[6] = {0, 1, 1, 1, 1, 2}; /* turned: rows */
    const struct eo_tensor_desc columns = {EO_INT64, 2, {2, 3}}, rows = {EO_INT64, 2, {3, 2}};
    struct eo_tensor_desc said[3];
    int64_t got[12];
    start();
    floats(0, (int64_t[]){2, 3}, 2, x);
    raw_pack_op(&c, "nonzero", (uint32_t[]){0}, 1, 1, 1);
    ASSERT_OK(raw_send(&c, NULL, 0, &err));
    raw_pack_op(&c, "transpose", (uint32_t[]){1}, 1, 2, 1);
    ASSERT_OK(raw_send(&c, NULL, 0, &err));
    pack_slot("tensor.info", 1);
    ASSERT_OK(raw_send(&c, NULL, 0, &err));
    receive_shapes(said, 3);
    ck_assert(eo_tensor_desc_equal(&said[0], &columns));
    ck_assert(eo_tensor_desc_equal(&said[1], &rows));
    ck_assert(eo_tensor_desc_equal(&said[2], &columns));
    ASSERT_OK(raw_download(&c, 1, 1, got, sizeof(wanted), &err));
    ck_assert_mem_eq(got, wanted, sizeof(wanted));
    ASSERT_OK(raw_download(&c, 2, 1, got, sizeof(turned), &err));
    ck_assert_mem_eq(got, turned, sizeof(turned));
    ASSERT_CODE(raw_download(&c, 1, 1, got, sizeof(got), &err), EO_E_BAD_PARAMS);
    /* Sent before the reply: the largest possible is asked for, the real one is less. */
    raw_pack_op(&c, "nonzero", (uint32_t[]){0}, 1, 3, 1);
    ASSERT_OK(raw_send(&c, NULL, 0, &err));
    struct eo_bytes *b = raw_request(&c, "tensor.download");
    eo_pack_map(b, 2);
    eo_pack_str(b, "handle");
    raw_pack_handle(b, 3, 1);
    eo_pack_kv_u64(b, "size", sizeof(got));
    ASSERT_OK(raw_send(&c, NULL, 0, &err));
    for (int i = 0; i < 2; i++) {
        struct raw_reply r;
        ASSERT_OK(raw_receive(&c, &r, RAW_TIMEOUT_MS, &err));
        ck_assert_int_eq(r.error.code, r.envelope.id == c.last_id ? EO_E_BAD_PARAMS : EO_OK);
        raw_reply_fini(&r);
    }
    stop();
}
END_TEST

/* What such a result does not need goes back: to the pool, and out of the session's account. */
START_TEST(what_data_leaves_is_freed)
{
    enum { N = 256 << 10 };
    static float x[N];
    live_start((const char *const[]){"--memory-limit", "4M", NULL});
    ASSERT_OK(raw_open(&c, &d.endpoint, &err));
    x[5] = 1;
    floats(0, (int64_t[]){N}, 1, x); /* 1 MiB; each result may need 2 MiB */
    for (uint32_t i = 1; i < 20; i++) {
        raw_pack_op(&c, "nonzero", (uint32_t[]){0}, 1, i, 1);
        ASSERT_OK(raw_call(&c, NULL, 0, NULL, &err));
        int64_t at = 0;
        ASSERT_OK(raw_download(&c, i, 1, &at, sizeof(at), &err));
        ck_assert_int_eq(at, 5);
    }
    stop();
}
END_TEST

/* As many outputs as the call says. */
START_TEST(several_outputs)
{
    static const float x[6] = {1, 2, 3, 4, 5, 6};
    start();
    floats(0, (int64_t[]){6}, 1, x);
    for (int n_out = 2; n_out <= 3; n_out++) {
        struct eo_bytes *b = raw_request(&c, "op.run");
        eo_pack_map(b, 4);
        eo_pack_kv_str(b, "op", "split");
        eo_pack_str(b, "attrs");
        eo_pack_map(b, 1);
        eo_pack_str(b, "sizes");
        eo_pack_i64_array(b, (int64_t[]){2, 0, 4}, 3);
        eo_pack_str(b, "inputs");
        eo_pack_array(b, 1);
        raw_pack_handle(b, 0, 1);
        eo_pack_str(b, "outputs");
        eo_pack_array(b, (size_t)n_out);
        for (int i = 0; i < n_out; i++) {
            raw_pack_handle(b, (uint32_t)(10 * n_out + i), 1);
        }
        int code = raw_call(&c, NULL, 0, NULL, &err);
        ck_assert_int_eq(code, n_out == 3 ? EO_OK : EO_E_BAD_ARITY);
    }
    expect_floats(30, x, 2);
    expect_floats(31, x, 0);
    expect_floats(32, x + 2, 4);
    stop();
}
END_TEST

/* An upload over the operand of a call that was sent before waits for that call. */
START_TEST(overwriting_waits_for_readers)
{
    enum { N = 400 };
    float *x = malloc(N * N * sizeof(float)), *y = malloc(N * N * sizeof(float));
    struct raw_reply r;
    start();
    for (size_t i = 0; i < N * N; i++) {
        x[i] = 1;
    }
    struct eo_bytes *b = raw_request(&c, "tensor.create");
    eo_pack_map(b, 4);
    eo_pack_str(b, "handle");
    raw_pack_handle(b, 0, 1);
    eo_pack_kv_str(b, "dtype", "float32");
    eo_pack_str(b, "shape");
    eo_pack_i64_array(b, (int64_t[]){N, N}, 2);
    eo_pack_kv_str(b, "device", "reference"); /* slow enough to be overtaken */
    ASSERT_OK(raw_call(&c, x, N * N * sizeof(float), NULL, &err));
    raw_pack_op(&c, "matmul", (uint32_t[]){0, 0}, 2, 1, 1);
    ASSERT_OK(raw_send(&c, NULL, 0, &err));
    memset(x, 0, N * N * sizeof(float));
    b = raw_request(&c, "tensor.upload");
    eo_pack_map(b, 2);
    eo_pack_str(b, "handle");
    raw_pack_handle(b, 0, 1);
    eo_pack_kv_u64(b, "offset", 0);
    ASSERT_OK(raw_send(&c, x, N * N * sizeof(float), &err));
    for (int i = 0; i < 2; i++) {
        ASSERT_OK(raw_receive(&c, &r, RAW_TIMEOUT_MS, &err));
        ck_assert_int_eq(r.error.code, EO_OK);
        raw_reply_fini(&r);
    }
    ASSERT_OK(raw_download(&c, 1, 1, y, N * N * sizeof(float), &err));
    ck_assert(y[0] == N && y[N * N - 1] == N);
    ASSERT_OK(raw_download(&c, 0, 1, y, N * N * sizeof(float), &err));
    ck_assert(y[0] == 0);
    free(x);
    free(y);
    stop();
}
END_TEST

START_TEST(devices_are_not_mixed)
{
    const float x[1] = {1};
    start();
    floats(0, (int64_t[]){1}, 1, x);
    struct eo_bytes *b = raw_request(&c, "tensor.create");
    eo_pack_map(b, 4);
    eo_pack_str(b, "handle");
    raw_pack_handle(b, 1, 1);
    eo_pack_kv_str(b, "dtype", "float32");
    eo_pack_str(b, "shape");
    eo_pack_i64_array(b, (int64_t[]){1}, 1);
    eo_pack_kv_str(b, "device", "reference");
    ASSERT_OK(raw_call(&c, x, 4, NULL, &err));
    ASSERT_CODE(run("add", (uint32_t[]){0, 1}, 2, 2), EO_E_BAD_PARAMS);
    ASSERT_CONTAINS(err.message, "reference");
    ASSERT_OK(run("add", (uint32_t[]){1, 1}, 2, 3));
    pid_t workers[8];
    ck_assert_int_eq(daemon_workers(&d, workers, 8), 2);
    b = raw_request(&c, "op.run");
    eo_pack_map(b, 4);
    eo_pack_kv_str(b, "op", "exp");
    eo_pack_kv_str(b, "device", "reference");
    eo_pack_str(b, "inputs");
    eo_pack_array(b, 1);
    raw_pack_handle(b, 0, 1);
    eo_pack_str(b, "outputs");
    eo_pack_array(b, 1);
    raw_pack_handle(b, 4, 1);
    ASSERT_CODE(raw_call(&c, NULL, 0, NULL, &err), EO_E_BAD_PARAMS);
    stop();
}
END_TEST

/* An op without inputs runs where it is told, or on the default device. */
START_TEST(ops_without_inputs)
{
    const char *devices[] = {"", "reference", "cpu", "auto"};
    start();
    for (uint32_t i = 0; i < EO_COUNT_OF(devices); i++) {
        struct eo_bytes *b = raw_request(&c, "op.run");
        eo_pack_map(b, 5);
        eo_pack_kv_str(b, "op", "full");
        eo_pack_str(b, "attrs");
        eo_pack_map(b, 2);
        eo_pack_str(b, "shape");
        eo_pack_i64_array(b, (int64_t[]){3}, 1);
        eo_pack_kv_f64(b, "value", 4);
        eo_pack_kv_str(b, "device", devices[i]);
        eo_pack_str(b, "inputs");
        eo_pack_array(b, 0);
        eo_pack_str(b, "outputs");
        eo_pack_array(b, 1);
        raw_pack_handle(b, i, 1);
        ASSERT_OK(raw_call(&c, NULL, 0, NULL, &err));
        expect_floats(i, (const float[]){4, 4, 4}, 3);
    }
    stop();
}
END_TEST

/* ---- plans ---- */

/* y = sum(x * x), named so. */
static void square_graph(struct eo_bytes *out)
{
    struct eo_graph *g = eo_graph_new();
    struct eo_builder b;
    struct eo_tensor_desc desc;
    eo_value x;
    ASSERT_OK(eo_tensor_desc_init(&desc, EO_FLOAT32, (int64_t[]){3}, 1, &err));
    ASSERT_OK(eo_graph_input(g, "x", &desc, &x, &err));
    eo_build_init(&b, g, &err);
    eo_value xx = eo_build_binary(&b, EO_OP_MULTIPLY, x, x);
    eo_value y = eo_build_reduce(&b, EO_OP_SUM, xx, NULL, 0, false);
    ASSERT_OK(b.status);
    ASSERT_OK(eo_graph_output(g, "squares", xx, &err));
    ASSERT_OK(eo_graph_output(g, "y", y, &err));
    eo_bytes_init(out, 1 << 20);
    ASSERT_OK(eo_graph_encode(g, out, &err));
    eo_graph_free(g);
}

static void pack_create(uint64_t plan, bool gradient)
{
    struct eo_bytes *b = raw_request(&c, "plan.create");
    eo_pack_map(b, gradient ? 2 : 1);
    eo_pack_kv_u64(b, "plan", plan);
    if (gradient) {
        eo_pack_str(b, "gradients");
        eo_pack_array(b, 1);
        eo_pack_map(b, 3);
        eo_pack_kv_str(b, "of", "y");
        eo_pack_str(b, "wrt");
        eo_pack_array(b, 1);
        eo_pack_str(b, "x");
        eo_pack_str(b, "as");
        eo_pack_array(b, 1);
        eo_pack_str(b, "dx");
    }
}

static void pack_run(uint64_t plan, const char *feed, uint32_t feed_slot, const char *fetch, uint32_t fetch_slot)
{
    struct eo_bytes *b = raw_request(&c, "plan.run");
    eo_pack_map(b, 3);
    eo_pack_kv_u64(b, "plan", plan);
    eo_pack_str(b, "feeds");
    eo_pack_map(b, feed ? 1 : 0);
    if (feed) {
        eo_pack_str(b, feed);
        raw_pack_handle(b, feed_slot, 1);
    }
    eo_pack_str(b, "fetches");
    eo_pack_map(b, fetch ? 1 : 0);
    if (fetch) {
        eo_pack_str(b, fetch);
        raw_pack_handle(b, fetch_slot, 1);
    }
}

static int free_plan(uint64_t plan)
{
    struct eo_bytes *b = raw_request(&c, "plan.free");
    eo_pack_map(b, 1);
    eo_pack_kv_u64(b, "plan", plan);
    return raw_call(&c, NULL, 0, NULL, &err);
}

START_TEST(plan_with_gradient)
{
    const float x[3] = {1, 2, 3};
    struct eo_bytes graph;
    struct raw_reply r;
    const struct eo_item *list = NULL;
    uint64_t n = 0;
    start();
    square_graph(&graph);
    floats(0, (int64_t[]){3}, 1, x);
    pack_create(5, true);
    ASSERT_OK(raw_call(&c, graph.data, graph.size, &r, &err));
    ASSERT_OK(eo_need_array(r.result, "inputs", 1, &list, &err));
    ck_assert_uint_eq(eo_item_count(list), 1);
    ASSERT_OK(eo_need_array(r.result, "outputs", 3, &list, &err));
    ck_assert_uint_eq(eo_item_count(list), 3);
    ASSERT_OK(eo_need_u64(r.result, "arena_bytes", UINT64_MAX, &n, &err));
    ASSERT_OK(eo_need_u64(r.result, "steps", UINT64_MAX, &n, &err));
    ck_assert_uint_gt(n, 0);
    raw_reply_fini(&r);
    pack_run(5, "x", 0, "dx", 1);
    ASSERT_OK(raw_call(&c, NULL, 0, NULL, &err));
    expect_floats(1, (const float[]){2, 4, 6}, 3);
    pack_run(5, "x", 0, "y", 2);
    ASSERT_OK(raw_call(&c, NULL, 0, NULL, &err));
    expect_floats(2, (const float[]){14}, 1);
    pack_run(5, "x", 0, NULL, 0); /* nothing fetched: allowed */
    ASSERT_OK(raw_call(&c, NULL, 0, NULL, &err));
    ASSERT_OK(free_plan(5));
    ASSERT_CODE(free_plan(5), EO_E_BAD_HANDLE);
    pack_run(5, "x", 0, "y", 3);
    ASSERT_CODE(raw_call(&c, NULL, 0, NULL, &err), EO_E_BAD_HANDLE);
    eo_bytes_fini(&graph);
    stop();
}
END_TEST

/* Creation, runs, reads and the end of the plan, all sent before any answer: nothing overtakes. */
START_TEST(plans_pipeline)
{
    const float x[3] = {1, 2, 3};
    struct eo_bytes graph;
    start();
    square_graph(&graph);
    const uint32_t first = c.last_id + 1;
    pack_create(1, false); /* the first use of the default device as well: it has to be found first */
    ASSERT_OK(raw_send(&c, graph.data, graph.size, &err));
    struct eo_bytes *b = raw_request(&c, "tensor.create");
    eo_pack_map(b, 3);
    eo_pack_str(b, "handle");
    raw_pack_handle(b, 0, 1);
    eo_pack_kv_str(b, "dtype", "float32");
    eo_pack_str(b, "shape");
    eo_pack_i64_array(b, (int64_t[]){3}, 1);
    ASSERT_OK(raw_send(&c, x, sizeof(x), &err));
    for (uint32_t i = 0; i < 20; i++) {
        pack_run(1, "x", 0, "squares", 10 + i);
        ASSERT_OK(raw_send(&c, NULL, 0, &err));
    }
    b = raw_request(&c, "plan.free");
    eo_pack_map(b, 1);
    eo_pack_kv_u64(b, "plan", 1);
    ASSERT_OK(raw_send(&c, NULL, 0, &err));
    for (uint32_t id = first; id <= c.last_id; id++) {
        struct raw_reply r;
        ASSERT_OK(raw_receive(&c, &r, RAW_TIMEOUT_MS, &err));
        ck_assert_msg(r.error.code == EO_OK, "request %u: %s", r.envelope.id - first, r.error.message);
        raw_reply_fini(&r);
    }
    for (uint32_t i = 0; i < 20; i++) {
        expect_floats(10 + i, (const float[]){1, 4, 9}, 3);
    }
    eo_bytes_fini(&graph);
    stop();
}
END_TEST

START_TEST(plan_refusals)
{
    const float x[4] = {1, 2, 3, 4};
    struct eo_bytes graph;
    start();
    square_graph(&graph);
    floats(0, (int64_t[]){3}, 1, x);
    floats(1, (int64_t[]){4}, 1, x);
    pack_create(1, false);
    ASSERT_CODE(raw_call(&c, NULL, 0, NULL, &err), EO_E_BAD_PARAMS); /* no graph */
    pack_create(1, false);
    ASSERT_CODE(raw_call(&c, "garbage", 7, NULL, &err), EO_E_BAD_GRAPH);
    pack_create(1, false);
    ASSERT_CODE(raw_call(&c, graph.data, graph.size - 1, NULL, &err), EO_E_BAD_GRAPH);
    struct eo_bytes *b = raw_request(&c, "plan.create");
    eo_pack_map(b, 2);
    eo_pack_kv_u64(b, "plan", 1);
    eo_pack_kv_str(b, "device", "quantum");
    ASSERT_CODE(raw_call(&c, graph.data, graph.size, NULL, &err), EO_E_NO_DEVICE);
    b = raw_request(&c, "plan.create");
    eo_pack_map(b, 2);
    eo_pack_kv_u64(b, "plan", 1);
    eo_pack_kv_str(b, "gradients", "all");
    ASSERT_CODE(raw_call(&c, graph.data, graph.size, NULL, &err), EO_E_BAD_PARAMS);
    b = raw_request(&c, "plan.create");
    eo_pack_map(b, 2);
    eo_pack_kv_u64(b, "plan", 1);
    eo_pack_str(b, "gradients");
    eo_pack_array(b, 1);
    eo_pack_map(b, 3);
    eo_pack_kv_str(b, "of", "z");
    eo_pack_str(b, "wrt");
    eo_pack_array(b, 1);
    eo_pack_str(b, "x");
    eo_pack_str(b, "as");
    eo_pack_array(b, 1);
    eo_pack_str(b, "dx");
    ASSERT_CODE(raw_call(&c, graph.data, graph.size, NULL, &err), EO_E_BAD_PARAMS); /* there is no z */
    pack_create(1, false);                                                          /* a failed number can be used */
    ASSERT_OK(raw_call(&c, graph.data, graph.size, NULL, &err));
    pack_create(1, false);
    ASSERT_CODE(raw_call(&c, graph.data, graph.size, NULL, &err), EO_E_BAD_HANDLE);
    pack_run(1, NULL, 0, "y", 10);
    ASSERT_CODE(raw_call(&c, NULL, 0, NULL, &err), EO_E_BAD_PARAMS);
    ASSERT_CONTAINS(err.message, "x");
    pack_run(1, "z", 0, "y", 11);
    ASSERT_CODE(raw_call(&c, NULL, 0, NULL, &err), EO_E_BAD_PARAMS);
    pack_run(1, "x", 1, "y", 12);
    ASSERT_CODE(raw_call(&c, NULL, 0, NULL, &err), EO_E_SHAPE_MISMATCH);
    ASSERT_CONTAINS(err.message, "[4]");
    float y;
    ASSERT_CODE(raw_download(&c, 12, 1, &y, 4, &err), EO_E_SHAPE_MISMATCH); /* fetches are poisoned too */
    pack_run(1, "x", 0, "z", 13);
    ASSERT_CODE(raw_call(&c, NULL, 0, NULL, &err), EO_E_BAD_PARAMS);
    pack_run(1, "x", 0, "y", 0);
    ASSERT_CODE(raw_call(&c, NULL, 0, NULL, &err), EO_E_BAD_HANDLE);
    pack_run(1, "x", 9, "y", 14);
    ASSERT_CODE(raw_call(&c, NULL, 0, NULL, &err), EO_E_BAD_HANDLE);
    pack_run(7, "x", 0, "y", 15);
    ASSERT_CODE(raw_call(&c, NULL, 0, NULL, &err), EO_E_BAD_HANDLE);
    eo_pack_map(raw_request(&c, "plan.run"), 0);
    ASSERT_CODE(raw_call(&c, NULL, 0, NULL, &err), EO_E_BAD_PARAMS);
    eo_bytes_fini(&graph);
    stop();
}
END_TEST

/* Failed creations leave nothing behind. */
START_TEST(failed_plans_leak_nothing)
{
    struct eo_bytes graph;
    start();
    square_graph(&graph);
    for (uint64_t i = 0; i < 20; i++) { /* warm */
        pack_create(i, false);
        ASSERT_CODE(raw_call(&c, graph.data, graph.size - 1 - i % 3, NULL, &err), EO_E_BAD_GRAPH);
    }
    uint64_t rss = daemon_rss_bytes(&d);
    int descriptors = daemon_descriptors(&d);
    for (uint64_t i = 0; i < 1000; i++) {
        pack_create(i, false);
        ASSERT_CODE(raw_call(&c, graph.data, graph.size - 1 - i % 3, NULL, &err), EO_E_BAD_GRAPH);
    }
    ck_assert_int_le(daemon_descriptors(&d), descriptors);
    if (!DAEMON_INSTRUMENTED) {
        ck_assert_uint_lt(daemon_rss_bytes(&d), rss + (4 << 20));
    }
    eo_bytes_fini(&graph);
    stop();
}
END_TEST

EO_SUITE("ops", matmul, refusals, poison_travels, pipelining, data_decides_shapes, what_data_leaves_is_freed,
         several_outputs, overwriting_waits_for_readers, devices_are_not_mixed, ops_without_inputs, plan_with_gradient,
         plans_pipeline, plan_refusals, failed_plans_leak_nothing)
