/* The directories of a checkpoint folder, by name alone. */
#ifndef EO_DAEMON_TRAIN_CHECKPOINT_LIST_H
#define EO_DAEMON_TRAIN_CHECKPOINT_LIST_H

#include "proto/base/error.h"

enum { CHECKPOINT_NAME = 24 };

struct checkpoint_list {
    char (*names)[CHECKPOINT_NAME]; /* "step-000000000123", newest first; owned */
    int n;
};

void checkpoint_name(int64_t step, char out[CHECKPOINT_NAME]);
/* A folder that is not there is empty. Errors: IO, NO_MEMORY. */
int checkpoint_list(const char *folder, struct checkpoint_list *out, struct eo_error *err);
void checkpoint_list_fini(struct checkpoint_list *l);
/* Removes one: renamed out of sight first, so that a crash half-way leaves no half checkpoint behind. */
int checkpoint_remove(const char *folder, const char *name, struct eo_error *err);
/* Removes what crashes left: temporary and half removed directories. */
int checkpoint_clean(const char *folder, struct eo_error *err);

#endif
