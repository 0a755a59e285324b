#include "daemon/worker/model_results.h"

#include "backends/reference/element.h"
#include "daemon/formats/npy.h"
#include "proto/base/checked.h"
#include "proto/base/file.h"
#include "proto/base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <unistd.h>

/* ---- the file ---- */

static int check_size(const struct onnx_results *r, uint64_t limit_bytes, struct eo_error *err)
{
    uint64_t total = 0;
    char wanted[32];
    char limit[32];
    for (int i = 0; i < r->n; i++) {
        if (!eo_add_u64(total, npy_written_bytes(&r->tensors[i].desc), &total)) {
            total = UINT64_MAX;
            break;
        }
    }
    if (total <= limit_bytes) {
        return EO_OK;
    }
    EO_RAISE(err, EO_E_QUOTA, "the outputs take %s, results of the session may take %s more",
             eo_format_bytes(total, wanted, sizeof wanted), eo_format_bytes(limit_bytes, limit, sizeof limit));
    eo_error_hint(err, "Let other results go, or raise session-memory or --memory-limit of everyod.");
    return EO_E_QUOTA;
}

int model_results_write(const struct onnx_results *r, const char *path, uint64_t limit_bytes, struct eo_error *err)
{
    int rc = check_size(r, limit_bytes, err);
    if (rc != EO_OK) {
        return rc;
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        int errnum = errno;
        return eo_raise_io(err, errnum, "create", path);
    }
    for (int i = 0; i < r->n && rc == EO_OK; i++) {
        rc = npy_write(fd, path, &r->tensors[i], err);
    }
    if (close(fd) != 0 && rc == EO_OK) {
        int errnum = errno;
        rc = eo_raise_io(err, errnum, "write", path);
    }
    return rc;
}

/* ---- what is said of them ---- */

static double as_double(struct element e)
{
    switch (e.kind) {
    case EO_KIND_FLOAT:
        return e.v.f;
    case EO_KIND_SIGNED:
        return (double)e.v.i;
    default:
        return (double)e.v.u;
    }
}

/* As numpy.min, mean, max: a NaN anywhere is the answer. */
static void pack_statistics(struct eo_bytes *b, const struct host_tensor *t)
{
    const int64_t count = eo_tensor_desc_count(&t->desc);
    double min = (double)INFINITY;
    double max = (double)-INFINITY;
    double sum = 0;
    double lost = 0; /* what the sum has rounded away */
    for (int64_t i = 0; i < count; i++) {
        const double v = as_double(element_get(t->data, (enum eo_dtype)t->desc.dtype, i));
        const double next = sum + (v - lost);
        lost = isfinite(next) ? (next - sum) - (v - lost) : 0;
        sum = next;
        min = v < min || isnan(v) ? v : min;
        max = v > max || isnan(v) ? v : max;
        if (isnan(v)) {
            break;
        }
    }
    eo_pack_str(b, "min");
    count > 0 ? eo_pack_f64(b, min) : eo_pack_nil(b);
    eo_pack_str(b, "mean");
    count > 0 ? eo_pack_f64(b, sum / (double)count) : eo_pack_nil(b);
    eo_pack_str(b, "max");
    count > 0 ? eo_pack_f64(b, max) : eo_pack_nil(b);
}

static void pack_element(struct eo_bytes *b, struct element e)
{
    switch (e.kind) {
    case EO_KIND_FLOAT:
        eo_pack_f64(b, e.v.f);
        break;
    case EO_KIND_SIGNED:
        eo_pack_i64(b, e.v.i);
        break;
    case EO_KIND_UNSIGNED:
        eo_pack_u64(b, e.v.u);
        break;
    case EO_KIND_BOOL:
        eo_pack_bool(b, e.v.u != 0);
        break;
    }
}

static void pack_output(struct eo_bytes *b, const struct host_tensor *t, const char *name, uint64_t offset,
                        bool with_values)
{
    const int64_t count = eo_tensor_desc_count(&t->desc);
    eo_pack_map(b, with_values ? 9 : 8);
    eo_pack_kv_str(b, "name", name);
    eo_tensor_desc_pack_fields(b, &t->desc);
    eo_pack_kv_u64(b, "offset", offset);
    eo_pack_kv_u64(b, "bytes", npy_written_bytes(&t->desc));
    pack_statistics(b, t);
    if (with_values) {
        eo_pack_str(b, "values");
        eo_pack_array(b, (size_t)count);
        for (int64_t i = 0; i < count; i++) {
            pack_element(b, element_get(t->data, (enum eo_dtype)t->desc.dtype, i));
        }
    }
}

void model_results_pack(struct eo_bytes *b, const struct onnx_results *r, const struct onnx_port *ports)
{
    uint64_t offset = 0;
    int64_t n_values = 0;
    eo_pack_array(b, (size_t)r->n);
    for (int i = 0; i < r->n; i++) {
        const struct host_tensor *t = &r->tensors[i];
        const int64_t count = eo_tensor_desc_count(&t->desc);
        const bool with_values = count <= MODEL_VALUES_MAX && n_values + count <= MODEL_VALUES_OF_ALL_MAX;
        n_values += with_values ? count : 0;
        pack_output(b, t, ports[i].name, offset, with_values);
        offset += npy_written_bytes(&t->desc);
    }
}
