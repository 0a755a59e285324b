#include "daemon/formats/onnx/table.h"

#include "daemon/formats/onnx/maps.h"
#include "daemon/formats/onnx/model.h"

#include <string.h>

static const struct onnx_operator rows[] = {
#define ONNX(name_, domain_, since_, until_, fn_, row_, note_)                                                         \
    {#name_, ONNX_##domain_, (since_), (until_), map_##fn_, (row_), (note_)},
#include "daemon/formats/onnx/operators.def"
};

int onnx_operator_count(void)
{
    return (int)EO_COUNT_OF(rows);
}

const struct onnx_operator *onnx_operator_at(int index)
{
    return &rows[index];
}

/* Rows stand in the order of names (a test checks it), so that the first of a name is found by halving. */
static int first_of(const char *name)
{
    int low = 0, high = onnx_operator_count();

    while (low < high) {
        int middle = low + (high - low) / 2;

        if (strcmp(rows[middle].name, name) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

const struct onnx_operator *onnx_operator_find(const char *domain, const char *name, int version, bool *out_known)
{
    bool known = false;
    const struct onnx_operator *found = NULL;

    for (int i = first_of(name); i < onnx_operator_count() && strcmp(rows[i].name, name) == 0; i++) {
        if (strcmp(rows[i].domain, domain) == 0) {
            known = true;
            found = version >= rows[i].since && version <= rows[i].until ? &rows[i] : found;
        }
    }
    if (out_known != NULL) {
        *out_known = known;
    }
    return found;
}
