/* TensorProto: numbers as raw bytes or in one of several typed lists, by data type. */
#include "daemon/formats/onnx/read.h"

#include <inttypes.h>
#include <string.h>

/* TensorProto.DataType by number; kind says which typed list holds it. */
enum list { LIST_NONE, LIST_FLOAT, LIST_INT32, LIST_INT64, LIST_DOUBLE, LIST_UINT64 };
static const struct {
    const char *name;
    enum eo_dtype dtype;
    enum list list;
} types[] = {{"UNDEFINED", EO_DTYPE_NONE, LIST_NONE}, {"FLOAT", EO_FLOAT32, LIST_FLOAT},
             {"UINT8", EO_UINT8, LIST_INT32},         {"INT8", EO_INT8, LIST_INT32},
             {"UINT16", EO_UINT16, LIST_INT32},       {"INT16", EO_INT16, LIST_INT32},
             {"INT32", EO_INT32, LIST_INT32},         {"INT64", EO_INT64, LIST_INT64},
             {"STRING", EO_DTYPE_NONE, LIST_NONE},    {"BOOL", EO_BOOL, LIST_INT32},
             {"FLOAT16", EO_FLOAT16, LIST_INT32},     {"DOUBLE", EO_FLOAT64, LIST_DOUBLE},
             {"UINT32", EO_UINT32, LIST_UINT64},      {"UINT64", EO_UINT64, LIST_UINT64},
             {"COMPLEX64", EO_DTYPE_NONE, LIST_NONE}, {"COMPLEX128", EO_DTYPE_NONE, LIST_NONE},
             {"BFLOAT16", EO_BFLOAT16, LIST_INT32}};

int read_dtype(int data_type, const char *what, enum eo_dtype *out, struct eo_error *err)
{
    if (data_type < 1 || data_type >= (int)EO_COUNT_OF(types)) {
        return EO_RAISE(err, EO_E_UNSUPPORTED, "%s has element type %d, which is not known", what, data_type);
    }
    *out = types[data_type].dtype;
    if (*out == EO_DTYPE_NONE) {
        int code = EO_RAISE(err, EO_E_UNSUPPORTED, "%s has element type %s, which is not supported", what,
                            types[data_type].name);

        eo_error_hint(err, "Tensors hold floats, integers and bools.");
        return code;
    }
    return EO_OK;
}

/* ---- data ---- */

static int wrong_count(uint64_t have, const char *unit, const struct eo_tensor_desc *desc, struct eo_error *err)
{
    char text[128];

    return EO_RAISE(err, EO_E_BAD_FILE, "the tensor holds %" PRIu64 " %s, %s needs another number", have, unit,
                    eo_tensor_desc_text(desc, text, sizeof(text)));
}

static int check_bools(const struct onnx_tensor *t, struct eo_error *err)
{
    const uint8_t *bytes = t->data;
    int64_t n = t->desc.dtype == EO_BOOL ? eo_tensor_desc_count(&t->desc) : 0;

    for (int64_t i = 0; i < n; i++) {
        if (bytes[i] > 1) {
            return EO_RAISE(err, EO_E_BAD_FILE, "element %" PRId64 " of the bools is the byte %d, not 0 or 1", i,
                            bytes[i]);
        }
    }
    return EO_OK;
}

/* A number of int32_data or uint64_data fits the narrower type that it stands for. Half floats are their bits. */
static bool fits(enum eo_dtype dtype, int64_t v)
{
    if (dtype == EO_FLOAT16 || dtype == EO_BFLOAT16) {
        return v >= 0 && v <= UINT16_MAX;
    }
    return eo_dtype_holds(dtype, (double)v);
}

static int narrow(const struct onnx_tensor *t, void *out, const int32_t *from32, const uint64_t *from64,
                  struct eo_error *err)
{
    enum eo_dtype dtype = (enum eo_dtype)t->desc.dtype;
    size_t size = eo_dtype_size(dtype);
    int64_t n = eo_tensor_desc_count(&t->desc);

    for (int64_t i = 0; i < n; i++) {
        int64_t v = from32 != NULL ? from32[i] : from64[i] <= UINT32_MAX ? (int64_t)from64[i] : -1;

        if (!fits(dtype, v)) {
            return EO_RAISE(err, EO_E_BAD_FILE, "element %" PRId64 " of the tensor is no %s", i, eo_dtype_name(dtype));
        }
        memcpy((char *)out + (size_t)i * size, &v, size); /* little-endian: the low bytes come first */
    }
    return EO_OK;
}

/* The list of the type: how many it holds and where. */
static size_t typed_list(const Onnx__TensorProto *p, enum list list, const void **out)
{
    switch (list) {
    case LIST_FLOAT:
        *out = p->float_data;
        return p->n_float_data;
    case LIST_INT32:
        *out = p->int32_data;
        return p->n_int32_data;
    case LIST_INT64:
        *out = p->int64_data;
        return p->n_int64_data;
    case LIST_DOUBLE:
        *out = p->double_data;
        return p->n_double_data;
    case LIST_UINT64:
        *out = p->uint64_data;
        return p->n_uint64_data;
    case LIST_NONE:
        break;
    }
    *out = NULL;
    return 0;
}

static int typed_data(struct eo_arena *arena, const Onnx__TensorProto *p, struct onnx_tensor *t, struct eo_error *err)
{
    enum eo_dtype dtype = (enum eo_dtype)t->desc.dtype;
    const void *list;
    size_t n = typed_list(p, types[p->data_type].list, &list);
    bool by32 = types[p->data_type].list == LIST_INT32 && dtype != EO_INT32;
    void *data;

    if (n != (uint64_t)eo_tensor_desc_count(&t->desc)) {
        return wrong_count(n, "numbers", &t->desc, err);
    }
    if (!by32 && dtype != EO_UINT32) {
        t->data = list;
        return EO_OK;
    }
    data = eo_arena_alloc_n(arena, n + 1, eo_dtype_size(dtype));
    if (data == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a tensor of %zu elements", n);
    }
    t->data = data;
    return narrow(t, data, by32 ? list : NULL, by32 ? NULL : list, err);
}

static int read_data(struct eo_arena *arena, const Onnx__TensorProto *p, struct onnx_tensor *t, struct eo_error *err)
{
    static const uint64_t nothing = 0;
    int rc;

    if (p->has_raw_data && p->raw_data.len > 0) {
        if (p->raw_data.len != eo_tensor_desc_bytes(&t->desc)) {
            return wrong_count(p->raw_data.len, "bytes", &t->desc, err);
        }
        t->data = p->raw_data.data;
        rc = EO_OK;
    } else {
        rc = typed_data(arena, p, t, err);
    }
    if (rc == EO_OK && t->data == NULL) {
        t->data = &nothing; /* an empty tensor */
    }
    return rc != EO_OK ? rc : check_bools(t, err);
}

/* ---- the whole ---- */

static int read_tensor_body(struct eo_arena *arena, const Onnx__TensorProto *p, struct onnx_tensor *out,
                            struct eo_error *err)
{
    enum eo_dtype dtype;
    int rc = read_dtype(p->data_type, "the tensor", &dtype, err);

    if (rc == EO_OK && p->data_location != 0) {
        rc = EO_RAISE(err, EO_E_UNSUPPORTED, "the tensor's data is in another file, which is not supported");
        eo_error_hint(err, "Save the model with its data inside.");
        return rc;
    }
    if (rc == EO_OK && p->segment != NULL) {
        return EO_RAISE(err, EO_E_UNSUPPORTED, "the tensor is a segment of a larger one, which is not supported");
    }
    if (rc == EO_OK && p->n_dims > EO_MAX_DIMS) {
        return EO_RAISE(err, EO_E_TOO_LARGE, "the tensor has %zu dimensions, at most %d are supported", p->n_dims,
                        EO_MAX_DIMS);
    }
    if (rc == EO_OK) {
        rc = eo_tensor_desc_init(&out->desc, dtype, p->dims, (int)p->n_dims, err);
        rc = rc == EO_E_BAD_PARAMS ? EO_RAISE(err, EO_E_BAD_FILE, "the tensor has a negative size") : rc;
    }
    return rc != EO_OK ? rc : read_data(arena, p, out, err);
}

int read_tensor(struct eo_arena *arena, const Onnx__TensorProto *p, struct onnx_tensor *out, struct eo_error *err)
{
    char quoted[340];
    int rc = read_name(p->name, "a tensor", &out->name, err);

    if (rc == EO_OK) {
        rc = read_tensor_body(arena, p, out, err);
    }
    if (rc != EO_OK && out->name != NULL && out->name[0] != '\0') {
        eo_error_push(err, "reading tensor %s", eo_quote(out->name, strlen(out->name), quoted, sizeof(quoted)));
    }
    return rc;
}

int onnx_tensor_parse(const void *data, size_t size, struct host_tensor *out, struct eo_error *err)
{
    struct onnx_tensor t = {0};
    struct wire_message m = {0};
    struct eo_arena arena;
    int rc = wire_unpack(&onnx__tensor_proto__descriptor, "ONNX tensor", data, size, &m, err);

    if (rc != EO_OK) {
        return rc;
    }
    eo_arena_init(&arena, 4 * size + (64 << 10)); /* a byte of the file may become a uint32 */
    rc = read_tensor(&arena, (const Onnx__TensorProto *)m.root, &t, err);
    if (rc == EO_OK) {
        rc = host_tensor_copy(&t.desc, t.data, eo_tensor_desc_bytes(&t.desc), out, err);
    }
    eo_arena_fini(&arena);
    wire_free(&m);
    return rc;
}
