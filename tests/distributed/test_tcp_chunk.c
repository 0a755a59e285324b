#include "distributed/engines/tcp_chunk.h"

#include "tests/support/suite.h"

#include <string.h>

static const struct tcp_chunk sample = {
    .type = TCP_CHUNK_DATA,
    .phase = TCP_PHASE_RESULT,
    .length = 0x00012345,
    .offset = 0x8877665544332211u,
    .print = {.epoch = 3,
              .seq = 0x0102030405060708u,
              .count = 1000,
              .kind = COLLECTIVE_ALL_REDUCE,
              .reduce = COLLECTIVE_MAX,
              .dtype = EO_BFLOAT16,
              .root = 0},
};

static const uint8_t golden[TCP_CHUNK_HEADER] = {
    'E',  'O',  'C',  'H',  1,    0,    2,    4,    /* magic, data, all_reduce, max, bfloat16 */
    3,    0,    0,    0,    0,    0,    0,    0,    /* epoch */
    0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01, /* seq */
    0xE8, 0x03, 0,    0,    0,    0,    0,    0,    /* count */
    0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, /* offset */
    0x45, 0x23, 0x01, 0x00, 2,    0,    0,    0};   /* length, phase, root */

START_TEST(golden_bytes)
{
    uint8_t out[TCP_CHUNK_HEADER];
    struct tcp_chunk back;
    const char *why;

    memset(out, 0xFF, sizeof(out));
    tcp_chunk_encode(&sample, out);
    ck_assert_mem_eq(out, golden, sizeof(out));
    ck_assert(tcp_chunk_decode(out, &back, &why));
    ck_assert_int_eq(back.type, sample.type);
    ck_assert_int_eq(back.phase, sample.phase);
    ck_assert_uint_eq(back.length, sample.length);
    ck_assert_uint_eq(back.offset, sample.offset);
    ck_assert(tcp_fingerprint_equal(&back.print, &sample.print));
}
END_TEST

static void refused(size_t at, uint8_t value, const char *reason)
{
    uint8_t bytes[TCP_CHUNK_HEADER];
    struct tcp_chunk chunk;
    const char *why = NULL;

    memcpy(bytes, golden, sizeof(bytes));
    bytes[at] = value;
    ck_assert_msg(!tcp_chunk_decode(bytes, &chunk, &why), "byte %zu = %u is accepted", at, value);
    ASSERT_CONTAINS(why, reason);
}

START_TEST(refusals)
{
    for (size_t i = 0; i < 4; i++) {
        refused(i, 'x', "magic");
    }
    refused(4, 0, "type");
    refused(4, TCP_CHUNK_TYPES, "type");
    refused(5, 3, "kind");
    refused(6, 3, "reduction");
    refused(7, EO_DTYPE_LIMIT, "dtype");
    refused(7, 0xFF, "dtype");
    refused(42, 0x10, "longer"); /* 1 MiB and more */
    refused(43, 0x80, "longer");
    refused(44, TCP_PHASES, "phase");
    refused(44, TCP_PHASE_OPEN, "do not fit");
    refused(45, COLLECTIVE_MAX_RANKS, "root");
    refused(46, 1, "reserved");
    refused(47, 0x80, "reserved");
    /* Pings carry nothing, aborts little. */
    refused(4, TCP_CHUNK_PING, "longer");
    refused(4, TCP_CHUNK_PONG, "longer");
    refused(4, TCP_CHUNK_ABORT, "longer");
}
END_TEST

START_TEST(limits_are_inclusive)
{
    struct tcp_chunk chunk = sample, back;
    uint8_t bytes[TCP_CHUNK_HEADER];
    const char *why;

    chunk.length = TCP_CHUNK_MAX;
    tcp_chunk_encode(&chunk, bytes);
    ck_assert(tcp_chunk_decode(bytes, &back, &why));
    chunk.length = TCP_CHUNK_MAX + 1;
    tcp_chunk_encode(&chunk, bytes);
    ck_assert(!tcp_chunk_decode(bytes, &back, &why));
    chunk.length = 0;
    chunk.phase = TCP_PHASE_OPEN;
    tcp_chunk_encode(&chunk, bytes);
    ck_assert(tcp_chunk_decode(bytes, &back, &why));
    chunk.type = TCP_CHUNK_ABORT;
    chunk.length = TCP_CHUNK_ABORT_MAX;
    tcp_chunk_encode(&chunk, bytes);
    ck_assert(tcp_chunk_decode(bytes, &back, &why));
}
END_TEST

START_TEST(every_field_of_a_fingerprint_counts)
{
    struct tcp_fingerprint other[] = {sample.print, sample.print, sample.print, sample.print,
                                      sample.print, sample.print, sample.print};

    other[0].epoch++;
    other[1].seq++;
    other[2].count++;
    other[3].kind++;
    other[4].reduce--;
    other[5].dtype++;
    other[6].root++;
    ck_assert(tcp_fingerprint_equal(&sample.print, &sample.print));
    for (size_t i = 0; i < EO_COUNT_OF(other); i++) {
        ck_assert_msg(!tcp_fingerprint_equal(&sample.print, &other[i]), "field %zu", i);
    }
}
END_TEST

START_TEST(texts)
{
    const struct tcp_fingerprint sum = {
        .epoch = 3, .seq = 12, .count = 1000, .kind = COLLECTIVE_ALL_REDUCE, .dtype = EO_FLOAT32};
    const struct tcp_fingerprint broadcast = {
        .epoch = 3, .seq = 7, .count = 64, .kind = COLLECTIVE_BROADCAST, .root = 2};
    const struct tcp_fingerprint barrier = {.epoch = 4, .seq = 9, .kind = COLLECTIVE_BARRIER};
    const struct tcp_fingerprint longest = {.epoch = UINT64_MAX,
                                            .seq = UINT64_MAX,
                                            .count = UINT64_MAX,
                                            .kind = COLLECTIVE_ALL_REDUCE,
                                            .dtype = EO_BFLOAT16};
    char text[128];

    ck_assert_str_eq(tcp_fingerprint_text(&sum, text, sizeof(text)), "all_reduce 12 of epoch 3 (sum of 1000 float32)");
    ck_assert_str_eq(tcp_fingerprint_text(&broadcast, text, sizeof(text)),
                     "broadcast 7 of epoch 3 (64 bytes from rank 2)");
    ck_assert_str_eq(tcp_fingerprint_text(&barrier, text, sizeof(text)), "barrier 9 of epoch 4");
    ck_assert_str_eq(tcp_fingerprint_text(&longest, text, sizeof(text)),
                     "all_reduce 18446744073709551615 of epoch 18446744073709551615 "
                     "(sum of 18446744073709551615 bfloat16)");
}
END_TEST

EO_SUITE("tcp_chunk", golden_bytes, refusals, limits_are_inclusive, every_field_of_a_fingerprint_counts, texts)
