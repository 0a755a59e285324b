/* npy, NumPy's file of one array: "\x93NUMPY", version, header length, a header that is a Python dict of descr,
 * fortran_order and shape, then the elements.
 *
 * Reads versions 1.0 to 3.0, both byte orders, C and Fortran order, all our dtypes; gzip is unpacked on the way. A
 * bfloat16 is what ml_dtypes writes, a void of two bytes. Writes version 1.0 in C order; bfloat16, which NumPy does not
 * know, as float32, which holds each of its values. Format: numpy.org/neps/nep-0001-npy-format.html. */
#ifndef EO_DAEMON_FORMATS_NPY_H
#define EO_DAEMON_FORMATS_NPY_H

#include "daemon/formats/elements.h"
#include "proto/base/bytes.h"

/* limit_bytes bounds the elements; Fortran order takes as much again while it is turned. On
 * success out is the caller's, host_tensor_fini frees it.
 * Errors: NO_FILE, BAD_FILE (magic, version, header, a dtype that is none of ours, cut short, bytes left over),
 * TOO_LARGE (header, shape, limit_bytes), NO_MEMORY, IO. */
int npy_read(const char *path, uint64_t limit_bytes, struct host_tensor *out, struct eo_error *err);
int npy_read_stream(struct stream *s, uint64_t limit_bytes, struct host_tensor *out, struct eo_error *err);

/* What npy_write writes for a tensor: dtype and bytes of the file. */
enum eo_dtype npy_written_dtype(enum eo_dtype dtype);
uint64_t npy_written_bytes(const struct eo_tensor_desc *desc);
/* Writes header and elements at the present place of fd; path is for messages. Errors: those of eo_write_all. */
int npy_write(int fd, const char *path, const struct host_tensor *t, struct eo_error *err);

#endif
