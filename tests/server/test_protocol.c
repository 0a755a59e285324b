/* What strangers and hostile clients send: wrong, cut, slow, huge, mutated. The daemon answers or closes, and lives. */
#include "proto/message_schema.h"
#include "tests/server/live.h"

#include <stdio.h>
#include <stdlib.h>

static const char *const quick[] = {"--config", "$DIR/conf", NULL};

/* Short time-outs, so that slowness can be tested in no time. */
static void start(void)
{
    memset(&err, 0, sizeof(err));
    ASSERT_OK(daemon_init(&d, &err));
    char path[200];
    snprintf(path, sizeof(path), "%s/conf", d.dir);
    FILE *f = fopen(path, "we");
    fputs("hello-timeout = 400ms\ntransfer-timeout = 400ms\nmax-connections = 40\nlog-level = debug\n", f);
    fclose(f);
    ASSERT_OK(daemon_start(&d, quick, &err));
}

static void connect_to(struct raw_client *c)
{
    ASSERT_OK(raw_connect(c, &d.endpoint, &err));
}

/* Packs hello with these versions and role. */
static void pack_hello(struct raw_client *c, int64_t min, int64_t max, const char *role)
{
    const int64_t versions[2] = {min, max};
    struct eo_bytes *b = raw_request(c, "hello");
    eo_pack_map(b, 2);
    eo_pack_str(b, "versions");
    eo_pack_i64_array(b, versions, 2);
    eo_pack_kv_str(b, "role", role);
}

START_TEST(hello_is_answered_fully)
{
    struct raw_client c;
    struct raw_reply r;
    uint64_t n = 0;
    start();
    connect_to(&c);
    pack_hello(&c, 1, 99, "client");
    ASSERT_OK(raw_call(&c, NULL, 0, &r, &err));
    ASSERT_OK(eo_need_u64(r.result, "version", 1, &n, &err));
    ck_assert_uint_eq(n, 1);
    const struct eo_item *limits = NULL;
    ASSERT_OK(eo_need_map(r.result, "limits", &limits, &err));
    const char *keys[] = {"envelope", "payload", "chunk", "handles", "tensor_bytes", "pending"};
    for (size_t i = 0; i < EO_COUNT_OF(keys); i++) {
        ASSERT_OK(eo_need_u64(limits, keys[i], UINT64_MAX, &n, &err));
        ck_assert_uint_gt(n, 0);
    }
    char text[80];
    ASSERT_OK(eo_need_str(r.result, "node", text, sizeof(text), &err));
    ck_assert_uint_eq(strlen(text), 32);
    ASSERT_OK(eo_need_str(r.result, "session", text, sizeof(text), &err));
    ck_assert_uint_eq(strlen(text), 32);
    ASSERT_OK(eo_need_str(r.result, "secret", text, sizeof(text), &err));
    ck_assert_uint_eq(strlen(text), 64);
    ASSERT_OK(eo_need_str(r.result, "ops_hash", text, sizeof(text), &err));
    raw_reply_fini(&r);
    pack_hello(&c, 1, 1, "client");
    ASSERT_CODE(raw_call(&c, NULL, 0, NULL, &err), EO_E_BAD_PARAMS); /* a second hello */
    ASSERT_OK(raw_ping(&c, &err));
    raw_close(&c);
    live_stop();
}
END_TEST

START_TEST(versions_must_meet)
{
    const struct {
        int64_t min, max;
        int code;
        const char *hint;
    } cases[] = {{99, 99, EO_E_VERSION_MISMATCH, "Upgrade everyod"},
                 {0, 0, EO_E_VERSION_MISMATCH, "Upgrade the client"},
                 {2, 1, EO_E_BAD_PARAMS, ""}};
    start();
    for (size_t i = 0; i < EO_COUNT_OF(cases); i++) {
        struct raw_client c;
        connect_to(&c);
        pack_hello(&c, cases[i].min, cases[i].max, "client");
        ASSERT_CODE(raw_call(&c, NULL, 0, NULL, &err), cases[i].code);
        ASSERT_CONTAINS(err.hint, cases[i].hint);
        if (err.code == EO_E_VERSION_MISMATCH) { /* both ranges are shown */
            ASSERT_CONTAINS(err.message, "protocol 1 to 1");
            char other[24];
            snprintf(other, sizeof(other), "%d to %d", (int)cases[i].min, (int)cases[i].max);
            ASSERT_CONTAINS(err.message, other);
        }
        raw_close(&c);
    }
    struct raw_client c;
    connect_to(&c);
    pack_hello(&c, 1, 1, "wizard");
    ASSERT_CODE(raw_call(&c, NULL, 0, NULL, &err), EO_E_BAD_PARAMS);
    raw_close(&c);
    live_stop();
}
END_TEST

START_TEST(hello_comes_first)
{
    struct raw_client c;
    start();
    connect_to(&c);
    eo_pack_map(raw_request(&c, "ping"), 0);
    ASSERT_CODE(raw_call(&c, NULL, 0, NULL, &err), EO_E_HELLO_REQUIRED);
    ck_assert(raw_is_closed(&c, RAW_TIMEOUT_MS)); /* a stranger gets one answer */
    raw_close(&c);
    live_stop();
}
END_TEST

START_TEST(methods_and_roles)
{
    struct raw_client c;
    const struct {
        const char *method;
        int code;
    } cases[] = {{"pnig", EO_E_UNKNOWN_METHOD},
                 {"job.event", EO_E_UNKNOWN_METHOD},
                 {"task.op", EO_E_UNKNOWN_METHOD},
                 {"report.log", EO_E_UNKNOWN_METHOD},
                 {"peer.heartbeat", EO_E_HELLO_REQUIRED}};
    start();
    ASSERT_OK(raw_open(&c, &d.endpoint, &err));
    for (size_t i = 0; i < EO_COUNT_OF(cases); i++) {
        eo_pack_map(raw_request(&c, cases[i].method), 0);
        ASSERT_CODE(raw_call(&c, NULL, 0, NULL, &err), cases[i].code);
    }
    eo_pack_map(raw_request(&c, "pnig"), 0);
    ASSERT_CODE(raw_call(&c, "payload", 7, NULL, &err), EO_E_UNKNOWN_METHOD); /* read over */
    ASSERT_CONTAINS(err.hint, "ping");
    eo_pack_map(raw_request(&c, "ping"), 0);
    ASSERT_CODE(raw_call(&c, "payload", 7, NULL, &err), EO_E_FRAME_TOO_LARGE); /* ping carries none */
    ASSERT_OK(raw_ping(&c, &err));
    raw_close(&c);
    live_stop();
}
END_TEST

/* A peer has no session: rows that need one say so. */
START_TEST(peers_have_no_session)
{
    struct raw_client c;
    const int64_t versions[2] = {1, 1};
    start();
    connect_to(&c);
    struct eo_bytes *b = raw_request(&c, "hello");
    eo_pack_map(b, 3);
    eo_pack_str(b, "versions");
    eo_pack_i64_array(b, versions, 2);
    eo_pack_kv_str(b, "role", "peer");
    eo_pack_kv_str(b, "node", "0123456789abcdef0123456789abcdef");
    ASSERT_OK(raw_call(&c, NULL, 0, NULL, &err));
    eo_pack_map(raw_request(&c, "session.close"), 0);
    ASSERT_CODE(raw_call(&c, NULL, 0, NULL, &err), EO_E_NO_SESSION);
    ASSERT_OK(raw_ping(&c, &err));
    raw_close(&c);
    live_stop();
}
END_TEST

START_TEST(garbage_closes_quietly)
{
#define GARBAGE(text)                                                                                                  \
    {                                                                                                                  \
        text, sizeof(text) - 1                                                                                         \
    }
    static const struct {
        const char *bytes;
        size_t size;
    } garbage[] = {GARBAGE("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
                   GARBAGE("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a TLS hello"), GARBAGE("EOEOEOEOEOEOEOEO"),
                   GARBAGE("EO\x02\x00\x05\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"),
                   GARBAGE("SSH-2.0-OpenSSH_9.2p1\r\n")};
    start();
    int before = daemon_descriptors(&d);
    for (size_t i = 0; i < EO_COUNT_OF(garbage); i++) {
        struct raw_client c;
        connect_to(&c);
        ASSERT_OK(raw_send_bytes(&c, garbage[i].bytes, garbage[i].size, &err));
        ck_assert_msg(raw_is_closed(&c, RAW_TIMEOUT_MS), "garbage %zu was taken", i);
        raw_close(&c);
    }
    live_expect_descriptors(before);
#undef GARBAGE
    ck_assert(!daemon_logged(&d, " warn ")); /* strangers do not fill the log */
    ck_assert(!daemon_logged(&d, " error "));
    live_ping();
    live_stop();
}
END_TEST

START_TEST(bare_connections_are_silent)
{
    start();
    int before = daemon_descriptors(&d);
    for (int i = 0; i < 100; i++) {
        struct raw_client c;
        connect_to(&c);
        raw_close(&c);
        if (i % 20 == 19) { /* the daemon takes 40: let it accept these, then notice their end, before the next */
            live_ping();
            live_expect_descriptors(before);
        }
    }
    ck_assert(!daemon_logged(&d, " warn "));
    live_ping();
    live_stop();
}
END_TEST

static void header(uint8_t out[16], uint32_t envelope, uint64_t payload)
{
    const struct eo_frame_header h = {.envelope_size = envelope, .payload_size = payload};
    eo_frame_encode(&h, out);
}

/* Sizes that nobody means: refused from the header, before memory is taken. */
START_TEST(huge_claims)
{
    const struct {
        bool greeted;
        uint32_t envelope;
        uint64_t payload;
    } cases[] = {{false, 1 << 20, 0},    {false, UINT32_MAX, 0},
                 {false, 10, 1},         {false, 0, 0},
                 {true, UINT32_MAX, 0},  {true, (1 << 20) + 1, 0},
                 {true, 10, UINT64_MAX}, {true, 10, UINT64_C(1) << 63},
                 {true, 10, 64u << 21},  {true, 0, 0}};
    start();
    live_ping();
    uint64_t rss = daemon_rss_bytes(&d);
    for (size_t i = 0; i < EO_COUNT_OF(cases); i++) {
        struct raw_client c;
        uint8_t bytes[16];
        if (cases[i].greeted) {
            ASSERT_OK(raw_open(&c, &d.endpoint, &err));
        } else {
            connect_to(&c);
        }
        header(bytes, cases[i].envelope, cases[i].payload);
        ASSERT_OK(raw_send_bytes(&c, bytes, sizeof(bytes), &err));
        ck_assert_msg(raw_is_closed(&c, 10000), "claim %zu was believed", i);
        raw_close(&c);
    }
    ck_assert(DAEMON_INSTRUMENTED || daemon_rss_bytes(&d) < rss + (8 << 20));
    live_ping();
    live_stop();
}
END_TEST

/* Claims that are allowed but not kept cost what came, not what was claimed. */
START_TEST(claims_cost_nothing)
{
    struct raw_client c[30];
    uint8_t bytes[16];
    start();
    live_ping();
    uint64_t rss = daemon_rss_bytes(&d);
    for (size_t i = 0; i < EO_COUNT_OF(c); i++) {
        ASSERT_OK(raw_open(&c[i], &d.endpoint, &err));
        header(bytes, 1 << 20, 4 << 20);
        ASSERT_OK(raw_send_bytes(&c[i], bytes, sizeof(bytes), &err));
    }
    live_ping();
    ck_assert(DAEMON_INSTRUMENTED || daemon_rss_bytes(&d) < rss + (8 << 20));
    for (size_t i = 0; i < EO_COUNT_OF(c); i++) {
        raw_close(&c[i]);
    }
    live_stop();
}
END_TEST

/* Frames whose bytes are no message. */
START_TEST(bad_envelopes)
{
    struct {
        const char *bytes;
        size_t size;
    } cases[] = {{"\xc1", 1},                           /* never used by MessagePack */
                 {"\x93\x00\x01\xa4ping", 8},           /* three elements */
                 {"\x94\x00\x01\xa4ping\xc0", 9},       /* params no map */
                 {"\x94\x07\x01\xa4ping\x80", 9},       /* type 7 */
                 {"\x94\x01\x01\xc0\x80", 5},           /* an answer nobody asked for */
                 {"\x93\x02\xa4ping\x80", 8},           /* a notification */
                 {"\xdd\xff\xff\xff\xff", 5},           /* 2^32 - 1 elements */
                 {"\x94\x00\x01\xa4ping\x80\x80", 10}}; /* something behind */
    start();
    for (size_t i = 0; i < EO_COUNT_OF(cases); i++) {
        struct raw_client c;
        struct raw_reply r;
        uint8_t bytes[16];
        ASSERT_OK(raw_open(&c, &d.endpoint, &err));
        header(bytes, (uint32_t)cases[i].size, 0);
        ASSERT_OK(raw_send_bytes(&c, bytes, sizeof(bytes), &err));
        ASSERT_OK(raw_send_bytes(&c, cases[i].bytes, cases[i].size, &err));
        ASSERT_OK(raw_receive(&c, &r, RAW_TIMEOUT_MS, &err));
        ck_assert_int_eq(r.error.code, EO_E_BAD_ENVELOPE);
        raw_reply_fini(&r);
        ck_assert(raw_is_closed(&c, RAW_TIMEOUT_MS));
        raw_close(&c);
    }
    static char nested[100000]; /* arrays in arrays */
    memset(nested, '\x91', sizeof(nested));
    struct raw_client c;
    uint8_t bytes[16];
    ASSERT_OK(raw_open(&c, &d.endpoint, &err));
    header(bytes, sizeof(nested), 0);
    ASSERT_OK(raw_send_bytes(&c, bytes, sizeof(bytes), &err));
    ASSERT_OK(raw_send_bytes(&c, nested, sizeof(nested), &err));
    ck_assert(raw_is_closed(&c, RAW_TIMEOUT_MS));
    raw_close(&c);
    live_ping();
    live_stop();
}
END_TEST

/* Whoever says nothing, or dribbles, is let go; others are served meanwhile. */
START_TEST(silent_and_slow)
{
    struct raw_client silent, slow_header, slow_envelope, slow_payload;
    uint8_t bytes[16];
    start();
    connect_to(&silent);
    connect_to(&slow_header);
    ASSERT_OK(raw_send_bytes(&slow_header, "EO", 2, &err));
    ASSERT_OK(raw_open(&slow_envelope, &d.endpoint, &err));
    header(bytes, 100, 0);
    ASSERT_OK(raw_send_bytes(&slow_envelope, bytes, sizeof(bytes), &err));
    ASSERT_OK(raw_open(&slow_payload, &d.endpoint, &err));
    const int64_t shape[1] = {1000};
    struct eo_bytes *b = raw_request(&slow_payload, "tensor.create");
    eo_pack_map(b, 3);
    eo_pack_str(b, "handle");
    raw_pack_handle(b, 0, 1);
    eo_pack_kv_str(b, "dtype", "float32");
    eo_pack_str(b, "shape");
    eo_pack_i64_array(b, shape, 1);
    header(bytes, (uint32_t)b->size, 4000);
    ASSERT_OK(raw_send_bytes(&slow_payload, bytes, sizeof(bytes), &err));
    ASSERT_OK(raw_send_bytes(&slow_payload, b->data, b->size, &err));
    ASSERT_OK(raw_send_bytes(&slow_payload, "1234", 4, &err));
    live_ping();
    ck_assert(raw_is_closed(&silent, RAW_TIMEOUT_MS));
    ck_assert(raw_is_closed(&slow_header, RAW_TIMEOUT_MS));
    ck_assert(raw_is_closed(&slow_envelope, RAW_TIMEOUT_MS));
    ck_assert(raw_is_closed(&slow_payload, RAW_TIMEOUT_MS));
    live_ping();
    raw_close(&silent);
    raw_close(&slow_header);
    raw_close(&slow_envelope);
    raw_close(&slow_payload);
    live_stop();
}
END_TEST

/* One byte at a time is slow but in time. */
START_TEST(byte_by_byte)
{
    struct raw_client c;
    struct raw_reply r;
    start();
    ASSERT_OK(raw_open(&c, &d.endpoint, &err));
    struct eo_bytes *b = raw_request(&c, "ping");
    uint8_t bytes[16];
    eo_pack_map(b, 0);
    header(bytes, (uint32_t)b->size, 0);
    for (size_t i = 0; i < sizeof(bytes); i++) {
        ASSERT_OK(raw_send_bytes(&c, bytes + i, 1, &err));
    }
    for (size_t i = 0; i < b->size; i++) {
        ASSERT_OK(raw_send_bytes(&c, b->data + i, 1, &err));
    }
    ASSERT_OK(raw_receive(&c, &r, RAW_TIMEOUT_MS, &err));
    ck_assert_int_eq(r.error.code, EO_OK);
    raw_reply_fini(&r);
    raw_close(&c);
    live_stop();
}
END_TEST

/* A client that reads nothing is cut off; the daemon keeps a bounded amount for it. */
START_TEST(answers_left_unread)
{
    struct raw_client c;
    const int64_t shape[1] = {1 << 20};
    float *data = calloc(1 << 20, sizeof(float));
    start();
    ASSERT_OK(raw_open(&c, &d.endpoint, &err));
    ASSERT_OK(raw_create(&c, 0, 1, shape, 1, data, &err));
    uint64_t rss = daemon_rss_bytes(&d);
    for (int i = 0; i < 200; i++) { /* 800 MiB of answers */
        struct eo_bytes *b = raw_request(&c, "tensor.download");
        eo_pack_map(b, 3);
        eo_pack_str(b, "handle");
        raw_pack_handle(b, 0, 1);
        eo_pack_kv_u64(b, "offset", 0);
        eo_pack_kv_u64(b, "size", 4 << 20);
        ASSERT_OK(raw_send(&c, NULL, 0, &err));
    }
    live_ping();
    ck_assert(DAEMON_INSTRUMENTED || daemon_rss_bytes(&d) < rss + (16 << 20));
    const uint64_t until = eo_now_ns() + (uint64_t)DAEMON_WAIT_MS * 1000000;
    while (!daemon_logged(&d, "unread") && eo_now_ns() < until) {
        live_ping();
    }
    ck_assert(daemon_logged(&d, "unread"));
    raw_close(&c);
    free(data);
    live_stop();
}
END_TEST

START_TEST(too_many_connections)
{
    struct raw_client c[40], more;
    struct raw_reply r;
    start();
    for (size_t i = 0; i < EO_COUNT_OF(c); i++) {
        ASSERT_OK(raw_open(&c[i], &d.endpoint, &err));
    }
    connect_to(&more);
    ASSERT_OK(raw_receive(&more, &r, RAW_TIMEOUT_MS, &err));
    ck_assert_int_eq(r.error.code, EO_E_BUSY);
    raw_reply_fini(&r);
    ck_assert(raw_is_closed(&more, RAW_TIMEOUT_MS));
    raw_close(&more);
    raw_close(&c[0]);
    for (int i = 0; i < 1000; i++) { /* the closed one's place is free again */
        connect_to(&more);
        int code = raw_hello(&more, NULL, NULL, &err);
        if (code == EO_OK) {
            break;
        }
        raw_close(&more);
    }
    ASSERT_OK(raw_ping(&more, &err));
    raw_close(&more);
    for (size_t i = 1; i < EO_COUNT_OF(c); i++) {
        raw_close(&c[i]);
    }
    live_stop();
}
END_TEST

/* ---- mutated frames ---- */

static uint64_t seed = 0x9e3779b97f4a7c15u;

static uint32_t random_below(uint32_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)(seed >> 32) % n;
}

static void append_frame(struct eo_bytes *out, struct raw_client *c, const void *payload, size_t size)
{
    uint8_t bytes[16];
    header(bytes, (uint32_t)c->out.size, size);
    eo_bytes_append(out, bytes, sizeof(bytes));
    eo_bytes_append(out, c->out.data, c->out.size);
    eo_bytes_append(out, payload, size);
}

/* A conversation that touches most of what a client can say. */
static void record_conversation(struct eo_bytes *out)
{
    struct raw_client c = {.last_id = 0};
    const float x[4] = {1, 2, 3, 4};
    const int64_t shape[2] = {2, 2};
    eo_bytes_init(&c.out, 1 << 20);
    pack_hello(&c, 1, 1, "client");
    append_frame(out, &c, NULL, 0);
    struct eo_bytes *b = raw_request(&c, "tensor.create");
    eo_pack_map(b, 3);
    eo_pack_str(b, "handle");
    raw_pack_handle(b, 0, 1);
    eo_pack_kv_str(b, "dtype", "float32");
    eo_pack_str(b, "shape");
    eo_pack_i64_array(b, shape, 2);
    append_frame(out, &c, x, sizeof(x));
    raw_pack_op(&c, "matmul", (uint32_t[]){0, 0}, 2, 1, 1);
    append_frame(out, &c, NULL, 0);
    b = raw_request(&c, "tensor.upload");
    eo_pack_map(b, 2);
    eo_pack_str(b, "handle");
    raw_pack_handle(b, 0, 1);
    eo_pack_kv_u64(b, "offset", 4);
    append_frame(out, &c, x, 8);
    b = raw_request(&c, "tensor.download");
    eo_pack_map(b, 2);
    eo_pack_str(b, "handle");
    raw_pack_handle(b, 1, 1);
    eo_pack_kv_u64(b, "size", 16);
    append_frame(out, &c, NULL, 0);
    b = raw_request(&c, "plan.create");
    eo_pack_map(b, 1);
    eo_pack_kv_u64(b, "plan", 1);
    append_frame(out, &c, "\x83\xa7version\x01\xa5nodes\x90\xa7outputs\x90", 26);
    b = raw_request(&c, "plan.run");
    eo_pack_map(b, 3);
    eo_pack_kv_u64(b, "plan", 1);
    eo_pack_str(b, "feeds");
    eo_pack_map(b, 0);
    eo_pack_str(b, "fetches");
    eo_pack_map(b, 0);
    append_frame(out, &c, NULL, 0);
    b = raw_request(&c, "job.list");
    eo_pack_map(b, 0);
    append_frame(out, &c, NULL, 0);
    b = raw_request(&c, "blob.have");
    eo_pack_map(b, 1);
    eo_pack_str(b, "sha256");
    eo_pack_array(b, 1);
    eo_pack_str(b, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    append_frame(out, &c, NULL, 0);
    b = raw_request(&c, "tensor.free");
    eo_pack_map(b, 1);
    eo_pack_str(b, "handles");
    eo_pack_array(b, 1);
    raw_pack_handle(b, 1, 1);
    append_frame(out, &c, NULL, 0);
    eo_bytes_fini(&c.out);
}

static size_t mutate(uint8_t *bytes, size_t n)
{
    const uint32_t n_changes = 1 + random_below(4);
    for (uint32_t i = 0; i < n_changes; i++) {
        uint32_t at = random_below((uint32_t)n);
        switch (random_below(4)) {
        case 0:
            bytes[at] = (uint8_t)random_below(256);
            break;
        case 1:
            bytes[at] ^= (uint8_t)(1u << random_below(8));
            break;
        case 2: { /* a piece repeated elsewhere */
            uint32_t length = 1 + random_below(32);
            length = EO_MIN(length, (uint32_t)n - at);
            uint32_t to = random_below((uint32_t)n - length + 1);
            memmove(bytes + to, bytes + at, length);
            break;
        }
        default: /* cut */
            n = EO_MAX(at, 1u);
            break;
        }
    }
    return n;
}

/* 10^4 mutated conversations. Each is one connection; every now and then the daemon must still answer. Under the
 * sanitizers this is where a bad byte would show. */
START_TEST(mutated_conversations)
{
    struct eo_bytes good;
    enum { ROUNDS = 10000 };
    live_start(NULL);
    live_ping();
    int before = daemon_descriptors(&d);
    eo_bytes_init(&good, 1 << 20);
    record_conversation(&good);
    uint8_t *bytes = malloc(good.size);
    for (int i = 0; i < ROUNDS; i++) {
        struct raw_client c;
        memcpy(bytes, good.data, good.size);
        size_t n = mutate(bytes, good.size);
        connect_to(&c);
        (void)raw_send_bytes(&c, bytes, n, NULL); /* the daemon may close before all is sent */
        raw_close(&c);
        if (i % 500 == 0) {
            live_ping();
        }
    }
    free(bytes);
    eo_bytes_fini(&good);
    live_ping();
    pid_t workers[DAEMON_MAX_WORKERS];
    int n_workers = daemon_workers(&d, workers, DAEMON_MAX_WORKERS);
    ck_assert_int_le(n_workers, 2);                  /* cpu and reference */
    live_expect_descriptors(before + n_workers * 5); /* control, ring, two eventfds, pool */
    live_stop();
}
END_TEST

EO_SUITE("protocol", hello_is_answered_fully, versions_must_meet, hello_comes_first, methods_and_roles,
         peers_have_no_session, garbage_closes_quietly, bare_connections_are_silent, huge_claims, claims_cost_nothing,
         bad_envelopes, silent_and_slow, byte_by_byte, answers_left_unread, too_many_connections, mutated_conversations)
