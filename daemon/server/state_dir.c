#include "daemon/server/state_dir.h"

#include "daemon/server/session.h"
#include "proto/base/file.h"
#include "proto/base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* What was raised below becomes STATE_DIR, with its causes. */
static int as_state_dir(const struct eo_error *why, const char *dir, struct eo_error *err)
{
    EO_RAISE(err, EO_E_STATE_DIR, "the state directory %s cannot be used: %s", dir, why->message);
    for (int i = 0; i < why->n_causes; i++) {
        eo_error_cause(err, why->causes[i].source, why->causes[i].code, why->causes[i].text);
    }
    eo_error_hint(err, "It must be a directory that this user may write; name another with --state-dir.");
    return EO_E_STATE_DIR;
}

static bool default_dir(char *out, size_t size)
{
    const char *systemd = getenv("STATE_DIRECTORY"); /* may list several, separated by ':' */
    const char *xdg = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    int n = -1;
    if (systemd && systemd[0] == '/') {
        n = snprintf(out, size, "%.*s", (int)strcspn(systemd, ":"), systemd);
    } else if (xdg && xdg[0] == '/') {
        n = snprintf(out, size, "%s/everyo", xdg);
    } else if (home && home[0] == '/') {
        n = snprintf(out, size, "%s/.local/state/everyo", home);
    }
    return n > 0 && (size_t)n < size;
}

int state_dir_open(const char *given, char *out, size_t size, struct eo_error *err)
{
    char dir[1024];
    struct eo_error why = {0};
    if (given[0]) {
        eo_copy_text(dir, sizeof(dir), given);
    } else if (!default_dir(dir, sizeof(dir))) {
        EO_RAISE(err, EO_E_STATE_DIR, "no state directory: neither STATE_DIRECTORY, XDG_STATE_HOME nor HOME is set");
        eo_error_hint(err, "Name one with --state-dir.");
        return EO_E_STATE_DIR;
    }
    if (eo_dir_ensure(dir, 0700, &why) != EO_OK) {
        return as_state_dir(&why, dir, err);
    }
    char *real = realpath(dir, NULL);
    bool fits = real && eo_copy_text(out, size, real);
    int errnum = errno;
    free(real);
    if (!fits) {
        return EO_RAISE_ERRNO(err, EO_E_STATE_DIR, real ? ENAMETOOLONG : errnum,
                              "the state directory %s cannot be used", dir);
    }
    return EO_OK;
}

static int locked_by_other(const char *dir, int fd, struct eo_error *err)
{
    char text[32] = "";
    ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    int64_t pid = 0;
    text[strcspn(text, "\n")] = '\0';
    if (eo_parse_i64(text, &pid)) {
        EO_RAISE(err, EO_E_STATE_DIR, "the state directory %s is in use by another everyod (process %lld)", dir,
                 (long long)pid);
    } else {
        EO_RAISE(err, EO_E_STATE_DIR, "the state directory %s is in use by another everyod", dir);
    }
    eo_error_hint(err, "Each daemon needs its own: name another with --state-dir.");
    close(fd);
    return EO_E_STATE_DIR;
}

int state_dir_lock(const char *dir, int *out_fd, struct eo_error *err)
{
    char path[1100], text[32];
    struct eo_error why = {0};
    if (!eo_path_join(path, sizeof(path), dir, "lock")) {
        return EO_RAISE(err, EO_E_STATE_DIR, "the path of the state directory %s is too long", dir);
    }
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        int errnum = errno;
        eo_raise_io(&why, errnum, "create", path);
        return as_state_dir(&why, dir, err);
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        int errnum = errno;
        if (errnum == EWOULDBLOCK) {
            return locked_by_other(dir, fd, err);
        }
        close(fd);
        eo_raise_io(&why, errnum, "lock", path);
        return as_state_dir(&why, dir, err);
    }
    int n = snprintf(text, sizeof(text), "%d\n", (int)getpid());
    if (ftruncate(fd, 0) != 0 || pwrite(fd, text, (size_t)n, 0) != n) {
        int errnum = errno;
        close(fd);
        eo_raise_io(&why, errnum, "write", path);
        return as_state_dir(&why, dir, err);
    }
    *out_fd = fd;
    return EO_OK;
}

int state_dir_node(const char *dir, char *out, struct eo_error *err)
{
    char path[1100];
    struct eo_bytes text;
    struct eo_error why = {0};
    if (!eo_path_join(path, sizeof(path), dir, "node")) {
        return EO_RAISE(err, EO_E_STATE_DIR, "the path of the state directory %s is too long", dir);
    }
    int code = eo_file_read(path, 64, &text, &why);
    if (code == EO_OK) {
        bool good = text.size >= 32 && strspn(eo_bytes_text(&text), "0123456789abcdef") == 32;
        if (good) {
            snprintf(out, SERVER_NODE_SIZE, "%.32s", eo_bytes_text(&text));
        }
        eo_bytes_fini(&text);
        if (good) {
            return EO_OK;
        }
        EO_RAISE(err, EO_E_STATE_DIR, "%s does not hold a node identity", path);
        eo_error_hint(err, "Remove the file and a new identity is made; peers will see another host.");
        return EO_E_STATE_DIR;
    }
    if (code != EO_E_NO_FILE) {
        return as_state_dir(&why, dir, err);
    }
    code = random_hex(out, (SERVER_NODE_SIZE - 1) / 2, err);
    if (code != EO_OK) {
        return code;
    }
    char line[SERVER_NODE_SIZE + 1];
    int n = snprintf(line, sizeof(line), "%s\n", out);
    if (eo_file_write_atomic(path, line, (size_t)n, 0600, &why) != EO_OK) {
        return as_state_dir(&why, dir, err);
    }
    return EO_OK;
}
