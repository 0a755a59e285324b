#include "daemon/server/items.h"

static void pack_integer(struct eo_bytes *b, const struct eo_item *it)
{
    uint64_t u = 0;
    int64_t i = 0;
    if (eo_item_as_u64(it, &u)) {
        eo_pack_u64(b, u);
    } else {
        (void)eo_item_as_i64(it, &i);
        eo_pack_i64(b, i);
    }
}

static void pack_bytes(struct eo_bytes *b, const struct eo_item *it)
{
    const char *text = NULL;
    const uint8_t *data = NULL;
    size_t size = 0;
    if (eo_item_as_str(it, &text, &size)) {
        eo_pack_str_n(b, text, size);
    } else if (eo_item_as_bin(it, &data, &size)) {
        eo_pack_bin(b, data, size);
    }
}

void item_pack(struct eo_bytes *b, const struct eo_item *it)
{
    bool flag = false;
    double number = 0;
    switch (eo_item_kind(it)) {
    case EO_ITEM_NIL:
    case EO_ITEM_EXT:
        eo_pack_nil(b);
        break;
    case EO_ITEM_BOOL:
        (void)eo_item_as_bool(it, &flag);
        eo_pack_bool(b, flag);
        break;
    case EO_ITEM_INT:
        pack_integer(b, it);
        break;
    case EO_ITEM_FLOAT:
        (void)eo_item_as_f64(it, &number);
        eo_pack_f64(b, number);
        break;
    case EO_ITEM_STR:
    case EO_ITEM_BIN:
        pack_bytes(b, it);
        break;
    case EO_ITEM_ARRAY:
        eo_pack_array(b, eo_item_count(it));
        for (size_t i = 0; i < eo_item_count(it); i++) {
            item_pack(b, eo_item_at(it, i));
        }
        break;
    case EO_ITEM_MAP:
        eo_pack_map(b, eo_item_count(it));
        for (size_t i = 0; i < eo_item_count(it); i++) {
            const struct eo_item *key = NULL, *value = NULL;
            eo_item_pair(it, i, &key, &value);
            item_pack(b, key);
            item_pack(b, value);
        }
        break;
    }
}
