/* The operators that the importer knows: the rows of operators.def. Const and pure. */
#ifndef EO_DAEMON_FORMATS_ONNX_TABLE_H
#define EO_DAEMON_FORMATS_ONNX_TABLE_H

#include <stdbool.h>
#include <stddef.h>

struct onnx_site;
typedef void (*onnx_map_fn)(struct onnx_site *s);

struct onnx_operator {
    const char *name, *domain;
    int since, until; /* versions of the operator set in which this row is the operator, both included */
    onnx_map_fn map;
    const char *row;  /* the row of ops.def that it is; "" when several make it up */
    const char *note; /* for the reference page */
};

enum { ONNX_NEWEST = 17, ONNX_NEWEST_TRAINING = 1, ONNX_OLDEST = 6 };

/* NULL when there is none; out_known (NULL allowed): some version of it is there. */
const struct onnx_operator *onnx_operator_find(const char *domain, const char *name, int version, bool *out_known);
int onnx_operator_count(void);
const struct onnx_operator *onnx_operator_at(int index);

#endif
