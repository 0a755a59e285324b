/* ping, info, caps, doctor: their keys, and doctor towards peers. */
#include "tests/server/live.h"

#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

static struct raw_client c;

static void call(const char *method, struct raw_reply *r)
{
    eo_pack_map(raw_request(&c, method), 0);
    ASSERT_OK(raw_call(&c, NULL, 0, r, &err));
}

START_TEST(ping)
{
    struct raw_reply r;
    int64_t wall = 0;
    uint64_t n = 0;
    live_start(NULL);
    ASSERT_OK(raw_open(&c, &d.endpoint, &err));
    call("ping", &r);
    ASSERT_OK(eo_need_i64(r.result, "time_ms", 0, INT64_MAX, &wall, &err));
    ck_assert_int_lt(eo_wall_ms() - wall, 60000);
    ASSERT_OK(eo_need_u64(r.result, "uptime_ms", UINT64_MAX, &n, &err));
    const struct eo_item *load = eo_item_get(r.result, "load");
    ASSERT_OK(eo_need_u64(load, "connections", 100, &n, &err));
    ck_assert_uint_eq(n, 1);
    ASSERT_OK(eo_need_u64(load, "sessions", 100, &n, &err));
    ck_assert_uint_eq(n, 1);
    ASSERT_OK(eo_need_u64(load, "jobs_running", 100, &n, &err));
    ck_assert_uint_eq(n, 0);
    raw_reply_fini(&r);
    raw_close(&c);
    live_stop();
}
END_TEST

/* Every key of docs/reference/json.md, `info`. */
START_TEST(info)
{
    static const char *const keys[] = {
        "schema",  "host",   "version",   "commit",       "build_type", "protocol", "node",        "uptime_seconds",
        "pid",     "os",     "kernel",    "architecture", "cpu",        "memory",   "libraries",   "cuda",
        "threads", "listen", "state_dir", "devices",      "backends",   "sessions", "connections", "jobs"};
    struct raw_reply r;
    uint64_t n = 0;
    char text[200];
    live_start((const char *const[]){"--threads", "1", NULL});
    ASSERT_OK(raw_open(&c, &d.endpoint, &err));
    call("info", &r);
    ck_assert_uint_eq(eo_item_count(r.result), EO_COUNT_OF(keys));
    for (size_t i = 0; i < EO_COUNT_OF(keys); i++) {
        ck_assert_msg(eo_item_get(r.result, keys[i]) != NULL, "info lacks %s", keys[i]);
    }
    ASSERT_OK(eo_need_u64(r.result, "pid", UINT32_MAX, &n, &err));
    ck_assert_uint_eq(n, (uint64_t)d.pid);
    ASSERT_OK(eo_need_u64(r.result, "threads", 100, &n, &err));
    ck_assert_uint_eq(n, 1);
    const struct eo_item *libraries = eo_item_get(r.result, "libraries");
    const char *versions[] = {"libuv", "msgpack", "openssl", "sqlite", "compiler"};
    for (size_t i = 0; i < EO_COUNT_OF(versions); i++) {
        ASSERT_OK(eo_need_str(libraries, versions[i], text, sizeof(text), &err));
        ck_assert(text[0] != '\0');
    }
    const struct eo_item *blas = eo_item_get(libraries, "blas");
    if (eo_item_kind(blas) == EO_ITEM_MAP) {
        ASSERT_OK(eo_need_str(blas, "implementation", text, sizeof(text), &err));
        ASSERT_OK(eo_need_str(blas, "kernel", text, sizeof(text), &err));
        ASSERT_OK(eo_need_u64(blas, "threads", 100, &n, &err));
        ck_assert_uint_eq(n, 1); /* --threads reaches the library */
    }
    const struct eo_item *devices = eo_item_get(r.result, "devices");
    ck_assert_uint_ge(eo_item_count(devices), 1);
    const struct eo_item *backends = eo_item_get(r.result, "backends");
    ck_assert_uint_ge(eo_item_count(backends), 1);
    for (size_t i = 0; i < eo_item_count(backends); i++) {
        const struct eo_item *facts = eo_item_get(eo_item_at(backends, i), "facts");
        ck_assert_uint_eq(eo_item_count(facts), 6);
        for (size_t k = 0; k < 6; k++) {
            ASSERT_OK(eo_need_str(eo_item_at(facts, k), "state", text, sizeof(text), &err));
            ck_assert(strcmp(text, "yes") == 0 || strcmp(text, "no") == 0 || strcmp(text, "unknown") == 0);
        }
    }
    raw_reply_fini(&r);
    raw_close(&c);
    live_stop();
}
END_TEST

/* info is answered while the default device computes. */
START_TEST(info_under_load)
{
    struct raw_client busy;
    struct raw_reply r;
    const int64_t shape[2] = {900, 900};
    live_start(NULL);
    ASSERT_OK(raw_open(&c, &d.endpoint, &err));
    ASSERT_OK(raw_open(&busy, &d.endpoint, &err));
    struct eo_bytes *b = raw_request(&busy, "tensor.create");
    eo_pack_map(b, 4);
    eo_pack_str(b, "handle");
    raw_pack_handle(b, 0, 1);
    eo_pack_kv_str(b, "dtype", "int64"); /* plain loops */
    eo_pack_str(b, "shape");
    eo_pack_i64_array(b, shape, 2);
    eo_pack_kv_i64(b, "fill", 1);
    ASSERT_OK(raw_call(&busy, NULL, 0, NULL, &err));
    for (uint32_t i = 1; i <= 4; i++) {
        raw_pack_op(&busy, "matmul", (uint32_t[]){0, 0}, 2, i, 1);
        ASSERT_OK(raw_send(&busy, NULL, 0, &err));
    }
    ASSERT_OK(raw_receive(&busy, &r, RAW_TIMEOUT_MS, &err)); /* the second one is under way */
    raw_reply_fini(&r);
    call("info", &r);
    ck_assert_uint_ge(eo_item_count(eo_item_get(r.result, "backends")), 1);
    raw_reply_fini(&r);
    struct pollfd fd = {.fd = busy.channel.fd, .events = POLLIN};
    printf("info was answered %s the next product\n", poll(&fd, 1, 0) == 0 ? "before" : "after");
    for (uint32_t i = 2; i <= 4; i++) {
        ASSERT_OK(raw_receive(&busy, &r, RAW_TIMEOUT_MS, &err));
        raw_reply_fini(&r);
    }
    raw_close(&busy);
    raw_close(&c);
    live_stop();
}
END_TEST

/* What caps says is what happens. */
START_TEST(caps)
{
    struct raw_reply r;
    live_start(NULL);
    ASSERT_OK(raw_open(&c, &d.endpoint, &err));
    struct eo_bytes *b = raw_request(&c, "caps");
    eo_pack_map(b, 1);
    eo_pack_kv_str(b, "device", "reference");
    ASSERT_OK(raw_call(&c, NULL, 0, &r, &err));
    const struct eo_item *ops = eo_item_get(r.result, "ops");
    ck_assert_uint_gt(eo_item_count(ops), 40);
    for (size_t i = 0; i < eo_item_count(ops); i++) {
        const struct eo_item *name = NULL, *dtypes = NULL;
        const char *text = "";
        size_t length = 0;
        eo_item_pair(ops, i, &name, &dtypes);
        (void)eo_item_as_str(name, &text, &length);
        ck_assert_msg(eo_item_count(dtypes) > 0, "the reference lacks %.*s", (int)length, text);
    }
    ck_assert_ptr_null(eo_item_get(ops, "adam_update")); /* internal */
    raw_reply_fini(&r);
    b = raw_request(&c, "caps");
    eo_pack_map(b, 1);
    eo_pack_kv_str(b, "device", "abacus");
    ASSERT_CODE(raw_call(&c, NULL, 0, NULL, &err), EO_E_NO_DEVICE);
    eo_pack_map(raw_request(&c, "caps"), 0);
    ASSERT_CODE(raw_call(&c, NULL, 0, NULL, &err), EO_E_BAD_PARAMS);
    raw_close(&c);
    live_stop();
}
END_TEST

/* The status of the check with this name (and peer, when given); "" when there is none. */
static const char *status_of(const struct raw_reply *r, const char *name, const char *peer, char *out, size_t size)
{
    const struct eo_item *checks = eo_item_get(r->result, "checks");
    for (size_t i = 0; i < eo_item_count(checks); i++) {
        const struct eo_item *check = eo_item_at(checks, i);
        char text[300], at[300] = "";
        ASSERT_OK(eo_need_str(check, "name", text, sizeof(text), &err));
        if (eo_item_kind(eo_item_get(check, "peer")) == EO_ITEM_STR) {
            ASSERT_OK(eo_need_str(check, "peer", at, sizeof(at), &err));
        }
        if (strcmp(text, name) == 0 && (!peer || strcmp(peer, at) == 0)) {
            ASSERT_OK(eo_need_str(check, "status", out, size, &err));
            return out;
        }
    }
    out[0] = '\0';
    return out;
}

START_TEST(doctor)
{
    struct raw_reply r;
    char status[16];
    live_start(NULL);
    ASSERT_OK(raw_open(&c, &d.endpoint, &err));
    call("doctor", &r);
    const char *names[] = {"listen", "advertise", "disk",   "state-directory", "limit-nofile", "limit-memlock",
                           "clock",  "threads",   "memory", "worker",          "self-check"};
    for (size_t i = 0; i < EO_COUNT_OF(names); i++) {
        status_of(&r, names[i], NULL, status, sizeof(status));
        ck_assert_msg(status[0] != '\0', "doctor lacks %s", names[i]);
        ck_assert_str_ne(status, "FAIL");
    }
    ck_assert_str_eq(status_of(&r, "worker", NULL, status, sizeof(status)), "OK");
    ck_assert_str_eq(status_of(&r, "self-check", NULL, status, sizeof(status)), "OK");
    /* A worker that has run nothing yet is in order. */
    ck_assert_str_eq(status_of(&r, "acceleration used", NULL, status, sizeof(status)), "SKIP");
    const struct eo_item *checks = eo_item_get(r.result, "checks");
    for (size_t i = 0; i < eo_item_count(checks); i++) {
        const struct eo_item *check = eo_item_at(checks, i);
        char text[500];
        ASSERT_OK(eo_need_str(check, "what", text, sizeof(text), &err));
        ck_assert(text[0] != '\0');
        ASSERT_OK(eo_need_str(check, "status", status, sizeof(status), &err));
        if (strcmp(status, "FAIL") == 0 || strcmp(status, "WARN") == 0) {
            ASSERT_OK(eo_need_str(check, "fix", text, sizeof(text), &err));
            ck_assert(text[0] != '\0'); /* trouble always comes with advice */
        }
    }
    raw_reply_fini(&r);
    raw_close(&c);
    live_stop();
}
END_TEST

START_TEST(doctor_warns)
{
    struct raw_reply r;
    char status[16];
    live_start((const char *const[]){"--listen", "0.0.0.0:0", "--insecure", "--advertise", "127.0.1.1", "--threads",
                                     "999", "--memory-limit", "1024TiB", NULL});
    ASSERT_OK(raw_open(&c, &d.endpoint, &err));
    call("doctor", &r);
    ck_assert_str_eq(status_of(&r, "listen", NULL, status, sizeof(status)), "WARN");
    ck_assert_str_eq(status_of(&r, "advertise", NULL, status, sizeof(status)), "FAIL");
    ck_assert_str_eq(status_of(&r, "threads", NULL, status, sizeof(status)), "WARN");
    ck_assert_str_eq(status_of(&r, "memory", NULL, status, sizeof(status)), "WARN");
    raw_reply_fini(&r);
    raw_close(&c);
    live_stop();
}
END_TEST

/* A listening socket that nobody accepts from: half open. Returns the descriptor. */
static int dead_end(char *out, size_t size, int backlog)
{
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(sa);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(fd, (const struct sockaddr *)&sa, sizeof(sa)), 0);
    if (backlog >= 0) {
        ck_assert_int_eq(listen(fd, backlog), 0);
    }
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&sa, &length), 0);
    snprintf(out, size, "127.0.0.1:%u", ntohs(sa.sin_port));
    return fd;
}

START_TEST(doctor_towards_peers)
{
    struct daemon_fixture other;
    struct raw_reply r;
    char status[16], own[64], peer[64], closed[64], silent[64];
    live_start(NULL);
    ASSERT_OK(daemon_init(&other, &err));
    ASSERT_OK(daemon_start(&other, NULL, &err));
    ASSERT_OK(raw_open(&c, &d.endpoint, &err));
    int fd_closed = dead_end(closed, sizeof(closed), -1); /* bound, not listening: refused */
    int fd_silent = dead_end(silent, sizeof(silent), 8);
    snprintf(own, sizeof(own), "127.0.0.1:%u", d.endpoint.port);
    snprintf(peer, sizeof(peer), "127.0.0.1:%u", other.endpoint.port);
    struct eo_bytes *b = raw_request(&c, "doctor");
    eo_pack_map(b, 1);
    eo_pack_str(b, "peers");
    eo_pack_array(b, 5);
    eo_pack_str(b, own);
    eo_pack_str(b, peer);
    eo_pack_str(b, closed);
    eo_pack_str(b, silent);
    eo_pack_str(b, "not an endpoint:x");
    ASSERT_OK(raw_send(&c, NULL, 0, &err));
    live_ping(); /* answers others meanwhile */
    ASSERT_OK(raw_receive(&c, &r, RAW_TIMEOUT_MS, &err));
    ck_assert_int_eq(r.error.code, EO_OK);
    ck_assert_str_eq(status_of(&r, "reachable", peer, status, sizeof(status)), "OK");
    ck_assert_str_eq(status_of(&r, "identity", peer, status, sizeof(status)), "OK");
    ck_assert_str_eq(status_of(&r, "reachable", own, status, sizeof(status)), "OK");
    ck_assert_str_eq(status_of(&r, "identity", own, status, sizeof(status)), "WARN");
    ck_assert_str_eq(status_of(&r, "reachable", closed, status, sizeof(status)), "FAIL");
    ck_assert_str_eq(status_of(&r, "reachable", silent, status, sizeof(status)), "FAIL");
    ck_assert_str_eq(status_of(&r, "reachable", "not an endpoint:x", status, sizeof(status)), "FAIL");
    raw_reply_fini(&r);
    b = raw_request(&c, "doctor");
    eo_pack_map(b, 1);
    eo_pack_kv_u64(b, "peers", 1);
    ASSERT_CODE(raw_call(&c, NULL, 0, NULL, &err), EO_E_BAD_PARAMS);
    b = raw_request(&c, "doctor");
    eo_pack_map(b, 1);
    eo_pack_str(b, "peers");
    eo_pack_array(b, 17);
    for (int i = 0; i < 17; i++) {
        eo_pack_str(b, own);
    }
    ASSERT_CODE(raw_call(&c, NULL, 0, NULL, &err), EO_E_BAD_PARAMS);
    close(fd_closed);
    close(fd_silent);
    raw_close(&c);
    ASSERT_OK(daemon_stop(&other, &err));
    daemon_remove(&other);
    live_stop();
}
END_TEST

EO_SUITE("queries", ping, info, info_under_load, caps, doctor, doctor_warns, doctor_towards_peers)
