#include "proto/message_schema.h"

#include <string.h>

#define EO_MESSAGE(method_, NAME, from_, needs_, max_payload_, summary_, params_, result_, stability_, since_)         \
    [EO_MSG_##NAME] = {.message = EO_MSG_##NAME,                                                                       \
                       .method = (method_),                                                                            \
                       .from = EO_FROM_##from_,                                                                        \
                       .needs = EO_NEEDS_##needs_,                                                                     \
                       .max_payload = (max_payload_),                                                                  \
                       .summary = (summary_),                                                                          \
                       .params = (params_),                                                                            \
                       .result = (result_),                                                                            \
                       .stability = (stability_),                                                                      \
                       .since = (since_)},
static const struct eo_message_schema messages[EO_MESSAGE_COUNT] = {
#include "proto/tables/messages.def"
};

const struct eo_message_schema *eo_message_schema(enum eo_message m)
{
    return m > EO_MESSAGE_NONE && m < EO_MESSAGE_COUNT ? &messages[m] : NULL;
}

const struct eo_message_schema *eo_message_by_method(const char *method)
{
    for (int i = EO_MESSAGE_NONE + 1; i < EO_MESSAGE_COUNT; i++) {
        if (strcmp(messages[i].method, method) == 0) {
            return &messages[i];
        }
    }
    return NULL;
}
