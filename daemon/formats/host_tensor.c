#include "daemon/formats/host_tensor.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64 };

int host_tensor_init(const struct eo_tensor_desc *desc, struct host_tensor *out, struct eo_error *err)
{
    uint64_t size = eo_tensor_desc_bytes(desc);
    void *data = NULL;

    /* aligned_alloc wants whole multiples; an empty tensor has an address too */
    if (size <= SIZE_MAX - ALIGNMENT) {
        data = aligned_alloc(ALIGNMENT, ((size_t)size / ALIGNMENT + 1) * ALIGNMENT);
    }
    if (data == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a tensor of %" PRIu64 " bytes", size);
    }
    memset(data, 0, (size_t)size);
    *out = (struct host_tensor){*desc, data};
    return EO_OK;
}

int host_tensor_copy(const struct eo_tensor_desc *desc, const void *data, uint64_t size, struct host_tensor *out,
                     struct eo_error *err)
{
    char text[96];
    int rc;

    if (size != eo_tensor_desc_bytes(desc)) {
        return EO_RAISE(err, EO_E_BAD_PARAMS, "%s has %" PRIu64 " bytes, %" PRIu64 " were given",
                        eo_tensor_desc_text(desc, text, sizeof(text)), eo_tensor_desc_bytes(desc), size);
    }
    rc = host_tensor_init(desc, out, err);
    if (rc == EO_OK && size > 0) {
        memcpy(out->data, data, (size_t)size);
    }
    return rc;
}

void host_tensor_fini(struct host_tensor *t)
{
    if (t != NULL) {
        free(t->data);
        *t = (struct host_tensor){0};
    }
}
