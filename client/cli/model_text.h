/* What model.describe and model.run answer, for people. */
#ifndef EO_CLIENT_CLI_MODEL_TEXT_H
#define EO_CLIENT_CLI_MODEL_TEXT_H

#include "proto/codec.h"

void model_text_describe(const char *path, const struct eo_item *description);
/* One line of stdout: name, dtype, shape, range or values, and the file when it is not "". */
void model_text_output(const struct eo_item *output, const char *file);

#endif
