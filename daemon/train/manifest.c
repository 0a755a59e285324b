#include "daemon/train/manifest.h"

#include "daemon/formats/json_doc.h"
#include "proto/base/file.h"
#include "proto/base/text.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>

enum { MANIFEST_MAX_BYTES = 16 << 20, MANIFEST_MAX_VALUES = 1 << 18 };

void manifest_begin(struct eo_json *j, const struct manifest *m)
{
    eo_json_begin_object(j);
    eo_json_kv_string(j, "format", m->format);
    eo_json_kv_i64(j, "version", MANIFEST_VERSION);
    eo_json_kv_bool(j, "finite", m->finite);
}

void manifest_end(struct eo_json *j, const struct manifest *m)
{
    eo_json_key(j, "files");
    eo_json_begin_array(j);
    for (int i = 0; i < m->n_files; i++) {
        eo_json_begin_object(j);
        eo_json_kv_string(j, "name", m->files[i].name);
        eo_json_kv_u64(j, "bytes", m->files[i].bytes);
        eo_json_kv_string(j, "sha256", m->files[i].sha256);
        eo_json_end_object(j);
    }
    eo_json_end_array(j);
    eo_json_end_object(j);
}

static int damaged(const char *path, struct eo_error *err, const char *what)
{
    return EO_RAISE(err, EO_E_BAD_CHECKPOINT, "%s %s", path, what);
}

/* Names are plain: nothing in a manifest leads out of its folder. */
static bool read_file(const struct json_value *v, struct manifest_file *out)
{
    const char *name, *sha256;
    int64_t bytes;

    if (!json_doc_string(json_doc_get(v, "name"), &name) || !json_doc_i64(json_doc_get(v, "bytes"), &bytes) ||
        !json_doc_string(json_doc_get(v, "sha256"), &sha256)) {
        return false;
    }
    out->bytes = (uint64_t)bytes;
    return bytes >= 0 && name[0] != '\0' && name[0] != '.' && strchr(name, '/') == NULL &&
           eo_copy_text(out->name, sizeof(out->name), name) && strlen(sha256) == 64 &&
           eo_copy_text(out->sha256, sizeof(out->sha256), sha256);
}

static int read_document(const char *path, const struct json_value *root, const char *format, struct manifest *out,
                         struct eo_error *err)
{
    const struct json_value *files = json_doc_get(root, "files");
    const char *text;
    int64_t version;

    if (!json_doc_string(json_doc_get(root, "format"), &text) || strcmp(text, format) != 0) {
        EO_RAISE(err, EO_E_BAD_CHECKPOINT, "%s does not describe an %s", path, format);
        return EO_E_BAD_CHECKPOINT;
    }
    if (!json_doc_i64(json_doc_get(root, "version"), &version) || version != MANIFEST_VERSION) {
        return damaged(path, err, "was written by another version");
    }
    *out = (struct manifest){0};
    eo_copy_text(out->format, sizeof(out->format), format);
    if (!json_doc_bool(json_doc_get(root, "finite"), &out->finite) || !json_doc_is_array(files) ||
        json_doc_count(files) > MANIFEST_MAX_FILES) {
        return damaged(path, err, "is incomplete");
    }
    for (size_t i = 0; i < json_doc_count(files); i++) {
        if (!read_file(json_doc_at(files, i), &out->files[out->n_files++])) {
            return damaged(path, err, "is incomplete");
        }
    }
    return EO_OK;
}

int manifest_read(const char *folder, const char *format, struct manifest *out, struct eo_error *err)
{
    char path[PATH_MAX];
    struct eo_bytes text;
    struct json_doc doc;
    int status;

    if (!eo_path_join(path, sizeof(path), folder, "manifest.json")) {
        return EO_RAISE(err, EO_E_NO_FILE, "the path of a manifest is too long");
    }
    status = eo_file_read(path, MANIFEST_MAX_BYTES, &text, err);
    if (status != EO_OK) {
        return status;
    }
    status = json_doc_parse(path, text.data, text.size, MANIFEST_MAX_VALUES, &doc, err);
    eo_bytes_fini(&text);
    if (status != EO_OK) {
        if (err != NULL && status != EO_E_NO_MEMORY) {
            err->code = status = EO_E_BAD_CHECKPOINT;
        }
        return status;
    }
    status = read_document(path, doc.root, format, out, err);
    json_doc_fini(&doc);
    return status;
}

int manifest_verify(const char *folder, const struct manifest *m, struct eo_error *err)
{
    for (int i = 0; i < m->n_files; i++) {
        char path[PATH_MAX], sha256[65];
        uint64_t bytes;
        int status;

        if (!eo_path_join(path, sizeof(path), folder, m->files[i].name)) {
            return EO_RAISE(err, EO_E_NO_FILE, "the path of %s is too long", m->files[i].name);
        }
        status = eo_file_sha256(path, sha256, &bytes, err);
        if (status != EO_OK) {
            return status;
        }
        if (bytes != m->files[i].bytes) {
            return EO_RAISE(err, EO_E_BAD_CHECKPOINT, "%s has %" PRIu64 " bytes, its manifest says %" PRIu64, path,
                            bytes, m->files[i].bytes);
        }
        if (strcmp(sha256, m->files[i].sha256) != 0) {
            return damaged(path, err, "is damaged: its SHA-256 is not what its manifest says");
        }
    }
    return EO_OK;
}
