/* everyo.h against a fake daemon that keeps one tensor's bytes and writes down what it was asked. */
#include "client/include/everyo/everyo.h"

#include "proto/error_codec.h"
#include "proto/graph.h"
#include "tests/client/fake_server.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <string.h>

enum { CHUNK = 16, BYTES_MAX = 4096 };

static everyo_error failure;

/* Code 0, or the report. */
#define ASSERT_DONE(call)                                                                                              \
    do {                                                                                                               \
        if ((call) != 0) {                                                                                             \
            ck_abort_msg("%s\n%s", #call, failure.text);                                                               \
        }                                                                                                              \
    } while (0)

struct note {
    char text[8192]; /* one request a line */
    size_t at;
    uint8_t bytes[BYTES_MAX]; /* what was uploaded, by offset */
    const char *fail_method;  /* answered with BAD_VALUE */
};

static void item_note(struct note *n, const struct eo_item *it);

static void append(struct note *n, const char *text, size_t length)
{
    const size_t room = sizeof n->text - 1 - n->at;
    memcpy(n->text + n->at, text, EO_MIN(length, room));
    n->at += EO_MIN(length, room);
    n->text[n->at] = '\0';
}

/* A request as text, {"a":1} style without quotes: enough to compare. */
static void item_note(struct note *n, const struct eo_item *it)
{
    char number[32];
    int64_t i = 0;
    double f = 0;
    const char *text = NULL;
    size_t length = 0;
    bool b = false;
    if (eo_item_as_str(it, &text, &length)) {
        append(n, text, length);
    } else if (eo_item_as_bool(it, &b)) {
        append(n, b ? "true" : "false", b ? 4 : 5);
    } else if (eo_item_as_i64(it, &i)) {
        append(n, number, (size_t)snprintf(number, sizeof number, "%lld", (long long)i));
    } else if (eo_item_as_f64(it, &f)) {
        append(n, number, (size_t)snprintf(number, sizeof number, "%gf", f));
    } else if (eo_item_kind(it) == EO_ITEM_ARRAY) {
        append(n, "[", 1);
        for (size_t k = 0; k < eo_item_count(it); k++) {
            append(n, ",", k > 0);
            item_note(n, eo_item_at(it, k));
        }
        append(n, "]", 1);
    } else if (eo_item_kind(it) == EO_ITEM_MAP) {
        append(n, "{", 1);
        for (size_t k = 0; k < eo_item_count(it); k++) {
            const struct eo_item *key = NULL;
            const struct eo_item *value = NULL;
            eo_item_pair(it, k, &key, &value);
            append(n, ",", k > 0);
            item_note(n, key);
            append(n, ":", 1);
            item_note(n, value);
        }
        append(n, "}", 1);
    }
}

static void note_request(struct fake_peer *p)
{
    struct note *n = p->ctx;
    char size[32];
    append(n, p->request.method, strlen(p->request.method));
    append(n, " ", 1);
    item_note(n, p->request.params);
    append(n, size, (size_t)snprintf(size, sizeof size, " +%zu\n", p->payload.size));
}

static void answer_download(struct fake_peer *p)
{
    const struct note *n = p->ctx;
    uint64_t offset = 0;
    uint64_t size = 0;
    struct eo_error err = {0};
    if (eo_need_u64(p->request.params, "offset", BYTES_MAX, &offset, &err) ||
        eo_need_u64(p->request.params, "size", BYTES_MAX - offset, &size, &err)) {
        fake_complain(p, "download: %s", err.message);
        return;
    }
    eo_pack_map(fake_result(p, p->request.id), 0);
    fake_send(p, n->bytes + offset, (size_t)size);
}

static void take_upload(struct fake_peer *p)
{
    struct note *n = p->ctx;
    uint64_t offset = 0;
    eo_item_as_u64(eo_item_get(p->request.params, "offset"), &offset);
    if (p->payload.size > 0 && offset + p->payload.size <= BYTES_MAX) {
        memcpy(n->bytes + offset, p->payload.data, p->payload.size);
    }
    fake_ok(p, p->request.id);
}

/* What it was given it gives back: the outputs of the graph as they are declared, gradients like their inputs. */
static void answer_plan(struct fake_peer *p)
{
    struct eo_graph *g = NULL;
    struct eo_error err = {0};
    if (eo_graph_decode(p->payload.data, p->payload.size, &g, &err) != EO_OK) {
        fake_complain(p, "plan.create: %s", err.message);
        return;
    }
    const struct eo_item *gradients = eo_item_get(p->request.params, "gradients");
    const struct eo_item *as = eo_item_get(eo_item_at(gradients, 0), "as");
    struct eo_bytes *b = fake_result(p, p->request.id);
    eo_pack_map(b, 1);
    eo_pack_str(b, "outputs");
    eo_pack_array(b, g->n_outputs + eo_item_count(as));
    for (uint32_t i = 0; i < g->n_outputs; i++) {
        eo_pack_map(b, 3);
        eo_pack_kv_str(b, "name", g->outputs[i].name);
        eo_tensor_desc_pack_fields(b, eo_graph_desc(g, g->outputs[i].value));
    }
    for (size_t i = 0; i < eo_item_count(as); i++) {
        eo_pack_map(b, 3);
        eo_pack_str(b, "name");
        eo_pack_item(b, eo_item_at(as, i));
        eo_tensor_desc_pack_fields(b, eo_graph_desc(g, 0));
    }
    fake_send(p, NULL, 0);
    eo_graph_free(g);
}

static bool hello_small_chunks(struct fake_peer *p)
{
    if (!fake_read(p, "hello")) {
        return false;
    }
    struct eo_bytes *b = fake_result(p, p->request.id);
    eo_pack_map(b, 2);
    eo_pack_kv_u64(b, "version", 1);
    eo_pack_str(b, "limits");
    eo_pack_map(b, 3);
    eo_pack_kv_u64(b, "chunk", CHUNK);
    eo_pack_kv_u64(b, "handles", 3);
    eo_pack_kv_u64(b, "pending", 100);
    fake_send(p, NULL, 0);
    return true;
}

static void daemon_script(struct fake_peer *p)
{
    const struct note *n = p->ctx;
    if (!hello_small_chunks(p)) {
        return;
    }
    while (fake_read(p, NULL)) {
        const char *method = p->request.method;
        note_request(p);
        if (n->fail_method != NULL && strcmp(method, n->fail_method) == 0) {
            fake_fail(p, p->request.id, EO_E_BAD_VALUE, "as the test wants it");
        } else if (strcmp(method, "tensor.download") == 0) {
            answer_download(p);
        } else if (strcmp(method, "plan.create") == 0) {
            answer_plan(p);
        } else {
            take_upload(p);
        }
    }
}

static struct note notes;

static everyo_client *connect_to(struct fake_server **out)
{
    everyo_client *c = NULL;
    memset(&notes, 0, sizeof notes);
    *out = fake_server_start(daemon_script, &notes);
    ASSERT_DONE(everyo_connect(fake_server_endpoint(*out)->text, 0, &c, &failure));
    return c;
}

/* The daemon's notes, once everything that was queued has come to it. */
static void assert_notes(everyo_client *c, const char *wanted)
{
    ASSERT_DONE(everyo_sync(c, &failure));
    ck_assert_str_eq(notes.text, wanted);
}

START_TEST(tensors_travel_in_chunks)
{
    struct fake_server *s = NULL;
    everyo_client *c = connect_to(&s);
    const int64_t shape[2] = {2, 5};
    float data[10];
    float back[10] = {0};
    everyo_tensor t;
    for (int i = 0; i < 10; i++) {
        data[i] = (float)i - 4.5f;
    }
    ASSERT_DONE(everyo_tensor_create(c, EVERYO_FLOAT32, shape, 2, data, NULL, &t, &failure));
    ck_assert_int_eq(t.dtype, EVERYO_FLOAT32);
    ck_assert_int_eq(t.n_dims, 2);
    ck_assert_int_eq(t.shape[1], 5);
    ck_assert_uint_eq(everyo_tensor_bytes(&t), 40);
    ASSERT_DONE(everyo_tensor_read(c, &t, back, sizeof back, &failure));
    ck_assert_mem_eq(data, back, sizeof data);
    ASSERT_DONE(everyo_tensor_free(c, &t, &failure));
    assert_notes(c, "tensor.create {handle:[0,1],dtype:float32,shape:[2,5]} +16\n"
                    "tensor.upload {handle:[0,1],offset:16} +16\n"
                    "tensor.upload {handle:[0,1],offset:32} +8\n"
                    "tensor.download {handle:[0,1],offset:0,size:16} +0\n"
                    "tensor.download {handle:[0,1],offset:16,size:16} +0\n"
                    "tensor.download {handle:[0,1],offset:32,size:8} +0\n"
                    "tensor.free {handles:[[0,1]]} +0\n");
    everyo_close(c);
    fake_server_stop(s);
}
END_TEST

START_TEST(tensors_without_bytes)
{
    struct fake_server *s = NULL;
    everyo_client *c = connect_to(&s);
    everyo_tensor filled;
    everyo_tensor scalar;
    everyo_tensor empty;
    const int64_t none[2] = {3, 0};
    ASSERT_DONE(everyo_tensor_fill(c, EVERYO_INT8, (const int64_t[]){4}, 1, 7, "cpu:0", &filled, &failure));
    ASSERT_DONE(everyo_tensor_create(c, EVERYO_FLOAT64, NULL, 0, NULL, NULL, &scalar, &failure));
    ASSERT_DONE(everyo_tensor_create(c, EVERYO_BOOL, none, 2, "", NULL, &empty, &failure));
    ck_assert_uint_eq(everyo_tensor_bytes(&scalar), 8);
    ck_assert_uint_eq(everyo_tensor_bytes(&empty), 0);
    ASSERT_DONE(everyo_tensor_read(c, &empty, NULL, 0, &failure)); /* asked for all the same: it may be poisoned */
    assert_notes(c, "tensor.create {handle:[0,1],dtype:int8,shape:[4],device:cpu:0,fill:7f} +0\n"
                    "tensor.create {handle:[1,1],dtype:float64,shape:[],fill:0f} +0\n"
                    "tensor.create {handle:[2,1],dtype:bool,shape:[3,0]} +0\n"
                    "tensor.download {handle:[2,1],offset:0,size:0} +0\n");
    everyo_close(c);
    fake_server_stop(s);
}
END_TEST

START_TEST(nothing_is_sent_that_cannot_be)
{
    struct fake_server *s = NULL;
    everyo_client *c = connect_to(&s);
    const int64_t huge[3] = {INT64_MAX, INT64_MAX, 2};
    const int64_t negative[1] = {-1};
    const int64_t three[1] = {3};
    const int64_t four[1] = {4};
    everyo_tensor t;
    everyo_tensor in[2];
    everyo_tensor out;
    char byte = 0;
    ck_assert_int_eq(everyo_tensor_create(c, EVERYO_FLOAT32, huge, 3, NULL, NULL, &t, &failure), EO_E_TOO_LARGE);
    ck_assert_int_eq(failure.code, EO_E_TOO_LARGE);
    ck_assert_int_eq(failure.exit_code, 65);
    ck_assert_int_ne(everyo_tensor_create(c, EVERYO_FLOAT32, negative, 1, NULL, NULL, &t, &failure), 0);
    ck_assert_int_ne(everyo_tensor_create(c, 99, three, 1, NULL, NULL, &t, &failure), 0);
    ck_assert_int_ne(everyo_tensor_create(c, EVERYO_FLOAT32, three, 9, NULL, NULL, &t, NULL), 0);
    ASSERT_DONE(everyo_tensor_fill(c, EVERYO_FLOAT32, three, 1, 1, NULL, &in[0], &failure));
    ASSERT_DONE(everyo_tensor_fill(c, EVERYO_FLOAT32, four, 1, 1, NULL, &in[1], &failure));
    ck_assert_int_eq(everyo_op(c, "add", NULL, in, 2, &out, 1, &failure), EO_E_SHAPE_MISMATCH);
    ASSERT_CONTAINS(failure.text, "[3]");
    ASSERT_CONTAINS(failure.text, "[4]");
    ck_assert_int_eq(everyo_op(c, "ad", NULL, in, 2, &out, 1, &failure), EO_E_UNKNOWN_OP);
    ck_assert_int_eq(everyo_op(c, "add", NULL, in, 1, &out, 1, &failure), EO_E_BAD_ARITY);
    ck_assert_int_eq(everyo_op(c, "add", NULL, in, -1, &out, 1, &failure), EO_E_BAD_ARITY);
    ck_assert_int_eq(everyo_op(c, "add", NULL, in, 65, &out, 1, &failure), EO_E_BAD_ARITY);
    ck_assert_int_eq(everyo_op(c, "add", NULL, in, 2, &out, 2, &failure), EO_E_BAD_ARITY);
    ck_assert_int_eq(everyo_op(c, "add", "axis=1", in, 2, &out, 1, &failure), EO_E_BAD_ATTRIBUTE);
    ck_assert_int_eq(everyo_tensor_read(c, &in[0], &byte, 1, &failure), EO_E_BAD_VALUE);
    ASSERT_DONE(everyo_sync(c, &failure));
    ck_assert_ptr_null(strstr(notes.text, "op.run"));
    ck_assert_ptr_null(strstr(notes.text, "download"));
    everyo_close(c);
    fake_server_stop(s);
}
END_TEST

START_TEST(operations_and_their_handles)
{
    struct fake_server *s = NULL;
    everyo_client *c = connect_to(&s);
    const int64_t a_shape[2] = {2, 3};
    const int64_t b_shape[2] = {3, 4};
    everyo_tensor in[2];
    everyo_tensor out;
    everyo_tensor more;
    ASSERT_DONE(everyo_tensor_fill(c, EVERYO_FLOAT32, a_shape, 2, 1, NULL, &in[0], &failure));
    ASSERT_DONE(everyo_tensor_fill(c, EVERYO_FLOAT32, b_shape, 2, 2, NULL, &in[1], &failure));
    ASSERT_DONE(everyo_matmul(c, &in[0], &in[1], &out, &failure));
    ck_assert_int_eq(out.n_dims, 2);
    ck_assert_int_eq(out.shape[0], 2);
    ck_assert_int_eq(out.shape[1], 4);
    /* All three handles are in use; failures must not use one up. */
    for (int i = 0; i < 5; i++) {
        ck_assert_int_eq(everyo_matmul(c, &in[0], &in[1], &more, &failure), EO_E_QUOTA);
        ck_assert_int_eq(failure.exit_code, 75);
    }
    ASSERT_DONE(everyo_tensor_free(c, &out, &failure));
    ASSERT_DONE(everyo_op(c, "sum", "axes=[1], keepdims=true", in, 1, &more, 1, &failure));
    ck_assert_int_eq(more.shape[1], 1);
    ASSERT_DONE(everyo_sync(c, &failure));
    ASSERT_CONTAINS(notes.text, "op.run {op:matmul,attrs:{},inputs:[[0,1],[1,1]],outputs:[[2,1]]} +0\n"
                                "tensor.free {handles:[[2,1]]} +0\n"
                                "op.run {op:sum,attrs:{axes:[1],keepdims:true},inputs:[[0,1]],outputs:[[2,2]]} +0\n");
    ASSERT_DONE(everyo_tensor_free(c, NULL, &failure));
    everyo_close(c);
    fake_server_stop(s);
}
END_TEST

START_TEST(the_first_cause_comes_at_sync)
{
    struct fake_server *s = NULL;
    everyo_client *c = connect_to(&s);
    everyo_tensor t;
    everyo_tensor out;
    notes.fail_method = "op.run";
    ASSERT_DONE(everyo_tensor_fill(c, EVERYO_FLOAT32, NULL, 0, 1, NULL, &t, &failure));
    ASSERT_DONE(everyo_op(c, "exp", NULL, &t, 1, &out, 1, &failure)); /* queued */
    ck_assert_int_eq(everyo_sync(c, &failure), EO_E_BAD_VALUE);
    ck_assert_str_eq(failure.message, "as the test wants it");
    ASSERT_CONTAINS(failure.text, "EO-2009");
    ASSERT_DONE(everyo_sync(c, &failure));
    everyo_close(c);
    fake_server_stop(s);
}
END_TEST

/* y = exp(x) * x with its gradient by x. */
static everyo_graph *small_graph(void)
{
    everyo_graph *g = everyo_graph_new();
    ck_assert_ptr_nonnull(g);
    const everyo_value x = everyo_graph_input(g, "x", EVERYO_FLOAT64, NULL, 0);
    const everyo_value e = everyo_graph_op(g, "exp", NULL, &x, 1);
    everyo_graph_output(g, "y", everyo_graph_op(g, "multiply", NULL, (const everyo_value[]){e, x}, 2));
    everyo_graph_gradient(g, "y", (const char *const[]){"x"}, 1, "d_");
    return g;
}

START_TEST(plans_by_name)
{
    struct fake_server *s = NULL;
    everyo_client *c = connect_to(&s);
    everyo_graph *g = small_graph();
    everyo_plan *plan = NULL;
    everyo_tensor x;
    everyo_tensor out[2];
    ASSERT_DONE(everyo_plan_create(c, g, "cpu:0", &plan, &failure));
    everyo_graph_free(g);
    ASSERT_DONE(everyo_tensor_fill(c, EVERYO_FLOAT64, NULL, 0, 2, NULL, &x, &failure));
    ASSERT_DONE(
        everyo_plan_run(plan, (const char *const[]){"x"}, &x, 1, (const char *const[]){"d_x", "y"}, out, 2, &failure));
    ck_assert_int_eq(out[0].dtype, EVERYO_FLOAT64);
    /* Unknown names and full tables leave no handle behind: there are three, all taken. */
    ck_assert_int_eq(
        everyo_plan_run(plan, (const char *const[]){"x"}, &x, 1, (const char *const[]){"y"}, out, 1, &failure),
        EO_E_QUOTA);
    ASSERT_DONE(everyo_tensor_free(c, &out[1], &failure));
    ck_assert_int_eq(
        everyo_plan_run(plan, (const char *const[]){"x"}, &x, 1, (const char *const[]){"y", "z"}, out, 2, &failure),
        EO_E_BAD_GRAPH);
    ASSERT_CONTAINS(failure.message, "\"z\"");
    ck_assert_int_eq(everyo_plan_run(plan, NULL, NULL, -1, NULL, NULL, 0, &failure), EO_E_BAD_ARITY);
    ASSERT_DONE(everyo_plan_run(plan, (const char *const[]){"x"}, &x, 1, (const char *const[]){"y"}, out, 1, &failure));
    everyo_plan_free(plan);
    everyo_plan_free(NULL);
    ASSERT_DONE(everyo_sync(c, &failure));
    ASSERT_CONTAINS(notes.text, "plan.create {plan:1,device:cpu:0,gradients:[{of:y,wrt:[x],as:[d_x]}]} +");
    ASSERT_CONTAINS(notes.text, "plan.run {plan:1,feeds:{x:[0,1]},fetches:{d_x:[1,1],y:[2,1]}} +0\n");
    ASSERT_CONTAINS(notes.text, "plan.run {plan:1,feeds:{x:[0,1]},fetches:{y:[2,");
    ASSERT_CONTAINS(notes.text, "plan.free {plan:1} +0\n");
    everyo_close(c);
    fake_server_stop(s);
}
END_TEST

START_TEST(the_first_error_of_a_graph_sticks)
{
    struct fake_server *s = NULL;
    everyo_client *c = connect_to(&s);
    everyo_plan *plan = NULL;
    char long_name[300];
    memset(long_name, 'n', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    everyo_graph *g = everyo_graph_new();
    const everyo_value x = everyo_graph_input(g, "x", EVERYO_FLOAT32, (const int64_t[]){3}, 1);
    const everyo_value bad = everyo_graph_op(g, "no_such_op", NULL, &x, 1);
    ck_assert_uint_eq(everyo_graph_op(g, "exp", NULL, &bad, 1), bad); /* no value */
    everyo_graph_output(g, "y", bad);
    ck_assert_int_eq(everyo_plan_create(c, g, NULL, &plan, &failure), EO_E_UNKNOWN_OP);
    everyo_graph_free(g);
    g = small_graph();
    everyo_graph_gradient(g, "y", (const char *const[]){"x"}, 1, long_name);
    ck_assert_int_eq(everyo_plan_create(c, g, NULL, &plan, &failure), EO_E_BAD_GRAPH);
    everyo_graph_free(g);
    g = small_graph();
    for (int i = 0; i < 16; i++) {
        everyo_graph_gradient(g, "y", (const char *const[]){"x"}, 1, "d_");
    }
    ck_assert_int_eq(everyo_plan_create(c, g, NULL, &plan, &failure), EO_E_TOO_LARGE);
    everyo_graph_free(g);
    everyo_graph_free(NULL);
    ck_assert_ptr_null(plan);
    everyo_close(c);
    fake_server_stop(s);
}
END_TEST

START_TEST(connecting)
{
    everyo_client *c = NULL;
    ck_assert_int_eq(everyo_connect("host:port:more", 0, &c, &failure), EO_E_BAD_ENDPOINT);
    ck_assert_int_eq(failure.exit_code, 64);
    ck_assert_int_eq(everyo_connect("unix:/nonexistent/socket", 0, &c, &failure), EO_E_UNREACHABLE);
    ck_assert_int_eq(everyo_connect("unix:/nonexistent/socket", 0, &c, NULL), EO_E_UNREACHABLE);
    ck_assert_ptr_null(c);
    everyo_close(NULL);
    struct fake_server *s = fake_server_start(daemon_script, &notes);
    memset(&notes, 0, sizeof notes);
    double rtt_us = -1;
    setenv("EVERYO_HOST", fake_server_endpoint(s)->text, 1);
    ASSERT_DONE(everyo_connect(NULL, 1000, &c, &failure));
    unsetenv("EVERYO_HOST");
    ASSERT_DONE(everyo_ping(c, &rtt_us, &failure));
    ck_assert_double_gt(rtt_us, 0);
    ASSERT_DONE(everyo_ping(c, NULL, &failure));
    everyo_close(c);
    fake_server_stop(s);
}
END_TEST

START_TEST(facts_of_dtypes)
{
    ck_assert_uint_eq(everyo_dtype_size(EVERYO_BFLOAT16), 2);
    ck_assert_uint_eq(everyo_dtype_size(0), 0);
    ck_assert_uint_eq(everyo_dtype_size(14), 0);
    ck_assert_uint_eq(everyo_dtype_size(-1), 0);
    ck_assert_str_eq(everyo_dtype_name(EVERYO_UINT64), "uint64");
    ck_assert_str_eq(everyo_dtype_name(77), "?");
    ck_assert_uint_eq(everyo_tensor_bytes(&(everyo_tensor){.dtype = EVERYO_INT16, .n_dims = 99}), 0);
    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", EVERYO_VERSION_MAJOR, EVERYO_VERSION_MINOR, EVERYO_VERSION_PATCH);
    ck_assert_str_eq(everyo_version(), version); /* the header's and the build's */
}
END_TEST

EO_SUITE("client api", tensors_travel_in_chunks, tensors_without_bytes, nothing_is_sent_that_cannot_be,
         operations_and_their_handles, the_first_cause_comes_at_sync, plans_by_name, the_first_error_of_a_graph_sticks,
         connecting, facts_of_dtypes)
