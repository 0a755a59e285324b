/* SHA-256 (FIPS 180-4) by OpenSSL's libcrypto; the only place in proto/base that touches it. */
#ifndef EO_PROTO_BASE_SHA256_H
#define EO_PROTO_BASE_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EO_SHA256_SIZE = 32, EO_SHA256_HEX = 65 /* with NUL */ };

struct eo_sha256 {
    void *ctx; /* EVP_MD_CTX; NULL after a failed init, then every call is a no-op and final returns false */
};

void eo_sha256_init(struct eo_sha256 *s);
void eo_sha256_update(struct eo_sha256 *s, const void *data, size_t size);
bool eo_sha256_final(struct eo_sha256 *s, uint8_t out[EO_SHA256_SIZE]); /* frees the context in any case */
void eo_sha256_hex(const uint8_t digest[EO_SHA256_SIZE], char out[EO_SHA256_HEX]);
bool eo_sha256_parse_hex(const char *text, size_t length, uint8_t out[EO_SHA256_SIZE]);
bool eo_sha256_of(const void *data, size_t size, char out_hex[EO_SHA256_HEX]);
const char *eo_sha256_library(void); /* version of OpenSSL's libcrypto: "3.0.22" */

#endif
