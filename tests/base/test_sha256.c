#include "proto/base/sha256.h"

#include "tests/support/suite.h"

#include <string.h>

/* FIPS 180-4 examples, and the empty message. */
static const struct {
    const char *message;
    const char *digest;
} known[] = {
    {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
    {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
    {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
     "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
};

START_TEST(known_answers)
{
    char hex[EO_SHA256_HEX];

    for (size_t i = 0; i < EO_COUNT_OF(known); i++) {
        ck_assert(eo_sha256_of(known[i].message, strlen(known[i].message), hex));
        ck_assert_str_eq(hex, known[i].digest);
    }
}
END_TEST

START_TEST(pieces_give_the_digest_of_the_whole)
{
    struct eo_sha256 s;
    uint8_t digest[EO_SHA256_SIZE];
    char chunk[1000];
    char hex[EO_SHA256_HEX];

    memset(chunk, 'a', sizeof(chunk));
    eo_sha256_init(&s);
    for (int i = 0; i < 1000; i++) {
        eo_sha256_update(&s, chunk, (size_t)(i % 7));
        eo_sha256_update(&s, NULL, 0);
        eo_sha256_update(&s, chunk, sizeof(chunk) - (size_t)(i % 7));
    }
    ck_assert(eo_sha256_final(&s, digest));
    eo_sha256_hex(digest, hex);
    ck_assert_str_eq(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    ck_assert(!eo_sha256_final(&s, digest)); /* the context is gone; saying so again harms nobody */
}
END_TEST

START_TEST(hex_reads_back_and_refuses_other_spellings)
{
    uint8_t digest[EO_SHA256_SIZE];
    char text[EO_SHA256_HEX];
    char broken[EO_SHA256_HEX];

    ck_assert(eo_sha256_parse_hex(known[1].digest, 64, digest));
    eo_sha256_hex(digest, text);
    ck_assert_str_eq(text, known[1].digest);
    ck_assert(!eo_sha256_parse_hex(text, 63, digest));
    ck_assert(!eo_sha256_parse_hex(text, 65, digest));
    for (size_t at = 0; at < 64; at += 21) {
        memcpy(broken, text, sizeof(broken));
        broken[at] = 'g';
        ck_assert(!eo_sha256_parse_hex(broken, 64, digest));
        broken[at] = 'A';
        ck_assert(!eo_sha256_parse_hex(broken, 64, digest));
    }
    eo_sha256_hex(digest, text);
    ck_assert_str_eq(text, known[1].digest);
}
END_TEST

EO_SUITE("sha256", known_answers, pieces_give_the_digest_of_the_whole, hex_reads_back_and_refuses_other_spellings)
