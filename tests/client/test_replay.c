/* The golden requests of protocol version 1, sent to a real daemon: it answers each as the transcripts say. Numbers and
 * texts may differ and keys may be added; kinds, error codes and payload bytes may not. */
#include "client/lib/local_daemon.h"
#include "proto/base/clock.h"
#include "proto/base/file.h"
#include "tests/proto/transcript.h"
#include "tests/support/suite.h"

#include "proto/channel.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PATIENCE_MS = 30000 };

static struct eo_error err;

static uint64_t deadline(void)
{
    return eo_now_ns() + (uint64_t)PATIENCE_MS * 1000000;
}

static void read_into(struct eo_channel *c, struct eo_bytes *b, size_t n)
{
    uint8_t *at = eo_bytes_extend(b, n);
    ck_assert(n == 0 || at != NULL);
    if (n > 0) {
        ASSERT_OK(eo_channel_read_full(c, at, n, deadline(), &err));
    }
}

static void read_frame(struct eo_channel *c, struct transcript_frame *out)
{
    struct eo_frame_header h;
    eo_bytes_init(&out->bytes, 64 << 20);
    read_into(c, &out->bytes, EO_FRAME_HEADER_SIZE);
    ASSERT_OK(eo_frame_decode(out->bytes.data, EO_CHUNK_MAX, &h, &err));
    read_into(c, &out->bytes, h.envelope_size);
    read_into(c, &out->bytes, (size_t)h.payload_size);
}

/* What the golden value has, the other one has too. */
static void assert_like(const struct eo_item *golden, const struct eo_item *real, const char *where)
{
    ck_assert_msg(eo_item_kind(golden) == eo_item_kind(real), "%s is of kind %d, was %d", where, eo_item_kind(real),
                  eo_item_kind(golden));
    if (eo_item_kind(golden) == EO_ITEM_ARRAY) {
        for (size_t i = 0; i < eo_item_count(golden) && i < eo_item_count(real); i++) {
            assert_like(eo_item_at(golden, i), eo_item_at(real, i), where);
        }
    }
    for (size_t i = 0; eo_item_kind(golden) == EO_ITEM_MAP && i < eo_item_count(golden); i++) {
        const struct eo_item *key = NULL;
        const struct eo_item *value = NULL;
        const char *text = NULL;
        size_t length = 0;
        char name[64];
        eo_item_pair(golden, i, &key, &value);
        ck_assert(eo_item_as_str(key, &text, &length));
        snprintf(name, sizeof name, "%.*s", (int)length, text);
        ck_assert_msg(eo_item_get(real, name) != NULL, "%s lacks the key %s", where, name);
        assert_like(value, eo_item_get(real, name), name);
    }
}

static void assert_same_error(const struct eo_item *golden, const struct eo_item *real, const char *where)
{
    int64_t was = 0;
    int64_t is = 0;
    ck_assert_msg((golden == NULL) == (real == NULL), "%s: %s", where, real == NULL ? "no error" : "an error");
    if (golden != NULL) {
        ck_assert(eo_item_as_i64(eo_item_get(golden, "code"), &was));
        ck_assert(eo_item_as_i64(eo_item_get(real, "code"), &is));
        ck_assert_msg(was == is, "%s: EO-%d instead of EO-%d", where, (int)is, (int)was);
    }
}

/* The golden answer to the same request. Answers may come in another order. */
static void compare(const struct transcript *t, const struct transcript_frame *real, const char *where)
{
    struct eo_doc real_doc;
    struct eo_envelope is;
    const uint8_t *payload = NULL;
    size_t size = 0;
    bool found = false;
    ck_assert(transcript_split(real, &real_doc, &is, &payload, &size, &err));
    ck_assert_int_eq(is.type, 1);
    for (int i = 0; i < t->n && !found; i++) {
        struct eo_doc doc;
        struct eo_envelope was;
        const uint8_t *wanted = NULL;
        size_t wanted_size = 0;
        ck_assert(transcript_split(&t->frames[i], &doc, &was, &wanted, &wanted_size, &err));
        found = t->frames[i].direction == '<' && was.id == is.id;
        if (found) {
            assert_same_error(was.error, is.error, where);
            if (was.error == NULL) {
                assert_like(was.result, is.result, where);
            }
            ck_assert_msg(size == wanted_size && memcmp(payload, wanted, size) == 0, "%s: another payload", where);
        }
        eo_doc_fini(&doc);
    }
    ck_assert_msg(found, "%s: an answer to request %u", where, is.id);
    eo_doc_fini(&real_doc);
}

static void replay(struct eo_channel *c, const struct transcript_case *one)
{
    struct transcript t;
    char path[1200];
    const char *root = getenv("EO_SOURCE_DIR");
    snprintf(path, sizeof path, "%s/tests/vectors/protocol-1/%s.txt", root != NULL ? root : ".", one->name);
    if (!transcript_read(&t, path, &err)) {
        ck_abort_msg("%s", err.message);
    }
    for (int i = 0; i < t.n; i++) {
        if (t.frames[i].direction == '>') {
            const struct iovec iov = {.iov_base = t.frames[i].bytes.data, .iov_len = t.frames[i].bytes.size};
            ASSERT_OK(eo_channel_write_full(c, &iov, 1, deadline(), &err));
        } else {
            struct transcript_frame real;
            read_frame(c, &real);
            compare(&t, &real, one->name);
            eo_bytes_fini(&real.bytes);
        }
    }
    transcript_fini(&t);
}

START_TEST(a_daemon_answers_as_version_1_says)
{
    struct eo_local_daemon *d = NULL;
    struct eo_endpoint ep;
    struct eo_channel c;
    ASSERT_OK(eo_local_daemon_start(&d, &ep, &err));
    ASSERT_OK(eo_channel_connect(&c, &ep, deadline(), &err));
    for (int i = 0; i < transcript_n_cases; i++) {
        if (transcript_cases[i].replays) {
            replay(&c, &transcript_cases[i]);
        }
    }
    eo_channel_close(&c);
    eo_local_daemon_stop(d);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {a_daemon_answers_as_version_1_says};
    char path[1024];
    const char *dir = getenv("EO_BIN_DIR");
    if (dir == NULL || !eo_path_join(path, sizeof path, dir, "everyod") || access(path, X_OK) != 0) {
        printf("everyod is not built\n");
        return 77;
    }
    return eo_suite_run("golden requests", tests, EO_COUNT_OF(tests));
}
