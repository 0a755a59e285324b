/* The header of a safetensors file; the input is the whole file. Tensors that are accepted tile its bytes. */
#include "daemon/formats/safetensors.h"

#include <string.h>

static void promise(bool holds)
{
    if (!holds) {
        __builtin_trap();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct eo_error err = {0};
    struct safetensors s;
    uint64_t total = 0, header;

    if (safetensors_parse("f.safetensors", data, size, size, &s, &err) != EO_OK) {
        promise(err.code != EO_OK);
        return 0;
    }
    memcpy(&header, data, sizeof(header));
    for (uint32_t i = 0; i < s.n_tensors; i++) {
        const struct safetensors_tensor *t = &s.tensors[i];
        uint64_t bytes = eo_tensor_desc_bytes(&t->desc);

        promise(t->offset_bytes >= 8 + header && bytes <= size && t->offset_bytes <= size - bytes);
        promise(safetensors_find(&s, t->name) == t);
        promise(i == 0 || strcmp(s.tensors[i - 1].name, t->name) < 0);
        total += bytes;
    }
    promise(total == size - 8 - header);
    safetensors_close(&s);
    return 0;
}
