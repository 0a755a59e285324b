/* gzip (RFC 1952) unpacked piece by piece. The only file that knows zlib; in a build without it gunzip_new says so. */
#ifndef EO_DAEMON_FORMATS_GUNZIP_H
#define EO_DAEMON_FORMATS_GUNZIP_H

#include "proto/base/error.h"

struct gunzip;

/* A byte of gzip gives at most this many bytes of data (deflate's bound: 258 bytes from 2 bits, plus block overhead).
 */
enum { GUNZIP_MAX_RATIO = 1032 };

int gunzip_new(const char *name, struct gunzip **out, struct eo_error *err); /* UNSUPPORTED, NO_MEMORY */
void gunzip_free(struct gunzip *g);
/* Unpacks from *in (advanced, *in_size lowered) into out until either is used up; *out_end: the last member ended with
 * nothing behind it in *in. Members that follow each other are one text, as gzip(1) has it. Errors: BAD_FILE. */
int gunzip_run(struct gunzip *g, const uint8_t **in, size_t *in_size, uint8_t *out, size_t size, size_t *out_n,
               bool *out_end, struct eo_error *err);

#endif
