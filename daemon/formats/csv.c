#include "daemon/formats/csv.h"

#include "proto/base/bytes.h"
#include "proto/base/checked.h"
#include "proto/base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CSV_CHUNK = 64 << 10, CSV_MAX_NUMBER = 127, CSV_NAMES_BYTES = 32 << 20 };

struct cell {
    const char *text; /* without quotes and surrounding blanks */
    size_t length;
    bool quoted;
};

struct reader {
    struct stream *stream;
    struct eo_bytes line; /* without its line end */
    int64_t line_number;  /* of `line`, from 1 */
    size_t at, n;         /* what is left of chunk */
    uint64_t cap_cells, limit_cells;
    char chunk[CSV_CHUNK];
};

/* ---- lines ---- */

static int too_long(const struct reader *r, struct eo_error *err)
{
    return EO_RAISE(err, EO_E_TOO_LARGE, "%s:%" PRId64 ": the line is longer than %d bytes", stream_name(r->stream),
                    r->line_number, CSV_MAX_LINE_BYTES);
}

/* The next line into r->line; *out_more is false when there is none. */
static int next_line(struct reader *r, bool *out_more, struct eo_error *err)
{
    bool any = false;

    eo_bytes_clear(&r->line);
    r->line_number++;
    for (;;) {
        const char *end;
        size_t n;

        if (r->at == r->n) {
            int status = stream_read(r->stream, r->chunk, sizeof(r->chunk), &r->n, err);

            if (status != EO_OK) {
                return status;
            }
            r->at = 0;
            if (r->n == 0) {
                break;
            }
        }
        any = true;
        end = memchr(r->chunk + r->at, '\n', r->n - r->at);
        n = end == NULL ? r->n - r->at : (size_t)(end - (r->chunk + r->at));
        eo_bytes_append(&r->line, r->chunk + r->at, n);
        if (r->line.failed) {
            return too_long(r, err);
        }
        r->at += n;
        if (end != NULL) {
            r->at++;
            break;
        }
    }
    if (r->line.size > 0 && r->line.data[r->line.size - 1] == '\r') {
        r->line.size--;
    }
    *out_more = any;
    return EO_OK;
}

static bool blank_line(const struct reader *r)
{
    for (size_t i = 0; i < r->line.size; i++) {
        if (r->line.data[i] != ' ' && r->line.data[i] != '\t') {
            return false;
        }
    }
    return true;
}

/* ---- cells ---- */

static int cell_error(const struct reader *r, int64_t column, struct eo_error *err, const char *what)
{
    return EO_RAISE(err, EO_E_BAD_FILE, "%s:%" PRId64 ": column %" PRId64 ": %s", stream_name(r->stream),
                    r->line_number, column + 1, what);
}

/* A cell in double quotes; doubled quotes inside are folded in place. False when the quote does not end on this line or
 * text follows it. */
static bool take_quoted(char **p, char *end, struct cell *out)
{
    char *at = *p + 1, *to = at;

    *out = (struct cell){.text = at, .quoted = true};
    for (;;) {
        if (at == end) {
            return false;
        }
        if (*at == '"') {
            at++;
            if (at == end || *at != '"') {
                break;
            }
        }
        *to++ = *at++;
    }
    out->length = (size_t)(to - out->text);
    while (at < end && (*at == ' ' || *at == '\t')) {
        at++;
    }
    *p = at;
    return at == end || *at == ',';
}

/* Takes one cell off *p, which then stands at the comma or the end. */
static bool take_cell(char **p, char *end, struct cell *out)
{
    char *at = *p, *stop;

    while (at < end && (*at == ' ' || *at == '\t')) {
        at++;
    }
    if (at < end && *at == '"') {
        *p = at;
        return take_quoted(p, end, out);
    }
    stop = memchr(at, ',', (size_t)(end - at));
    stop = stop == NULL ? end : stop;
    *p = stop;
    while (stop > at && (stop[-1] == ' ' || stop[-1] == '\t')) {
        stop--;
    }
    *out = (struct cell){.text = at, .length = (size_t)(stop - at)};
    return memchr(at, '"', out->length) == NULL;
}

/* Plain decimals of up to 15 digits: both the digits and the power of ten are exact doubles, so that one division gives
 * the correctly rounded value (Clinger 1990). Everything else goes the slow way. */
static bool parse_short(const char *text, size_t length, double *out)
{
    static const double power[16] = {1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                     1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
    const char *end = text + length;
    bool negative = length > 0 && *text == '-';
    int64_t digits = 0;
    int n_digits = 0, n_fraction = 0;
    bool point = false;

    if (length == 0 || length > 17) {
        return false;
    }
    for (const char *p = text + (negative ? 1 : 0); p < end; p++) {
        if (*p == '.' && !point) {
            point = true;
        } else if (*p >= '0' && *p <= '9') {
            digits = digits * 10 + (*p - '0');
            n_digits++;
            n_fraction += point ? 1 : 0;
        } else {
            return false;
        }
    }
    if (n_digits == 0 || n_digits > 15) {
        return false;
    }
    *out = (double)digits / power[n_fraction];
    if (negative) {
        *out = -*out;
    }
    return true;
}

static bool parse_number(const struct cell *cell, double *out)
{
    char copy[CSV_MAX_NUMBER + 1];

    if (parse_short(cell->text, cell->length, out)) {
        return true;
    }
    if (cell->length > CSV_MAX_NUMBER || memchr(cell->text, '\0', cell->length) != NULL) {
        return false;
    }
    memcpy(copy, cell->text, cell->length);
    copy[cell->length] = '\0';
    return eo_parse_f64(copy, out);
}

static int bad_cell(const struct reader *r, const struct csv *c, int64_t column, const struct cell *cell,
                    const char *why, struct eo_error *err)
{
    char quoted[340], name[340] = "";

    if (c->names != NULL) {
        eo_quote(c->names[column], strlen(c->names[column]), name, sizeof(name));
    }
    EO_RAISE(err, EO_E_BAD_FILE, "%s:%" PRId64 ": column %" PRId64 "%s%s%s: %s%s", stream_name(r->stream),
             r->line_number, column + 1, name[0] != '\0' ? " (" : "", name, name[0] != '\0' ? ")" : "",
             cell->length == 0 ? "" : eo_quote(cell->text, cell->length, quoted, sizeof(quoted)), why);
    eo_error_hint(err, "Every cell must be a finite decimal number. Fill or drop rows with missing values first.");
    return EO_E_BAD_FILE;
}

/* ---- header ---- */

static int count_columns(const struct reader *r, int64_t *out, struct eo_error *err)
{
    char *p = (char *)r->line.data, *end = p + r->line.size;
    int64_t n = 0;
    bool quoted = false;

    for (; p < end; p++) {
        quoted = *p == '"' ? !quoted : quoted;
        n += *p == ',' && !quoted;
    }
    n++;
    if (n > CSV_MAX_COLUMNS) {
        return EO_RAISE(err, EO_E_TOO_LARGE, "%s:%" PRId64 ": %" PRId64 " columns; at most %d are read",
                        stream_name(r->stream), r->line_number, n, CSV_MAX_COLUMNS);
    }
    *out = n;
    return EO_OK;
}

/* Splits the line into cells[0..n_columns-1]; a different number of cells is a ragged row. */
static int split_line(struct reader *r, const struct csv *c, struct cell *cells, struct eo_error *err)
{
    char *p = (char *)r->line.data, *end = p + r->line.size;
    int64_t n = 0;

    for (;;) {
        struct cell cell;

        if (!take_cell(&p, end, &cell)) {
            return cell_error(r, n, err, "text around a quoted cell, or a quote that does not end on its line");
        }
        if (n < c->n_columns) {
            cells[n] = cell;
        }
        n++;
        if (p == end) {
            break;
        }
        p++;
    }
    if (n != c->n_columns) {
        EO_RAISE(err, EO_E_BAD_FILE, "%s:%" PRId64 ": %" PRId64 " cells where the first row has %" PRId64,
                 stream_name(r->stream), r->line_number, n, c->n_columns);
        eo_error_hint(err, "All rows must have the same number of cells, separated by commas.");
        return EO_E_BAD_FILE;
    }
    return EO_OK;
}

/* The first row names the columns when none of its cells is a plain number. A mixture is more likely a damaged data row
 * than a header, and dropping a row silently would be worse than asking. */
static int find_header(struct reader *r, struct csv *c, const struct cell *cells, struct eo_error *err)
{
    int64_t n_names = 0, first_name = -1, first_number = -1;
    double ignored;

    for (int64_t i = 0; i < c->n_columns; i++) {
        if (cells[i].quoted || !parse_number(&cells[i], &ignored)) {
            first_name = n_names++ == 0 ? i : first_name;
        } else if (first_number < 0) {
            first_number = i;
        }
    }
    if (n_names == 0) {
        c->first_line = r->line_number;
        return EO_OK;
    }
    if (n_names < c->n_columns) {
        bad_cell(r, c, first_name, &cells[first_name],
                 cells[first_name].length == 0 ? "the cell is empty" : " is not a number", err);
        eo_error_detail(err, "Column %" PRId64 " of this first row is a number, so that it cannot name the columns.",
                        first_number + 1);
        eo_error_hint(err, "Put names in double quotes if this row is meant as the header.");
        return EO_E_BAD_FILE;
    }
    c->names = eo_arena_alloc_n(&c->arena, (size_t)c->n_columns, sizeof(*c->names));
    for (int64_t i = 0; c->names != NULL && i < c->n_columns; i++) {
        c->names[i] = eo_arena_strndup(&c->arena, cells[i].text, cells[i].length);
        if (c->names[i] == NULL) {
            c->names = NULL;
        }
    }
    if (c->names == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for the header of %s", stream_name(r->stream));
    }
    c->first_line = r->line_number + 1;
    return EO_OK;
}

/* ---- rows ---- */

static int reserve_row(struct reader *r, struct csv *c, struct eo_error *err)
{
    uint64_t used = (uint64_t)c->n_rows * (uint64_t)c->n_columns;
    uint64_t need = used + (uint64_t)c->n_columns;
    uint64_t cap = EO_MIN(EO_MAX(need, r->cap_cells * 2), r->limit_cells);
    double *cells;

    if (need <= r->cap_cells) {
        return EO_OK;
    }
    if (need > r->limit_cells) {
        return EO_RAISE(err, EO_E_TOO_LARGE, "%s:%" PRId64 ": the table needs more than %" PRIu64 " bytes of memory",
                        stream_name(r->stream), r->line_number, r->limit_cells * sizeof(double));
    }
    cells = realloc(c->cells, cap * sizeof(double));
    if (cells == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for row %" PRId64 " of %s", c->n_rows, stream_name(r->stream));
    }
    c->cells = cells;
    r->cap_cells = cap;
    return EO_OK;
}

static int add_row(struct reader *r, struct csv *c, const struct cell *cells, struct eo_error *err)
{
    double *row;
    int status = reserve_row(r, c, err);

    if (status != EO_OK) {
        return status;
    }
    row = c->cells + c->n_rows * c->n_columns;
    for (int64_t i = 0; i < c->n_columns; i++) {
        if (cells[i].length == 0) {
            return bad_cell(r, c, i, &cells[i], "the cell is empty", err);
        }
        if (!parse_number(&cells[i], &row[i])) {
            return bad_cell(r, c, i, &cells[i], " is not a number", err);
        }
        if (!isfinite(row[i])) {
            return bad_cell(r, c, i, &cells[i], " is not finite", err);
        }
    }
    c->n_rows++;
    return EO_OK;
}

/* Empty lines may only end the file: anywhere else they are ragged rows. */
static int expect_only_blanks(struct reader *r, const struct csv *c, struct eo_error *err)
{
    int64_t blank = r->line_number;

    for (;;) {
        bool more = false;
        int status = next_line(r, &more, err);

        if (status != EO_OK || !more) {
            return status;
        }
        if (!blank_line(r)) {
            EO_RAISE(err, EO_E_BAD_FILE, "%s:%" PRId64 ": an empty line where the first row has %" PRId64 " cells",
                     stream_name(r->stream), blank, c->n_columns);
            eo_error_hint(err, "Empty lines are allowed at the end of the file only.");
            return EO_E_BAD_FILE;
        }
    }
}

static int read_rows(struct reader *r, struct csv *c, struct cell *cells, struct eo_error *err)
{
    for (;;) {
        bool more = false;
        int status = next_line(r, &more, err);

        if (status != EO_OK || !more) {
            return status;
        }
        if (blank_line(r)) {
            return expect_only_blanks(r, c, err);
        }
        status = split_line(r, c, cells, err);
        if (status == EO_OK) {
            status = add_row(r, c, cells, err);
        }
        if (status != EO_OK) {
            return status;
        }
    }
}

static int read_first_row(struct reader *r, struct csv *c, struct cell **out_cells, struct eo_error *err)
{
    static const char bom[] = "\xef\xbb\xbf";
    struct cell *cells;
    bool more = false;
    int status = next_line(r, &more, err);

    if (status != EO_OK) {
        return status;
    }
    if (r->line.size >= 3 && memcmp(r->line.data, bom, 3) == 0) {
        memmove(r->line.data, r->line.data + 3, r->line.size - 3);
        r->line.size -= 3;
    }
    if (!more || blank_line(r)) {
        return EO_RAISE(err, EO_E_BAD_FILE, "%s:1: the first line is empty: no table here", stream_name(r->stream));
    }
    status = count_columns(r, &c->n_columns, err);
    if (status != EO_OK) {
        return status;
    }
    cells = calloc((size_t)c->n_columns, sizeof(*cells));
    if (cells == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory to read %s", stream_name(r->stream));
    }
    *out_cells = cells;
    status = split_line(r, c, cells, err);
    if (status == EO_OK) {
        status = find_header(r, c, cells, err);
    }
    if (status == EO_OK && c->names == NULL) {
        status = add_row(r, c, cells, err);
    }
    return status;
}

static int read_table(struct reader *r, struct csv *c, struct eo_error *err)
{
    struct cell *cells = NULL;
    int status = read_first_row(r, c, &cells, err);

    if (status == EO_OK) {
        status = read_rows(r, c, cells, err);
    }
    free(cells);
    if (status != EO_OK) {
        return status;
    }
    if (c->n_rows == 0) {
        return EO_RAISE(err, EO_E_BAD_FILE, "%s holds a header and no rows", stream_name(r->stream));
    }
    return EO_OK;
}

int csv_read_stream(struct stream *s, uint64_t limit_bytes, struct csv *out, struct eo_error *err)
{
    struct reader *r = malloc(sizeof(*r));
    struct csv c = {0};
    int status;

    if (r == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory to read %s", stream_name(s));
    }
    memset(r, 0, offsetof(struct reader, chunk));
    r->stream = s;
    r->limit_cells = limit_bytes / sizeof(double);
    eo_bytes_init(&r->line, CSV_MAX_LINE_BYTES);
    eo_arena_init(&c.arena, CSV_NAMES_BYTES);
    status = read_table(r, &c, err);
    eo_bytes_fini(&r->line);
    free(r);
    if (status != EO_OK) {
        csv_fini(&c);
        return status;
    }
    *out = c;
    return EO_OK;
}

int csv_read(const char *path, uint64_t limit_bytes, struct csv *out, struct eo_error *err)
{
    struct stream *s;
    int status = stream_open(path, &s, err);

    if (status == EO_OK) {
        status = csv_read_stream(s, limit_bytes, out, err);
        stream_close(s);
    }
    return status;
}

void csv_fini(struct csv *c)
{
    free(c->cells);
    eo_arena_fini(&c->arena);
    *c = (struct csv){0};
}

/* ---- columns by name ---- */

static const char *name_at(const void *ctx, size_t i)
{
    return ((const struct csv *)ctx)->names[i];
}

static int no_column(const struct csv *c, const char *name, const char *path, struct eo_error *err)
{
    char quoted[340];
    const char *near = c->names != NULL ? eo_nearest(name, name_at, c, (size_t)c->n_columns) : NULL;

    EO_RAISE(err, EO_E_BAD_FILE, "%s has no column %s", path, eo_quote(name, strlen(name), quoted, sizeof(quoted)));
    if (near != NULL) {
        eo_error_hint(err, "Did you mean %s?", eo_quote(near, strlen(near), quoted, sizeof(quoted)));
    } else if (c->names == NULL) {
        eo_error_hint(err, "The file has no header row: give the column's index, 0 to %" PRId64 ".", c->n_columns - 1);
    } else {
        eo_error_hint(err, "Its %" PRId64 " columns go from %s to index %" PRId64 ".", c->n_columns,
                      eo_quote(c->names[0], strlen(c->names[0]), quoted, sizeof(quoted)), c->n_columns - 1);
    }
    return EO_E_BAD_FILE;
}

int csv_column(const struct csv *c, const char *name, const char *path, int64_t *out, struct eo_error *err)
{
    int64_t index, found = -1;

    if (name[0] == '\0') {
        *out = c->n_columns - 1;
        return EO_OK;
    }
    for (int64_t i = 0; c->names != NULL && i < c->n_columns; i++) {
        if (strcmp(c->names[i], name) == 0) {
            if (found >= 0) {
                return EO_RAISE(err, EO_E_BAD_FILE,
                                "%s names two columns alike: %" PRId64 " and %" PRId64 ", give the index", path, found,
                                i);
            }
            found = i;
        }
    }
    if (found < 0 && eo_parse_i64(name, &index) && index >= -c->n_columns && index < c->n_columns) {
        found = index < 0 ? index + c->n_columns : index;
    }
    if (found < 0) {
        return no_column(c, name, path, err);
    }
    *out = found;
    return EO_OK;
}
