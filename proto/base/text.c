#include "proto/base/text.h"

#include "proto/base/checked.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { NEAREST_MAX = 64 };

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Optimal string alignment (insert, delete, replace, swap of neighbours), letters compared without case.
 * Three rolling rows of the table; row index i counts characters of a, column j those of b. */
static int edit_distance(const char *a, int n_a, const char *b, int n_b)
{
    int rows[3][NEAREST_MAX + 1];
    int *before = rows[0], *previous = rows[1], *current = rows[2];

    for (int j = 0; j <= n_b; j++) {
        previous[j] = j;
    }
    for (int i = 1; i <= n_a; i++) {
        int *recycled = before;

        current[0] = i;
        for (int j = 1; j <= n_b; j++) {
            int cost = lower(a[i - 1]) == lower(b[j - 1]) ? 0 : 1;
            int best = EO_MIN(EO_MIN(previous[j] + 1, current[j - 1] + 1), previous[j - 1] + cost);

            if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1])) {
                best = EO_MIN(best, before[j - 2] + 1);
            }
            current[j] = best;
        }
        before = previous;
        previous = current;
        current = recycled;
    }
    return previous[n_b];
}

const char *eo_nearest(const char *word, const char *(*name_at)(const void *ctx, size_t i), const void *ctx, size_t n)
{
    size_t length = strnlen(word, NEAREST_MAX + 1);
    const char *best = NULL;
    int best_distance;

    if (length == 0 || length > NEAREST_MAX) {
        return NULL;
    }
    /* A distance of the whole length would have no letter in common: no advice is better. */
    best_distance = EO_MIN(1 + (int)length / 3, (int)length - 1) + 1;
    for (size_t i = 0; i < n; i++) {
        const char *name = name_at(ctx, i);
        size_t name_length = name == NULL ? 0 : strnlen(name, NEAREST_MAX + 1);
        int distance;

        if (name_length == 0 || name_length > NEAREST_MAX) {
            continue;
        }
        distance = edit_distance(word, (int)length, name, (int)name_length);
        if (distance < best_distance) {
            best = name;
            best_distance = distance;
        }
    }
    return best;
}

/* An unsigned decimal number with up to 9 digits of fraction, scaled later by a unit in integer arithmetic. */
struct decimal {
    uint64_t whole;
    uint64_t fraction;
    uint64_t fraction_unit; /* 10^digits */
};

static bool scan_decimal(const char **text, struct decimal *out)
{
    const char *p = *text;

    *out = (struct decimal){.fraction_unit = 1};
    if (*p < '0' || *p > '9') {
        return false;
    }
    for (; *p >= '0' && *p <= '9'; p++) {
        if (!eo_mul_u64(out->whole, 10, &out->whole) || !eo_add_u64(out->whole, (uint64_t)(*p - '0'), &out->whole)) {
            return false;
        }
    }
    if (*p == '.') {
        p++;
        if (*p < '0' || *p > '9') {
            return false;
        }
        for (; *p >= '0' && *p <= '9'; p++) {
            if (out->fraction_unit >= 1000000000u) {
                return false;
            }
            out->fraction_unit *= 10;
            out->fraction = out->fraction * 10 + (uint64_t)(*p - '0');
        }
    }
    *text = p;
    return true;
}

/* value * unit, rounded down; fraction < 10^9 and unit <= 2^40, so the product of both stays below 2^70: use 128 bits.
 */
static bool scale_decimal(const struct decimal *d, uint64_t unit, uint64_t *out)
{
    __extension__ unsigned __int128 part = (unsigned __int128)d->fraction * unit / d->fraction_unit;
    uint64_t whole;

    return eo_mul_u64(d->whole, unit, &whole) && eo_add_u64(whole, (uint64_t)part, out);
}

struct unit {
    const char *name;
    uint64_t factor;
};

static const struct unit *find_unit(const struct unit *units, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        if (strcasecmp(units[i].name, name) == 0) {
            return &units[i];
        }
    }
    return NULL;
}

bool eo_parse_size(const char *text, uint64_t *out_bytes)
{
    static const struct unit units[] = {
        {"", 1},
        {"B", 1},
        {"K", 1ull << 10},
        {"KiB", 1ull << 10},
        {"M", 1ull << 20},
        {"MiB", 1ull << 20},
        {"G", 1ull << 30},
        {"GiB", 1ull << 30},
        {"T", 1ull << 40},
        {"TiB", 1ull << 40},
        {"KB", 1000ull},
        {"MB", 1000000ull},
        {"GB", 1000000000ull},
        {"TB", 1000000000000ull},
    };
    const struct unit *unit;
    struct decimal number;

    if (!scan_decimal(&text, &number)) {
        return false;
    }
    if (text[0] == ' ' && text[1] != '\0') {
        text++;
    }
    unit = find_unit(units, EO_COUNT_OF(units), text);
    if (unit == NULL || (unit->factor == 1 && number.fraction != 0)) {
        return false;
    }
    return scale_decimal(&number, unit->factor, out_bytes);
}

bool eo_parse_duration(const char *text, uint64_t *out_ms)
{
    static const struct unit units[] = {
        {"", 1000}, {"s", 1000}, {"ms", 1}, {"m", 60000}, {"h", 3600000}, {"d", 86400000},
    };
    const struct unit *unit;
    struct decimal number;

    if (!scan_decimal(&text, &number)) {
        return false;
    }
    unit = find_unit(units, EO_COUNT_OF(units), text);
    return unit != NULL && scale_decimal(&number, unit->factor, out_ms);
}

bool eo_parse_i64(const char *text, int64_t *out)
{
    bool negative = text[0] == '-';
    const char *p = text[0] == '-' || text[0] == '+' ? text + 1 : text;
    int64_t value = 0;

    if (*p == '\0') {
        return false;
    }
    for (; *p != '\0'; p++) {
        int64_t digit = *p - '0';

        if (digit < 0 || digit > 9 || !eo_mul_i64(value, 10, &value)) {
            return false;
        }
        /* Built on the negative side, where INT64_MIN has its place. */
        if (negative ? !eo_sub_i64(value, digit, &value) : !eo_add_i64(value, digit, &value)) {
            return false;
        }
    }
    *out = value;
    return true;
}

bool eo_parse_f64(const char *text, double *out)
{
    const char *digits = text[0] == '-' || text[0] == '+' ? text + 1 : text;
    char *end = NULL;
    locale_t c_locale;
    double value;
    int saved_errno = errno;
    bool overflow;

    /* strtod also takes leading blanks and hexadecimal; neither is a number in a data file. */
    if (digits[0] == '\0' || digits[0] == ' ' || (digits[0] >= '\t' && digits[0] <= '\r') || digits[0] == '-' ||
        digits[0] == '+' || (digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X'))) {
        return false;
    }
    /* glibc answers a "C" request with its static object: no allocation. */
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (c_locale == (locale_t)0) {
        errno = saved_errno;
        return false;
    }
    errno = 0;
    value = strtod_l(text, &end, c_locale);
    overflow = errno == ERANGE && isinf(value);
    freelocale(c_locale);
    errno = saved_errno;
    if (end == text || *end != '\0' || overflow) {
        return false;
    }
    *out = value;
    return true;
}

char *eo_format_bytes(uint64_t bytes, char *out, size_t size)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    size_t unit = 0;

    /* 1023.95 would print as 1024.0, which belongs to the next unit. */
    while (value >= 1023.95 && unit + 1 < EO_COUNT_OF(units)) {
        value /= 1024;
        unit++;
    }
    if (unit == 0) {
        snprintf(out, size, "%d B", (int)bytes);
    } else {
        snprintf(out, size, "%.1f %s", value, units[unit]);
    }
    return out;
}

char *eo_format_duration(double seconds, char *out, size_t size)
{
    if (!(seconds >= 0) || seconds > 1e12) {
        snprintf(out, size, "-");
    } else if (seconds < 0.9995) {
        snprintf(out, size, "%.0fms", seconds * 1000);
    } else if (seconds < 59.95) {
        snprintf(out, size, "%.1fs", seconds);
    } else if (seconds < 3599.5) {
        long long whole = llround(seconds);

        snprintf(out, size, "%lldm%02llds", whole / 60, whole % 60);
    } else {
        long long minutes = llround(seconds / 60);

        snprintf(out, size, "%lldh%02lldm", minutes / 60, minutes % 60);
    }
    return out;
}

bool eo_copy_text(char *out, size_t size, const char *text)
{
    size_t length = strlen(text);
    bool fits = length < size;

    if (size == 0) {
        return false;
    }
    if (!fits) {
        length = size - 1;
    }
    memcpy(out, text, length);
    out[length] = '\0';
    return fits;
}

/* Table 3-7 of the Unicode standard: lead byte, then the range of the second byte, then plain continuations. */
size_t eo_utf8_length(const char *text, size_t length)
{
    const unsigned char *p = (const unsigned char *)text;
    unsigned char low = 0x80, high = 0xBF;
    size_t need;

    if (length == 0) {
        return 0;
    }
    if (p[0] < 0x80) {
        return 1;
    }
    if (p[0] >= 0xC2 && p[0] <= 0xDF) {
        need = 2;
    } else if (p[0] >= 0xE0 && p[0] <= 0xEF) {
        need = 3;
        low = p[0] == 0xE0 ? 0xA0 : 0x80;  /* overlong */
        high = p[0] == 0xED ? 0x9F : 0xBF; /* surrogates */
    } else if (p[0] >= 0xF0 && p[0] <= 0xF4) {
        need = 4;
        low = p[0] == 0xF0 ? 0x90 : 0x80;
        high = p[0] == 0xF4 ? 0x8F : 0xBF; /* above U+10FFFF */
    } else {
        return 0;
    }
    if (length < need || p[1] < low || p[1] > high) {
        return 0;
    }
    for (size_t i = 2; i < need; i++) {
        if (p[i] < 0x80 || p[i] > 0xBF) {
            return 0;
        }
    }
    return need;
}

bool eo_text_valid_utf8(const char *text, size_t length)
{
    while (length > 0) {
        size_t step = eo_utf8_length(text, length);

        if (step == 0) {
            return false;
        }
        text += step;
        length -= step;
    }
    return true;
}

/* Eight little-endian bytes at a time through multiply and xor-shift (the mixing steps of MurmurHash64A). */
uint64_t eo_hash64(const void *data, size_t size, uint64_t seed)
{
    const uint64_t multiplier = 0xc6a4a7935bd1e995u;
    const uint8_t *p = data;
    uint64_t hash = seed ^ ((uint64_t)size * multiplier);

    while (size > 0) {
        size_t n = EO_MIN(size, (size_t)8);
        uint64_t word = 0;

        for (size_t i = 0; i < n; i++) {
            word |= (uint64_t)p[i] << (8 * i);
        }
        word *= multiplier;
        word ^= word >> 47;
        word *= multiplier;
        hash = (hash ^ word) * multiplier;
        p += n;
        size -= n;
    }
    hash ^= hash >> 47;
    hash *= multiplier;
    hash ^= hash >> 47;
    return hash;
}
