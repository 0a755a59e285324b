#include "proto/error_codec.h"

#include <limits.h>
#include <string.h>

/* The text fields of the map; empty ones are left out. */
#define ERROR_TEXTS(X)                                                                                                 \
    X(message)                                                                                                         \
    X(detail)                                                                                                          \
    X(hint)                                                                                                            \
    X(op)                                                                                                              \
    X(node)                                                                                                            \
    X(backend)                                                                                                         \
    X(device)                                                                                                          \
    X(host)

/* ---- writing ---- */

static void pack_inputs(struct eo_bytes *b, const struct eo_error *err)
{
    eo_pack_str(b, "inputs");
    eo_pack_array(b, err->n_inputs);
    for (int i = 0; i < err->n_inputs; i++) {
        const struct eo_error_input *input = &err->inputs[i];

        eo_pack_map(b, input->marked_dim >= 0 ? 4 : 3);
        eo_pack_kv_str(b, "name", input->name);
        eo_pack_kv_str(b, "dtype", input->dtype);
        eo_pack_str(b, "shape");
        eo_pack_i64_array(b, input->shape, input->n_dims);
        if (input->marked_dim >= 0) {
            eo_pack_kv_i64(b, "marked_dim", input->marked_dim);
        }
    }
}

static void pack_causes(struct eo_bytes *b, const struct eo_error *err)
{
    eo_pack_str(b, "causes");
    eo_pack_array(b, err->n_causes);
    for (int i = 0; i < err->n_causes; i++) {
        eo_pack_map(b, 3);
        eo_pack_kv_str(b, "source", err->causes[i].source);
        eo_pack_kv_i64(b, "code", err->causes[i].code);
        eo_pack_kv_str(b, "text", err->causes[i].text);
    }
}

static void pack_contexts(struct eo_bytes *b, const struct eo_error *err)
{
    eo_pack_str(b, "context");
    eo_pack_array(b, err->n_contexts);
    for (int i = 0; i < err->n_contexts; i++) {
        eo_pack_str(b, err->contexts[i]);
    }
}

void eo_error_pack(struct eo_bytes *b, const struct eo_error *err)
{
    size_t n = 2; /* code, retryable */

#define COUNT_TEXT(field) n += (size_t)(err->field[0] != '\0');
    ERROR_TEXTS(COUNT_TEXT)
#undef COUNT_TEXT
    n += (size_t)(err->rank >= 0) + (size_t)(err->n_inputs > 0) + (size_t)(err->n_causes > 0) +
         (size_t)(err->n_contexts > 0) + (size_t)err->truncated;
    eo_pack_map(b, n);
    eo_pack_kv_i64(b, "code", err->code);
    /* Said on the wire too, for a reader that does not know the code yet. */
    eo_pack_kv_bool(b, "retryable", eo_code_retryable(err->code));
#define PACK_TEXT(field)                                                                                               \
    if (err->field[0] != '\0') {                                                                                       \
        eo_pack_kv_str(b, #field, err->field);                                                                         \
    }
    ERROR_TEXTS(PACK_TEXT)
#undef PACK_TEXT
    if (err->rank >= 0) {
        eo_pack_kv_i64(b, "rank", err->rank);
    }
    if (err->n_inputs > 0) {
        pack_inputs(b, err);
    }
    if (err->n_causes > 0) {
        pack_causes(b, err);
    }
    if (err->n_contexts > 0) {
        pack_contexts(b, err);
    }
    if (err->truncated) {
        eo_pack_kv_bool(b, "truncated", true);
    }
}

/* ---- reading ---- */

/* Large enough for every field and to see that more was sent; what a peer sends beyond that is not needed. */
enum { TEXT_MAX = sizeof(((struct eo_error *)0)->detail) + 8 };

/* A string of any length, cut to TEXT_MAX, NUL bytes made visible. The setters of error.h then cut it to the field,
 * mark the cut and take control bytes out. Anything that is no string reads as "". */
static const char *text_of(const struct eo_item *it, char out[TEXT_MAX])
{
    const char *text = NULL;
    size_t length = 0;

    if (!eo_item_as_str(it, &text, &length)) {
        length = 0;
    }
    length = EO_MIN(length, (size_t)TEXT_MAX - 1);
    for (size_t i = 0; i < length; i++) {
        out[i] = text[i];
        if (out[i] == '\0') {
            out[i] = '?';
        }
    }
    out[length] = '\0';
    return out;
}

static const char *text_at(const struct eo_item *map, const char *key, char out[TEXT_MAX])
{
    return text_of(eo_item_get(map, key), out);
}

static int64_t integer_at(const struct eo_item *map, const char *key, int64_t fallback)
{
    int64_t v;

    return eo_item_as_i64(eo_item_get(map, key), &v) ? v : fallback;
}

static void unpack_inputs(const struct eo_item *list, struct eo_error *out)
{
    size_t n = EO_MIN(eo_item_count(list), (size_t)EO_ERROR_INPUTS + 1);

    for (size_t i = 0; i < n; i++) {
        const struct eo_item *input = eo_item_at(list, i);
        const struct eo_item *dims = eo_item_get(input, "shape");
        size_t n_dims = EO_MIN(eo_item_count(dims), (size_t)EO_ERROR_DIMS);
        int64_t marked = integer_at(input, "marked_dim", -1);
        int64_t shape[EO_ERROR_DIMS] = {0};
        char name[TEXT_MAX];
        char dtype[TEXT_MAX];

        for (size_t d = 0; d < n_dims; d++) {
            if (!eo_item_as_i64(eo_item_at(dims, d), &shape[d])) {
                shape[d] = -1;
            }
        }
        eo_error_input(out, text_at(input, "name", name), text_at(input, "dtype", dtype), shape, (int)n_dims,
                       marked < 0 || marked >= EO_ERROR_DIMS ? -1 : (int)marked);
    }
}

static void unpack_causes(const struct eo_item *list, struct eo_error *out)
{
    size_t n = EO_MIN(eo_item_count(list), (size_t)EO_ERROR_CAUSES + 1);

    for (size_t i = 0; i < n; i++) {
        const struct eo_item *cause = eo_item_at(list, i);
        char source[TEXT_MAX];
        char text[TEXT_MAX];

        eo_error_cause(out, text_at(cause, "source", source), integer_at(cause, "code", 0),
                       text_at(cause, "text", text));
    }
}

static void unpack_contexts(const struct eo_item *list, struct eo_error *out)
{
    size_t n = EO_MIN(eo_item_count(list), (size_t)EO_ERROR_CONTEXTS + 1);

    for (size_t i = 0; i < n; i++) {
        char text[TEXT_MAX];

        eo_error_push(out, "%s", text_of(eo_item_at(list, i), text));
    }
}

int eo_error_unpack(const struct eo_item *map, struct eo_error *out)
{
    int64_t code = integer_at(map, "code", 0);
    int64_t rank = integer_at(map, "rank", -1);
    char first[TEXT_MAX];
    char second[TEXT_MAX];
    bool truncated = false;

    /* A code of 0 would turn a failure into a success. */
    if (code < 1 || code > INT_MAX) {
        return EO_RAISE(out, EO_E_BAD_ENVELOPE, "the peer sent an error without a code");
    }
    eo_error_raise(out, (int)code, NULL, 0, "%s", text_at(map, "message", first));
    eo_error_detail(out, "%s", text_at(map, "detail", first));
    eo_error_hint(out, "%s", text_at(map, "hint", first));
    eo_error_at_op(out, text_at(map, "op", first), text_at(map, "node", second));
    eo_error_at_device(out, text_at(map, "backend", first), text_at(map, "device", second));
    eo_error_at_host(out, text_at(map, "host", first), rank < 0 || rank > INT_MAX ? -1 : (int)rank);
    unpack_inputs(eo_item_get(map, "inputs"), out);
    unpack_causes(eo_item_get(map, "causes"), out);
    unpack_contexts(eo_item_get(map, "context"), out);
    if (eo_item_as_bool(eo_item_get(map, "truncated"), &truncated) && truncated) {
        out->truncated = true;
    }
    return out->code;
}
