#include "daemon/server/chunk.h"

#include "daemon/server/server.h"
#include "proto/base/file.h"
#include "proto/base/text.h"
#include "proto/frame.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_SIZE = 1700 };

struct chunk_work {
    struct request *request;
    char path[PATH_SIZE];
    int fd; /* -1: to be opened */
    uint64_t offset, size, total;
    uint8_t *data;
    struct eo_error error;
};

static void free_work(struct chunk_work *w)
{
    if (w->fd >= 0) {
        close(w->fd);
    }
    free(w);
}

static uint64_t read_at(struct chunk_work *w)
{
    uint64_t done = 0;
    while (done < w->size) {
        ssize_t n = pread(w->fd, w->data + done, (size_t)(w->size - done), (off_t)(w->offset + done));
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            int errnum = errno;
            eo_raise_io(&w->error, errnum, "read", w->path);
        }
        if (n <= 0) {
            break;
        }
        done += (uint64_t)n;
    }
    return done;
}

static void chunk_work(void *ctx)
{
    struct chunk_work *w = ctx;
    struct stat st;
    if (w->fd < 0) {
        w->fd = open(w->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    }
    if (w->fd < 0 || fstat(w->fd, &st) != 0) {
        int errnum = errno;
        eo_raise_io(&w->error, errnum, "open", w->path);
    } else if (!S_ISREG(st.st_mode)) {
        EO_RAISE(&w->error, EO_E_NO_FILE, "this is no file");
    } else {
        w->total = (uint64_t)st.st_size;
        w->size = read_at(w);
    }
}

static void chunk_done(void *ctx)
{
    struct chunk_work *w = ctx;
    if (w->error.code != 0) {
        request_fail(w->request, &w->error);
        free(w->data);
    } else {
        const struct segment segment = {.data = w->data, .size = w->size, .release = segment_free_data, .ctx = w->data};
        struct eo_bytes *b = request_result(w->request);
        eo_pack_map(b, 1);
        eo_pack_kv_u64(b, "total", w->total);
        request_send_payload(w->request, &segment, 1);
    }
    request_unref(w->request);
    free_work(w);
}

static int start(struct chunk_work *w, struct request *r, const char *path, struct eo_error *err)
{
    int rc = eo_need_u64(r->params, "offset", INT64_MAX - EO_CHUNK_MAX, &w->offset, err);
    if (rc == EO_OK) {
        rc = eo_need_u64(r->params, "size", EO_CHUNK_MAX, &w->size, err);
    }
    if (rc != EO_OK) {
        return rc;
    }
    w->data = malloc((size_t)w->size + 1);
    if (w->data == NULL || !eo_copy_text(w->path, sizeof w->path, path)) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a chunk");
    }
    w->request = request_ref(r);
    rc = loop_work(r->server->loop, LOOP_FILES, chunk_work, chunk_done, w, err);
    if (rc != EO_OK) {
        request_unref(r);
    }
    return rc;
}

int chunk_answer(struct request *r, const char *path, int fd, struct eo_error *err)
{
    struct chunk_work *w = calloc(1, sizeof *w);
    if (w == NULL) {
        if (fd >= 0) {
            close(fd);
        }
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a chunk");
    }
    w->fd = fd;
    int rc = start(w, r, path, err);
    if (rc != EO_OK) {
        free(w->data);
        free_work(w);
    }
    return rc;
}
