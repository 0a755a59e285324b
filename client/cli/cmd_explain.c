#include "client/cli/cli.h"
#include "client/cli/error_pages.h"
#include "client/cli/item_json.h"
#include "client/cli/report.h"
#include "proto/base/text.h"

#include <string.h>
#include <strings.h>

static const char *code_name_at(const void *ctx, size_t i)
{
    EO_UNUSED(ctx);
    return eo_code_name(eo_code_at((int)i));
}

/* "EO-2001", "eo-2001", "2001" or the name "SHAPE_MISMATCH". */
static int find_code(const char *word)
{
    int64_t number = 0;
    const char *digits = strncasecmp(word, "EO-", 3) == 0 ? word + 3 : word;
    for (int i = 0; i < eo_code_count(); i++) {
        const int code = eo_code_at(i);
        if (strcasecmp(word, eo_code_name(code)) == 0 || (eo_parse_i64(digits, &number) && number == code)) {
            return code;
        }
    }
    return 0;
}

static int print_json(int code, const char *page)
{
    struct json_line line;
    struct eo_json *j = json_line_begin(&line);
    eo_json_kv_i64(j, "schema", 1);
    eo_json_kv_i64(j, "code", code);
    eo_json_kv_string(j, "name", eo_code_name(code));
    eo_json_kv_string(j, "summary", eo_code_summary(code));
    eo_json_kv_i64(j, "exit_code", eo_code_exit(code));
    eo_json_kv_bool(j, "retryable", eo_code_retryable(code));
    eo_json_kv_string(j, "page", page);
    return json_line_end(&line, true);
}

int cmd_EXPLAIN(const struct cli *cli)
{
    const char *word = cli->arguments[0];
    const int code = find_code(word);
    if (code == 0) {
        struct eo_error err = {0};
        char quoted[100];
        EO_RAISE(&err, EO_E_USAGE, "there is no error code %s", eo_quote(word, strlen(word), quoted, sizeof quoted));
        const char *near = eo_nearest(word, code_name_at, NULL, (size_t)eo_code_count());
        eo_error_hint(&err, near != NULL ? "Did you mean %s?" : "Codes look like EO-2001 or %s.",
                      near != NULL ? near : "SHAPE_MISMATCH");
        return report_failure(&err);
    }
    const char *page = error_page(code);
    if (cli->given[CLI_OPT_JSON]) {
        return print_json(code, page);
    }
    fputs(page, stdout);
    return 0;
}
