/* The backends of this build, in backends.def order, and how to get a device by name.
 * Tests may register one more backend (fake_device) before anything else is asked. Not thread-safe: set up at start. */
#ifndef EO_BACKENDS_REGISTRY_H
#define EO_BACKENDS_REGISTRY_H

#include "backends/backend.h"

int registry_count(void);
const struct eo_backend *registry_at(int index);
const struct eo_backend *registry_find(const char *name);
int registry_add(const struct eo_backend *b, struct eo_error *err); /* checks abi and mandatory slots */
void registry_reset(void);                                          /* forgets added ones */

/* "cpu", "reference", "cuda:1", or "auto" (the first backend of the table whose facts 1-4 are all yes and that opens).
 * out_reason receives one sentence on the choice for "auto". NO_DEVICE names every candidate and its first false fact.
 */
int registry_open(const char *device, const struct eo_device_config *config, struct eo_device **out, char *out_reason,
                  size_t reason_size, struct eo_error *err);
void registry_close(struct eo_device *dev);
/* First false fact as text: "not installed: libopenblas.so.0 not found at ..."; "" when all of 1-4 are yes. */
void registry_first_refusal(const struct eo_backend_facts *facts, char *out, size_t size);
const char *registry_fact_name(enum eo_fact fact); /* "dependency installed", ... */

#endif
