/* eo_error as a msgpack map and back. Source positions stay at home. What comes from a peer is cut to the fields'
 * sizes, checked for UTF-8 and control bytes, and unknown codes are kept as numbers. */
#ifndef EO_PROTO_ERROR_CODEC_H
#define EO_PROTO_ERROR_CODEC_H

#include "proto/codec.h"

void eo_error_pack(struct eo_bytes *b, const struct eo_error *err);
/* Fills out from a map; anything that is no error map becomes BAD_ENVELOPE in out. Returns out->code. */
int eo_error_unpack(const struct eo_item *map, struct eo_error *out);

#endif
