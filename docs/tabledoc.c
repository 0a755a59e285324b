/* Writes the generated pages of docs/ below a folder: tabledoc DIR. `docs-generate` runs it on docs/ itself, a test on
 * a fresh folder to see whether the tree is up to date. */
#include "docs/tabledoc.h"

#include "proto/base/error.h"
#include "proto/base/file.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void tabledoc_head(FILE *out, const char *title, const char *table, const char *text)
{
    fprintf(out, "# %s\n\n<!-- Made from %s by the target docs-generate: edit the table, not this page. -->\n\n%s\n",
            title, table, text);
}

void tabledoc_cell(FILE *out, const char *text)
{
    if (text[0] == '\0') {
        fputc('-', out);
    }
    for (; *text != '\0'; text++) {
        fputs(*text == '|' ? "\\|" : *text == '\n' ? "<br>" : (const char[]){*text, '\0'}, out);
    }
}

char *tabledoc_number(double v, char *out, size_t size)
{
    static const struct {
        double value;
        const char *text;
    } names[] = {{(double)INT64_MAX, "2^63 - 1"},
                 {(double)INT64_MIN, "-2^63"},
                 {(double)INT32_MAX, "2^31 - 1"},
                 {(double)UINT32_MAX, "2^32 - 1"}};
    for (size_t i = 0; i < EO_COUNT_OF(names); i++) {
        if (v >= names[i].value && v <= names[i].value) {
            snprintf(out, size, "%s", names[i].text);
            return out;
        }
    }
    snprintf(out, size, "%.10g", v);
    return out;
}

char *tabledoc_range(double min, double max, char *out, size_t size)
{
    char low[32];
    char high[32];
    if (min <= (double)INT64_MIN && max >= (double)INT64_MAX) {
        snprintf(out, size, "%s", isinf(min) || max <= (double)INT64_MAX ? "any" : "any finite");
    } else if (max >= DBL_MAX) {
        snprintf(out, size, "%s and above", tabledoc_number(min, low, sizeof low));
    } else {
        snprintf(out, size, "%s to %s", tabledoc_number(min, low, sizeof low), tabledoc_number(max, high, sizeof high));
    }
    return out;
}

static int write_page(const char *dir, const struct tabledoc_page *page)
{
    char path[4096];
    char *text = NULL;
    size_t size = 0;
    struct eo_error err = {0};
    FILE *out = open_memstream(&text, &size);
    if (out == NULL) {
        fprintf(stderr, "tabledoc: no memory\n");
        return 1;
    }
    page->write(out);
    int rc = fclose(out);
    if (rc == 0 && !eo_path_join(path, sizeof path, dir, page->path)) {
        rc = 1;
    }
    char *slash = rc == 0 ? strrchr(path, '/') : NULL;
    if (slash != NULL) {
        *slash = '\0';
        rc = eo_dir_ensure(path, 0777, &err);
        *slash = '/';
    }
    if (rc == 0) {
        rc = eo_file_write_atomic(path, text, size, 0666, &err);
    }
    free(text);
    if (rc != 0) {
        fprintf(stderr, "tabledoc: %s could not be written: %s\n", page->path, err.message);
    }
    return rc != 0;
}

int main(int argc, char **argv)
{
    static const struct tabledoc_page *const groups[] = {tabledoc_engine_pages, tabledoc_jobs_pages,
                                                         tabledoc_tools_pages, tabledoc_man_pages};
    if (argc != 2) {
        fprintf(stderr, "usage: tabledoc DIR\nWrites DIR/reference and DIR/man from the tables.\n");
        return 64;
    }
    for (size_t i = 0; i < EO_COUNT_OF(groups); i++) {
        for (const struct tabledoc_page *page = groups[i]; page->path != NULL; page++) {
            if (write_page(argv[1], page) != 0) {
                return 73;
            }
        }
    }
    return 0;
}
