#include "client/cli/model_text.h"

#include "client/cli/item_json.h"

#include <math.h>
#include <stdio.h>

enum { NAME_SIZE = 1100, VALUES_IN_A_LINE = 16 };

/* "[batch, 3]", "?" for a size that is open and has no name; "of any rank" without a shape. */
static void print_shape(const struct eo_item *shape)
{
    if (eo_item_kind(shape) != EO_ITEM_ARRAY) {
        fputs("of any rank", stdout);
        return;
    }
    putchar('[');
    for (size_t i = 0; i < eo_item_count(shape); i++) {
        const struct eo_item *dim = eo_item_at(shape, i);
        char symbol[NAME_SIZE];
        int64_t size = 0;
        fputs(i > 0 ? ", " : "", stdout);
        if (eo_item_as_i64(dim, &size)) {
            printf("%lld", (long long)size);
        } else {
            fputs(eo_item_kind(dim) == EO_ITEM_STR ? item_str(dim, symbol, sizeof symbol) : "?", stdout);
        }
    }
    putchar(']');
}

static void print_port(const struct eo_item *port)
{
    char name[NAME_SIZE];
    char dtype[16];
    printf("%-16s %s ", item_text(port, "name", name, sizeof name), item_text(port, "dtype", dtype, sizeof dtype));
    print_shape(eo_item_get(port, "shape"));
}

static void print_ports(const char *title, const struct eo_item *ports)
{
    printf("%s\n", title);
    for (size_t i = 0; i < eo_item_count(ports); i++) {
        const struct eo_item *port = eo_item_at(ports, i);
        bool required = true;
        fputs("  ", stdout);
        print_port(port);
        eo_item_as_bool(eo_item_get(port, "required"), &required);
        puts(required ? "" : " optional");
    }
}

static void print_counts(const char *title, const struct eo_item *map, const char *between)
{
    fputs(title, stdout);
    for (size_t i = 0; i < eo_item_count(map); i++) {
        const struct eo_item *key = NULL;
        const struct eo_item *value = NULL;
        char name[NAME_SIZE];
        int64_t n = 0;
        eo_item_pair(map, i, &key, &value);
        eo_item_as_i64(value, &n);
        printf("%s%s %lld", i > 0 ? between : "", item_str(key, name, sizeof name), (long long)n);
    }
}

void model_text_describe(const char *path, const struct eo_item *m)
{
    printf("%s: IR version %lld", path, (long long)item_i64(m, "ir_version", 0));
    print_counts(", opset ", eo_item_get(m, "opsets"), ", ");
    printf("; %lld nodes, %lld parameters\n", (long long)item_i64(m, "nodes", 0),
           (long long)item_i64(m, "parameters", 0));
    print_ports("inputs", eo_item_get(m, "inputs"));
    print_ports("outputs", eo_item_get(m, "outputs"));
    print_counts("operators\n  ", eo_item_get(m, "operators"), ", ");
    putchar('\n');
}

static void print_value(const struct eo_item *it)
{
    double f = 0;
    int64_t i = 0;
    uint64_t u = 0;
    bool b = false;
    if (eo_item_as_bool(it, &b)) {
        fputs(b ? "true" : "false", stdout);
    } else if (eo_item_as_i64(it, &i)) {
        printf("%lld", (long long)i);
    } else if (eo_item_as_u64(it, &u)) {
        printf("%llu", (unsigned long long)u);
    } else if (eo_item_as_f64(it, &f)) {
        printf("%.7g", f);
    }
}

static void print_values(const struct eo_item *values)
{
    const size_t n = eo_item_count(values);
    fputs("  [", stdout);
    for (size_t i = 0; i < n; i++) {
        fputs(i == 0 ? "" : i % VALUES_IN_A_LINE == 0 ? ",\n    " : ", ", stdout);
        print_value(eo_item_at(values, i));
    }
    putchar(']');
}

void model_text_output(const struct eo_item *output, const char *file)
{
    const struct eo_item *values = eo_item_get(output, "values");
    print_port(output);
    if (file[0] == '\0' && eo_item_kind(values) == EO_ITEM_ARRAY) {
        print_values(values);
    } else if (eo_item_kind(eo_item_get(output, "min")) != EO_ITEM_NIL) {
        printf("  min %.7g mean %.7g max %.7g", item_f64(output, "min"), item_f64(output, "mean"),
               item_f64(output, "max"));
    } else {
        fputs("  empty", stdout);
    }
    printf("%s%s\n", file[0] != '\0' ? "  " : "", file);
}
