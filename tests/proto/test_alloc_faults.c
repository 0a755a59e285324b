/* Each allocation in turn fails: every path out of memory ends in a report, leaks nothing (as LeakSanitizer sees) and
 * leaves its objects usable. EO_WRAPPED_MALLOC: see wire.cmake. */
#include "proto/base/arena.h"
#include "proto/base/file.h"
#include "proto/base/json.h"
#include "proto/codec.h"
#include "proto/error_codec.h"
#include "tests/support/suite.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static struct eo_error err;

static bool armed;
static int calls_left; /* until the one that fails */
static bool has_failed;

static bool fails_now(void)
{
    if (!armed) {
        return false;
    }
    if (calls_left-- == 0) {
        has_failed = true;
        armed = false;
        errno = ENOMEM;
        return true;
    }
    return false;
}

#if EO_WRAPPED_MALLOC
#define HOOK(name) __wrap_##name
#define REAL(name) __real_##name
#else
#define HOOK(name) name
#define REAL(name) __libc_##name
#endif

void *REAL(malloc)(size_t size);
void *REAL(calloc)(size_t count, size_t size);
void *REAL(realloc)(void *memory, size_t size);
/* Visible, so that the shared libraries find these instead of the C library's. */
#define EXPORTED __attribute__((visibility("default")))
EXPORTED void *HOOK(malloc)(size_t size);
EXPORTED void *HOOK(calloc)(size_t count, size_t size);
EXPORTED void *HOOK(realloc)(void *memory, size_t size);

void *HOOK(malloc)(size_t size)
{
    return fails_now() ? NULL : REAL(malloc)(size);
}
void *HOOK(calloc)(size_t count, size_t size)
{
    return fails_now() ? NULL : REAL(calloc)(count, size);
}
void *HOOK(realloc)(void *memory, size_t size)
{
    return fails_now() ? NULL : REAL(realloc)(memory, size);
}

static void arm(int nth)
{
    has_failed = false;
    calls_left = nth;
    armed = true;
}

/* The assertions of libcheck allocate too: work calls this before the first of them. */
static bool disarm(void)
{
    armed = false;
    return has_failed;
}

/* Runs work with the first allocation failing, then the second, ... until it succeeds without a failure; returns how
 * many failures it took. work returns whether it succeeded. */
static int exhaust(bool (*work)(void))
{
    for (int nth = 0; nth < 10000; nth++) {
        bool ok, failed;

        arm(nth);
        ok = work();
        failed = disarm();
        if (!failed) {
            ck_assert(ok);
            return nth;
        }
        ck_assert_msg(!ok, "allocation %d failed and nobody noticed", nth);
    }
    ck_abort_msg("no end of allocations");
}

static bool grow_bytes(void)
{
    struct eo_bytes b;
    bool ok;

    eo_bytes_init(&b, 1 << 20);
    for (int i = 0; i < 2000; i++) {
        eo_bytes_append(&b, "0123456789", 10);
    }
    eo_bytes_printf(&b, "%d", 5);
    ok = !b.failed;
    (void)disarm();
    ck_assert(ok || strcmp(eo_bytes_text(&b), "") == 0);
    ck_assert_uint_eq(b.size % 10, ok ? 1 : 0); /* what did not fit was not half appended */
    if (!ok) {
        eo_bytes_clear(&b);
        eo_bytes_append(&b, "again", 5);
        ck_assert_str_eq(eo_bytes_text(&b), "again");
    }
    eo_bytes_fini(&b);
    return ok;
}

START_TEST(bytes)
{
    ck_assert_int_ge(exhaust(grow_bytes), 5);
}
END_TEST

static bool take_bytes(void)
{
    struct eo_bytes b;
    size_t size;
    uint8_t *data;

    eo_bytes_init(&b, 100);
    eo_bytes_append(&b, "x", 1);
    data = eo_bytes_take(&b, &size);
    free(data);
    (void)disarm();
    ck_assert_uint_eq(size, data != NULL ? 1 : 0);
    return data != NULL;
}

START_TEST(bytes_take)
{
    ck_assert_int_eq(exhaust(take_bytes), 1);
}
END_TEST

static bool use_arena(void)
{
    struct eo_arena a;
    bool ok = true;

    eo_arena_init(&a, SIZE_MAX);
    for (int i = 0; i < 100; i++) {
        ok = eo_arena_alloc(&a, 1000) != NULL && ok;
    }
    ok = eo_arena_strndup(&a, "text", 4) != NULL && ok;
    eo_arena_fini(&a);
    return ok;
}

START_TEST(arena)
{
    ck_assert_int_ge(exhaust(use_arena), 4);
}
END_TEST

static uint8_t message[4096];
static size_t message_size;

static bool write_message(void)
{
    struct eo_error sent;
    struct eo_bytes b;
    bool ok;

    EO_RAISE(&sent, EO_E_BAD_SPEC, "a job file");
    eo_error_detail(&sent, "%0300d", 5);
    eo_bytes_init(&b, sizeof(message));
    eo_pack_array(&b, 3);
    eo_pack_kv_str(&b, "key", "value");
    eo_error_pack(&b, &sent);
    ok = !b.failed;
    if (ok) {
        message_size = b.size;
        memcpy(message, b.data, b.size);
    }
    eo_bytes_fini(&b);
    return ok;
}

static bool read_message(void)
{
    struct eo_error got;
    struct eo_doc doc;
    int code = eo_doc_parse(&doc, message, message_size, &err);

    (void)disarm();
    if (code != EO_OK) {
        ck_assert_int_eq(code, EO_E_NO_MEMORY);
        ck_assert_int_eq(err.code, EO_E_NO_MEMORY);
        ck_assert_ptr_null(doc.zone);
        return false;
    }
    ck_assert_int_eq(eo_error_unpack(eo_item_at(doc.root, 2), &got), EO_E_BAD_SPEC);
    eo_doc_fini(&doc);
    return true;
}

START_TEST(codec)
{
    ck_assert_int_ge(exhaust(write_message), 2);
    /* The tree's memory comes from the MessagePack library, which a wrapped build does not reach. */
    ck_assert_int_ge(exhaust(read_message), EO_WRAPPED_MALLOC ? 0 : 1);
}
END_TEST

static bool read_scalar(void)
{
    static const uint8_t nil = 0xc0;
    struct eo_doc doc;
    int code = eo_doc_parse(&doc, &nil, 1, &err);

    (void)disarm();
    ck_assert(code == EO_OK || code == EO_E_NO_MEMORY);
    eo_doc_fini(&doc);
    return code == EO_OK;
}

START_TEST(codec_scalar)
{
    (void)exhaust(read_scalar);
}
END_TEST

static bool write_json(void)
{
    struct eo_bytes b;
    struct eo_json j;
    bool ok;

    eo_bytes_init(&b, 1 << 20);
    eo_json_init(&j, &b);
    eo_json_begin_array(&j);
    for (int i = 0; i < 500; i++) {
        eo_json_f64(&j, i / 3.0);
        eo_json_string(&j, "a\nb");
    }
    eo_json_end_array(&j);
    ok = !b.failed;
    eo_bytes_fini(&b);
    return ok;
}

START_TEST(json)
{
    ck_assert_int_ge(exhaust(write_json), 4);
}
END_TEST

static bool read_file(void)
{
    struct eo_bytes b;
    int code = eo_file_read("/proc/self/status", 1 << 20, &b, &err);

    (void)disarm();
    if (code == EO_OK) {
        eo_bytes_fini(&b);
    }
    ck_assert(code == EO_OK || code == EO_E_NO_MEMORY);
    return code == EO_OK;
}

START_TEST(file)
{
    ck_assert_int_ge(exhaust(read_file), 1);
}
END_TEST

/* libcrypto does without some of what it asks for; then the digest must be right all the same. */
START_TEST(file_hash)
{
    char right[65], hex[65];
    bool failed = true;

    ASSERT_OK(eo_file_sha256("/proc/version", right, NULL, &err));
    for (int nth = 0; failed; nth++) {
        int code;

        arm(nth);
        code = eo_file_sha256("/proc/version", hex, NULL, &err);
        failed = disarm();
        if (code == EO_OK) {
            ck_assert_str_eq(hex, right);
        } else {
            ck_assert(failed);
            ck_assert_int_eq(code, EO_E_NO_MEMORY);
        }
        ck_assert_int_lt(nth, 10000);
    }
}
END_TEST

/* Reporting must work when memory is out. */
static bool report(void)
{
    struct eo_error e;
    char text[4096];

    EO_RAISE_ERRNO(&e, EO_E_NO_MEMORY, ENOMEM, "no memory for %d bytes", 5);
    eo_error_hint(&e, "Close something.");
    eo_error_text(&e, true, text, sizeof(text));
    eo_error_json(&e, text, sizeof(text));
    return true;
}

START_TEST(reporting_allocates_nothing)
{
    ck_assert_int_eq(exhaust(report), 0);
}
END_TEST

EO_SUITE("alloc_faults", bytes, bytes_take, arena, codec, codec_scalar, json, file, file_hash,
         reporting_allocates_nothing)
