/* manifest.json: which files belong together, with their sizes and SHA-256. */
#ifndef EO_DAEMON_TRAIN_MANIFEST_H
#define EO_DAEMON_TRAIN_MANIFEST_H

#include "proto/base/error.h"
#include "proto/base/json.h"

enum { MANIFEST_MAX_FILES = 8, MANIFEST_VERSION = 1 };

struct manifest_file {
    char name[40];
    uint64_t bytes;
    char sha256[65];
};
struct manifest {
    char format[32]; /* "everyo-checkpoint", "everyo-model" */
    bool finite;     /* all numbers are */
    int n_files;
    struct manifest_file files[MANIFEST_MAX_FILES];
};

/* Opens the object with format and version; the caller adds its own keys, then manifest_end writes the files. */
void manifest_begin(struct eo_json *j, const struct manifest *m);
void manifest_end(struct eo_json *j, const struct manifest *m);
/* Reads FOLDER/manifest.json. Errors: BAD_CHECKPOINT (not a manifest, or another format or version), NO_FILE, IO. */
int manifest_read(const char *folder, const char *format, struct manifest *out, struct eo_error *err);
/* Sizes and hashes of all files. Errors: BAD_CHECKPOINT naming the file, NO_FILE, IO. */
int manifest_verify(const char *folder, const struct manifest *m, struct eo_error *err);

#endif
