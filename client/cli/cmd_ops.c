/* The op table for people; with -H what a daemon's device supports, with --support what each of its backends does. */
#include "client/cli/cli.h"
#include "client/cli/hosts.h"
#include "client/cli/item_json.h"
#include "client/cli/op_text.h"
#include "client/cli/report.h"
#include "proto/base/text.h"

#include <string.h>

/* Answers to caps: of the daemon's device (-H), or of every backend that it can use (--support). */
enum { SUPPORT_MAX = 8 };
struct support {
    bool by_backend;
    int n;
    char name[SUPPORT_MAX][32];
    struct eo_reply caps[SUPPORT_MAX];
};

static const struct eo_item *support_of(const struct support *s, int i, const struct eo_op_schema *op)
{
    return eo_item_get(eo_item_get(s->caps[i].result, "ops"), op->name);
}

static void support_fini(struct support *s)
{
    for (int i = 0; i < s->n; i++) {
        eo_reply_fini(&s->caps[i]);
    }
}

static void print_dtypes(const struct eo_op_schema *op)
{
    fputs("  dtypes       ", stdout);
    for (int d = 1; d < EO_DTYPE_LIMIT; d++) {
        if ((op->dtypes & EO_DTYPE_BIT(d)) != 0) {
            printf("%s ", eo_dtype_name((enum eo_dtype)d));
        }
    }
    printf("\n  rule         %s\n", op_text_rule(op->dtype_rule));
}

static void print_support(const struct support *s, int which, const struct eo_op_schema *op)
{
    const struct eo_item *dtypes = support_of(s, which, op);
    printf("  %-12s ", s->by_backend ? s->name[which] : "device");
    for (size_t i = 0; i < eo_item_count(dtypes); i++) {
        const char *name = NULL;
        size_t length = 0;
        if (eo_item_as_str(eo_item_at(dtypes, i), &name, &length)) {
            printf("%.*s ", (int)length, name);
        }
    }
    puts(eo_item_count(dtypes) == 0 ? "not supported" : "");
}

static void print_one(const struct eo_op_schema *op, const struct support *support)
{
    char text[256];
    printf("%s(%s)\n  %s\n", op->name, op_text_call(op, text, sizeof text), op->summary);
    print_dtypes(op);
    for (int i = 0; i < op->n_attrs; i++) {
        const struct eo_attr_schema *a = &op->attrs[i];
        printf("  %-12s %s, %s: %s", a->name, op_text_kind(a->kind), op_text_fallback(a, text, sizeof text), a->help);
        if (a->choices != NULL) {
            printf(" (%s)", op_text_choices(a, text, sizeof text));
        }
        putchar('\n');
    }
    printf("  gradient     %s\n", op_text_gradient(op->gradient));
    printf("  onnx         %s\n", op->onnx[0] != '\0' ? op->onnx : "-");
    printf("  stability    %s since %s\n", op_text_stability(op->stability), op->since);
    for (int i = 0; i < support->n; i++) {
        print_support(support, i, op);
    }
}

static void op_json(struct eo_json *j, const struct eo_op_schema *op, const struct support *support)
{
    char text[128];
    eo_json_begin_object(j);
    eo_json_kv_string(j, "name", op->name);
    eo_json_kv_string(j, "summary", op->summary);
    eo_json_kv_i64(j, "min_inputs", op->min_inputs);
    eo_json_kv_i64(j, "max_inputs", op->max_inputs);
    eo_json_kv_i64(j, "outputs", op->n_outputs);
    eo_json_key(j, "dtypes");
    eo_json_begin_array(j);
    for (int d = 1; d < EO_DTYPE_LIMIT; d++) {
        if ((op->dtypes & EO_DTYPE_BIT(d)) != 0) {
            eo_json_string(j, eo_dtype_name((enum eo_dtype)d));
        }
    }
    eo_json_end_array(j);
    eo_json_key(j, "attributes");
    eo_json_begin_array(j);
    for (int i = 0; i < op->n_attrs; i++) {
        eo_json_begin_object(j);
        eo_json_kv_string(j, "name", op->attrs[i].name);
        eo_json_kv_string(j, "kind", op_text_kind(op->attrs[i].kind));
        eo_json_kv_bool(j, "required", op->attrs[i].required);
        if (op->attrs[i].choices != NULL) {
            eo_json_kv_string(j, "choices", op_text_choices(&op->attrs[i], text, sizeof text));
        }
        eo_json_kv_string(j, "help", op->attrs[i].help);
        eo_json_end_object(j);
    }
    eo_json_end_array(j);
    eo_json_kv_bool(j, "gradient", op->gradient != EO_GRADIENT_NONE);
    eo_json_kv_string(j, "onnx", op->onnx[0] != '\0' ? op->onnx : NULL);
    eo_json_kv_string(j, "stability", op_text_stability(op->stability));
    eo_json_kv_string(j, "since", op->since);
    if (support->by_backend) {
        eo_json_key(j, "support");
        eo_json_begin_object(j);
    }
    for (int i = 0; i < support->n; i++) {
        eo_json_key(j, support->by_backend ? support->name[i] : "device_dtypes");
        item_json(j, support_of(support, i, op));
    }
    if (support->by_backend) {
        eo_json_end_object(j);
    }
    eo_json_end_object(j);
}

static int print_json(const char *only, const struct support *support)
{
    struct json_line line;
    struct eo_json *j = json_line_begin(&line);
    eo_json_kv_i64(j, "schema", 1);
    eo_json_key(j, "ops");
    eo_json_begin_array(j);
    for (int i = 1; i < EO_OP_COUNT; i++) {
        const struct eo_op_schema *op = eo_op_schema((enum eo_op)i);
        if ((op->flags & EO_OPF_INTERNAL) == 0 && (only == NULL || strcmp(op->name, only) == 0)) {
            op_json(j, op, support);
        }
    }
    eo_json_end_array(j);
    return json_line_end(&line, true);
}

static void print_list(const struct support *support)
{
    for (int i = 1; i < EO_OP_COUNT; i++) {
        const struct eo_op_schema *op = eo_op_schema((enum eo_op)i);
        char text[256];
        if ((op->flags & EO_OPF_INTERNAL) != 0) {
            continue;
        }
        printf("%-15s %-42s %s", op->name, op_text_call(op, text, sizeof text), op->summary);
        for (int k = 0; k < support->n; k++) {
            printf(" [%zu dtypes on %s]", eo_item_count(support_of(support, k, op)),
                   support->by_backend ? support->name[k] : "the device");
        }
        putchar('\n');
    }
}

static const char *op_name_at(const void *ctx, size_t i)
{
    EO_UNUSED(ctx);
    const struct eo_op_schema *op = eo_op_schema((enum eo_op)(i + 1));
    return (op->flags & EO_OPF_INTERNAL) == 0 ? op->name : ""; /* which nothing is near to */
}

/* Which device the daemon would choose by itself: the first one that info lists. */
static int default_device(struct eo_connection *c, char *out, size_t size, struct eo_error *err)
{
    struct eo_reply reply = {0};
    int rc = eo_connection_call(c, "info", NULL, NULL, 0, &reply, err);
    if (rc == EO_OK) {
        item_text(eo_item_at(eo_item_get(reply.result, "devices"), 0), "name", out, size);
        eo_reply_fini(&reply);
    }
    return rc;
}

static int ask_caps(struct eo_connection *c, struct support *s, const char *device, struct eo_error *err)
{
    struct eo_bytes p;
    eo_bytes_init(&p, 128);
    eo_pack_map(&p, 1);
    eo_pack_kv_str(&p, "device", device);
    int rc = eo_connection_call(c, "caps", &p, NULL, 0, &s->caps[s->n], err);
    eo_bytes_fini(&p);
    if (rc == EO_OK) {
        eo_copy_text(s->name[s->n++], sizeof s->name[0], device);
    }
    return rc;
}

/* Facts 1 to 4: installed, initialised, detected, built. */
static bool is_usable(const struct eo_item *backend)
{
    const struct eo_item *facts = eo_item_get(backend, "facts");
    bool usable = eo_item_count(facts) >= 4;
    for (size_t i = 0; usable && i < 4; i++) {
        char state[16];
        item_text(eo_item_at(facts, i), "state", state, sizeof state);
        usable = strcmp(state, "yes") == 0;
    }
    return usable;
}

static int ask_backends(struct eo_connection *c, struct support *s, struct eo_error *err)
{
    struct eo_reply info = {0};
    int rc = eo_connection_call(c, "info", NULL, NULL, 0, &info, err);
    const struct eo_item *backends = eo_item_get(info.result, "backends");
    for (size_t i = 0; rc == EO_OK && i < eo_item_count(backends) && s->n < SUPPORT_MAX; i++) {
        char name[sizeof s->name[0]];
        item_text(eo_item_at(backends, i), "name", name, sizeof name);
        rc = is_usable(eo_item_at(backends, i)) ? ask_caps(c, s, name, err) : EO_OK;
    }
    eo_reply_fini(&info);
    return rc;
}

static int ask_support(const struct cli *cli, struct support *s, struct eo_error *err)
{
    struct hosts h;
    struct host_link link = {0};
    char device[32];
    int rc = hosts_resolve(cli, &h, err);
    if (rc != EO_OK) {
        return rc;
    }
    s->by_backend = cli->given[CLI_OPT_SUPPORT];
    rc = hosts_open(cli, &h, s->by_backend ? HOSTS_PRIVATE_IF_NONE : HOSTS_NEVER_PRIVATE, &link, err);
    if (rc == EO_OK && s->by_backend) {
        rc = ask_backends(link.connection, s, err);
    } else if (rc == EO_OK) {
        rc = default_device(link.connection, device, sizeof device, err);
        rc = rc == EO_OK ? ask_caps(link.connection, s, device, err) : rc;
    }
    hosts_close(&link);
    hosts_fini(&h);
    return rc;
}

int cmd_OPS(const struct cli *cli)
{
    struct eo_error err = {0};
    struct support support = {0};
    const char *only = cli->n_arguments > 0 ? cli->arguments[0] : NULL;
    const struct eo_op_schema *op = only != NULL ? eo_op_by_name(only, strlen(only)) : NULL;
    if (only != NULL && (op == NULL || (op->flags & EO_OPF_INTERNAL) != 0)) {
        char quoted[100];
        EO_RAISE(&err, EO_E_UNKNOWN_OP, "there is no operation %s",
                 eo_quote(only, strlen(only), quoted, sizeof quoted));
        const char *near = eo_nearest(only, op_name_at, NULL, EO_OP_COUNT - 1);
        if (near != NULL) {
            eo_error_hint(&err, "Did you mean %s?", near);
        }
        return report_failure(&err);
    }
    if ((cli->given[CLI_OPT_HOST] || cli->given[CLI_OPT_SUPPORT]) && ask_support(cli, &support, &err) != EO_OK) {
        support_fini(&support);
        return report_failure(&err);
    }
    int exit_code = 0;
    if (cli->given[CLI_OPT_JSON]) {
        exit_code = print_json(only, &support);
    } else if (op != NULL) {
        print_one(op, &support);
    } else {
        print_list(&support);
    }
    support_fini(&support);
    return exit_code;
}
