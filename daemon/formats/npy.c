#include "daemon/formats/npy.h"

#include "proto/base/file.h"
#include "proto/base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PREFIX_SIZE = 8, HEADER_MAX = 64 << 10, HEADER_ALIGN = 64, CHUNK_ELEMENTS = 16 << 10 };

static const uint8_t magic[6] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

/* ---- the header: a Python literal ---- */

struct header {
    const char *name; /* of the file */
    const char *at, *end;
    enum eo_dtype dtype;
    bool big_endian, fortran;
    int64_t shape[EO_MAX_DIMS];
    int n_dims;
    bool has_descr, has_order, has_shape;
};

static int bad_header(const struct header *h, const char *what, struct eo_error *err)
{
    EO_RAISE(err, EO_E_BAD_FILE, "%s: the npy header has %s", h->name, what);
    eo_error_hint(err, "numpy.save writes such files: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}.");
    return EO_E_BAD_FILE;
}

static void skip_space(struct header *h)
{
    while (h->at < h->end && strchr(" \t\r\n", *h->at) != NULL && *h->at != '\0') {
        h->at++;
    }
}

static bool take(struct header *h, char c)
{
    skip_space(h);
    if (h->at < h->end && *h->at == c) {
        h->at++;
        return true;
    }
    return false;
}

static bool take_word(struct header *h, const char *word)
{
    size_t n = strlen(word);

    skip_space(h);
    if ((size_t)(h->end - h->at) >= n && memcmp(h->at, word, n) == 0) {
        h->at += n;
        return true;
    }
    return false;
}

/* A quoted text without escapes, which no key or descr needs. */
static bool take_text(struct header *h, char *out, size_t size)
{
    char quote = '\0';
    size_t n = 0;

    skip_space(h);
    if (h->at < h->end && (*h->at == '\'' || *h->at == '"')) {
        quote = *h->at++;
    }
    while (quote != '\0' && h->at < h->end && *h->at != quote && *h->at != '\\' && n + 1 < size) {
        out[n++] = *h->at++;
    }
    out[n] = '\0';
    return quote != '\0' && take(h, quote);
}

static enum eo_dtype dtype_of(const char *descr)
{
    for (int d = EO_DTYPE_NONE + 1; d < EO_DTYPE_LIMIT; d++) {
        if (strcmp(eo_dtype_npy((enum eo_dtype)d) + 1, descr + 1) == 0) {
            return (enum eo_dtype)d;
        }
    }
    return EO_DTYPE_NONE;
}

/* Byte order, kind, size: "<f4". '|' says that order does not matter, '=' is the writer's, which cannot be known here
 * and which NumPy does not write. */
static int take_descr(struct header *h, struct eo_error *err)
{
    char descr[16], quoted[32];

    if (!take_text(h, descr, sizeof(descr))) {
        bad_header(h, "a descr that is no simple dtype", err);
        eo_error_hint(err, "Arrays of fields, texts or objects are no tensors.");
        return EO_E_BAD_FILE;
    }
    h->dtype = descr[0] != '\0' && strchr("<>|", descr[0]) != NULL ? dtype_of(descr) : EO_DTYPE_NONE;
    h->big_endian = descr[0] == '>';
    h->has_descr = true;
    if (h->dtype == EO_DTYPE_NONE || (descr[0] == '|' && eo_dtype_size(h->dtype) > 1 && h->dtype != EO_BFLOAT16)) {
        char set[256];

        EO_RAISE(err, EO_E_BAD_FILE, "%s holds elements of dtype %s", h->name,
                 eo_quote(descr, strlen(descr), quoted, sizeof(quoted)));
        eo_error_hint(err, "Tensors are %s.",
                      eo_dtype_set_text((EO_DTYPE_BIT(EO_DTYPE_LIMIT) - 1) & ~EO_DTYPE_BIT(0), set, sizeof(set)));
        return EO_E_BAD_FILE;
    }
    return EO_OK;
}

static int take_order(struct header *h, struct eo_error *err)
{
    h->has_order = true;
    h->fortran = take_word(h, "True");
    return h->fortran || take_word(h, "False") ? EO_OK : bad_header(h, "a fortran_order that is no bool", err);
}

/* One dimension; Python 2 wrote a long as 3L. */
static bool take_dim(struct header *h, int64_t *out)
{
    char digits[24];
    size_t n = 0;

    skip_space(h);
    while (h->at < h->end && *h->at >= '0' && *h->at <= '9' && n + 1 < sizeof(digits)) {
        digits[n++] = *h->at++;
    }
    digits[n] = '\0';
    if (h->at < h->end && *h->at == 'L') {
        h->at++;
    }
    return n > 0 && eo_parse_i64(digits, out);
}

static int take_shape(struct header *h, struct eo_error *err)
{
    bool more = true;

    h->has_shape = true;
    if (!take(h, '(')) {
        return bad_header(h, "a shape that is no tuple", err);
    }
    while (!take(h, ')')) {
        if (h->n_dims == EO_MAX_DIMS) {
            return EO_RAISE(err, EO_E_TOO_LARGE, "%s has more than %d dimensions", h->name, EO_MAX_DIMS);
        }
        if (!more || !take_dim(h, &h->shape[h->n_dims++])) {
            return bad_header(h, "a shape that is no tuple of sizes", err);
        }
        more = take(h, ',');
    }
    return h->n_dims == 1 && !more ? bad_header(h, "a shape that is a number, not a tuple", err) : EO_OK;
}

static int take_pair(struct header *h, struct eo_error *err)
{
    char key[24];

    if (!take_text(h, key, sizeof(key)) || !take(h, ':')) {
        return bad_header(h, "something else than 'key': value", err);
    }
    if (strcmp(key, "descr") == 0 && !h->has_descr) {
        return take_descr(h, err);
    }
    if (strcmp(key, "fortran_order") == 0 && !h->has_order) {
        return take_order(h, err);
    }
    if (strcmp(key, "shape") == 0 && !h->has_shape) {
        return take_shape(h, err);
    }
    return bad_header(h, "a key that is unknown or repeated", err);
}

static int parse_header(struct header *h, struct eo_error *err)
{
    bool more = true;

    if (!take(h, '{')) {
        return bad_header(h, "no dict", err);
    }
    while (!take(h, '}')) {
        int status = more ? take_pair(h, err) : bad_header(h, "a comma missing", err);

        if (status != EO_OK) {
            return status;
        }
        more = take(h, ',');
    }
    skip_space(h);
    if (h->at != h->end) {
        return bad_header(h, "something behind its dict", err);
    }
    return h->has_descr && h->has_order && h->has_shape ? EO_OK
                                                        : bad_header(h, "not all of descr, fortran_order, shape", err);
}

/* ---- reading ---- */

static int read_length(struct stream *s, size_t *out, struct eo_error *err)
{
    uint8_t prefix[PREFIX_SIZE], length[4] = {0};
    int status = elements_read_exactly(s, prefix, sizeof(prefix), "header", err);

    if (status != EO_OK) {
        return status;
    }
    if (memcmp(prefix, magic, sizeof(magic)) != 0) {
        EO_RAISE(err, EO_E_BAD_FILE, "%s is no npy file: it starts with bytes %02x %02x %02x %02x", stream_name(s),
                 prefix[0], prefix[1], prefix[2], prefix[3]);
        eo_error_hint(err, "npy starts with 93 4e 55 4d 50 59; numpy.save writes it.");
        return EO_E_BAD_FILE;
    }
    if (prefix[6] < 1 || prefix[6] > 3 || prefix[7] != 0) {
        EO_RAISE(err, EO_E_BAD_FILE, "%s is npy of version %d.%d, known are 1.0 to 3.0", stream_name(s), prefix[6],
                 prefix[7]);
        return EO_E_BAD_FILE;
    }
    status = elements_read_exactly(s, length, prefix[6] == 1 ? 2 : 4, "header", err);
    *out = (size_t)length[0] | (size_t)length[1] << 8 | (size_t)length[2] << 16 | (size_t)length[3] << 24;
    if (status == EO_OK && *out > HEADER_MAX) {
        return EO_RAISE(err, EO_E_TOO_LARGE, "%s: an npy header of %zu bytes, at most %d are read", stream_name(s),
                        *out, HEADER_MAX);
    }
    return status;
}

static int read_header(struct stream *s, struct header *h, struct eo_tensor_desc *out, struct eo_error *err)
{
    size_t size = 0;
    int status = read_length(s, &size, err);

    if (status != EO_OK) {
        return status;
    }
    char *text = malloc(size + 1);
    if (text == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for the header of %s", stream_name(s));
    }
    status = elements_read_exactly(s, text, size, "header", err);
    if (status == EO_OK) {
        h->name = stream_name(s);
        h->at = text;
        h->end = text + size;
        status = parse_header(h, err);
    }
    free(text);
    if (status == EO_OK) {
        status = eo_tensor_desc_init(out, h->dtype, h->shape, h->n_dims, err);
        if (status != EO_OK) {
            eo_error_push(err, "reading %s", stream_name(s));
        }
    }
    return status;
}

static int turn(struct host_tensor *t, struct eo_error *err)
{
    struct host_tensor turned;
    int status = host_tensor_init(&t->desc, &turned, err);

    if (status == EO_OK) {
        elements_from_columns(&t->desc, t->data, turned.data);
        host_tensor_fini(t);
        *t = turned;
    }
    return status;
}

/* A bool is one byte, 0 or 1: anything else has no meaning, and kernels rely on it. */
static int check_bools(const struct host_tensor *t, const char *name, struct eo_error *err)
{
    const int64_t count = t->desc.dtype == EO_BOOL ? eo_tensor_desc_count(&t->desc) : 0;

    for (int64_t i = 0; i < count; i++) {
        uint8_t byte = ((const uint8_t *)t->data)[i];

        if (byte > 1) {
            return EO_RAISE(err, EO_E_BAD_FILE, "%s: element %lld is the byte %d, a bool is 0 or 1", name, (long long)i,
                            byte);
        }
    }
    return EO_OK;
}

int npy_read_stream(struct stream *s, uint64_t limit_bytes, struct host_tensor *out, struct eo_error *err)
{
    struct header h = {0};
    struct eo_tensor_desc desc;
    struct host_tensor t;
    int status = read_header(s, &h, &desc, err);

    if (status == EO_OK) {
        status = elements_read(s, &desc, limit_bytes, &t, err);
    }
    if (status != EO_OK) {
        return status;
    }
    elements_to_host(&t, h.big_endian);
    status = check_bools(&t, stream_name(s), err);
    if (status == EO_OK && h.fortran && desc.n_dims > 1) {
        status = turn(&t, err);
    }
    if (status != EO_OK) {
        host_tensor_fini(&t);
        return status;
    }
    *out = t;
    return EO_OK;
}

int npy_read(const char *path, uint64_t limit_bytes, struct host_tensor *out, struct eo_error *err)
{
    struct stream *s;
    int status = stream_open(path, &s, err);

    if (status == EO_OK) {
        status = npy_read_stream(s, limit_bytes, out, err);
        stream_close(s);
    }
    return status;
}

/* ---- writing ---- */

enum eo_dtype npy_written_dtype(enum eo_dtype dtype)
{
    return dtype == EO_BFLOAT16 ? EO_FLOAT32 : dtype;
}

/* Prefix, length and header, filled with spaces to a multiple of 64 and ended by a newline, so that the elements lie
 * aligned in the file. Returns its size. */
static size_t pack_header(const struct eo_tensor_desc *desc, char *out, size_t size)
{
    const char *descr = eo_dtype_npy(npy_written_dtype((enum eo_dtype)desc->dtype));
    const char order = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ && descr[0] == '<' ? '>' : descr[0];
    const size_t start = PREFIX_SIZE + 2;
    size_t at = start + (size_t)snprintf(out + start, size - start,
                                         "{'descr': '%c%s', 'fortran_order': False, 'shape': (", order, descr + 1);

    for (int i = 0; i < desc->n_dims; i++) {
        at += (size_t)snprintf(out + at, size - at, "%s%lld%s", i > 0 ? " " : "", (long long)desc->shape[i],
                               i + 1 < desc->n_dims || desc->n_dims == 1 ? "," : "");
    }
    at += (size_t)snprintf(out + at, size - at, "), }");
    const size_t whole = (at + HEADER_ALIGN) / HEADER_ALIGN * HEADER_ALIGN; /* at least one byte for the newline */
    memset(out + at, ' ', whole - at);
    out[whole - 1] = '\n';
    memcpy(out, magic, sizeof(magic));
    out[6] = 1;
    out[7] = 0;
    out[8] = (char)((whole - start) & 0xff);
    out[9] = (char)((whole - start) >> 8);
    return whole;
}

enum { WRITTEN_HEADER_MAX = 384 }; /* eight dimensions of 19 digits and the rest */

uint64_t npy_written_bytes(const struct eo_tensor_desc *desc)
{
    char header[WRITTEN_HEADER_MAX];

    return pack_header(desc, header, sizeof(header)) +
           (uint64_t)eo_tensor_desc_count(desc) * eo_dtype_size(npy_written_dtype((enum eo_dtype)desc->dtype));
}

static int write_widened(int fd, const char *path, const uint16_t *data, int64_t count, struct eo_error *err)
{
    float *chunk = malloc(CHUNK_ELEMENTS * sizeof(*chunk));
    int status = chunk != NULL ? EO_OK : EO_RAISE(err, EO_E_NO_MEMORY, "no memory to write %s", path);

    for (int64_t i = 0; i < count && status == EO_OK; i += CHUNK_ELEMENTS) {
        const int64_t n = EO_MIN(count - i, (int64_t)CHUNK_ELEMENTS);

        for (int64_t k = 0; k < n; k++) {
            chunk[k] = eo_bfloat_to_float(data[i + k]);
        }
        status = eo_write_all(fd, chunk, (size_t)n * sizeof(*chunk), path, err);
    }
    free(chunk);
    return status;
}

int npy_write(int fd, const char *path, const struct host_tensor *t, struct eo_error *err)
{
    char header[WRITTEN_HEADER_MAX];
    const size_t size = pack_header(&t->desc, header, sizeof(header));
    int status = eo_write_all(fd, header, size, path, err);

    if (status != EO_OK) {
        return status;
    }
    if (t->desc.dtype == EO_BFLOAT16) {
        return write_widened(fd, path, t->data, eo_tensor_desc_count(&t->desc), err);
    }
    return eo_write_all(fd, t->data, (size_t)eo_tensor_desc_bytes(&t->desc), path, err);
}
