/* Parameters of a step as named tensors: for files, for hashing, for looking at. All read the host views: step_pull
 * comes first on devices with memory of their own. */
#ifndef EO_DAEMON_TRAIN_PARAMS_H
#define EO_DAEMON_TRAIN_PARAMS_H

#include "daemon/formats/safetensors.h"
#include "daemon/train/step.h"

/* One entry per parameter, in layout order, name and data pointing into the step; flat: params, or a slot of the same
 * layout. */
void params_tensors(const struct train_step *s, void *flat, struct safetensors_tensor *out);
/* parameters_sha256 of design section 9: for each parameter, names in byte order: name, NUL, dtype name, NUL,
 * dimensions in decimal joined by commas, NUL, bytes (little-endian, C order). */
int params_sha256(struct train_step *s, uint8_t out[32], struct eo_error *err);
/* Neither parameters nor optimizer state hold NaN or infinity. */
bool params_finite(struct train_step *s);

#endif
