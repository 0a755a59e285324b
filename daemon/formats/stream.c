#include "daemon/formats/stream.h"

#include "daemon/formats/gunzip.h"
#include "proto/base/checked.h"
#include "proto/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STREAM_CHUNK = 64 << 10 };

/* Raw bytes come from fd (through chunk) or from memory; `at`, `left` are what is read but not yet used. */
struct stream {
    char *name;
    int fd; /* -1: memory */
    uint64_t raw_size;
    const uint8_t *at;
    size_t left;
    bool raw_end;          /* nothing more behind at/left */
    struct gunzip *gunzip; /* NULL: plain */
    bool unpacked_end;
    uint8_t chunk[STREAM_CHUNK];
};

static int fill(struct stream *s, struct eo_error *err)
{
    ssize_t n;

    if (s->fd < 0) {
        s->raw_end = true;
        return EO_OK;
    }
    do {
        n = read(s->fd, s->chunk, sizeof(s->chunk));
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        return eo_raise_io(err, errno, "read", s->name);
    }
    s->at = s->chunk;
    s->left = (size_t)n;
    s->raw_end = n == 0;
    return EO_OK;
}

static struct stream *new_stream(const char *name)
{
    struct stream *s = malloc(sizeof(*s));

    if (s == NULL) {
        return NULL;
    }
    memset(s, 0, offsetof(struct stream, chunk));
    s->fd = -1;
    s->name = strdup(name);
    if (s->name == NULL) {
        free(s);
        return NULL;
    }
    return s;
}

/* Looks at the first bytes: gzip's magic cannot start IDX (two zero bytes) nor a CSV of text. */
static int detect(struct stream *s, struct eo_error *err)
{
    if (s->fd >= 0) {
        int status = fill(s, err);

        if (status != EO_OK) {
            return status;
        }
    }
    if (s->left >= 2 && s->at[0] == 0x1f && s->at[1] == 0x8b) {
        return gunzip_new(s->name, &s->gunzip, err);
    }
    return EO_OK;
}

static int open_regular(const char *path, int *out_fd, uint64_t *out_size, struct eo_error *err)
{
    struct stat st;
    /* Non-blocking, so that a FIFO under this name cannot hold us up before fstat tells. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

    if (fd < 0) {
        return eo_raise_io(err, errno, "open", path);
    }
    if (fstat(fd, &st) != 0) {
        int saved = errno;

        close(fd);
        return eo_raise_io(err, saved, "stat", path);
    }
    if (!S_ISREG(st.st_mode)) {
        close(fd);
        return EO_RAISE(err, EO_E_BAD_FILE, "%s is not a regular file", path);
    }
    *out_fd = fd;
    *out_size = (uint64_t)st.st_size;
    return EO_OK;
}

int stream_open_as(const char *path, const char *name, struct stream **out, struct eo_error *err)
{
    struct stream *s;
    uint64_t size = 0;
    int fd = -1;
    int status = open_regular(path, &fd, &size, err);

    if (status != EO_OK) {
        return status;
    }
    s = new_stream(name);
    if (s == NULL) {
        close(fd);
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory to read %s", name);
    }
    s->fd = fd;
    s->raw_size = size;
    status = detect(s, err);
    if (status != EO_OK) {
        stream_close(s);
        return status;
    }
    *out = s;
    return EO_OK;
}

int stream_open(const char *path, struct stream **out, struct eo_error *err)
{
    return stream_open_as(path, path, out, err);
}

int stream_open_memory(const char *name, const void *data, size_t size, struct stream **out, struct eo_error *err)
{
    struct stream *s = new_stream(name);
    int status;

    if (s == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory to read %s", name);
    }
    s->at = data;
    s->left = size;
    s->raw_size = size;
    status = detect(s, err);
    if (status != EO_OK) {
        stream_close(s);
        return status;
    }
    *out = s;
    return EO_OK;
}

void stream_close(struct stream *s)
{
    if (s == NULL) {
        return;
    }
    gunzip_free(s->gunzip);
    if (s->fd >= 0) {
        close(s->fd);
    }
    free(s->name);
    free(s);
}

const char *stream_name(const struct stream *s)
{
    return s->name;
}

static int read_plain(struct stream *s, uint8_t *out, size_t size, size_t *out_n, struct eo_error *err)
{
    while (*out_n < size && !s->raw_end) {
        size_t n = EO_MIN(size - *out_n, s->left);

        if (n > 0) {
            memcpy(out + *out_n, s->at, n);
            s->at += n;
            s->left -= n;
            *out_n += n;
        } else {
            int status = fill(s, err);

            if (status != EO_OK) {
                return status;
            }
        }
    }
    return EO_OK;
}

static int read_gzip(struct stream *s, uint8_t *out, size_t size, size_t *out_n, struct eo_error *err)
{
    while (*out_n < size) {
        size_t n;
        int status;

        if (s->left == 0 && !s->raw_end) {
            status = fill(s, err);
            if (status != EO_OK) {
                return status;
            }
        }
        status = gunzip_run(s->gunzip, &s->at, &s->left, out + *out_n, size - *out_n, &n, &s->unpacked_end, err);
        if (status != EO_OK) {
            return status;
        }
        *out_n += n;
        if (s->raw_end && n == 0) {
            if (s->unpacked_end) {
                return EO_OK;
            }
            return EO_RAISE(err, EO_E_BAD_FILE, "%s is cut short: its gzip data end in the middle", s->name);
        }
    }
    return EO_OK;
}

int stream_read(struct stream *s, void *out, size_t size, size_t *out_n, struct eo_error *err)
{
    *out_n = 0;
    return s->gunzip == NULL ? read_plain(s, out, size, out_n, err) : read_gzip(s, out, size, out_n, err);
}

uint64_t stream_bound_bytes(const struct stream *s)
{
    uint64_t bound = s->raw_size;

    if (s->gunzip != NULL && !eo_mul_u64(s->raw_size, GUNZIP_MAX_RATIO, &bound)) {
        bound = UINT64_MAX;
    }
    return bound;
}
