#include "proto/base/sha256.h"

#include "proto/base/compiler.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

void eo_sha256_init(struct eo_sha256 *s)
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();

    if (ctx != NULL && EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) != 1) {
        EVP_MD_CTX_free(ctx);
        ctx = NULL;
    }
    s->ctx = ctx;
}

void eo_sha256_update(struct eo_sha256 *s, const void *data, size_t size)
{
    if (s->ctx == NULL || size == 0) {
        return;
    }
    if (EVP_DigestUpdate(s->ctx, data, size) != 1) {
        EVP_MD_CTX_free(s->ctx);
        s->ctx = NULL;
    }
}

bool eo_sha256_final(struct eo_sha256 *s, uint8_t out[EO_SHA256_SIZE])
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int length = 0;
    bool ok = s->ctx != NULL && EVP_DigestFinal_ex(s->ctx, digest, &length) == 1 && length == EO_SHA256_SIZE;

    EVP_MD_CTX_free(s->ctx);
    s->ctx = NULL;
    for (int i = 0; ok && i < EO_SHA256_SIZE; i++) {
        out[i] = digest[i];
    }
    return ok;
}

void eo_sha256_hex(const uint8_t digest[EO_SHA256_SIZE], char out[EO_SHA256_HEX])
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < EO_SHA256_SIZE; i++) {
        out[2 * i] = digits[digest[i] >> 4];
        out[2 * i + 1] = digits[digest[i] & 15];
    }
    out[EO_SHA256_HEX - 1] = '\0';
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return -1;
}

/* Lower case only: one digest has one spelling, so that texts may be compared and used as file names. */
bool eo_sha256_parse_hex(const char *text, size_t length, uint8_t out[EO_SHA256_SIZE])
{
    uint8_t digest[EO_SHA256_SIZE];

    if (length != EO_SHA256_HEX - 1) {
        return false;
    }
    for (size_t i = 0; i < EO_SHA256_SIZE; i++) {
        int high = hex_digit(text[2 * i]);
        int low = hex_digit(text[2 * i + 1]);

        if (high < 0 || low < 0) {
            return false;
        }
        digest[i] = (uint8_t)(high * 16 + low);
    }
    for (int i = 0; i < EO_SHA256_SIZE; i++) {
        out[i] = digest[i];
    }
    return true;
}

bool eo_sha256_of(const void *data, size_t size, char out_hex[EO_SHA256_HEX])
{
    struct eo_sha256 s;
    uint8_t digest[EO_SHA256_SIZE];

    eo_sha256_init(&s);
    eo_sha256_update(&s, data, size);
    if (!eo_sha256_final(&s, digest)) {
        return false;
    }
    eo_sha256_hex(digest, out_hex);
    return true;
}

const char *eo_sha256_library(void)
{
    return OpenSSL_version(OPENSSL_VERSION_STRING);
}
