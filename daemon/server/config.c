#include "daemon/server/config.h"

#include "proto/base/file.h"
#include "proto/base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONFIG_FILE_MAX = 1 << 20 };

enum row_index {
#define CONFIG(name, ...) ROW_##name,
#include "daemon/server/config.def"
    ROW_COUNT
};

#define WHEN_START false
#define WHEN_RELOAD true
static const struct config_row rows[ROW_COUNT] = {
#define CONFIG(name_, flag_, key_, kind_, argument_, default_, min_, max_, when_, help_)                               \
    [ROW_##name_] = {.name = #name_,                                                                                   \
                     .flag = (flag_),                                                                                  \
                     .key = (key_),                                                                                    \
                     .argument = (argument_),                                                                          \
                     .default_text = (default_),                                                                       \
                     .help = (help_),                                                                                  \
                     .kind = KIND_##kind_,                                                                             \
                     .min = (min_),                                                                                    \
                     .max = (max_),                                                                                    \
                     .reload = WHEN_##when_},
#include "daemon/server/config.def"
};

int config_row_count(void)
{
    return ROW_COUNT;
}

const struct config_row *config_row(int i)
{
    return i >= 0 && i < ROW_COUNT ? &rows[i] : NULL;
}

/* ---- one value ---- */

/* One layer of values (file or command line) being read: a repeatable option replaces what lower layers said. */
struct layer {
    struct config *config;
    int code;         /* what a wrong value raises: USAGE or CONFIG */
    const char *name; /* of the file; NULL = the command line */
    int line;
    bool seen[ROW_COUNT];
};

static int refuse(const struct layer *l, const struct config_row *row, const char *value, const char *expected,
                  struct eo_error *err)
{
    char quoted[100];
    eo_quote(value, strlen(value), quoted, sizeof(quoted));
    if (l->name) {
        EO_RAISE(err, l->code, "%s:%d: %s = %s is not %s", l->name, l->line, row->key, quoted, expected);
    } else {
        EO_RAISE(err, l->code, "%s %s is not %s", row->flag, quoted, expected);
    }
    return l->code;
}

static int set_text(const struct layer *l, const struct config_row *row, char *out, size_t size, const char *value,
                    struct eo_error *err)
{
    if (value[0] == '\0' || !eo_copy_text(out, size, value)) {
        return refuse(l, row, value, value[0] ? "short enough" : "given", err);
    }
    return EO_OK;
}

static int set_LISTEN(struct layer *l, const struct config_row *row, struct config_list *out, const char *value,
                      struct eo_error *err)
{
    if (out->n == CONFIG_MAX_LISTEN) {
        return refuse(l, row, value, "possible: there are 8 listeners already", err);
    }
    struct eo_error why = {0};
    if (eo_endpoint_parse(value, &out->items[out->n], &why) != EO_OK) {
        refuse(l, row, value, "an address: write ADDR:PORT, [v6]:PORT or unix:PATH", err);
        eo_error_detail(err, "%s", why.message);
        return l->code;
    }
    out->n++;
    return EO_OK;
}

static int set_ADDRESS(struct layer *l, const struct config_row *row, char (*out)[300], const char *value,
                       struct eo_error *err)
{
    struct eo_endpoint ep;
    if (eo_endpoint_parse(value, &ep, NULL) != EO_OK || ep.is_unix) {
        return refuse(l, row, value, "an address: write HOST or HOST:PORT", err);
    }
    return set_text(l, row, *out, sizeof(*out), value, err);
}

static int set_PATH(struct layer *l, const struct config_row *row, char (*out)[CONFIG_TEXT], const char *value,
                    struct eo_error *err)
{
    return set_text(l, row, *out, sizeof(*out), value, err);
}

static int set_PATHS(struct layer *l, const struct config_row *row, struct config_paths *out, const char *value,
                     struct eo_error *err)
{
    if (out->n == CONFIG_MAX_PATHS) {
        return refuse(l, row, value, "possible: there are 8 already", err);
    }
    if (value[0] != '/') {
        return refuse(l, row, value, "an absolute path", err);
    }
    int code = set_text(l, row, out->items[out->n], CONFIG_TEXT, value, err);
    out->n += code == EO_OK ? 1 : 0;
    return code;
}

static int set_FLAG(struct layer *l, const struct config_row *row, bool *out, const char *value, struct eo_error *err)
{
    if (strcmp(value, "yes") == 0 || strcmp(value, "no") == 0) {
        *out = value[0] == 'y';
        return EO_OK;
    }
    return refuse(l, row, value, "yes or no", err);
}

static int set_number(struct layer *l, const struct config_row *row, uint64_t *out, const char *value, bool parsed,
                      uint64_t number, const char *form, struct eo_error *err)
{
    char expected[120];
    if (!parsed) {
        return refuse(l, row, value, form, err);
    }
    if (number < row->min || number > row->max) {
        snprintf(expected, sizeof(expected), "within %llu and %llu%s", (unsigned long long)row->min,
                 (unsigned long long)row->max, row->kind == KIND_DURATION ? " ms" : "");
        return refuse(l, row, value, expected, err);
    }
    *out = number;
    return EO_OK;
}

static int set_COUNT(struct layer *l, const struct config_row *row, uint64_t *out, const char *value,
                     struct eo_error *err)
{
    int64_t v = 0;
    bool parsed = eo_parse_i64(value, &v) && v >= 0;
    return set_number(l, row, out, value, parsed, (uint64_t)v, "a whole number", err);
}

static int set_SIZE(struct layer *l, const struct config_row *row, uint64_t *out, const char *value,
                    struct eo_error *err)
{
    uint64_t v = 0;
    bool parsed = eo_parse_size(value, &v);
    return set_number(l, row, out, value, parsed, v, "a size: write 65536, 64MiB or 8GiB", err);
}

static int set_DURATION(struct layer *l, const struct config_row *row, uint64_t *out, const char *value,
                        struct eo_error *err)
{
    uint64_t v = 0;
    bool parsed = eo_parse_duration(value, &v);
    return set_number(l, row, out, value, parsed, v, "a time: write 250ms, 30s or 5m", err);
}

/* Index of value in names, or -1 after raising with the nearest one. */
static int choose(const struct layer *l, const struct config_row *row, const char *const *names, int n,
                  const char *value, const char *expected, struct eo_error *err)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(names[i], value) == 0) {
            return i;
        }
    }
    refuse(l, row, value, expected, err);
    return -1;
}

static int set_LEVEL(struct layer *l, const struct config_row *row, enum eo_log_level *out, const char *value,
                     struct eo_error *err)
{
    static const char *const names[] = {
        [EO_LOG_DEBUG] = "debug", [EO_LOG_INFO] = "info", [EO_LOG_WARN] = "warn", [EO_LOG_ERROR] = "error"};
    int i = choose(l, row, names, (int)EO_COUNT_OF(names), value, "debug, info, warn or error", err);
    *out = i >= 0 ? (enum eo_log_level)i : *out;
    return i >= 0 ? EO_OK : l->code;
}

static int set_FORMAT(struct layer *l, const struct config_row *row, enum eo_log_format *out, const char *value,
                      struct eo_error *err)
{
    static const char *const names[] = {[EO_LOG_TEXT] = "text", [EO_LOG_JSON] = "json"};
    int i = choose(l, row, names, (int)EO_COUNT_OF(names), value, "text or json", err);
    *out = i >= 0 ? (enum eo_log_format)i : *out;
    return i >= 0 ? EO_OK : l->code;
}

/* Where a row's value lies in struct config. */
#define FIELD_LISTEN(name) name
#define FIELD_ADDRESS(name) name
#define FIELD_PATH(name) name
#define FIELD_PATHS(name) name
#define FIELD_FLAG(name) name
#define FIELD_COUNT(name) name
#define FIELD_SIZE(name) name##_bytes
#define FIELD_DURATION(name) name##_ms
#define FIELD_LEVEL(name) name
#define FIELD_FORMAT(name) name

static int set_row(struct layer *l, int row, const char *value, struct eo_error *err)
{
    if (!l->seen[row]) {
        l->seen[row] = true;
        if (row == ROW_listen) {
            l->config->listen.n = 0;
        } else if (row == ROW_data_dirs) {
            l->config->data_dirs.n = 0;
        }
    }
    switch ((enum row_index)row) {
#define CONFIG(name, flag, key, kind, ...)                                                                             \
    case ROW_##name:                                                                                                   \
        return set_##kind(l, &rows[row], &l->config->FIELD_##kind(name), value, err);
#include "daemon/server/config.def"
    case ROW_COUNT:
        break;
    }
    return EO_BUG(err, "config row %d", row);
}

void config_defaults(struct config *c)
{
    memset(c, 0, sizeof(*c));
    struct layer l = {.config = c, .code = EO_E_CONFIG, .name = "default"};
    for (int i = 0; i < ROW_COUNT; i++) {
        if (rows[i].default_text[0]) {
            set_row(&l, i, rows[i].default_text, NULL); /* a test shows that every default is valid */
        }
    }
}

/* ---- the file ---- */

static const char *key_at(const void *ctx, size_t i)
{
    EO_UNUSED(ctx);
    return rows[i].key;
}

static const char *flag_at(const void *ctx, size_t i)
{
    EO_UNUSED(ctx);
    return rows[i].flag;
}

static char *trim(char *text)
{
    text += strspn(text, " \t\r");
    size_t n = strlen(text);
    while (n > 0 && strchr(" \t\r", text[n - 1])) {
        text[--n] = '\0';
    }
    return text;
}

static int parse_line(struct layer *l, char *line, struct eo_error *err)
{
    char quoted[100];
    line = trim(line);
    if (line[0] == '\0' || line[0] == '#') {
        return EO_OK;
    }
    char *equals = strchr(line, '=');
    if (!equals) {
        EO_RAISE(err, EO_E_CONFIG, "%s:%d: %s is not `key = value`", l->name, l->line,
                 eo_quote(line, strlen(line), quoted, sizeof(quoted)));
        return EO_E_CONFIG;
    }
    *equals = '\0';
    char *key = trim(line);
    char *value = trim(equals + 1);
    /* A comment may follow a value; a '#' without a space before it belongs to the value. */
    for (char *hash = strchr(value, '#'); hash; hash = strchr(hash + 1, '#')) {
        if (hash == value || hash[-1] == ' ' || hash[-1] == '\t') {
            *hash = '\0';
            value = trim(value);
            break;
        }
    }
    for (int i = 0; i < ROW_COUNT; i++) {
        if (rows[i].key[0] && strcmp(rows[i].key, key) == 0) {
            return set_row(l, i, value, err);
        }
    }
    EO_RAISE(err, EO_E_CONFIG, "%s:%d: there is no option %s", l->name, l->line,
             eo_quote(key, strlen(key), quoted, sizeof(quoted)));
    const char *nearest = eo_nearest(key, key_at, NULL, ROW_COUNT);
    if (nearest && nearest[0]) {
        eo_error_hint(err, "Did you mean %s?", nearest);
    } else {
        eo_error_hint(err, "`everyod --help` lists the options; keys are their names without the dashes.");
    }
    return EO_E_CONFIG;
}

int config_parse_text(const char *text, size_t size, const char *file_name, struct config *c, struct eo_error *err)
{
    struct layer l = {.config = c, .code = EO_E_CONFIG, .name = file_name};
    if (memchr(text, '\0', size)) {
        return EO_RAISE(err, EO_E_CONFIG, "%s holds a NUL byte: this is no configuration file", file_name);
    }
    const char *end = text + size;
    while (text < end) {
        l.line++;
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        size_t length = (size_t)((stop ? stop : end) - text);
        char line[CONFIG_TEXT + 256];
        if (length >= sizeof(line)) {
            return EO_RAISE(err, EO_E_CONFIG, "%s:%d: the line is longer than %zu bytes", file_name, l.line,
                            sizeof(line) - 1);
        }
        memcpy(line, text, length);
        line[length] = '\0';
        int code = parse_line(&l, line, err);
        if (code != EO_OK) {
            return code;
        }
        text = stop ? stop + 1 : end;
    }
    return EO_OK;
}

static int parse_file(struct config *c, struct eo_error *err)
{
    struct eo_bytes text;
    struct eo_error why = {0};
    if (eo_file_read(c->config_file, CONFIG_FILE_MAX, &text, &why) != EO_OK) {
        EO_RAISE(err, EO_E_CONFIG, "the configuration cannot be read: %s", why.message);
        for (int i = 0; i < why.n_causes; i++) {
            eo_error_cause(err, why.causes[i].source, why.causes[i].code, why.causes[i].text);
        }
        return EO_E_CONFIG;
    }
    int code = config_parse_text(eo_bytes_text(&text), text.size, c->config_file, c, err);
    eo_bytes_fini(&text);
    return code;
}

/* ---- the command line ---- */

static int find_flag(const char *text, size_t length)
{
    for (int i = 0; i < ROW_COUNT; i++) {
        if (rows[i].flag[0] && strlen(rows[i].flag) == length && memcmp(rows[i].flag, text, length) == 0) {
            return i;
        }
    }
    return -1;
}

static int unknown_flag(const char *arg, size_t length, struct eo_error *err)
{
    char word[64], quoted[100];
    if (arg[0] != '-') {
        EO_RAISE(err, EO_E_USAGE, "unexpected argument %s", eo_quote(arg, length, quoted, sizeof(quoted)));
        eo_error_hint(err, "everyod takes options only; `everyod --help` lists them.");
        return EO_E_USAGE;
    }
    EO_RAISE(err, EO_E_USAGE, "unknown option %s", eo_quote(arg, length, quoted, sizeof(quoted)));
    snprintf(word, sizeof(word), "%.*s", (int)EO_MIN(length, sizeof(word) - 1), arg);
    const char *nearest = eo_nearest(word, flag_at, NULL, ROW_COUNT);
    if (nearest && nearest[0]) {
        eo_error_hint(err, "Did you mean %s?", nearest);
    } else {
        eo_error_hint(err, "`everyod --help` lists the options.");
    }
    return EO_E_USAGE;
}

static int parse_args(int argc, char *const *argv, struct config *c, struct eo_error *err)
{
    struct layer l = {.config = c, .code = EO_E_USAGE};
    for (int i = 1; i < argc; i++) {
        const char *arg = strcmp(argv[i], "-h") == 0 ? "--help" : argv[i];
        const char *equals = arg[0] == '-' ? strchr(arg, '=') : NULL;
        size_t length = equals ? (size_t)(equals - arg) : strlen(arg);
        int row = find_flag(arg, length);
        if (row < 0) {
            return unknown_flag(arg, length, err);
        }
        const char *value = equals ? equals + 1 : NULL;
        if (!value && rows[row].kind == KIND_FLAG) {
            value = "yes";
        } else if (!value) {
            if (i + 1 >= argc) {
                return EO_RAISE(err, EO_E_USAGE, "%s needs a value: %s %s", rows[row].flag, rows[row].flag,
                                rows[row].argument);
            }
            value = argv[++i];
        }
        int code = set_row(&l, row, value, err);
        if (code != EO_OK) {
            return code;
        }
    }
    return EO_OK;
}

int config_parse(int argc, char *const *argv, struct config *out, enum config_action *out_action, struct eo_error *err)
{
    config_defaults(out);
    int code = parse_args(argc, argv, out, err);
    if (code != EO_OK) {
        return code;
    }
    *out_action = out->help ? CONFIG_HELP : out->version ? CONFIG_VERSION : CONFIG_RUN;
    if (*out_action != CONFIG_RUN) {
        return EO_OK;
    }
    if (out->config_file[0]) {
        char path[CONFIG_TEXT];
        eo_copy_text(path, sizeof(path), out->config_file);
        config_defaults(out);
        eo_copy_text(out->config_file, sizeof(out->config_file), path);
        code = parse_file(out, err);
        if (code == EO_OK) {
            code = parse_args(argc, argv, out, err); /* once more: it wins over the file */
        }
    }
    if (code == EO_OK) {
        code = config_check(out, err);
    }
    *out_action = out->check_config ? CONFIG_CHECK : CONFIG_RUN;
    return code;
}

int config_reload(struct config *c, const struct config *next)
{
    int n_fixed = 0;
#define TAKE_RELOAD(field) memcpy(&c->field, &next->field, sizeof(c->field));
#define TAKE_START(field) n_fixed += memcmp(&c->field, &next->field, sizeof(c->field)) != 0 ? 1 : 0;
#define CONFIG(name, flag, key, kind, argument, default_, min, max, when, help) TAKE_##when(FIELD_##kind(name))
#include "daemon/server/config.def"
    return n_fixed;
}

/* ---- rules between rows ---- */

static int check_listeners(const struct config *c, struct eo_error *err)
{
    for (int i = 0; i < c->listen.n; i++) {
        const struct eo_endpoint *ep = &c->listen.items[i];
        if (!c->insecure && !eo_endpoint_is_loopback(ep)) {
            EO_RAISE(err, EO_E_CONFIG, "listening on %s would let anybody who reaches this host in", ep->text);
            eo_error_detail(err, "Connections of this version are neither encrypted nor authenticated.");
            eo_error_hint(err, "Listen on 127.0.0.1 or a unix socket and reach it through ssh -L, or add --insecure "
                               "in a network where everybody may run jobs here.");
            return EO_E_CONFIG;
        }
        for (int k = 0; k < i; k++) {
            const struct eo_endpoint *other = &c->listen.items[k];
            if (strcmp(ep->host, other->host) == 0 && ep->port == other->port && ep->port != 0) {
                return EO_RAISE(err, EO_E_CONFIG, "listen %s is given twice", ep->text);
            }
        }
    }
    return EO_OK;
}

int config_check(const struct config *c, struct eo_error *err)
{
    const uint64_t least = UINT64_C(1) << 20;
    if (c->memory_limit_bytes != 0 && c->memory_limit_bytes < least) {
        return EO_RAISE(err, EO_E_CONFIG, "memory-limit of %llu bytes is less than 1 MiB",
                        (unsigned long long)c->memory_limit_bytes);
    }
    return check_listeners(c, err);
}

/* ---- help ---- */

static void help_rows(struct eo_bytes *out, bool flags)
{
    for (int i = 0; i < ROW_COUNT; i++) {
        const struct config_row *r = &rows[i];
        if ((r->flag[0] != '\0') != flags) {
            continue;
        }
        char head[96];
        snprintf(head, sizeof(head), "%s%s%s", flags ? r->flag : r->key, r->argument[0] ? (flags ? " " : " = ") : "",
                 r->argument);
        eo_bytes_printf(out, "  %s\n      %s", head, r->help);
        if (r->default_text[0] && r->kind != KIND_FLAG && strcmp(r->default_text, "0") != 0) {
            eo_bytes_printf(out, " (default %s)", r->default_text);
        }
        eo_bytes_printf(out, "\n");
    }
}

void config_help(struct eo_bytes *out)
{
    eo_bytes_printf(out, "Usage: everyod [options]\n\n"
                         "The EveryO daemon: owns the devices of this host and the tensors in their memory, runs\n"
                         "operations for clients, runs training jobs, and joins its peers. Runs in the foreground;\n"
                         "SIGTERM drains (running jobs write a checkpoint), a second one ends at once, SIGHUP reads\n"
                         "the configuration file again.\n\nOptions:\n");
    help_rows(out, true);
    eo_bytes_printf(out, "\nOnly in the configuration file (there, options are written without the dashes):\n");
    help_rows(out, false);
    eo_bytes_printf(out, "\nExamples:\n"
                         "  everyod\n"
                         "      listen on 127.0.0.1:17743, state in ~/.local/state/everyo\n"
                         "  everyod --listen 127.0.0.1:0 --port-file /run/user/1000/everyod.port --state-dir /tmp/e\n"
                         "      a second daemon on a port that the kernel chooses\n"
                         "  everyod --listen unix:/run/user/1000/everyo.sock\n"
                         "      only for this user\n"
                         "  everyod --listen 10.0.0.7:17743 --insecure --memory-limit 64GiB\n"
                         "      for the hosts of a network that you trust\n\n"
                         "Exit codes: 0 ended in good order, 64 usage, 69 address in use, 70 internal error, 73 state\n"
                         "directory cannot be used, 78 configuration.\n");
}
