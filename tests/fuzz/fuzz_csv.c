/* A CSV file, plain or gzip. What is accepted is a full table of finite numbers; what is refused says where. */
#include "daemon/formats/csv.h"

#include <math.h>
#include <string.h>

enum { LIMIT_BYTES = 1 << 20 };

static void promise(bool holds)
{
    if (!holds) {
        __builtin_trap();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct eo_error err = {0};
    struct stream *s;
    struct csv c;
    int64_t column;

    if (stream_open_memory("f.csv", data, size, &s, &err) != EO_OK) {
        return 0;
    }
    if (csv_read_stream(s, LIMIT_BYTES, &c, &err) == EO_OK) {
        promise(c.n_rows > 0 && c.n_columns > 0 && c.n_columns <= CSV_MAX_COLUMNS);
        promise((uint64_t)c.n_rows * (uint64_t)c.n_columns <= LIMIT_BYTES / sizeof(double));
        for (int64_t i = 0; i < c.n_rows * c.n_columns; i++) {
            promise(isfinite(c.cells[i]));
        }
        promise(csv_column(&c, "", "f.csv", &column, &err) == EO_OK && column == c.n_columns - 1);
        promise(csv_column(&c, "0", "f.csv", &column, NULL) != EO_OK || column < c.n_columns);
        csv_fini(&c);
    } else {
        promise(err.code != EO_OK && strstr(err.message, "f.csv") != NULL);
    }
    stream_close(s);
    return 0;
}
