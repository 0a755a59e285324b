/* tensor.*: bytes in and out, every way to ask wrongly, memory limits, order between calls. */
#include "tests/server/live.h"

#include <stdlib.h>

static struct raw_client c;

static void start(const char *const *args)
{
    live_start(args);
    ASSERT_OK(raw_open(&c, &d.endpoint, &err));
}

static void stop(void)
{
    ASSERT_OK(raw_ping(&c, &err)); /* whatever was asked, it still answers */
    raw_close(&c);
    live_stop();
}

static struct eo_bytes *create(uint32_t slot, uint32_t generation, const char *dtype, const int64_t *shape, size_t n,
                               size_t n_more)
{
    struct eo_bytes *b = raw_request(&c, "tensor.create");
    eo_pack_map(b, 3 + n_more);
    eo_pack_str(b, "handle");
    raw_pack_handle(b, slot, generation);
    eo_pack_kv_str(b, "dtype", dtype);
    eo_pack_str(b, "shape");
    eo_pack_i64_array(b, shape, n);
    return b;
}

static int upload(uint32_t slot, uint64_t offset, const void *data, size_t size, uint64_t *out_received)
{
    struct raw_reply r;
    struct eo_bytes *b = raw_request(&c, "tensor.upload");
    eo_pack_map(b, 2);
    eo_pack_str(b, "handle");
    raw_pack_handle(b, slot, 1);
    eo_pack_kv_u64(b, "offset", offset);
    int code = raw_call(&c, data, size, &r, &err);
    if (code == EO_OK) {
        code = eo_need_u64(r.result, "received", UINT64_MAX, out_received, &err);
        raw_reply_fini(&r);
    }
    return code;
}

static int download(uint32_t slot, uint64_t offset, uint64_t size)
{
    struct eo_bytes *b = raw_request(&c, "tensor.download");
    eo_pack_map(b, 3);
    eo_pack_str(b, "handle");
    raw_pack_handle(b, slot, 1);
    eo_pack_kv_u64(b, "offset", offset);
    eo_pack_kv_u64(b, "size", size);
    return raw_call(&c, NULL, 0, NULL, &err);
}

static int info(uint32_t slot, struct raw_reply *r)
{
    struct eo_bytes *b = raw_request(&c, "tensor.info");
    eo_pack_map(b, 1);
    eo_pack_str(b, "handle");
    raw_pack_handle(b, slot, 1);
    return raw_call(&c, NULL, 0, r, &err);
}

START_TEST(round_trip)
{
    const float x[6] = {1, 2, 3, 4, 5, 6};
    float y[6] = {0};
    struct raw_reply r;
    char text[32];
    uint64_t n = 0;
    start(NULL);
    ASSERT_OK(raw_create(&c, 7, 1, (int64_t[]){2, 3}, 2, x, &err));
    ASSERT_OK(raw_download(&c, 7, 1, y, sizeof(y), &err));
    ck_assert_mem_eq(x, y, sizeof(x));
    ASSERT_OK(info(7, &r));
    ASSERT_OK(eo_need_str(r.result, "dtype", text, sizeof(text), &err));
    ck_assert_str_eq(text, "float32");
    ASSERT_OK(eo_need_str(r.result, "device", text, sizeof(text), &err));
    ck_assert_str_eq(text, "cpu");
    ASSERT_OK(eo_need_u64(r.result, "bytes", 1000, &n, &err));
    ck_assert_uint_eq(n, sizeof(x));
    raw_reply_fini(&r);
    ASSERT_OK(raw_free(&c, 7, 1, &err));
    ASSERT_CODE(raw_download(&c, 7, 1, y, sizeof(y), &err), EO_E_BAD_HANDLE);
    stop();
}
END_TEST

START_TEST(empty_and_scalar)
{
    const float one = 1;
    float back = 0;
    start(NULL);
    ASSERT_OK(raw_create(&c, 0, 1, (int64_t[]){0, 5}, 2, NULL, &err));
    ASSERT_OK(raw_download(&c, 0, 1, &back, 0, &err));
    ASSERT_CODE(download(0, 0, 1), EO_E_BAD_PARAMS);
    ASSERT_OK(raw_create(&c, 1, 1, NULL, 0, &one, &err));
    ASSERT_OK(raw_download(&c, 1, 1, &back, 4, &err));
    ck_assert(back == 1);
    raw_pack_op(&c, "exp", (uint32_t[]){0}, 1, 2, 1);
    ASSERT_OK(raw_call(&c, NULL, 0, NULL, &err));
    ASSERT_OK(raw_download(&c, 2, 1, &back, 0, &err));
    stop();
}
END_TEST

START_TEST(create_refusals)
{
    const float x[5] = {0};
    start(NULL);
    const struct {
        uint32_t slot, generation;
        int code;
    } handles[] = {{0, 0, EO_E_BAD_HANDLE}, {65536, 1, EO_E_BAD_HANDLE}, {UINT32_MAX, 1, EO_E_BAD_HANDLE}};
    for (size_t i = 0; i < EO_COUNT_OF(handles); i++) {
        create(handles[i].slot, handles[i].generation, "float32", (int64_t[]){4}, 1, 0);
        ASSERT_CODE(raw_call(&c, x, 16, NULL, &err), handles[i].code);
    }
    const struct {
        const char *dtype;
        int64_t shape[9];
        size_t n;
        int code;
    } descs[] = {
        {"float31", {4}, 1, EO_E_BAD_PARAMS},           {"", {4}, 1, EO_E_BAD_PARAMS},
        {"float32", {-1}, 1, EO_E_BAD_PARAMS},          {"float32", {1, 1, 1, 1, 1, 1, 1, 1, 1}, 9, EO_E_BAD_PARAMS},
        {"float32", {INT64_MAX, 2}, 2, EO_E_TOO_LARGE}, {"float64", {INT64_MAX / 4}, 1, EO_E_TOO_LARGE},
        {"float32", {INT64_C(1) << 50}, 1, EO_E_QUOTA}};
    for (size_t i = 0; i < EO_COUNT_OF(descs); i++) {
        create(0, 1 + (uint32_t)i, descs[i].dtype, descs[i].shape, descs[i].n, 0);
        int code = raw_call(&c, NULL, 0, NULL, &err);
        ck_assert_msg(code == descs[i].code, "case %zu: EO-%d: %s", i, code, err.message);
        ck_assert_int_eq(raw_free(&c, 0, 1 + (uint32_t)i, &err), EO_OK); /* it was poisoned, and can be freed */
    }
    create(0, 50, "float32", (int64_t[]){4}, 1, 0);
    ASSERT_CODE(raw_call(&c, x, 17, NULL, &err), EO_E_BAD_PARAMS); /* more bytes than the tensor has */
    ASSERT_CODE(raw_create(&c, 0, 50, (int64_t[]){4}, 1, x, &err), EO_E_BAD_HANDLE); /* poisoned, so in use */
    ASSERT_OK(raw_free(&c, 0, 50, &err));
    ASSERT_CODE(raw_create(&c, 0, 50, (int64_t[]){4}, 1, x, &err), EO_E_BAD_HANDLE); /* never again */
    ASSERT_CONTAINS(err.message, "51");
    ASSERT_OK(raw_create(&c, 0, 51, (int64_t[]){4}, 1, x, &err));
    ASSERT_CODE(raw_create(&c, 0, 52, (int64_t[]){4}, 1, x, &err), EO_E_BAD_HANDLE); /* in use */
    eo_pack_kv_str(create(1, 1, "float32", (int64_t[]){4}, 1, 1), "device", "gpu");
    ASSERT_CODE(raw_call(&c, x, 16, NULL, &err), EO_E_NO_DEVICE);
    eo_pack_kv_str(create(2, 1, "float32", (int64_t[]){4}, 1, 1), "device", "cpp");
    ASSERT_CODE(raw_call(&c, x, 16, NULL, &err), EO_E_NO_DEVICE);
    ASSERT_CONTAINS(err.hint, "cpu");
    eo_pack_kv_f64(create(3, 1, "float32", (int64_t[]){4}, 1, 1), "fill", 1);
    ASSERT_CODE(raw_call(&c, x, 16, NULL, &err), EO_E_BAD_PARAMS); /* filled and given bytes */
    eo_pack_kv_str(create(4, 1, "float32", (int64_t[]){4}, 1, 1), "fill", "one");
    ASSERT_CODE(raw_call(&c, NULL, 0, NULL, &err), EO_E_BAD_PARAMS);
    eo_pack_map(raw_request(&c, "tensor.create"), 0);
    ASSERT_CODE(raw_call(&c, x, 16, NULL, &err), EO_E_BAD_PARAMS);
    stop();
}
END_TEST

START_TEST(fill_writes_every_element)
{
    double x[1000];
    bool flags[3];
    start(NULL);
    eo_pack_kv_f64(create(0, 1, "float64", (int64_t[]){10, 100}, 2, 1), "fill", 2.5);
    ASSERT_OK(raw_call(&c, NULL, 0, NULL, &err));
    ASSERT_OK(raw_download(&c, 0, 1, x, sizeof(x), &err));
    for (size_t i = 0; i < EO_COUNT_OF(x); i++) {
        ck_assert(x[i] == 2.5);
    }
    eo_pack_kv_i64(create(1, 1, "bool", (int64_t[]){3}, 1, 1), "fill", 1);
    ASSERT_OK(raw_call(&c, NULL, 0, NULL, &err));
    ASSERT_OK(raw_download(&c, 1, 1, flags, sizeof(flags), &err));
    ck_assert(flags[0] && flags[2]);
    eo_pack_kv_f64(create(2, 1, "int8", (int64_t[]){3}, 1, 1), "fill", 1e9); /* not representable: the op says so */
    int code = raw_call(&c, NULL, 0, NULL, &err);
    ck_assert_int_ne(code, EO_OK);
    int first = code;
    ASSERT_CODE(download(2, 0, 3), first);
    stop();
}
END_TEST

START_TEST(upload_in_pieces)
{
    float x[64], y[64];
    uint64_t n = 0;
    start(NULL);
    for (int i = 0; i < 64; i++) {
        x[i] = (float)i;
    }
    ASSERT_OK(raw_create(&c, 0, 1, (int64_t[]){64}, 1, NULL, &err));
    ASSERT_CODE(download(0, 0, 256), EO_E_BAD_PARAMS); /* nobody's old bytes are ever shown */
    ASSERT_CONTAINS(err.message, "0 of");
    ASSERT_OK(upload(0, 128, x + 32, 64, &n)); /* out of order, with an overlap */
    ck_assert_uint_eq(n, 64);
    ASSERT_OK(upload(0, 0, x, 64, &n));
    ck_assert_uint_eq(n, 128);
    ASSERT_OK(upload(0, 32, x + 8, 96, &n));
    ck_assert_uint_eq(n, 192);
    ASSERT_CODE(download(0, 0, 4), EO_E_BAD_PARAMS);
    raw_pack_op(&c, "exp", (uint32_t[]){0}, 1, 5, 1);
    ASSERT_CODE(raw_call(&c, NULL, 0, NULL, &err), EO_E_BAD_PARAMS);
    ASSERT_OK(upload(0, 192, x + 48, 64, &n));
    ck_assert_uint_eq(n, 256);
    ASSERT_OK(raw_download(&c, 0, 1, y, sizeof(y), &err));
    ck_assert_mem_eq(x, y, sizeof(x));
    ASSERT_OK(upload(0, 4, x, 4, &n)); /* a complete tensor may be written again */
    ASSERT_OK(raw_download(&c, 0, 1, y, sizeof(y), &err));
    ck_assert(y[1] == x[0] && y[2] == x[2]);
    stop();
}
END_TEST

START_TEST(upload_and_download_refusals)
{
    uint64_t n;
    const float x[4] = {0};
    start(NULL);
    ASSERT_CODE(upload(0, 0, x, 4, &n), EO_E_BAD_HANDLE);
    ASSERT_OK(raw_create(&c, 0, 1, (int64_t[]){4}, 1, x, &err));
    ASSERT_CODE(upload(0, 16, x, 1, &n), EO_E_BAD_PARAMS);
    ASSERT_CODE(upload(0, 13, x, 4, &n), EO_E_BAD_PARAMS);
    ASSERT_CODE(upload(0, UINT64_MAX, x, 4, &n), EO_E_BAD_PARAMS);
    ASSERT_OK(upload(0, 16, x, 0, &n)); /* nothing at the end is fine */
    ASSERT_CODE(download(0, 16, 1), EO_E_BAD_PARAMS);
    ASSERT_CODE(download(0, 1, 16), EO_E_BAD_PARAMS);
    ASSERT_CODE(download(0, UINT64_MAX, 1), EO_E_BAD_PARAMS);
    ASSERT_CODE(download(0, 0, EO_CHUNK_MAX + 1), EO_E_BAD_PARAMS);
    ASSERT_OK(download(0, 16, 0));
    ASSERT_CODE(download(9, 0, 1), EO_E_BAD_HANDLE);
    eo_pack_map(raw_request(&c, "tensor.download"), 0);
    ASSERT_CODE(raw_call(&c, NULL, 0, NULL, &err), EO_E_BAD_PARAMS);
    eo_pack_map(raw_request(&c, "tensor.upload"), 0);
    ASSERT_CODE(raw_call(&c, x, 4, NULL, &err), EO_E_BAD_PARAMS);
    eo_pack_map(raw_request(&c, "tensor.info"), 0);
    ASSERT_CODE(raw_call(&c, NULL, 0, NULL, &err), EO_E_BAD_PARAMS);
    eo_pack_map(raw_request(&c, "tensor.free"), 0);
    ASSERT_CODE(raw_call(&c, NULL, 0, NULL, &err), EO_E_BAD_PARAMS);
    struct eo_bytes *b = raw_request(&c, "tensor.free"); /* all or nothing */
    eo_pack_map(b, 1);
    eo_pack_str(b, "handles");
    eo_pack_array(b, 2);
    raw_pack_handle(b, 0, 1);
    raw_pack_handle(b, 1, 1);
    ASSERT_CODE(raw_call(&c, NULL, 0, NULL, &err), EO_E_BAD_HANDLE);
    ASSERT_OK(download(0, 0, 16));
    stop();
}
END_TEST

START_TEST(pieces_are_bounded)
{
    uint64_t n;
    const float x = 1;
    int code = EO_OK;
    start(NULL);
    ASSERT_OK(raw_create(&c, 0, 1, (int64_t[]){1000}, 1, NULL, &err));
    for (uint64_t i = 0; i < 100 && code == EO_OK; i++) {
        code = upload(0, i * 8, &x, 4, &n);
    }
    ck_assert_int_eq(code, EO_E_BAD_PARAMS);
    stop();
}
END_TEST

/* 64 MiB in chunks both ways, bytes kept. */
START_TEST(large_tensor)
{
    const size_t bytes = 64 << 20;
    uint8_t *x = malloc(bytes), *y = malloc(4 << 20);
    uint64_t n = 0;
    start(NULL);
    for (size_t i = 0; i < bytes; i++) {
        x[i] = (uint8_t)(i * 2654435761u >> 24);
    }
    create(0, 1, "uint8", (int64_t[]){64 << 20}, 1, 0);
    ASSERT_OK(raw_call(&c, x, 4 << 20, NULL, &err));
    for (size_t at = 4 << 20; at < bytes; at += 4 << 20) {
        ASSERT_OK(upload(0, at, x + at, 4 << 20, &n));
    }
    ck_assert_uint_eq(n, bytes);
    for (size_t at = 0; at < bytes; at += 4 << 20) {
        struct raw_reply r;
        struct eo_bytes *b = raw_request(&c, "tensor.download");
        eo_pack_map(b, 3);
        eo_pack_str(b, "handle");
        raw_pack_handle(b, 0, 1);
        eo_pack_kv_u64(b, "offset", at);
        eo_pack_kv_u64(b, "size", 4 << 20);
        ASSERT_OK(raw_call(&c, NULL, 0, &r, &err));
        ck_assert_uint_eq(r.payload_size, 4 << 20);
        ck_assert_mem_eq(r.payload, x + at, 4 << 20);
        raw_reply_fini(&r);
    }
    free(x);
    free(y);
    stop();
}
END_TEST

/* The limit is exact, says what is in use, and memory comes back. */
START_TEST(memory_limit)
{
    const char *const args[] = {"--memory-limit", "16MiB", NULL};
    start(args);
    create(0, 1, "uint8", (int64_t[]){16 << 20}, 1, 0);
    ASSERT_OK(raw_call(&c, NULL, 0, NULL, &err));
    create(1, 1, "uint8", (int64_t[]){1}, 1, 0);
    int code = raw_call(&c, "x", 1, NULL, &err);
    ck_assert(code == EO_E_QUOTA || code == EO_E_DEVICE_MEMORY);
    ASSERT_CONTAINS(err.message, "16777216");
    ASSERT_CONTAINS(err.hint, "memory-limit");
    /* A second session is refused by the device: its own quota is untouched. */
    struct raw_client other;
    ASSERT_OK(raw_open(&other, &d.endpoint, &err));
    ASSERT_CODE(raw_create(&other, 0, 1, (int64_t[]){1}, 1, (const float[]){1}, &err), EO_E_DEVICE_MEMORY);
    ASSERT_OK(raw_free(&c, 0, 1, &err));
    ASSERT_OK(raw_create(&other, 1, 1, (int64_t[]){1}, 1, (const float[]){1}, &err));
    raw_close(&other);
    /* An op whose result does not fit poisons it. */
    create(2, 1, "uint8", (int64_t[]){10 << 20}, 1, 1);
    eo_pack_kv_i64(&c.out, "fill", 1);
    ASSERT_OK(raw_call(&c, NULL, 0, NULL, &err));
    raw_pack_op(&c, "reshape", (uint32_t[]){2}, 1, 3, 1);
    struct eo_bytes *b = raw_request(&c, "op.run");
    eo_pack_map(b, 4);
    eo_pack_kv_str(b, "op", "cast");
    eo_pack_str(b, "attrs");
    eo_pack_map(b, 1);
    eo_pack_kv_str(b, "dtype", "float32");
    eo_pack_str(b, "inputs");
    eo_pack_array(b, 1);
    raw_pack_handle(b, 2, 1);
    eo_pack_str(b, "outputs");
    eo_pack_array(b, 1);
    raw_pack_handle(b, 3, 1);
    ASSERT_CODE(raw_call(&c, NULL, 0, NULL, &err), EO_E_QUOTA);
    ASSERT_CODE(download(3, 0, 1), EO_E_QUOTA);
    stop();
}
END_TEST

/* Two connections that upload to one daemon at once both get on. */
START_TEST(uploads_take_turns)
{
    struct raw_client a, b;
    float *x = calloc(1 << 20, 4);
    start(NULL);
    ASSERT_OK(raw_open(&a, &d.endpoint, &err));
    ASSERT_OK(raw_open(&b, &d.endpoint, &err));
    for (uint32_t i = 0; i < 8; i++) {
        ASSERT_OK(raw_create(&a, i, 1, (int64_t[]){1 << 20}, 1, x, &err));
        ASSERT_OK(raw_create(&b, i, 1, (int64_t[]){1 << 20}, 1, x, &err));
    }
    free(x);
    raw_close(&a);
    raw_close(&b);
    stop();
}
END_TEST

/* A connection that dies in the middle of a payload leaves an incomplete tensor and nothing else. */
START_TEST(cut_upload)
{
    struct raw_client a;
    static const uint8_t zeros[1000];
    uint8_t bytes[16];
    start(NULL);
    ASSERT_OK(raw_connect(&a, &d.endpoint, &err));
    ASSERT_OK(raw_hello(&a, c.session, c.secret, &err));
    struct eo_bytes *b = raw_request(&a, "tensor.create");
    eo_pack_map(b, 3);
    eo_pack_str(b, "handle");
    raw_pack_handle(b, 0, 1);
    eo_pack_kv_str(b, "dtype", "uint8");
    eo_pack_str(b, "shape");
    eo_pack_i64_array(b, (int64_t[]){4 << 20}, 1);
    const struct eo_frame_header h = {.envelope_size = (uint32_t)b->size, .payload_size = 4 << 20};
    eo_frame_encode(&h, bytes);
    ASSERT_OK(raw_send_bytes(&a, bytes, 16, &err));
    ASSERT_OK(raw_send_bytes(&a, b->data, b->size, &err));
    ASSERT_OK(raw_send_bytes(&a, zeros, sizeof(zeros), &err));
    int code;
    do { /* until the daemon has read that far */
        struct raw_reply r;
        code = info(0, &r);
        if (code == EO_OK) {
            raw_reply_fini(&r);
        }
    } while (code == EO_E_BAD_HANDLE);
    raw_close(&a);
    ASSERT_CODE(download(0, 0, 1), EO_E_BAD_PARAMS);
    uint64_t n;
    ASSERT_OK(upload(0, 0, zeros, sizeof(zeros), &n));
    ck_assert_uint_eq(n, sizeof(zeros)); /* what came before the cut does not count */
    ASSERT_OK(raw_free(&c, 0, 1, &err));
    stop();
}
END_TEST

EO_SUITE("tensors", round_trip, empty_and_scalar, create_refusals, fill_writes_every_element, upload_in_pieces,
         upload_and_download_refusals, pieces_are_bounded, large_tensor, memory_limit, uploads_take_turns, cut_upload)
