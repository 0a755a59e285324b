/* The wire form of graphs: canonical, and a hostile boundary. */
#include "proto/codec.h"
#include "proto/graph_build.h"
#include "tests/support/suite.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static struct eo_error err;

/* An MLP's forward pass with a state, constants, attributes of every kind, labels and two outputs. */
static struct eo_graph *sample(void)
{
    struct eo_graph *g = eo_graph_new();
    struct eo_builder b;
    struct eo_tensor_desc d;
    eo_value x, w, rng, h, v;
    struct eo_attrs attrs;

    ck_assert_ptr_nonnull(g);
    eo_build_init(&b, g, &err);
    ASSERT_OK(eo_tensor_desc_init(&d, EO_FLOAT32, (int64_t[]){32, 64}, 2, &err));
    ASSERT_OK(eo_graph_input(g, "x", &d, &x, &err));
    ASSERT_OK(eo_tensor_desc_init(&d, EO_FLOAT32, (int64_t[]){64, 10}, 2, &err));
    ASSERT_OK(eo_graph_state(g, "layer.weight", &d, &w, &err));
    ASSERT_OK(eo_tensor_desc_init(&d, EO_INT64, (int64_t[]){3}, 1, &err));
    ASSERT_OK(eo_graph_input(g, "rng", &d, &rng, &err));
    g->label = "hidden1";
    h = eo_build_matmul(&b, x, w, false, false);
    eo_attrs_default(eo_op_schema(EO_OP_DROPOUT), &attrs);
    attrs.v[0].f = 0.25;
    attrs.v[1].i = 7;
    h = eo_build_op(&b, EO_OP_DROPOUT, (eo_value[]){h, rng}, 2, &attrs);
    g->label = NULL;
    h = eo_build_binary(&b, EO_OP_ADD, h, eo_build_scalar(&b, EO_FLOAT32, 0.5));
    v = eo_build_reduce(&b, EO_OP_SUM, h, (int64_t[]){0, -1}, 2, true);
    v = eo_build_reshape(&b, v, NULL, 0);
    v = eo_build_cast(&b, v, EO_FLOAT64);
    ck_assert_int_eq(b.status, EO_OK);
    ASSERT_OK(eo_graph_output(g, "hidden", h, &err));
    ASSERT_OK(eo_graph_output(g, "total", v, &err));
    return g;
}

static void encode(const struct eo_graph *g, struct eo_bytes *out)
{
    eo_bytes_init(out, EO_GRAPH_MAX_BYTES);
    ASSERT_OK(eo_graph_encode(g, out, &err));
}

START_TEST(test_round_trip)
{
    struct eo_graph *g = sample(), *back = NULL;
    struct eo_bytes first, second;
    char hash[65], hash_back[65];

    encode(g, &first);
    ASSERT_OK(eo_graph_decode(first.data, first.size, &back, &err));
    ck_assert_uint_eq(back->n_nodes, g->n_nodes);
    ck_assert_uint_eq(back->n_values, g->n_values);
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct eo_graph_node *a = &g->nodes[i], *c = &back->nodes[i];

        ck_assert_int_eq(a->kind, c->kind);
        ck_assert_ptr_eq(a->op, c->op);
        ck_assert((a->name == NULL) == (c->name == NULL));
        ck_assert(a->name == NULL || strcmp(a->name, c->name) == 0);
        ck_assert(a->kind != EO_NODE_OP || eo_attrs_equal(a->op, a->attrs, c->attrs));
        ck_assert_uint_eq(a->n_inputs, c->n_inputs);
        ck_assert(a->n_inputs == 0 || memcmp(a->inputs, c->inputs, a->n_inputs * sizeof(eo_value)) == 0);
    }
    for (uint32_t i = 0; i < g->n_values; i++) {
        ck_assert(eo_tensor_desc_equal(&g->values[i].desc, &back->values[i].desc));
    }
    ck_assert_uint_eq(back->n_outputs, 2);
    ck_assert_str_eq(back->outputs[1].name, "total");
    ck_assert_uint_eq(back->outputs[1].value, g->outputs[1].value);
    encode(back, &second);
    ck_assert_uint_eq(first.size, second.size);
    ck_assert_mem_eq(first.data, second.data, first.size);
    ASSERT_OK(eo_graph_hash(g, hash, &err));
    ASSERT_OK(eo_graph_hash(back, hash_back, &err));
    ck_assert_str_eq(hash, hash_back);
    eo_bytes_fini(&first);
    eo_bytes_fini(&second);
    eo_graph_free(g);
    eo_graph_free(back);
}
END_TEST

/* The same graph through different calls has one encoding; different graphs differ. */
START_TEST(test_hash_is_canonical)
{
    const struct eo_op_schema *op = eo_op_schema(EO_OP_CLIP);
    enum { SAME, SAME_EXPLICIT, NAN_A, NAN_B, OTHER_ATTR, OTHER_LABEL, OTHER_NAME, N };
    char hash[N][65];

    for (int i = 0; i < N; i++) {
        struct eo_graph *g = eo_graph_new();
        struct eo_tensor_desc d = {.dtype = EO_FLOAT32, .n_dims = 1, .shape = {4, i == SAME_EXPLICIT ? 99 : 0}};
        struct eo_attrs attrs, full;
        eo_value x, y;

        ck_assert_ptr_nonnull(g);
        eo_attrs_default(op, &attrs);
        eo_attrs_default(eo_op_schema(EO_OP_FULL), &full);
        attrs.v[0].f = i == OTHER_ATTR ? 0 : attrs.v[0].f;
        full.v[1].f = i == NAN_A ? (double)NAN : i == NAN_B ? -(double)NAN : 0;
        ASSERT_OK(eo_graph_input(g, "x", &d, &x, &err));
        g->label = i == OTHER_LABEL ? "clip" : NULL;
        ASSERT_OK(eo_graph_add(g, EO_OP_CLIP, &x, 1, i == SAME ? NULL : &attrs, &y, &err));
        g->label = NULL;
        ASSERT_OK(eo_graph_add(g, EO_OP_FULL, NULL, 0, &full, &y, &err));
        ASSERT_OK(eo_graph_output(g, i == OTHER_NAME ? "z" : "y", y, &err));
        ASSERT_OK(eo_graph_hash(g, hash[i], &err));
        eo_graph_free(g);
    }
    ck_assert_str_eq(hash[SAME], hash[SAME_EXPLICIT]);
    ck_assert_str_eq(hash[NAN_A], hash[NAN_B]);
    ck_assert_str_ne(hash[SAME], hash[NAN_A]);
    ck_assert_str_ne(hash[SAME], hash[OTHER_ATTR]);
    ck_assert_str_ne(hash[SAME], hash[OTHER_LABEL]);
    ck_assert_str_ne(hash[SAME], hash[OTHER_NAME]);
}
END_TEST

/* The exact bytes: golden, so that a client in another language can be written from docs/protocol.md. */
START_TEST(test_golden)
{
    static const char wanted[] = "\x83\xa7version\x01\xa5nodes\x93"
                                 "\x83\xa5input\xa1x\xa5"
                                 "dtype\xa7"
                                 "float32\xa5shape\x92\x02\x03"
                                 "\x83\xa8"
                                 "constant\xc4\x04\x00\x00\x80\x3f\xa5"
                                 "dtype\xa7"
                                 "float32\xa5shape\x90"
                                 "\x84\xa2op\xa3sum\xa2in\x91\x00\xa5"
                                 "attrs\x82\xa4"
                                 "axes\x91\xff\xa8keepdims\xc3"
                                 "\xa5label\xa4last"
                                 "\xa7outputs\x91\x82\xa4name\xa1y\xa5value\x02";
    struct eo_graph *g = eo_graph_new();
    struct eo_builder b;
    struct eo_tensor_desc d;
    struct eo_bytes bytes;
    eo_value x, y;

    ck_assert_ptr_nonnull(g);
    eo_build_init(&b, g, &err);
    ASSERT_OK(eo_tensor_desc_init(&d, EO_FLOAT32, (int64_t[]){2, 3}, 2, &err));
    ASSERT_OK(eo_graph_input(g, "x", &d, &x, &err));
    eo_build_scalar(&b, EO_FLOAT32, 1);
    g->label = "last";
    y = eo_build_reduce(&b, EO_OP_SUM, x, (int64_t[]){-1}, 1, true);
    ASSERT_OK(eo_graph_output(g, "y", y, &err));
    encode(g, &bytes);
    ck_assert_uint_eq(bytes.size, sizeof(wanted) - 1);
    ck_assert_mem_eq(bytes.data, wanted, bytes.size);
    eo_bytes_fini(&bytes);
    eo_graph_free(g);
}
END_TEST

START_TEST(test_empty_graph)
{
    struct eo_graph *g = eo_graph_new(), *back;
    struct eo_bytes b;

    ck_assert_ptr_nonnull(g);
    encode(g, &b);
    ASSERT_OK(eo_graph_decode(b.data, b.size, &back, &err));
    ck_assert_uint_eq(back->n_nodes, 0);
    eo_graph_free(back);
    eo_graph_free(g);
    eo_bytes_fini(&b);
}
END_TEST

START_TEST(test_encode_into_too_little)
{
    struct eo_graph *g = sample();
    struct eo_bytes b;

    eo_bytes_init(&b, 100);
    ASSERT_CODE(eo_graph_encode(g, &b, &err), EO_E_TOO_LARGE);
    eo_bytes_fini(&b);
    eo_graph_free(g);
}
END_TEST

/* ---- hostile graphs ---- */

/* JSON-like text to msgpack, so that hostile graphs can be read: '...' strings, #hex bin, numbers, true, null. */
static const char *pack_text(struct eo_bytes *b, const char *p);

static const char *skip(const char *p)
{
    while (*p == ' ' || *p == ',' || *p == ':') {
        p++;
    }
    return p;
}

static const char *pack_group(struct eo_bytes *b, const char *p, char end)
{
    struct eo_bytes body;
    size_t n = 0;

    eo_bytes_init(&body, 1 << 20);
    for (p = skip(p + 1); *p != end; p = skip(p)) {
        p = pack_text(&body, p);
        n++;
    }
    if (end == ']') {
        eo_pack_array(b, n);
    } else {
        ck_assert_uint_eq(n % 2, 0);
        eo_pack_map(b, n / 2);
    }
    eo_bytes_append(b, body.data, body.size);
    ck_assert(!body.failed);
    eo_bytes_fini(&body);
    return p + 1;
}

static const char *pack_text(struct eo_bytes *b, const char *p)
{
    const char *end;
    char *after;

    p = skip(p);
    switch (*p) {
    case '{':
        return pack_group(b, p, '}');
    case '[':
        return pack_group(b, p, ']');
    case '\'':
        end = strchr(p + 1, '\'');
        eo_pack_str_n(b, p + 1, (size_t)(end - p - 1));
        return end + 1;
    case '#': {
        uint8_t bytes[64];
        size_t n = 0;

        for (p++; strspn(p, "0123456789abcdef") >= 2; p += 2) {
            bytes[n++] = (uint8_t)strtoul((char[]){p[0], p[1], '\0'}, NULL, 16);
        }
        eo_pack_bin(b, bytes, n);
        return p;
    }
    case 't':
        eo_pack_bool(b, true);
        return p + 4;
    case 'n':
        eo_pack_nil(b);
        return p + 4;
    default:
        if (strpbrk(p, ".") != NULL && strcspn(p, ".") < strcspn(p, " ,]}")) {
            eo_pack_f64(b, strtod(p, &after));
        } else {
            eo_pack_i64(b, strtoll(p, &after, 10));
        }
        ck_assert_ptr_ne(after, p);
        return after;
    }
}

static int decode_text(const char *text, struct eo_graph **out)
{
    struct eo_bytes b;
    int rc;

    eo_bytes_init(&b, 1 << 20);
    pack_text(&b, text);
    ck_assert(!b.failed);
    rc = eo_graph_decode(b.data, b.size, out, &err);
    eo_bytes_fini(&b);
    return rc;
}

#define X "{'input':'x','dtype':'float32','shape':[2,3]}"
#define GRAPH(nodes, outputs) "{'version':1,'nodes':[" nodes "],'outputs':[" outputs "]}"

START_TEST(test_hostile)
{
    static const struct {
        const char *text;
        int code;
        const char *message;
    } cases[] = {
        {"[]", EO_E_BAD_GRAPH, "not of version 1"},
        {"7", EO_E_BAD_GRAPH, "not of version 1"},
        {"{'version':2,'nodes':[],'outputs':[]}", EO_E_BAD_GRAPH, "not of version 1"},
        {"{'version':1,'outputs':[]}", EO_E_BAD_GRAPH, "needs nodes"},
        {"{'version':1,'nodes':{},'outputs':[]}", EO_E_BAD_GRAPH, "needs nodes"},
        {"{'version':1,'nodes':[]}", EO_E_BAD_GRAPH, "needs outputs"},
        {GRAPH("7", ""), EO_E_BAD_GRAPH, "a node is not a map"},
        {GRAPH("{}", ""), EO_E_BAD_GRAPH, "none of the keys"},
        {GRAPH("{'op':7}", ""), EO_E_BAD_GRAPH, "not a string"},
        {GRAPH("{'op':'no_such_op','in':[]}", ""), EO_E_UNKNOWN_OP, "\"no_such_op\""},
        {GRAPH("{'op':'','in':[]}", ""), EO_E_UNKNOWN_OP, "no operation"},
        {GRAPH(X ",{'op':'sum_squares','in':[0]}", ""), EO_E_UNKNOWN_OP, "internal"},
        {GRAPH(X ",{'op':'relu','in':[1]}", ""), EO_E_BAD_GRAPH, "value 1, but only 1 are made"},
        {GRAPH(X ",{'op':'relu','in':[2]}," X, ""), EO_E_BAD_GRAPH, "value 2"},
        {GRAPH("{'op':'relu','in':[0]}", ""), EO_E_BAD_GRAPH, "value 0"},
        {GRAPH(X ",{'op':'relu','in':[-1]}", ""), EO_E_BAD_GRAPH, "not the number of a value"},
        {GRAPH(X ",{'op':'relu','in':[4294967295]}", ""), EO_E_BAD_GRAPH, "not the number of a value"},
        {GRAPH(X ",{'op':'relu','in':[4294967296]}", ""), EO_E_BAD_GRAPH, "not the number of a value"},
        {GRAPH(X ",{'op':'relu','in':['0']}", ""), EO_E_BAD_GRAPH, "not the number of a value"},
        {GRAPH(X ",{'op':'relu','in':0}", ""), EO_E_BAD_GRAPH, "not an array"},
        {GRAPH(X ",{'op':'relu'}", ""), EO_E_BAD_ARITY, "takes 1 input, not 0"},
        {GRAPH(X ",{'op':'relu','in':[0,0]}", ""), EO_E_BAD_ARITY, "not 2"},
        {GRAPH(X ",{'op':'matmul','in':[0,0]}", ""), EO_E_SHAPE_MISMATCH, "inner dimensions differ"},
        {GRAPH(X ",{'op':'sum','in':[0],'attrs':{'axes':[5]}}", ""), EO_E_BAD_ATTRIBUTE, "out of range"},
        {GRAPH(X ",{'op':'sum','in':[0],'attrs':{'axis':1}}", ""), EO_E_BAD_ATTRIBUTE, "no attribute"},
        {GRAPH(X ",{'op':'sum','in':[0],'attrs':[]}", ""), EO_E_BAD_ATTRIBUTE, "not a map"},
        {GRAPH(X ",{'op':'reshape','in':[0]}", ""), EO_E_BAD_ATTRIBUTE, "shape is missing"},
        {GRAPH(X ",{'op':'relu','in':[0],'label':7}", ""), EO_E_BAD_GRAPH, "a label is not a string"},
        {GRAPH(X ",{'op':'relu','in':[0],'label':''}", ""), EO_E_BAD_GRAPH, "1 to 255 bytes"},
        {GRAPH(X "," X, ""), EO_E_BAD_GRAPH, "used twice"},
        {GRAPH(X ",{'state':'x','dtype':'bool','shape':[]}", ""), EO_E_BAD_GRAPH, "used twice"},
        {GRAPH("{'input':'','dtype':'bool','shape':[]}", ""), EO_E_BAD_GRAPH, "1 to 255 bytes"},
        {GRAPH("{'input':7,'dtype':'bool','shape':[]}", ""), EO_E_BAD_GRAPH, "not a string"},
        {GRAPH("{'state':'a','dtype':'int4','shape':[]}", ""), EO_E_BAD_PARAMS, "\"int4\""},
        {GRAPH("{'input':'a','dtype':'bool','shape':[-1]}", ""), EO_E_BAD_PARAMS, "negative"},
        {GRAPH("{'input':'a','dtype':'int8','shape':[4611686018427387904,2]}", ""), EO_E_TOO_LARGE, "64 bits"},
        {GRAPH("{'constant':#0000803f,'dtype':'float32','shape':[2]}", ""), EO_E_BAD_GRAPH, "has 4 bytes, must have 8"},
        {GRAPH("{'constant':#00,'dtype':'int8','shape':[1099511627776]}", ""), EO_E_BAD_GRAPH, "has 1 bytes"},
        {GRAPH("{'constant':'0','dtype':'int8','shape':[1]}", ""), EO_E_BAD_GRAPH, "not of kind bin"},
        {GRAPH("{'constant':#02,'dtype':'bool','shape':[1]}", ""), EO_E_BAD_VALUE, "must be 0 or 1"},
        {GRAPH(X, "7"), EO_E_BAD_GRAPH, "an output is not a map"},
        {GRAPH(X, "{'name':'y','value':1}"), EO_E_BAD_GRAPH, "value 1, but the graph has 1"},
        {GRAPH(X, "{'name':'y','value':-1}"), EO_E_BAD_GRAPH, "not the number of a value"},
        {GRAPH(X, "{'name':'y'}"), EO_E_BAD_GRAPH, "not the number of a value"},
        {GRAPH(X, "{'value':0}"), EO_E_BAD_GRAPH, "not a string"},
        {GRAPH(X, "{'name':'x','value':0}"), EO_E_BAD_GRAPH, "used twice"},
        {GRAPH(X, "{'name':'y','value':0},{'name':'y','value':0}"), EO_E_BAD_GRAPH, "used twice"},
    };
    struct eo_graph *g = NULL;

    for (size_t i = 0; i < EO_COUNT_OF(cases); i++) {
        int rc = decode_text(cases[i].text, &g);

        ck_assert_msg(rc == cases[i].code, "case %zu: %d %s\n%s", i, rc, cases[i].text, rc == EO_OK ? "" : err.message);
        ck_assert_msg(strstr(err.message, cases[i].message) != NULL, "case %zu: %s", i, err.message);
        ck_assert_ptr_null(g); /* untouched on failure */
    }
    ASSERT_CODE(decode_text(GRAPH(X ",{'op':'matmul','in':[0,0],'label':'first'}", ""), &g), EO_E_SHAPE_MISMATCH);
    ck_assert_str_eq(err.node, "1 \"first\"");
    ASSERT_CONTAINS(err.contexts[0], "node 1");
    ASSERT_CODE(decode_text(GRAPH(X, "{'name':'x','value':0}"), &g), EO_E_BAD_GRAPH);
    ASSERT_CONTAINS(err.contexts[0], "output 0");
}
END_TEST

/* Unknown fields are ignored (design section 6), and a missing optional one is no error. */
START_TEST(test_tolerant_where_promised)
{
    struct eo_graph *g;

    ASSERT_OK(
        decode_text("{'version':1,'future':{'a':[1]},'nodes':[{'input':'x','dtype':'float32','shape':[2],'more':7},"
                    "{'op':'relu','in':[0],'attrs':null,'label':null,'out':[{'dtype':'int8','shape':[9]}]}],"
                    "'outputs':[{'name':'y','value':1,'more':null}]}",
                    &g));
    ck_assert_int_eq(eo_graph_desc(g, 1)->dtype, EO_FLOAT32); /* what the client claims is never trusted */
    eo_graph_free(g);
}
END_TEST

START_TEST(test_long_names)
{
    struct eo_graph *g = NULL;
    struct eo_bytes b;
    char name[300];

    memset(name, 'n', sizeof(name));
    for (size_t length = 255; length <= 256; length++) {
        int rc;

        eo_bytes_init(&b, 4096);
        eo_pack_map(&b, 3);
        eo_pack_kv_u64(&b, "version", 1);
        eo_pack_str(&b, "nodes");
        eo_pack_array(&b, 1);
        eo_pack_map(&b, 3);
        eo_pack_str(&b, "input");
        eo_pack_str_n(&b, name, length);
        eo_pack_kv_str(&b, "dtype", "bool");
        eo_pack_str(&b, "shape");
        eo_pack_array(&b, 0);
        eo_pack_str(&b, "outputs");
        eo_pack_array(&b, 0);
        rc = eo_graph_decode(b.data, b.size, &g, &err);
        ck_assert_int_eq(rc, length == 255 ? EO_OK : EO_E_BAD_GRAPH);
        eo_bytes_fini(&b);
    }
    eo_graph_free(g);
    name[3] = '\0'; /* a NUL inside */
    eo_bytes_init(&b, 4096);
    eo_pack_map(&b, 3);
    eo_pack_kv_u64(&b, "version", 1);
    eo_pack_str(&b, "nodes");
    eo_pack_array(&b, 1);
    eo_pack_map(&b, 3);
    eo_pack_str(&b, "state");
    eo_pack_str_n(&b, name, 8);
    eo_pack_kv_str(&b, "dtype", "bool");
    eo_pack_str(&b, "shape");
    eo_pack_array(&b, 0);
    eo_pack_str(&b, "outputs");
    eo_pack_array(&b, 0);
    ASSERT_CODE(eo_graph_decode(b.data, b.size, &g, &err), EO_E_BAD_GRAPH);
    eo_bytes_fini(&b);
}
END_TEST

/* Cut anywhere, or with any byte changed, a graph is refused or is another valid graph: never a crash, never a leak. */
START_TEST(test_cut_and_changed)
{
    struct eo_graph *g = sample(), *back;
    struct eo_bytes b;

    encode(g, &b);
    for (size_t size = 0; size < b.size; size++) {
        back = NULL;
        ck_assert_int_ne(eo_graph_decode(b.data, size, &back, &err), EO_OK);
        ck_assert_ptr_null(back);
    }
    for (size_t i = 0; i < b.size; i++) {
        uint8_t old = b.data[i];

        for (int change = 0; change < 256; change += 5) {
            b.data[i] = (uint8_t)change;
            back = NULL;
            if (eo_graph_decode(b.data, b.size, &back, &err) == EO_OK) {
                eo_graph_free(back);
            }
        }
        b.data[i] = old;
    }
    eo_bytes_fini(&b);
    eo_graph_free(g);
}
END_TEST

START_TEST(test_announced_sizes)
{
    static const uint8_t nodes_4g[] = "\x83\xa7version\x01\xa5nodes\xdd\xff\xff\xff\xff";
    struct eo_graph *g = NULL;
    uint8_t byte = 0;

    ASSERT_CODE(eo_graph_decode(nodes_4g, sizeof(nodes_4g) - 1, &g, &err), EO_E_BAD_ENVELOPE);
    ASSERT_CODE(eo_graph_decode(&byte, (size_t)EO_GRAPH_MAX_BYTES + 1, &g, &err), EO_E_TOO_LARGE);
    ck_assert_int_ne(eo_graph_decode(NULL, 0, &g, &err), EO_OK);
    ck_assert_ptr_null(g);
}
END_TEST

EO_SUITE("graph_codec", test_round_trip, test_hash_is_canonical, test_golden, test_empty_graph,
         test_encode_into_too_little, test_hostile, test_tolerant_where_promised, test_long_names, test_cut_and_changed,
         test_announced_sizes)
