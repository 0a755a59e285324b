/* A file of the daemon, read in chunks and written here. */
#ifndef EO_CLIENT_CLI_REMOTE_FILE_H
#define EO_CLIENT_CLI_REMOTE_FILE_H

#include "client/lib/connection.h"

struct remote_file {
    const char *method;                               /* takes offset and size, answers with the bytes */
    void (*pack)(void *ctx, struct eo_bytes *params); /* the n_keys further parameters that name the file */
    size_t n_keys;
    void *ctx;
    const char *name; /* for the progress line and messages */
    uint64_t offset;  /* where it begins in what the method reads */
    uint64_t size;
    const char *sha256; /* what must arrive; NULL = not known */
};

/* Writes PATH.part, which gets its name when all has arrived. Errors: CANNOT_CREATE, BAD_FILE (another SHA-256), those
 * of the connection and of eo_write_all; nothing is left behind then. */
int remote_file_fetch(struct eo_connection *c, const struct remote_file *f, const char *path, struct eo_error *err);

#endif
