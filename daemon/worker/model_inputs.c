#include "daemon/worker/model_inputs.h"

#include "daemon/formats/npy.h"
#include "proto/base/file.h"
#include "proto/base/text.h"
#include "proto/codec.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One file of the task. */
struct source {
    char name[ONNX_MAX_NAME + 1];
    char file[MODEL_FILE_SIZE]; /* as the user knows it */
    char path[MODEL_PATH_SIZE];
    char format[8];
};

/* ---- text ---- */

static void add(char *out, size_t size, const char *fmt, ...) EO_PRINTF(3, 4);
static void add(char *out, size_t size, const char *fmt, ...)
{
    const size_t used = strlen(out);
    va_list args;
    va_start(args, fmt);
    vsnprintf(out + used, size - used, fmt, args);
    va_end(args);
}

char *model_port_text(const struct onnx_port *port, char *out, size_t size)
{
    snprintf(out, size, "%s", eo_dtype_name(port->dtype));
    if (port->n_dims < 0) {
        add(out, size, " of any rank");
        return out;
    }
    add(out, size, " [");
    for (int i = 0; i < port->n_dims; i++) {
        add(out, size, "%s", i > 0 ? ", " : "");
        if (port->dims[i] >= 0) {
            add(out, size, "%" PRId64, port->dims[i]);
        } else {
            add(out, size, "%s", port->symbols[i] != NULL ? port->symbols[i] : "?");
        }
    }
    add(out, size, "]");
    return out;
}

static void describe_inputs(const struct onnx_port *ports, int n, struct eo_error *err)
{
    char list[480] = "The model takes ";
    char port[160];
    for (int i = 0; i < n; i++) {
        add(list, sizeof list, "%s%s %s%s", i > 0 ? ", " : "", ports[i].name,
            model_port_text(&ports[i], port, sizeof port), ports[i].has_default ? " (optional)" : "");
    }
    eo_error_detail(err, n > 0 ? "%s." : "The model takes no inputs.", list);
}

/* ---- which input ---- */

static const char *port_name_at(const void *ctx, size_t i)
{
    return ((const struct onnx_port *)ctx)[i].name;
}

static int find_named(const struct onnx_port *ports, int n, const char *name, int *out, struct eo_error *err)
{
    char quoted[100];
    for (int i = 0; i < n; i++) {
        if (strcmp(ports[i].name, name) == 0) {
            *out = i;
            return EO_OK;
        }
    }
    EO_RAISE(err, EO_E_BAD_ARITY, "the model has no input %s", eo_quote(name, strlen(name), quoted, sizeof quoted));
    const char *nearest = eo_nearest(name, port_name_at, ports, (size_t)n);
    if (nearest != NULL) {
        eo_error_hint(err, "Did you mean %s?", nearest);
    }
    describe_inputs(ports, n, err);
    return EO_E_BAD_ARITY;
}

/* The only input, or the only one that must be given. Those that must be given come first. */
static int find_only(const struct onnx_port *ports, int n, int *out, struct eo_error *err)
{
    int n_required = 0;
    while (n_required < n && !ports[n_required].has_default) {
        n_required++;
    }
    if (n_required == 1 || n == 1) {
        *out = 0;
        return EO_OK;
    }
    EO_RAISE(err, EO_E_BAD_ARITY, "the model has %d inputs, so a file needs the name of its input", n);
    eo_error_hint(err, "Write NAME=FILE.");
    describe_inputs(ports, n, err);
    return EO_E_BAD_ARITY;
}

/* ---- does it fit ---- */

static int check_dtype(const struct onnx_port *port, const struct host_tensor *t, const char *file,
                       struct eo_error *err)
{
    char wanted[200];
    char is[200];
    /* NumPy has no bfloat16: files made with it hold the bits. */
    if (t->desc.dtype == port->dtype || (t->desc.dtype == EO_UINT16 && port->dtype == EO_BFLOAT16)) {
        return EO_OK;
    }
    EO_RAISE(err, EO_E_DTYPE_MISMATCH, "input %s is %s, %s holds %s", port->name,
             model_port_text(port, wanted, sizeof wanted), file, eo_tensor_desc_text(&t->desc, is, sizeof is));
    eo_error_hint(err, "Nothing is cast silently: convert the file to %s.", eo_dtype_name(port->dtype));
    eo_error_input_desc(err, port->name, &t->desc, -1);
    return EO_E_DTYPE_MISMATCH;
}

static int check_shape(const struct onnx_port *port, const struct host_tensor *t, const char *file,
                       struct eo_error *err)
{
    char wanted[200];
    char is[200];
    if (port->n_dims < 0) {
        return EO_OK;
    }
    if (t->desc.n_dims != port->n_dims) {
        EO_RAISE(err, EO_E_SHAPE_MISMATCH, "input %s is %s, %s holds %s", port->name,
                 model_port_text(port, wanted, sizeof wanted), file, eo_tensor_desc_text(&t->desc, is, sizeof is));
        eo_error_input_desc(err, port->name, &t->desc, -1);
        return EO_E_SHAPE_MISMATCH;
    }
    for (int i = 0; i < port->n_dims; i++) {
        if (port->dims[i] >= 0 && port->dims[i] != t->desc.shape[i]) {
            EO_RAISE(err, EO_E_SHAPE_MISMATCH, "dimension %d of input %s is %" PRId64 ", %s has %" PRId64 " there", i,
                     port->name, port->dims[i], file, t->desc.shape[i]);
            eo_error_hint(err, "The model takes %s.", model_port_text(port, wanted, sizeof wanted));
            eo_error_input_desc(err, port->name, &t->desc, i);
            return EO_E_SHAPE_MISMATCH;
        }
    }
    return EO_OK;
}

static int check_missing(const struct onnx_port *ports, const struct model_inputs *in, struct eo_error *err)
{
    char names[200] = "";
    char port[160];
    int n_missing = 0;
    for (int i = 0; i < in->n; i++) {
        if (in->given[i] == NULL && !ports[i].has_default) {
            add(names, sizeof names, "%s%s %s", n_missing > 0 ? ", " : "", ports[i].name,
                model_port_text(&ports[i], port, sizeof port));
            n_missing++;
        }
    }
    if (n_missing == 0) {
        return EO_OK;
    }
    EO_RAISE(err, EO_E_BAD_ARITY, "%d input%s of the model %s missing: %s", n_missing, n_missing == 1 ? "" : "s",
             n_missing == 1 ? "is" : "are", names);
    eo_error_hint(err, "Give each as NAME=FILE.npy or NAME=FILE.pb.");
    describe_inputs(ports, in->n, err);
    return EO_E_BAD_ARITY;
}

/* ---- reading ---- */

static int read_npy(const struct source *s, uint64_t limit_bytes, struct host_tensor *out, struct eo_error *err)
{
    struct stream *stream = NULL;
    int rc = stream_open_as(s->path, s->file, &stream, err);
    if (rc == EO_OK) {
        rc = npy_read_stream(stream, limit_bytes, out, err);
        stream_close(stream);
    }
    return rc;
}

static int read_pb(const struct source *s, uint64_t limit_bytes, struct host_tensor *out, struct eo_error *err)
{
    struct eo_bytes bytes;
    int rc = eo_file_read(s->path, (size_t)EO_MIN(limit_bytes, (uint64_t)ONNX_MAX_BYTES), &bytes, err);
    if (rc == EO_OK) {
        rc = onnx_tensor_parse(bytes.data, bytes.size, out, err);
        eo_bytes_fini(&bytes);
    }
    if (rc != EO_OK) {
        eo_error_push(err, "reading %s", s->file);
    }
    return rc;
}

static int unpack_source(const struct eo_item *item, struct source *s, struct eo_error *err)
{
    int rc = eo_need_str(item, "name", s->name, sizeof s->name, err);
    if (rc == EO_OK) {
        rc = eo_need_str(item, "file", s->file, sizeof s->file, err);
    }
    if (rc == EO_OK) {
        rc = eo_need_str(item, "path", s->path, sizeof s->path, err);
    }
    return rc == EO_OK ? eo_need_str(item, "format", s->format, sizeof s->format, err) : rc;
}

static int read_one(const struct onnx_port *ports, const struct eo_item *item, uint64_t limit_bytes,
                    struct model_inputs *in, struct eo_error *err)
{
    struct source s;
    int at = 0;
    int rc = unpack_source(item, &s, err);
    if (rc == EO_OK) {
        rc = s.name[0] != '\0' ? find_named(ports, in->n, s.name, &at, err) : find_only(ports, in->n, &at, err);
    }
    if (rc == EO_OK && in->given[at] != NULL) {
        rc = EO_RAISE(err, EO_E_BAD_ARITY, "input %s is given twice", ports[at].name);
    }
    if (rc != EO_OK) {
        return rc;
    }
    struct host_tensor *t = &in->tensors[at];
    rc = strcmp(s.format, "npy") == 0 ? read_npy(&s, limit_bytes, t, err) : read_pb(&s, limit_bytes, t, err);
    if (rc == EO_OK) {
        in->given[at] = t;
        rc = check_dtype(&ports[at], t, s.file, err);
    }
    return rc == EO_OK ? check_shape(&ports[at], t, s.file, err) : rc;
}

int model_inputs_read(const struct onnx_model *m, const struct eo_item *files, uint64_t limit_bytes,
                      struct model_inputs *out, struct eo_error *err)
{
    struct model_inputs in = {.n = 0};
    const struct onnx_port *ports = onnx_model_inputs(m, &in.n);
    in.tensors = calloc((size_t)in.n + 1, sizeof *in.tensors);
    in.given = calloc((size_t)in.n + 1, sizeof *in.given);
    int rc = in.tensors != NULL && in.given != NULL ? EO_OK : EO_RAISE(err, EO_E_NO_MEMORY, "no memory for inputs");
    for (size_t i = 0; rc == EO_OK && i < eo_item_count(files); i++) {
        rc = read_one(ports, eo_item_at(files, i), limit_bytes, &in, err);
    }
    if (rc == EO_OK) {
        rc = check_missing(ports, &in, err);
    }
    if (rc != EO_OK) {
        model_inputs_fini(&in);
        return rc;
    }
    *out = in;
    return EO_OK;
}

void model_inputs_fini(struct model_inputs *in)
{
    for (int i = 0; in->tensors != NULL && i < in->n; i++) {
        host_tensor_fini(&in->tensors[i]);
    }
    free(in->tensors);
    free(in->given);
    *in = (struct model_inputs){0};
}
