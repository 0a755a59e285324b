#include "daemon/train/checkpoint_list.h"

#include "proto/base/file.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Names sort as numbers do: 12 digits hold 10^12 steps. */
void checkpoint_name(int64_t step, char out[CHECKPOINT_NAME])
{
    snprintf(out, CHECKPOINT_NAME, "step-%012" PRId64, step);
}

static bool is_name(const char *name)
{
    return strncmp(name, "step-", 5) == 0 && strlen(name) == 17 && strspn(name + 5, "0123456789") == 12;
}

static int newest_first(const void *a, const void *b)
{
    return -strcmp(a, b);
}

/* Calls use for every entry; it returns 0 to go on. */
static int each_entry(const char *folder, int (*use)(void *ctx, const char *name, struct eo_error *err), void *ctx,
                      struct eo_error *err)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    int status = EO_OK;

    if (dir == NULL) {
        return errno == ENOENT ? EO_OK : eo_raise_io(err, errno, "list", folder);
    }
    while (status == EO_OK && (errno = 0, entry = readdir(dir)) != NULL) {
        status = use(ctx, entry->d_name, err);
    }
    closedir(dir);
    return status;
}

static int add(void *ctx, const char *name, struct eo_error *err)
{
    struct checkpoint_list *l = ctx;
    char(*grown)[CHECKPOINT_NAME];

    if (!is_name(name)) {
        return EO_OK;
    }
    if ((l->n & (l->n - 1)) == 0) { /* full at powers of two */
        grown = realloc(l->names, sizeof(*l->names) * (size_t)EO_MAX(l->n * 2, 1));
        if (grown == NULL) {
            return EO_RAISE(err, EO_E_NO_MEMORY, "no memory to list checkpoints");
        }
        l->names = grown;
    }
    snprintf(l->names[l->n++], CHECKPOINT_NAME, "%s", name);
    return EO_OK;
}

int checkpoint_list(const char *folder, struct checkpoint_list *out, struct eo_error *err)
{
    int status;

    *out = (struct checkpoint_list){0};
    status = each_entry(folder, add, out, err);
    if (status != EO_OK) {
        checkpoint_list_fini(out);
        return status;
    }
    if (out->n > 0) {
        qsort(out->names, (size_t)out->n, sizeof(*out->names), newest_first);
    }
    return EO_OK;
}

void checkpoint_list_fini(struct checkpoint_list *l)
{
    free(l->names);
    *l = (struct checkpoint_list){0};
}

int checkpoint_remove(const char *folder, const char *name, struct eo_error *err)
{
    char from[PATH_MAX], to[PATH_MAX], hidden[CHECKPOINT_NAME + 8];

    snprintf(hidden, sizeof(hidden), ".old-%s", name);
    if (!eo_path_join(from, sizeof(from), folder, name) || !eo_path_join(to, sizeof(to), folder, hidden)) {
        return EO_RAISE(err, EO_E_IO, "the path of %s is too long", name);
    }
    if (rename(from, to) != 0) {
        return eo_raise_io(err, errno, "rename", from);
    }
    return eo_dir_remove(to, err);
}

static int remove_leftover(void *ctx, const char *name, struct eo_error *err)
{
    char path[PATH_MAX];

    if (strncmp(name, ".old-step-", 10) != 0 && strncmp(name, ".new-step-", 10) != 0) {
        return EO_OK;
    }
    return eo_path_join(path, sizeof(path), ctx, name) ? eo_dir_remove(path, err) : EO_OK;
}

int checkpoint_clean(const char *folder, struct eo_error *err)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s", folder);
    return each_entry(folder, remove_leftover, path, err);
}
