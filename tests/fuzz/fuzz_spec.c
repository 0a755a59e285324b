/* A job file; a line of NUL bytes may end it, and what follows is one --set. What is accepted has a canonical form that
 * parses back to itself; what is refused says where. */
#include "daemon/jobs/spec.h"

#include <stdlib.h>
#include <string.h>

static void promise(bool holds)
{
    if (!holds) {
        __builtin_trap();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *end = size > 0 ? memchr(data, '\0', size) : NULL;
    size_t n = end != NULL ? (size_t)(end - data) : size;
    char *set = end != NULL ? strndup((const char *)end + 1, size - n - 1) : NULL;
    const char *const sets[] = {set};
    struct eo_error err = {0};
    struct job_spec *spec, *again;

    if (spec_parse((const char *)data, n, "f.yaml", sets, set != NULL, &spec, &err) == EO_OK) {
        promise(spec_parse((const char *)spec->canonical.data, spec->canonical.size, "f.yaml", NULL, 0, &again, &err) ==
                EO_OK);
        promise(strcmp(spec->hash, again->hash) == 0 && strcmp(spec->state_hash, again->state_hash) == 0);
        spec_free(again);
        spec_free(spec);
    } else {
        promise(err.code != EO_OK && err.message[0] != '\0');
    }
    free(set);
    return 0;
}
