/* Tables of numbers as comma-separated text, read strictly: every row has the first row's number of cells and every
 * cell is a finite decimal number. A first row with a cell that is no number names the columns. Cells may stand in
 * double quotes (RFC 4180), lines end in LF or CRLF, a UTF-8 byte order mark is skipped, empty lines may end the file;
 * gzip is unpacked on the way. Everything else is an error with file, line and column. */
#ifndef EO_DAEMON_FORMATS_CSV_H
#define EO_DAEMON_FORMATS_CSV_H

#include "daemon/formats/stream.h"
#include "proto/base/arena.h"

enum { CSV_MAX_COLUMNS = 1 << 16, CSV_MAX_LINE_BYTES = 4 << 20 };

struct csv {
    int64_t n_rows, n_columns;
    double *cells;         /* n_rows x n_columns, C order; owned */
    const char **names;    /* n_columns, or NULL without a header row */
    int64_t first_line;    /* of the first data row, counted from 1; row r stands at line first_line + r */
    struct eo_arena arena; /* owns names */
};

/* limit_bytes bounds the memory of the cells. On success out is the caller's, csv_fini frees it.
 * Errors: NO_FILE, BAD_FILE, TOO_LARGE (columns, line length, limit_bytes), NO_MEMORY, IO. */
int csv_read(const char *path, uint64_t limit_bytes, struct csv *out, struct eo_error *err);
int csv_read_stream(struct stream *s, uint64_t limit_bytes, struct csv *out, struct eo_error *err);
void csv_fini(struct csv *c);

/* A column by header name or by index from 0, negative from the end; "" is the last one. BAD_FILE names what is there.
 */
int csv_column(const struct csv *c, const char *name, const char *path, int64_t *out, struct eo_error *err);

#endif
