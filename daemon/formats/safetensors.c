#include "daemon/formats/safetensors.h"

#include "daemon/formats/json_doc.h"
#include "proto/base/checked.h"
#include "proto/base/file.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    /* a JSON value per name, dtype, shape, dimension, offset pair, offset: at most this many per tensor */
    VALUES_PER_TENSOR = 8 + EO_MAX_DIMS,
    ARENA_BYTES = 64 << 20
};
static const char metadata_key[] = "__metadata__";

static int bad(const struct safetensors *s, const char *name, struct eo_error *err, const char *what)
{
    char quoted[340];

    return EO_RAISE(err, EO_E_BAD_FILE, "%s: tensor %s %s", s->path,
                    eo_quote(name, strlen(name), quoted, sizeof(quoted)), what);
}

static int no_memory(const char *path, struct eo_error *err)
{
    return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for the header of %s", path);
}

/* ---- one tensor's entry ---- */

static int parse_shape(const struct safetensors *s, const char *name, const struct json_value *entry,
                       enum eo_dtype dtype, struct eo_tensor_desc *out, struct eo_error *err)
{
    const struct json_value *list = json_doc_get(entry, "shape");
    int64_t shape[EO_MAX_DIMS];
    size_t n = json_doc_count(list);
    int status;

    if (!json_doc_is_array(list)) {
        return bad(s, name, err, "has no list `shape`");
    }
    if (n > EO_MAX_DIMS) {
        return bad(s, name, err, "has more than 8 dimensions");
    }
    for (size_t i = 0; i < n; i++) {
        if (!json_doc_i64(json_doc_at(list, i), &shape[i]) || shape[i] < 0) {
            return bad(s, name, err, "has a dimension that is no whole number from 0");
        }
    }
    status = eo_tensor_desc_init(out, dtype, shape, (int)n, err);
    if (status != EO_OK) {
        eo_error_push(err, "reading the header of %s", s->path);
    }
    return status;
}

static int parse_offsets(const struct safetensors *s, const char *name, const struct json_value *entry,
                         uint64_t data_start, uint64_t data_bytes, struct safetensors_tensor *t, struct eo_error *err)
{
    const struct json_value *list = json_doc_get(entry, "data_offsets");
    int64_t begin, end;

    if (json_doc_count(list) != 2 || !json_doc_i64(json_doc_at(list, 0), &begin) ||
        !json_doc_i64(json_doc_at(list, 1), &end)) {
        return bad(s, name, err, "has no pair of whole numbers `data_offsets`");
    }
    if (begin < 0 || end < begin || (uint64_t)end > data_bytes) {
        return bad(s, name, err, "lies outside of the file");
    }
    if ((uint64_t)(end - begin) != eo_tensor_desc_bytes(&t->desc)) {
        return bad(s, name, err, "has offsets that do not fit its dtype and shape");
    }
    t->offset_bytes = data_start + (uint64_t)begin;
    return EO_OK;
}

static int parse_tensor(struct safetensors *s, const char *name, const struct json_value *entry, uint64_t data_start,
                        uint64_t data_bytes, struct eo_error *err)
{
    struct safetensors_tensor *t = &s->tensors[s->n_tensors];
    const char *dtype_text;
    enum eo_dtype dtype;
    int status;

    if (strlen(name) > SAFETENSORS_MAX_NAME) {
        return bad(s, name, err, "has a name of more than 255 bytes");
    }
    if (!json_doc_string(json_doc_get(entry, "dtype"), &dtype_text)) {
        return bad(s, name, err, "has no text `dtype`");
    }
    dtype = eo_dtype_by_safetensors(dtype_text);
    if (dtype == EO_DTYPE_NONE) {
        char quoted[340];

        bad(s, name, err, "has a dtype that is not supported");
        eo_error_detail(err, "The dtype is %s.", eo_quote(dtype_text, strlen(dtype_text), quoted, sizeof(quoted)));
        return EO_E_BAD_FILE;
    }
    status = parse_shape(s, name, entry, dtype, &t->desc, err);
    if (status == EO_OK) {
        status = parse_offsets(s, name, entry, data_start, data_bytes, t, err);
    }
    if (status != EO_OK) {
        return status;
    }
    t->name = eo_arena_strndup(&s->arena, name, strlen(name));
    if (t->name == NULL) {
        return no_memory(s->path, err);
    }
    s->n_tensors++;
    return EO_OK;
}

static int parse_metadata(struct safetensors *s, const struct json_value *map, struct eo_error *err)
{
    if (!json_doc_is_object(map)) {
        return EO_RAISE(err, EO_E_BAD_FILE, "%s: __metadata__ is no map of texts", s->path);
    }
    s->metadata = eo_arena_alloc_n(&s->arena, json_doc_count(map), sizeof(*s->metadata));
    for (void *it = json_doc_first(map); it != NULL; it = json_doc_next(map, it)) {
        struct safetensors_meta *m;
        const char *key = json_doc_key(it), *value;

        if (!json_doc_string(json_doc_value(it), &value)) {
            return EO_RAISE(err, EO_E_BAD_FILE, "%s: __metadata__ is no map of texts", s->path);
        }
        if (s->metadata == NULL) {
            return no_memory(s->path, err);
        }
        m = &s->metadata[s->n_metadata++];
        m->key = eo_arena_strndup(&s->arena, key, strlen(key));
        m->value = eo_arena_strndup(&s->arena, value, strlen(value));
        if (m->key == NULL || m->value == NULL) {
            return no_memory(s->path, err);
        }
    }
    return EO_OK;
}

/* ---- the whole header ---- */

static int by_offset(const void *a, const void *b)
{
    const struct safetensors_tensor *x = a, *y = b;

    if (x->offset_bytes != y->offset_bytes) {
        return x->offset_bytes < y->offset_bytes ? -1 : 1;
    }
    /* An empty tensor comes before the one that starts at the same byte. */
    if (eo_tensor_desc_bytes(&x->desc) != eo_tensor_desc_bytes(&y->desc)) {
        return eo_tensor_desc_bytes(&x->desc) < eo_tensor_desc_bytes(&y->desc) ? -1 : 1;
    }
    return strcmp(x->name, y->name);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct safetensors_tensor *)a)->name, ((const struct safetensors_tensor *)b)->name);
}

/* Every byte belongs to exactly one tensor: no overlap that could alias two of them, no gap that could hide data. */
static int check_coverage(struct safetensors *s, uint64_t data_start, uint64_t data_bytes, struct eo_error *err)
{
    uint64_t at = data_start;

    qsort(s->tensors, s->n_tensors, sizeof(*s->tensors), by_offset);
    for (uint32_t i = 0; i < s->n_tensors; i++) {
        const struct safetensors_tensor *t = &s->tensors[i];

        if (t->offset_bytes != at) {
            return bad(s, t->name, err, t->offset_bytes < at ? "overlaps another one" : "leaves a gap before it");
        }
        at += eo_tensor_desc_bytes(&t->desc);
    }
    if (at != data_start + data_bytes) {
        return EO_RAISE(err, EO_E_BAD_FILE, "%s: %" PRIu64 " bytes behind the last tensor", s->path,
                        data_start + data_bytes - at);
    }
    qsort(s->tensors, s->n_tensors, sizeof(*s->tensors), by_name);
    return EO_OK;
}

static int read_entries(struct safetensors *s, const struct json_value *root, uint64_t data_start, uint64_t data_bytes,
                        struct eo_error *err)
{
    if (!json_doc_is_object(root)) {
        return EO_RAISE(err, EO_E_BAD_FILE, "%s: the header is no JSON object", s->path);
    }
    if (json_doc_count(root) > SAFETENSORS_MAX_TENSORS) {
        return EO_RAISE(err, EO_E_TOO_LARGE, "%s: %zu tensors; at most %d are read", s->path, json_doc_count(root),
                        SAFETENSORS_MAX_TENSORS);
    }
    s->tensors = eo_arena_alloc_n(&s->arena, EO_MAX(json_doc_count(root), 1), sizeof(*s->tensors));
    if (s->tensors == NULL) {
        return no_memory(s->path, err);
    }
    for (void *it = json_doc_first(root); it != NULL; it = json_doc_next(root, it)) {
        const char *name = json_doc_key(it);
        int status = strcmp(name, metadata_key) == 0
                         ? parse_metadata(s, json_doc_value(it), err)
                         : parse_tensor(s, name, json_doc_value(it), data_start, data_bytes, err);

        if (status != EO_OK) {
            return status;
        }
    }
    return check_coverage(s, data_start, data_bytes, err);
}

static int header_size(const char *name, const void *data, size_t size, uint64_t file_bytes, uint64_t *out,
                       struct eo_error *err)
{
    uint64_t n;

    if (size < 8 || file_bytes < 8) {
        return EO_RAISE(err, EO_E_BAD_FILE, "%s is no safetensors file: %" PRIu64 " bytes", name, file_bytes);
    }
    memcpy(&n, data, 8);
    n = le64toh(n);
    if (n < 2 || n > file_bytes - 8) {
        return EO_RAISE(err, EO_E_BAD_FILE,
                        "%s is cut short or no safetensors file: its header claims %" PRIu64 " bytes of %" PRIu64, name,
                        n, file_bytes);
    }
    if (n > SAFETENSORS_MAX_HEADER) {
        return EO_RAISE(err, EO_E_TOO_LARGE, "%s: a header of %" PRIu64 " bytes; at most %d are read", name, n,
                        SAFETENSORS_MAX_HEADER);
    }
    *out = n;
    return EO_OK;
}

int safetensors_parse(const char *name, const void *data, size_t size, uint64_t file_bytes, struct safetensors *out,
                      struct eo_error *err)
{
    struct safetensors s = {.fd = -1};
    struct json_doc doc;
    uint64_t n;
    int status = header_size(name, data, size, file_bytes, &n, err);

    if (status != EO_OK) {
        return status;
    }
    if (size - 8 < n) {
        return EO_RAISE(err, EO_E_BAD_FILE, "%s: %zu bytes of a header of %" PRIu64, name, size - 8, n);
    }
    status =
        json_doc_parse(name, (const char *)data + 8, n, (size_t)SAFETENSORS_MAX_TENSORS * VALUES_PER_TENSOR, &doc, err);
    if (status != EO_OK) {
        return status;
    }
    s.path = strdup(name);
    eo_arena_init(&s.arena, ARENA_BYTES);
    status = s.path == NULL ? no_memory(name, err) : read_entries(&s, doc.root, 8 + n, file_bytes - 8 - n, err);
    json_doc_fini(&doc);
    if (status != EO_OK) {
        safetensors_close(&s);
        return status;
    }
    *out = s;
    return EO_OK;
}

/* ---- files ---- */

static int pread_all(int fd, void *out, uint64_t size, uint64_t offset, const char *path, struct eo_error *err)
{
    uint8_t *at = out;

    while (size > 0) {
        ssize_t n = pread(fd, at, EO_MIN(size, (uint64_t)1 << 30), (off_t)offset);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return eo_raise_io(err, errno, "read", path);
        }
        if (n == 0) {
            return EO_RAISE(err, EO_E_BAD_FILE, "%s is cut short: it ends at byte %" PRIu64, path, offset);
        }
        at += n;
        size -= (uint64_t)n;
        offset += (uint64_t)n;
    }
    return EO_OK;
}

static int open_header(int fd, const char *path, struct safetensors *out, struct eo_error *err)
{
    struct stat st;
    uint8_t prefix[8];
    uint8_t *header;
    uint64_t n;
    int status;

    if (fstat(fd, &st) != 0) {
        return eo_raise_io(err, errno, "stat", path);
    }
    if (!S_ISREG(st.st_mode)) {
        return EO_RAISE(err, EO_E_BAD_FILE, "%s is not a regular file", path);
    }
    if (st.st_size < 8) {
        return EO_RAISE(err, EO_E_BAD_FILE, "%s is no safetensors file: %" PRIi64 " bytes", path, (int64_t)st.st_size);
    }
    status = pread_all(fd, prefix, 8, 0, path, err);
    if (status == EO_OK) {
        status = header_size(path, prefix, 8, (uint64_t)st.st_size, &n, err);
    }
    if (status != EO_OK) {
        return status;
    }
    header = malloc(8 + n);
    if (header == NULL) {
        return no_memory(path, err);
    }
    status = pread_all(fd, header, 8 + n, 0, path, err);
    if (status == EO_OK) {
        status = safetensors_parse(path, header, 8 + n, (uint64_t)st.st_size, out, err);
    }
    free(header);
    return status;
}

int safetensors_open(const char *path, struct safetensors *out, struct eo_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    int status;

    if (fd < 0) {
        return eo_raise_io(err, errno, "open", path);
    }
    status = open_header(fd, path, out, err);
    if (status != EO_OK) {
        close(fd);
        return status;
    }
    out->fd = fd;
    return EO_OK;
}

void safetensors_close(struct safetensors *s)
{
    if (s->fd >= 0) {
        close(s->fd);
    }
    free(s->path);
    eo_arena_fini(&s->arena);
    *s = (struct safetensors){.fd = -1};
}

const struct safetensors_tensor *safetensors_find(const struct safetensors *s, const char *name)
{
    struct safetensors_tensor key = {.name = name};

    return s->n_tensors == 0 ? NULL : bsearch(&key, s->tensors, s->n_tensors, sizeof(key), by_name);
}

const char *safetensors_metadata(const struct safetensors *s, const char *key)
{
    for (uint32_t i = 0; i < s->n_metadata; i++) {
        if (strcmp(s->metadata[i].key, key) == 0) {
            return s->metadata[i].value;
        }
    }
    return NULL;
}

int safetensors_read(const struct safetensors *s, const struct safetensors_tensor *t, void *out, struct eo_error *err)
{
    if (s->fd < 0) {
        return EO_BUG(err, "%s was parsed from memory: there is nothing to read", s->path);
    }
    return pread_all(s->fd, out, eo_tensor_desc_bytes(&t->desc), t->offset_bytes, s->path, err);
}
