#include "proto/frame.h"

#include "tests/support/suite.h"

#include <string.h>

static struct eo_error err;

static const uint8_t golden[EO_FRAME_HEADER_SIZE] = {'E',  'O',  1,    0,    0x34, 0x12, 0x00, 0x00,
                                                     0xF0, 0xDE, 0xBC, 0x9A, 0x78, 0x56, 0x34, 0x12};

START_TEST(golden_bytes)
{
    struct eo_frame_header h = {.envelope_size = 0x1234, .payload_size = 0x123456789ABCDEF0u};
    struct eo_frame_header back = {0};
    uint8_t out[EO_FRAME_HEADER_SIZE];

    eo_frame_encode(&h, out);
    ck_assert_mem_eq(out, golden, sizeof(out));
    ASSERT_OK(eo_frame_decode(out, UINT64_MAX, &back, &err));
    ck_assert_uint_eq(back.envelope_size, h.envelope_size);
    ck_assert_uint_eq(back.payload_size, h.payload_size);
    ck_assert_uint_eq(back.flags, 0);
}
END_TEST

static int decode_changed(size_t at, uint8_t value, uint64_t limit)
{
    struct eo_frame_header untouched = {.flags = 77};
    uint8_t bytes[EO_FRAME_HEADER_SIZE];
    int code;

    memcpy(bytes, golden, sizeof(bytes));
    bytes[at] = value;
    code = eo_frame_decode(bytes, limit, &untouched, &err);
    if (code != EO_OK) {
        ck_assert_uint_eq(untouched.flags, 77);
    }
    return code;
}

START_TEST(refusals)
{
    ASSERT_CODE(decode_changed(0, 'e', UINT64_MAX), EO_E_BAD_FRAME);
    ASSERT_CODE(decode_changed(1, 0, UINT64_MAX), EO_E_BAD_FRAME);
    ASSERT_CODE(decode_changed(2, 0, UINT64_MAX), EO_E_BAD_FRAME);
    ASSERT_CODE(decode_changed(2, 2, UINT64_MAX), EO_E_BAD_FRAME);
    ASSERT_CONTAINS(err.message, "version is 2");
    for (int bit = 0; bit < 8; bit++) {
        ASSERT_CODE(decode_changed(3, (uint8_t)(1 << bit), UINT64_MAX), EO_E_BAD_FRAME);
        ASSERT_CONTAINS(err.message, "flags");
    }
    ASSERT_CODE(decode_changed(7, 0xFF, UINT64_MAX), EO_E_FRAME_TOO_LARGE);
    ASSERT_CODE(decode_changed(6, 0x10, UINT64_MAX), EO_E_FRAME_TOO_LARGE); /* 1 MiB and 0x1234 bytes */
    ASSERT_CODE(decode_changed(0, 'E', 1 << 20), EO_E_FRAME_TOO_LARGE);
    ASSERT_CONTAINS(err.message, "1311768467463790320");
    ASSERT_CONTAINS(err.message, "1048576");
}
END_TEST

START_TEST(limits_are_exact)
{
    struct eo_frame_header h = {.envelope_size = EO_ENVELOPE_MAX, .payload_size = EO_CHUNK_MAX};
    struct eo_frame_header back;
    uint8_t out[EO_FRAME_HEADER_SIZE];

    eo_frame_encode(&h, out);
    ASSERT_OK(eo_frame_decode(out, EO_CHUNK_MAX, &back, &err));
    ASSERT_CODE(eo_frame_decode(out, EO_CHUNK_MAX - 1, &back, &err), EO_E_FRAME_TOO_LARGE);
    h.envelope_size = EO_ENVELOPE_MAX + 1;
    eo_frame_encode(&h, out);
    ASSERT_CODE(eo_frame_decode(out, EO_CHUNK_MAX, &back, &err), EO_E_FRAME_TOO_LARGE);
    h.envelope_size = 0;
    eo_frame_encode(&h, out);
    ASSERT_CODE(eo_frame_decode(out, EO_CHUNK_MAX, &back, &err), EO_E_BAD_FRAME);
    h = (struct eo_frame_header){.envelope_size = 1, .payload_size = 0};
    eo_frame_encode(&h, out);
    ASSERT_OK(eo_frame_decode(out, 0, &back, &err));
    h.payload_size = (uint64_t)1 << 63;
    eo_frame_encode(&h, out);
    ASSERT_CODE(eo_frame_decode(out, INT64_MAX, &back, &err), EO_E_FRAME_TOO_LARGE);
}
END_TEST

START_TEST(strangers_are_named)
{
    static const struct {
        const char *bytes;
        const char *name;
    } rows[] = {
        {"GET / HTTP/1.1\r\n", "HTTP request"}, {"\x16\x03\x01\x02zzzzzzzzzzzz", "TLS"}, {"SSH-2.0-OpenSSH_", "SSH"},
        {"HTTP/1.1 200 OK\r", "HTTP answer"},   {"\x1b[2Jxxxxxxxxxxxx", "x1b[2J"},
    };
    struct eo_frame_header back;

    for (size_t i = 0; i < EO_COUNT_OF(rows); i++) {
        ASSERT_CODE(eo_frame_decode((const uint8_t *)rows[i].bytes, 0, &back, &err), EO_E_BAD_FRAME);
        ASSERT_CONTAINS(err.message, rows[i].name);
        ASSERT_CONTAINS(err.hint, "host and port");
        ck_assert_ptr_null(strchr(err.message, '\x1b'));
    }
    ck_assert_int_eq(eo_frame_decode((const uint8_t *)rows[0].bytes, 0, &back, NULL), EO_E_BAD_FRAME);
}
END_TEST

EO_SUITE("frame", golden_bytes, refusals, limits_are_exact, strangers_are_named)
