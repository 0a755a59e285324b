/* ONNX files by hand, byte for byte, for tests: messages of protocol buffers, and models from short texts. */
#ifndef EO_TESTS_FORMATS_ONNX_BYTES_H
#define EO_TESTS_FORMATS_ONNX_BYTES_H

#include "daemon/formats/onnx/onnx.h"
#include "proto/base/bytes.h"

/* ---- messages: fields appended to a buffer ---- */

void pb_varint(struct eo_bytes *b, int field, uint64_t v);
void pb_data(struct eo_bytes *b, int field, const void *data, size_t size);
void pb_text(struct eo_bytes *b, int field, const char *text);
void pb_float(struct eo_bytes *b, int field, float v);
/* The finished message `inner` as a field; inner is freed. */
void pb_message(struct eo_bytes *b, int field, struct eo_bytes *inner);
struct eo_bytes pb_new(void);

/* ---- models ---- */

/* A model under construction. Operator sets, graph and functions are put together by model_bytes. */
struct model {
    struct eo_bytes graph, rest;
};
struct model model_new(int opset);
void model_import(struct model *m, const char *domain, int version);
/* shape: "2x3", "Nx3" (a symbol), "" (0-dim), NULL (any rank); type: TensorProto.DataType */
void model_input(struct model *m, const char *name, int type, const char *shape);
void model_output(struct model *m, const char *name);
/* in, out: names separated by blanks, "-" = not given; attrs: "axis=1 pads=[0,1] alpha=0.5 mode=edge", "" = none; a
 * number with a point is a float, @x refers to the caller's attribute x */
void model_node(struct model *m, const char *op, const char *in, const char *out, const char *attrs);
void model_node_of(struct model *m, const char *domain, const char *op, const char *in, const char *out,
                   const char *attrs);
/* A function of set "local" with opset 13 inside; body by function_node, ended by model_function. */
struct eo_bytes function_new(const char *name, const char *in, const char *out, const char *attrs);
void function_node(struct eo_bytes *f, const char *domain, const char *op, const char *in, const char *out,
                   const char *attrs);
void model_function(struct model *m, struct eo_bytes *f);
/* values: numbers separated by blanks */
void model_initializer(struct model *m, const char *name, int type, const char *shape, const char *values);
struct eo_bytes tensor_bytes(const char *name, int type, const char *shape, const char *values);
struct eo_bytes model_bytes(struct model *m); /* m is freed */

/* TensorProto.DataType */
enum { T_FLOAT = 1, T_UINT8 = 2, T_INT32 = 6, T_INT64 = 7, T_STRING = 8, T_BOOL = 9, T_FLOAT16 = 10, T_DOUBLE = 11 };

#endif
