#include "daemon/jobs/blobs_trim.h"

#include "daemon/jobs/blobs.h"
#include "proto/base/clock.h"
#include "proto/base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ABANDONED_MS = 24 * 3600 * 1000 };

struct entry {
    char name[BLOBS_NAME + 1];
    int64_t used_ms; /* wall clock */
    uint64_t bytes;
};

struct store {
    const char *state_dir;
    struct entry *entries;
    size_t n, room;
    uint64_t bytes;
};

static int64_t ms_of(const struct stat *st)
{
    return (int64_t)st->st_mtim.tv_sec * 1000 + st->st_mtim.tv_nsec / 1000000;
}

static int add_entry(struct store *s, const char *name, const struct stat *st, struct eo_error *err)
{
    if (s->n == s->room) {
        const size_t room = EO_MAX(2 * s->room, (size_t)256);
        struct entry *entries = realloc(s->entries, room * sizeof *entries);
        if (entries == NULL) {
            return EO_RAISE(err, EO_E_NO_MEMORY, "no memory to look through %zu blobs", s->n);
        }
        s->entries = entries;
        s->room = room;
    }
    struct entry *e = &s->entries[s->n++];
    memcpy(e->name, name, sizeof e->name);
    e->used_ms = ms_of(st);
    e->bytes = (uint64_t)st->st_size;
    s->bytes += e->bytes;
    return EO_OK;
}

/* fn for each regular file of a folder with a blob's name; a folder that is not there is empty. */
static int each_file(struct store *s, const char *dir,
                     int (*fn)(struct store *s, int dir_fd, const char *name, const struct stat *st,
                               struct eo_error *err),
                     struct eo_error *err)
{
    int rc = EO_OK;
    DIR *d = opendir(dir);
    if (d == NULL) {
        int errnum = errno;
        return errnum == ENOENT ? EO_OK : eo_raise_io(err, errnum, "open", dir);
    }
    for (struct dirent *e = readdir(d); e != NULL && rc == EO_OK; e = readdir(d)) {
        struct stat st;
        if (blobs_name_valid(e->d_name) && fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(st.st_mode)) {
            rc = fn(s, dirfd(d), e->d_name, &st, err);
        }
    }
    closedir(d);
    return rc;
}

static int on_blob(struct store *s, int dir_fd, const char *name, const struct stat *st, struct eo_error *err)
{
    EO_UNUSED(dir_fd);
    return add_entry(s, name, st, err);
}

static int on_part(struct store *s, int dir_fd, const char *name, const struct stat *st, struct eo_error *err)
{
    EO_UNUSED(s);
    EO_UNUSED(err);
    if (eo_wall_ms() - ms_of(st) > ABANDONED_MS) {
        unlinkat(dir_fd, name, 0);
    }
    return EO_OK;
}

static int look(struct store *s, struct eo_error *err)
{
    char dir[BLOBS_PATH];
    snprintf(dir, sizeof dir, "%s/blobs/part", s->state_dir);
    int rc = each_file(s, dir, on_part, err);
    for (int i = 0; i < 256 && rc == EO_OK; i++) {
        snprintf(dir, sizeof dir, "%s/blobs/%02x", s->state_dir, i);
        rc = each_file(s, dir, on_blob, err);
    }
    return rc;
}

static int by_use(const void *a, const void *b)
{
    const struct entry *x = a;
    const struct entry *y = b;
    return x->used_ms < y->used_ms ? -1 : x->used_ms > y->used_ms ? 1 : memcmp(x->name, y->name, BLOBS_NAME);
}

static int by_name(const void *a, const void *b)
{
    return memcmp(a, b, BLOBS_NAME);
}

static bool may_go(const struct entry *e, const struct blobs_trim *t, int64_t now_ms)
{
    const size_t n_pinned = t->pinned->size / BLOBS_NAME;
    return now_ms - e->used_ms >= (int64_t)t->keep_ms &&
           (n_pinned == 0 || bsearch(e->name, t->pinned->data, n_pinned, BLOBS_NAME, by_name) == NULL);
}

static void remove_oldest(struct store *s, const struct blobs_trim *t, struct blobs_trimmed *out)
{
    const int64_t now_ms = eo_wall_ms();
    if (t->pinned->size > 0) {
        qsort(t->pinned->data, t->pinned->size / BLOBS_NAME, BLOBS_NAME, by_name);
    }
    qsort(s->entries, s->n, sizeof *s->entries, by_use);
    for (size_t i = 0; i < s->n && s->bytes > t->limit_bytes; i++) {
        const struct entry *e = &s->entries[i];
        char path[BLOBS_PATH];
        if (may_go(e, t, now_ms) && blobs_path(s->state_dir, e->name, path) && unlink(path) == 0) {
            s->bytes -= e->bytes;
            out->n_removed++;
            out->removed_bytes += e->bytes;
        }
    }
}

int blobs_trim(const char *state_dir, const struct blobs_trim *t, struct blobs_trimmed *out, struct eo_error *err)
{
    struct store s = {.state_dir = state_dir};
    memset(out, 0, sizeof *out);
    int rc = look(&s, err);
    if (rc == EO_OK && s.bytes > t->limit_bytes) {
        remove_oldest(&s, t, out);
    }
    out->n_kept = s.n - out->n_removed;
    out->kept_bytes = s.bytes;
    free(s.entries);
    return rc;
}
