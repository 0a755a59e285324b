/* Time. Monotonic for durations and deadlines, wall clock for records only. */
#ifndef EO_PROTO_BASE_CLOCK_H
#define EO_PROTO_BASE_CLOCK_H

#include <stddef.h>
#include <stdint.h>

uint64_t eo_now_ns(void);                                  /* CLOCK_MONOTONIC */
int64_t eo_wall_ms(void);                                  /* milliseconds since 1970-01-01 UTC */
char *eo_rfc3339(int64_t wall_ms, char *out, size_t size); /* "2026-11-30T13:45:40.123Z"; size >= 25; returns out */

#endif
