/* The configuration of everyod: rows of config.def, filled from defaults, the file of --config, and flags, in that
 * order (later wins). */
#ifndef EO_DAEMON_SERVER_CONFIG_H
#define EO_DAEMON_SERVER_CONFIG_H

#include "proto/base/bytes.h"
#include "proto/base/log.h"
#include "proto/endpoint.h"

enum { CONFIG_MAX_LISTEN = 8, CONFIG_MAX_PATHS = 8, CONFIG_TEXT = 1024 };

struct config_list {
    int n;
    struct eo_endpoint items[CONFIG_MAX_LISTEN];
};
struct config_paths {
    int n;
    char items[CONFIG_MAX_PATHS][CONFIG_TEXT];
};

struct config {
#define CONFIG_FIELD_LISTEN(name) struct config_list name;
#define CONFIG_FIELD_ADDRESS(name) char name[300];
#define CONFIG_FIELD_PATH(name) char name[CONFIG_TEXT];
#define CONFIG_FIELD_PATHS(name) struct config_paths name;
#define CONFIG_FIELD_FLAG(name) bool name;
#define CONFIG_FIELD_COUNT(name) uint64_t name;
#define CONFIG_FIELD_SIZE(name) uint64_t name##_bytes;
#define CONFIG_FIELD_DURATION(name) uint64_t name##_ms;
#define CONFIG_FIELD_LEVEL(name) enum eo_log_level name;
#define CONFIG_FIELD_FORMAT(name) enum eo_log_format name;
#define CONFIG(name, flag, key, kind, ...) CONFIG_FIELD_##kind(name)
#include "daemon/server/config.def"
#undef CONFIG_FIELD_LISTEN
#undef CONFIG_FIELD_ADDRESS
#undef CONFIG_FIELD_PATH
#undef CONFIG_FIELD_PATHS
#undef CONFIG_FIELD_FLAG
#undef CONFIG_FIELD_COUNT
#undef CONFIG_FIELD_SIZE
#undef CONFIG_FIELD_DURATION
#undef CONFIG_FIELD_LEVEL
#undef CONFIG_FIELD_FORMAT
};

enum config_action { CONFIG_RUN, CONFIG_CHECK, CONFIG_HELP, CONFIG_VERSION };

/* Parses the command line and the file it names. Errors: USAGE (unknown option with a suggestion, bad value), CONFIG
 * (the file cannot be read; file, line, key, nearest valid key; rules between options). */
int config_parse(int argc, char *const *argv, struct config *out, enum config_action *out_action, struct eo_error *err);
/* Takes the RELOAD rows of next over. Returns how many START rows differ and so need a restart. */
int config_reload(struct config *c, const struct config *next);
/* What a file says, on top of c; exposed for tests. file_name is for messages. */
int config_parse_text(const char *text, size_t size, const char *file_name, struct config *c, struct eo_error *err);
void config_defaults(struct config *c);
/* Rules between rows: off loopback needs --insecure, listeners differ, and so on. */
int config_check(const struct config *c, struct eo_error *err);
void config_help(struct eo_bytes *out);

/* Facts of rows for the man page and tests. */
enum config_kind {
    KIND_LISTEN,
    KIND_ADDRESS,
    KIND_PATH,
    KIND_PATHS,
    KIND_FLAG,
    KIND_COUNT,
    KIND_SIZE,
    KIND_DURATION,
    KIND_LEVEL,
    KIND_FORMAT
};
struct config_row {
    const char *name, *flag, *key, *argument, *default_text, *help;
    enum config_kind kind;
    uint64_t min, max;
    bool reload;
};
int config_row_count(void);
const struct config_row *config_row(int i);

#endif
