/* The golden transcripts as calls of the encoder. A case of a released version never changes: a change of the protocol
 * that alters one is a new version with a folder of its own. */
#include "proto/base/sha256.h"
#include "proto/error_codec.h"
#include "proto/graph_build.h"
#include "proto/op_schema.h"
#include "tests/proto/transcript.h"

#include <stdio.h>
#include <string.h>

/* ---- frames ---- */

static struct eo_bytes *open_frame(struct transcript *t, char direction, const char *label)
{
    struct transcript_frame *f = &t->frames[t->n++];
    f->direction = direction;
    snprintf(f->label, sizeof f->label, "%s", label);
    eo_bytes_init(&f->bytes, 1 << 20);
    eo_bytes_clear(&t->envelope);
    return &t->envelope;
}

static void close_frame(struct transcript *t, const void *payload, size_t size)
{
    struct transcript_frame *f = &t->frames[t->n - 1];
    uint8_t header[EO_FRAME_HEADER_SIZE];
    const struct eo_frame_header h = {.envelope_size = (uint32_t)t->envelope.size, .payload_size = size};
    eo_frame_encode(&h, header);
    eo_bytes_append(&f->bytes, header, sizeof header);
    eo_bytes_append(&f->bytes, t->envelope.data, t->envelope.size);
    if (size > 0) {
        eo_bytes_append(&f->bytes, payload, size);
    }
}

static struct eo_bytes *request(struct transcript *t, uint32_t id, const char *method, size_t n_params)
{
    struct eo_bytes *b = open_frame(t, '>', method);
    eo_pack_request(b, id, method);
    eo_pack_map(b, n_params);
    return b;
}

static struct eo_bytes *result(struct transcript *t, uint32_t id, size_t n_keys)
{
    struct eo_bytes *b = open_frame(t, '<', "result");
    eo_pack_result(b, id);
    eo_pack_map(b, n_keys);
    return b;
}

static void handle(struct eo_bytes *b, uint32_t slot, uint32_t generation)
{
    eo_pack_i64_array(b, (int64_t[]){slot, generation}, 2);
}

static void handles(struct eo_bytes *b, const char *key, const uint32_t *slots, size_t n)
{
    eo_pack_str(b, key);
    eo_pack_array(b, n);
    for (size_t i = 0; i < n; i++) {
        handle(b, slots[i], 1);
    }
}

static void desc(struct eo_bytes *b, enum eo_dtype dtype, const int64_t *shape, int n_dims)
{
    struct eo_tensor_desc d;
    if (eo_tensor_desc_init(&d, dtype, shape, n_dims, NULL) == EO_OK) {
        eo_tensor_desc_pack_fields(b, &d);
    }
}

/* ---- connection ---- */

static void hello_request(struct transcript *t, int64_t min, int64_t max)
{
    struct eo_bytes *b = request(t, 1, "hello", 4);
    eo_pack_str(b, "versions");
    eo_pack_i64_array(b, (int64_t[]){min, max}, 2);
    eo_pack_kv_str(b, "role", "client");
    eo_pack_kv_str(b, "build", "0.1.0 (edfbd24)");
    eo_pack_kv_str(b, "ops_hash", "0123456789abcdef");
    close_frame(t, NULL, 0);
}

static void make_hello(struct transcript *t)
{
    hello_request(t, 1, 1);
    struct eo_bytes *b = result(t, 1, 9);
    eo_pack_kv_i64(b, "version", 1);
    eo_pack_str(b, "features");
    eo_pack_array(b, 0);
    eo_pack_kv_str(b, "build", "0.1.0 (edfbd24)");
    eo_pack_kv_str(b, "node", "00112233445566778899aabbccddeeff");
    eo_pack_str(b, "limits");
    eo_pack_map(b, 6);
    eo_pack_kv_u64(b, "envelope", EO_ENVELOPE_MAX);
    eo_pack_kv_u64(b, "payload", 64 << 20);
    eo_pack_kv_u64(b, "chunk", EO_CHUNK_MAX);
    eo_pack_kv_u64(b, "handles", 65536);
    eo_pack_kv_u64(b, "tensor_bytes", 8589934592);
    eo_pack_kv_u64(b, "pending", 1024);
    eo_pack_kv_str(b, "ops_hash", "0123456789abcdef");
    eo_pack_kv_str(b, "session", "0f1e2d3c4b5a69788796a5b4c3d2e1f0");
    eo_pack_kv_str(b, "secret", "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f");
    eo_pack_kv_u64(b, "lease_ms", 30000);
    close_frame(t, NULL, 0);
}

static void make_hello_refused(struct transcript *t)
{
    struct eo_error err = {0};
    hello_request(t, 7, 9);
    EO_RAISE(&err, EO_E_VERSION_MISMATCH,
             "this daemon (0.1.0 (edfbd24)) speaks protocol 1 to 1, the other side speaks 7 to 9");
    eo_error_hint(&err, "Upgrade everyod on this host.");
    eo_pack_failure(open_frame(t, '<', "failure"), 1, &err);
    close_frame(t, NULL, 0);
}

static void make_connection_refused(struct transcript *t)
{
    struct eo_error err = {0};
    EO_RAISE(&err, EO_E_BUSY, "this daemon has 1024 connections and takes no more");
    eo_error_hint(&err, "Try again later, or raise --max-connections.");
    eo_pack_failure(open_frame(t, '<', "failure of request 0"), 0, &err);
    close_frame(t, NULL, 0);
}

static void make_ping(struct transcript *t)
{
    request(t, 2, "ping", 0);
    close_frame(t, NULL, 0);
    struct eo_bytes *b = result(t, 2, 3);
    eo_pack_kv_i64(b, "time_ms", 1764510340123);
    eo_pack_kv_u64(b, "uptime_ms", 86400000);
    eo_pack_str(b, "load");
    eo_pack_map(b, 3);
    eo_pack_kv_u64(b, "connections", 3);
    eo_pack_kv_u64(b, "sessions", 2);
    eo_pack_kv_u64(b, "jobs_running", 0);
    close_frame(t, NULL, 0);
}

/* ---- tensors ---- */

static const float a_values[6] = {1, 2, 3, 4, 5, 6};

static void make_tensors(struct transcript *t)
{
    static const float b_values[6] = {7, 8, 9, 10, 11, 12};
    struct eo_bytes *b = request(t, 3, "tensor.create", 3); /* all bytes at once */
    eo_pack_str(b, "handle");
    handle(b, 0, 1);
    desc(b, EO_FLOAT32, (int64_t[]){2, 3}, 2);
    close_frame(t, a_values, sizeof a_values);
    b = request(t, 4, "tensor.create", 3); /* the first half, then the rest */
    eo_pack_str(b, "handle");
    handle(b, 1, 1);
    desc(b, EO_FLOAT32, (int64_t[]){3, 2}, 2);
    close_frame(t, b_values, 12);
    b = request(t, 5, "tensor.upload", 2);
    eo_pack_str(b, "handle");
    handle(b, 1, 1);
    eo_pack_kv_u64(b, "offset", 12);
    close_frame(t, b_values + 3, 12);
    for (uint32_t id = 3; id <= 4; id++) {
        b = result(t, id, 2);
        eo_pack_kv_u64(b, "bytes", 24);
        eo_pack_kv_str(b, "device", "cpu");
        close_frame(t, NULL, 0);
    }
    b = result(t, 5, 1);
    eo_pack_kv_u64(b, "received", 24);
    close_frame(t, NULL, 0);
    b = request(t, 6, "tensor.create", 4); /* filled there */
    eo_pack_str(b, "handle");
    handle(b, 2, 1);
    desc(b, EO_FLOAT64, NULL, 0);
    eo_pack_kv_f64(b, "fill", 1.5);
    close_frame(t, NULL, 0);
    b = result(t, 6, 2);
    eo_pack_kv_u64(b, "bytes", 8);
    eo_pack_kv_str(b, "device", "cpu");
    close_frame(t, NULL, 0);
}

static void make_download(struct transcript *t)
{
    struct eo_bytes *b = request(t, 7, "tensor.download", 3);
    eo_pack_str(b, "handle");
    handle(b, 0, 1);
    eo_pack_kv_u64(b, "offset", 8);
    eo_pack_kv_u64(b, "size", 16);
    close_frame(t, NULL, 0);
    b = result(t, 7, 3);
    desc(b, EO_FLOAT32, (int64_t[]){2, 3}, 2);
    eo_pack_kv_u64(b, "size", 16);
    close_frame(t, a_values + 2, 16);
}

/* ---- operations ---- */

static void attrs(struct eo_bytes *b, const char *op, const char *flag)
{
    const struct eo_op_schema *row = eo_op_by_name(op, strlen(op));
    struct eo_attrs values;
    eo_attrs_default(row, &values);
    if (flag != NULL) {
        eo_attrs_set_int(row, &values, flag, 1, NULL);
    }
    eo_attrs_pack(b, row, &values);
}

static void op_run(struct transcript *t, uint32_t id, const char *op, const char *flag, const uint32_t *in, size_t n_in,
                   uint32_t out)
{
    struct eo_bytes *b = request(t, id, "op.run", 4);
    eo_pack_kv_str(b, "op", op);
    eo_pack_str(b, "attrs");
    attrs(b, op, flag);
    handles(b, "inputs", in, n_in);
    handles(b, "outputs", &out, 1);
    close_frame(t, NULL, 0);
}

static void make_op(struct transcript *t)
{
    static const float product[4] = {58, 64, 139, 154};
    op_run(t, 8, "matmul", NULL, (uint32_t[]){0, 1}, 2, 3);
    struct eo_bytes *b = result(t, 8, 1);
    eo_pack_str(b, "outputs");
    eo_pack_array(b, 1);
    eo_pack_map(b, 2);
    desc(b, EO_FLOAT32, (int64_t[]){2, 2}, 2);
    close_frame(t, NULL, 0);
    b = request(t, 9, "tensor.download", 3);
    eo_pack_str(b, "handle");
    handle(b, 3, 1);
    eo_pack_kv_u64(b, "offset", 0);
    eo_pack_kv_u64(b, "size", 16);
    close_frame(t, NULL, 0);
    b = result(t, 9, 3);
    desc(b, EO_FLOAT32, (int64_t[]){2, 2}, 2);
    eo_pack_kv_u64(b, "size", 16);
    close_frame(t, product, sizeof product);
}

/* Written out, so that another wording of the rules leaves version 1 as it is. */
static void shape_mismatch(struct eo_error *err)
{
    EO_RAISE(err, EO_E_SHAPE_MISMATCH, "inner dimensions differ: 3 and 2");
    eo_error_hint(err, "Change transpose_b, or pass the second input with 3 rows.");
    eo_error_at_op(err, "matmul", "");
    eo_error_input(err, "a", "float32", (int64_t[]){2, 3}, 2, 1);
    eo_error_input(err, "b", "float32", (int64_t[]){3, 2}, 2, 1);
}

static void make_op_failed(struct transcript *t)
{
    struct eo_error err = {0};
    op_run(t, 10, "matmul", "transpose_b", (uint32_t[]){0, 1}, 2, 4);
    shape_mismatch(&err);
    eo_pack_failure(open_frame(t, '<', "failure"), 10, &err);
    close_frame(t, NULL, 0);
    /* The output is poisoned: reading it gives the first cause. */
    struct eo_bytes *b = request(t, 11, "tensor.info", 1);
    eo_pack_str(b, "handle");
    handle(b, 4, 1);
    close_frame(t, NULL, 0);
    eo_error_push(&err, "this call was to produce the tensor");
    eo_pack_failure(open_frame(t, '<', "failure"), 11, &err);
    close_frame(t, NULL, 0);
}

/* ---- plans ---- */

static void square_graph(struct eo_bytes *out)
{
    struct eo_graph *g = eo_graph_new();
    struct eo_tensor_desc d;
    struct eo_attrs values;
    const struct eo_op_schema *row = eo_op_schema(EO_OP_SUM);
    eo_value x = EO_NO_VALUE;
    eo_value square[EO_MAX_OUTPUTS];
    eo_value sum[EO_MAX_OUTPUTS];
    eo_tensor_desc_init(&d, EO_FLOAT32, (int64_t[]){2, 3}, 2, NULL);
    eo_attrs_default(row, &values);
    eo_graph_input(g, "x", &d, &x, NULL);
    eo_graph_add(g, EO_OP_MULTIPLY, (eo_value[]){x, x}, 2, NULL, square, NULL);
    eo_graph_add(g, EO_OP_SUM, square, 1, &values, sum, NULL);
    eo_graph_output(g, "y", sum[0], NULL);
    eo_graph_encode(g, out, NULL);
    eo_graph_free(g);
}

static void pack_port(struct eo_bytes *b, const char *name, const int64_t *shape, int n_dims)
{
    eo_pack_map(b, 3);
    eo_pack_kv_str(b, "name", name);
    desc(b, EO_FLOAT32, shape, n_dims);
}

static void make_plan(struct transcript *t)
{
    struct eo_bytes graph;
    static const int64_t shape[2] = {2, 3};
    eo_bytes_init(&graph, 1 << 16);
    square_graph(&graph);
    struct eo_bytes *b = request(t, 12, "plan.create", 2);
    eo_pack_kv_u64(b, "plan", 1);
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
    close_frame(t, graph.data, graph.size);
    eo_bytes_fini(&graph);
    b = result(t, 12, 4);
    eo_pack_str(b, "inputs");
    eo_pack_array(b, 1);
    pack_port(b, "x", shape, 2);
    eo_pack_str(b, "outputs");
    eo_pack_array(b, 2);
    pack_port(b, "y", NULL, 0);
    pack_port(b, "dx", shape, 2);
    eo_pack_kv_u64(b, "arena_bytes", 64);
    eo_pack_kv_u64(b, "steps", 3);
    close_frame(t, NULL, 0);
    b = request(t, 13, "plan.run", 3);
    eo_pack_kv_u64(b, "plan", 1);
    eo_pack_str(b, "feeds");
    eo_pack_map(b, 1);
    eo_pack_str(b, "x");
    handle(b, 0, 1);
    eo_pack_str(b, "fetches");
    eo_pack_map(b, 2);
    eo_pack_str(b, "y");
    handle(b, 5, 1);
    eo_pack_str(b, "dx");
    handle(b, 6, 1);
    close_frame(t, NULL, 0);
    result(t, 13, 0);
    close_frame(t, NULL, 0);
}

static void make_plan_results(struct transcript *t)
{
    static const float y[1] = {91};
    static const float dx[6] = {2, 4, 6, 8, 10, 12};
    for (uint32_t i = 0; i < 2; i++) {
        struct eo_bytes *b = request(t, 14 + i, "tensor.download", 3);
        eo_pack_str(b, "handle");
        handle(b, 5 + i, 1);
        eo_pack_kv_u64(b, "offset", 0);
        eo_pack_kv_u64(b, "size", i == 0 ? sizeof y : sizeof dx);
        close_frame(t, NULL, 0);
        b = result(t, 14 + i, 3);
        desc(b, EO_FLOAT32, (int64_t[]){2, 3}, i == 0 ? 0 : 2);
        eo_pack_kv_u64(b, "size", i == 0 ? sizeof y : sizeof dx);
        close_frame(t, i == 0 ? y : dx, i == 0 ? sizeof y : sizeof dx);
    }
}

static void make_free(struct transcript *t)
{
    struct eo_bytes *b = request(t, 16, "plan.free", 1);
    eo_pack_kv_u64(b, "plan", 1);
    close_frame(t, NULL, 0);
    result(t, 16, 0);
    close_frame(t, NULL, 0);
    b = request(t, 17, "tensor.free", 1);
    handles(b, "handles", (uint32_t[]){0, 1, 2, 3}, 4);
    close_frame(t, NULL, 0);
    b = result(t, 17, 1);
    eo_pack_kv_u64(b, "freed", 4);
    close_frame(t, NULL, 0);
}

/* ---- data and jobs ---- */

static const char csv[] = "x,label\n1,0\n2,1\n";

static void make_blob(struct transcript *t)
{
    char hash[65];
    eo_sha256_of(csv, sizeof csv - 1, hash);
    struct eo_bytes *b = request(t, 18, "blob.have", 1);
    eo_pack_str(b, "sha256");
    eo_pack_array(b, 1);
    eo_pack_str(b, hash);
    close_frame(t, NULL, 0);
    b = result(t, 18, 2);
    eo_pack_str(b, "have");
    eo_pack_array(b, 1);
    eo_pack_bool(b, false);
    eo_pack_str(b, "received");
    eo_pack_array(b, 1);
    eo_pack_u64(b, 0);
    close_frame(t, NULL, 0);
    b = request(t, 19, "blob.put", 3);
    eo_pack_kv_str(b, "sha256", hash);
    eo_pack_kv_u64(b, "size", sizeof csv - 1);
    eo_pack_kv_u64(b, "offset", 0);
    close_frame(t, csv, sizeof csv - 1);
    b = result(t, 19, 2);
    eo_pack_kv_u64(b, "received", sizeof csv - 1);
    eo_pack_kv_bool(b, "complete", true);
    close_frame(t, NULL, 0);
}

static void make_session_close(struct transcript *t)
{
    request(t, 20, "session.close", 0);
    close_frame(t, NULL, 0);
    result(t, 20, 0);
    close_frame(t, NULL, 0);
}

#define JOB "3f2a9c0d4e5b6a7f8091a2b3c4d5e6f7"

static void make_job_submit(struct transcript *t)
{
    char hash[65];
    eo_sha256_of(csv, sizeof csv - 1, hash);
    struct eo_bytes *b = request(t, 21, "job.submit", 3);
    eo_pack_kv_str(b, "key", "6c0f1b2a");
    eo_pack_kv_str(b, "spec", "name: tiny\nmodel: [{linear: {in: 1, out: 2}}]\nloss: cross_entropy\n");
    eo_pack_str(b, "files");
    eo_pack_array(b, 1);
    eo_pack_map(b, 3);
    eo_pack_kv_str(b, "path", "tiny.csv");
    eo_pack_kv_str(b, "sha256", hash);
    eo_pack_kv_u64(b, "size", sizeof csv - 1);
    close_frame(t, NULL, 0);
    b = result(t, 21, 3);
    eo_pack_kv_str(b, "job", JOB);
    eo_pack_kv_str(b, "state", "queued");
    eo_pack_kv_bool(b, "created", true);
    close_frame(t, NULL, 0);
}

static struct eo_bytes *job_event(struct transcript *t, const char *kind, size_t n_more)
{
    struct eo_bytes *b = open_frame(t, '<', "job.event");
    eo_pack_notification(b, "job.event");
    eo_pack_map(b, 3 + n_more);
    eo_pack_kv_str(b, "job", JOB);
    eo_pack_kv_u64(b, "watch", 22);
    eo_pack_kv_str(b, "kind", kind);
    return b;
}

static void make_job_watch(struct transcript *t)
{
    static const char log[] = "epoch 1: loss 0.25\n";
    struct eo_bytes *b = request(t, 22, "job.watch", 2);
    eo_pack_kv_str(b, "job", "3f2a9c0d");
    eo_pack_kv_u64(b, "log_offset", 0);
    close_frame(t, NULL, 0);
    b = job_event(t, "state", 2);
    eo_pack_kv_str(b, "state", "running");
    eo_pack_kv_str(b, "reason", "");
    close_frame(t, NULL, 0);
    b = job_event(t, "progress", 1);
    eo_pack_str(b, "progress");
    eo_pack_map(b, 3);
    eo_pack_kv_i64(b, "epoch", 1);
    eo_pack_kv_i64(b, "step", 10);
    eo_pack_str(b, "metrics");
    eo_pack_map(b, 1);
    eo_pack_kv_f64(b, "loss", 0.25);
    close_frame(t, NULL, 0);
    b = job_event(t, "log", 1);
    eo_pack_kv_u64(b, "log_offset", 0);
    close_frame(t, log, sizeof log - 1);
    b = job_event(t, "state", 2);
    eo_pack_kv_str(b, "state", "succeeded");
    eo_pack_kv_str(b, "reason", "");
    close_frame(t, NULL, 0);
    b = result(t, 22, 2); /* the drain marker */
    eo_pack_kv_str(b, "state", "succeeded");
    eo_pack_kv_u64(b, "log_bytes", sizeof log - 1);
    close_frame(t, NULL, 0);
}

static void make_unknown_method(struct transcript *t)
{
    struct eo_error err = {0};
    request(t, 23, "tensor.transmogrify", 0);
    close_frame(t, NULL, 0);
    EO_RAISE(&err, EO_E_UNKNOWN_METHOD, "there is no method \"tensor.transmogrify\"");
    eo_error_hint(&err, "A method that this daemon lacks may need a newer version of it.");
    eo_pack_failure(open_frame(t, '<', "failure"), 23, &err);
    close_frame(t, NULL, 0);
}

const struct transcript_case transcript_cases[] = {
    {"01-hello", "the first exchange of a client", make_hello, true},
    {"02-ping", "a question without parameters", make_ping, true},
    {"03-tensors", "bytes at once, in chunks, and a fill; three requests before the first answer", make_tensors, true},
    {"04-download", "a part of a tensor as payload of the answer", make_download, true},
    {"05-op", "a product of two matrices, read back", make_op, true},
    {"06-op-failed", "an operation that fails, and its poisoned output", make_op_failed, true},
    {"07-plan", "a graph with its gradient, compiled and run", make_plan, true},
    {"08-plan-results", "what the plan computed", make_plan_results, true},
    {"09-free", "plans and tensors are freed", make_free, true},
    {"10-blob", "data by content", make_blob, true},
    {"11-session-close", "the end of a session", make_session_close, true},
    {"12-job-submit", "a job", make_job_submit, false},
    {"13-job-watch", "its events, the last of which is followed by the drain marker", make_job_watch, false},
    {"14-unknown-method", "a method of another version", make_unknown_method, true},
    {"20-hello-refused", "no common version", make_hello_refused, false},
    {"21-connection-refused", "a daemon that takes no more connections says so as request 0", make_connection_refused,
     false},
};
const int transcript_n_cases = (int)EO_COUNT_OF(transcript_cases);
