#include "tests/conformance/onnx/vector_list.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_CASES = 2048 };

static void copy_field(char *out, size_t size, const char *text)
{
    ck_assert_msg(strlen(text) < size, "the list's field \"%s\" is too long", text);
    memcpy(out, text, strlen(text) + 1);
}

/* kind, name, op, opset, dtypes, tier, types, flags */
static void read_line(char *line, struct vector_case *c)
{
    char *fields[8], *rest = line;

    for (int i = 0; i < 8; i++) {
        fields[i] = strsep(&rest, "\t\n");
        ck_assert_msg(fields[i] != NULL, "a line of the list has %d fields", i);
    }
    copy_field(c->kind, sizeof(c->kind), fields[0]);
    copy_field(c->name, sizeof(c->name), fields[1]);
    copy_field(c->op, sizeof(c->op), fields[2]);
    c->tier = strcmp(fields[5], "core") != 0   ? TIER_NEAR
              : strcmp(fields[6], "base") != 0 ? TIER_CORE_WIDE
                                               : TIER_CORE_BASE;
    c->rng = strstr(fields[7], "rng") != NULL;
}

int vector_list_read(struct vector_case **out)
{
    char path[4096], line[1024];
    const char *root = getenv("EO_SOURCE_DIR");
    struct vector_case *cases = calloc(MAX_CASES, sizeof(*cases));
    FILE *f;
    int n = 0;

    snprintf(path, sizeof(path), "%s/tests/vectors/onnx_tests.txt", root != NULL ? root : ".");
    f = fopen(path, "r");
    ck_assert_msg(f != NULL && cases != NULL, "%s cannot be read", path);
    while (fgets(line, sizeof(line), f) != NULL) {
        if (line[0] != '#' && line[0] != '\n') {
            ck_assert_int_lt(n, MAX_CASES);
            read_line(line, &cases[n++]);
        }
    }
    fclose(f);
    *out = cases;
    return n;
}
