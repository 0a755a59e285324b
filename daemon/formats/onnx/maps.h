/* The functions behind the rows of operators.def: each turns one node into rows of ops.def. */
#ifndef EO_DAEMON_FORMATS_ONNX_MAPS_H
#define EO_DAEMON_FORMATS_ONNX_MAPS_H

#include "daemon/formats/onnx/table.h"

/* A function that serves several operators is declared more than once. */
#define ONNX(name, domain, since, until, fn, row, note) void map_##fn(struct onnx_site *s);
#include "daemon/formats/onnx/operators.def"

#endif
