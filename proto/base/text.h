/* Small text work shared by parsers: nearest name for a typo, sizes and durations with units, bounded formatting. */
#ifndef EO_PROTO_BASE_TEXT_H
#define EO_PROTO_BASE_TEXT_H

#include "proto/base/compiler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Nearest of n names within edit distance 1 + length/3 (Damerau-Levenshtein, letters without case, at least one
 * letter in common), the first of equals, or NULL. Words over 64 bytes have none. name_at(ctx, i) gives the names. */
const char *eo_nearest(const char *word, const char *(*name_at)(const void *ctx, size_t i), const void *ctx, size_t n);
/* Parsers take the whole text or return false with out untouched. */
bool eo_parse_size(const char *text, uint64_t *out_bytes);  /* 4096, 64KiB or 64K (1024), 1.5GiB, 2GB (1000) */
bool eo_parse_duration(const char *text, uint64_t *out_ms); /* 250ms, 30s, 5m, 2h, 1d, plain number = seconds */
bool eo_parse_i64(const char *text, int64_t *out);          /* decimal */
bool eo_parse_f64(const char *text,
                  double *out); /* decimal, C locale, any thread; nan and inf are read, overflow not */
char *eo_format_bytes(uint64_t bytes, char *out, size_t size);    /* "1.5 GiB"; returns out */
char *eo_format_duration(double seconds, char *out, size_t size); /* "850ms", "12.3s", "4m05s", "2h03m"; returns out */
/* Copies what fits and a NUL; false when it was cut. */
bool eo_copy_text(char *out, size_t size, const char *text);
size_t eo_utf8_length(const char *text, size_t length); /* bytes of the valid sequence at text, 0 when there is none */
bool eo_text_valid_utf8(const char *text, size_t length);
uint64_t eo_hash64(const void *data, size_t size, uint64_t seed); /* for tables in memory; not cryptographic */

#endif
