/* Parsed MessagePack written out again, for answers that a worker or peer gave and that are handed on. */
#ifndef EO_DAEMON_SERVER_ITEMS_H
#define EO_DAEMON_SERVER_ITEMS_H

#include "proto/codec.h"

void item_pack(struct eo_bytes *b, const struct eo_item *it); /* depth is bounded by the parser; ext becomes nil */

#endif
