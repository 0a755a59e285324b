/* Pages about what can be computed and said on the wire: ops, dtypes, messages, backends. */
#include "client/cli/op_text.h"
#include "docs/tabledoc.h"
#include "proto/message_schema.h"

#include <inttypes.h>
#include <string.h>

/* ---- operations ---- */

static bool is_internal(const struct eo_op_schema *op)
{
    return (op->flags & EO_OPF_INTERNAL) != 0;
}

static void op_list(FILE *out, bool internal)
{
    char text[256];
    fputs("\n| operation | what it is | gradient | ONNX |\n| --- | --- | --- | --- |\n", out);
    for (int i = 1; i < EO_OP_COUNT; i++) {
        const struct eo_op_schema *op = eo_op_schema((enum eo_op)i);
        if (is_internal(op) != internal) {
            continue;
        }
        if (internal) {
            fprintf(out, "| `%s` | ", op->name);
        } else {
            fprintf(out, "| [%s](#%s)(%s) | ", op->name, op->name, op_text_call(op, text, sizeof text));
        }
        tabledoc_cell(out, op->summary);
        fprintf(out, " | %s | ", op_text_gradient(op->gradient));
        tabledoc_cell(out, op->onnx);
        fputs(" |\n", out);
    }
}

static void op_attributes(FILE *out, const struct eo_op_schema *op)
{
    char fallback[64];
    char range[80];
    if (op->n_attrs == 0) {
        return;
    }
    fputs("\n| attribute | kind | default | range | meaning |\n| --- | --- | --- | --- | --- |\n", out);
    for (int i = 0; i < op->n_attrs; i++) {
        const struct eo_attr_schema *a = &op->attrs[i];
        op_text_fallback(a, fallback, sizeof fallback);
        const char *value = strncmp(fallback, "default ", 8) == 0 ? fallback + 8 : fallback;
        fprintf(out, "| `%s` | %s | %s | ", a->name, op_text_kind(a->kind), value);
        if (a->kind == EO_ATTR_CHOICE) {
            fputs(op_text_choices(a, range, sizeof range), out);
        } else if (a->kind == EO_ATTR_BOOL || a->kind == EO_ATTR_DTYPE || a->kind == EO_ATTR_TEXT) {
            fputs("-", out);
        } else {
            fputs(tabledoc_range(a->min, a->max, range, sizeof range), out);
        }
        fputs(" | ", out);
        tabledoc_cell(out, a->help);
        fputs(" |\n", out);
    }
}

static void op_properties(FILE *out, const struct eo_op_schema *op)
{
    static const struct {
        uint32_t bit;
        const char *text;
    } properties[] = {{EO_PROP_COMMUTATIVE, "commutative"},
                      {EO_PROP_ELEMENTWISE, "element-wise"},
                      {EO_PROP_IDEMPOTENT, "idempotent"},
                      {EO_PROP_INVOLUTION, "an involution"},
                      {EO_PROP_ODD, "odd"},
                      {EO_PROP_EVEN, "even"},
                      {EO_PROP_MONOTONE, "monotone"},
                      {EO_PROP_VIEW, "only moves elements"}};
    const char *separator = "- properties: ";
    for (size_t i = 0; i < EO_COUNT_OF(properties); i++) {
        if ((op->properties & properties[i].bit) != 0) {
            fprintf(out, "%s%s", separator, properties[i].text);
            separator = ", ";
        }
    }
    fputs(separator[0] == ',' ? "\n" : "", out);
}

static void op_section(FILE *out, const struct eo_op_schema *op)
{
    static const char *const autocast[] = {[EO_CAST_REDUCED] = "the reduced dtype",
                                           [EO_CAST_FLOAT32] = "float32",
                                           [EO_CAST_FOLLOWS] = "the dtype of its inputs"};
    char text[256];
    fprintf(out, "\n## %s\n\n", op->name);
    fprintf(out, "`%s(%s)`: %s.\n", op->name, op_text_call(op, text, sizeof text), op->summary);
    op_attributes(out, op);
    fprintf(out, "\n- dtypes: %s; %s\n", eo_dtype_set_text(op->dtypes, text, sizeof text),
            op_text_rule(op->dtype_rule));
    if ((op->flags & EO_OPF_OUTPUTS_BY_SIZES) != 0) {
        fputs("- outputs: one per entry of `sizes`\n", out);
    } else if (op->n_outputs != 1) {
        fprintf(out, "- outputs: %d\n", op->n_outputs);
    }
    fprintf(out, "- gradient: %s%s\n", op_text_gradient(op->gradient),
            (op->flags & EO_OPF_COMPOSITE) != 0 ? "; composite, defined by its lowering to other operations" : "");
    op_properties(out, op);
    if (op->rtol > 0) {
        fprintf(out, "- tolerance against the reference backend, float32: %g relative%s\n", op->rtol,
                (op->flags & EO_OPF_REDUCTION) != 0 ? ", growing with the root of the number of summed elements" : "");
    } else {
        fputs("- every backend gives the bits of the reference backend\n", out);
    }
    fprintf(out, "- under automatic precision it runs in %s\n", autocast[op->autocast]);
    if (op->onnx[0] != '\0') {
        fprintf(out, "- ONNX: %s, opset %d\n", op->onnx, op->onnx_opset);
    }
    fprintf(out, "- wire id %d, %s since %s\n", op->wire_id, op_text_stability(op->stability), op->since);
}

static void write_ops(FILE *out)
{
    tabledoc_head(
        out, "Operations", "proto/tables/ops.def",
        "Every operation that a client may run by itself (`op.run`, `everyo_op`) or put into a graph. In calls, "
        "inputs stand\nbefore the semicolon and attributes behind it. `everyo ops NAME` prints the same; "
        "`everyo ops -H HOST` adds which dtypes a\ndaemon's device has kernels for.\n\n"
        "Integers wrap. Comparisons with NaN are false, `not_equal` is true; `maximum`, `minimum`, `max`, "
        "`min`, `clip`, `relu`, `sign`\nand `abs` hand NaN on; `arg_max` and `arg_min` pick the first NaN. The "
        "sum of nothing is 0, mean and variance of nothing are\nNaN, `max`, `min`, `arg_max` and `arg_min` of "
        "nothing are refused. An index out of range is `EO-2009` when the operation\nruns. float16 and bfloat16 "
        "are computed in float32 and rounded once.");
    op_list(out, false);
    fputs("\nMade by the trainer and by passes, refused from the wire:\n", out);
    op_list(out, true);
    for (int i = 1; i < EO_OP_COUNT; i++) {
        const struct eo_op_schema *op = eo_op_schema((enum eo_op)i);
        if (!is_internal(op)) {
            op_section(out, op);
        }
    }
}

/* ---- dtypes ---- */

static void promotion_table(FILE *out)
{
    fputs("\n## Promotion\n\nOn the wire operations are strictly typed and nothing is converted by itself. Helpers of "
          "clients that mix dtypes insert casts\nto the dtype of this table:\n\n| |",
          out);
    for (int a = 1; a < EO_DTYPE_LIMIT; a++) {
        fprintf(out, " %s |", eo_dtype_name((enum eo_dtype)a));
    }
    fputs("\n| --- |", out);
    for (int a = 1; a < EO_DTYPE_LIMIT; a++) {
        fputs(" --- |", out);
    }
    for (int a = 1; a < EO_DTYPE_LIMIT; a++) {
        fprintf(out, "\n| **%s** |", eo_dtype_name((enum eo_dtype)a));
        for (int b = 1; b < EO_DTYPE_LIMIT; b++) {
            fprintf(out, " %s |", eo_dtype_name(eo_dtype_promote((enum eo_dtype)a, (enum eo_dtype)b)));
        }
    }
    fputc('\n', out);
}

static void write_dtypes(FILE *out)
{
    static const char *const kinds[] = {[EO_KIND_FLOAT] = "floating point",
                                        [EO_KIND_SIGNED] = "signed integer",
                                        [EO_KIND_UNSIGNED] = "unsigned integer",
                                        [EO_KIND_BOOL] = "truth value, one byte, 0 or 1"};
    tabledoc_head(
        out, "Element types", "proto/tables/dtypes.def",
        "All little-endian on the wire and in files. The id stands in files and in `enum everyo_dtype`; on the "
        "wire the name is\nused. What a device computes with is `everyo ops -H HOST`.");
    fputs("\n| dtype | id | bytes | kind | safetensors | npy |\n| --- | --- | --- | --- | --- | --- |\n", out);
    for (int d = 1; d < EO_DTYPE_LIMIT; d++) {
        const enum eo_dtype t = (enum eo_dtype)d;
        fprintf(out, "| `%s` | %d | %zu | %s | %s | `", eo_dtype_name(t), d, eo_dtype_size(t), kinds[eo_dtype_kind(t)],
                eo_dtype_safetensors(t));
        tabledoc_cell(out, eo_dtype_npy(t));
        fputs("` |\n", out);
    }
    promotion_table(out);
}

/* ---- messages ---- */

static const struct {
    enum eo_message_from from;
    const char *title, *text;
} message_groups[] = {
    {EO_FROM_CLIENT, "Requests of clients", "Sent by a client, answered by the daemon."},
    {EO_FROM_PEER, "Requests of peers", "Sent by the daemon that coordinates a job to the daemons of the other ranks."},
    {EO_FROM_EVENT, "Events", "Notifications that the receiving side does not answer."},
    {EO_FROM_TASK, "Tasks",
     "Commands of a daemon to its own workers, over rings in shared memory; never on the network."},
    {EO_FROM_REPORT, "Reports", "Notifications of a worker to its daemon, over the same rings."},
};

static const char *needs_text(enum eo_message_needs needs)
{
    switch (needs) {
    case EO_NEEDS_NOTHING:
        return "nothing: it may come first";
    case EO_NEEDS_HELLO:
        return "an answered `hello`";
    case EO_NEEDS_SESSION:
        return "an answered `hello` of role `client`, with its session";
    case EO_NEEDS_PEER_HELLO:
        return "an answered `hello` of role `peer`";
    case EO_NEEDS_INSIDE:
        break;
    }
    return "a worker's ring";
}

static void size_text(FILE *out, uint64_t bytes)
{
    if (bytes == 0) {
        fputs("none", out);
    } else {
        fprintf(out, "at most %" PRIu64 " bytes (%" PRIu64 " MiB)", bytes, bytes >> 20);
    }
}

/* "a; b? str; c" as a list. A `;` inside brackets does not separate. */
static void key_list(FILE *out, const char *title, const char *keys)
{
    int depth = 0;
    if (keys[0] == '\0') {
        fprintf(out, "- %s: none\n", title);
        return;
    }
    fprintf(out, "- %s:\n  - ", title);
    for (const char *at = keys; *at != '\0'; at++) {
        depth += (*at == '(' || *at == '[' || *at == '{') - (*at == ')' || *at == ']' || *at == '}');
        if (*at == ';' && depth == 0) {
            fputs("\n  -", out);
        } else {
            fputc(*at, out);
        }
    }
    fputc('\n', out);
}

static void message_section(FILE *out, const struct eo_message_schema *m)
{
    fprintf(out, "\n### %s\n\n%s.\n\n", m->method, m->summary);
    if (m->from != EO_FROM_TASK && m->from != EO_FROM_REPORT) {
        fprintf(out, "- needs: %s\n- payload: ", needs_text(m->needs));
        size_text(out, m->max_payload);
        fputc('\n', out);
    }
    key_list(out, "params", m->params);
    if (m->from != EO_FROM_EVENT && m->from != EO_FROM_REPORT) {
        key_list(out, "result", m->result);
    }
    fprintf(out, "- %s since %s\n", m->stability, m->since);
}

static void write_messages(FILE *out)
{
    tabledoc_head(
        out, "Messages", "proto/tables/messages.def",
        "Every method of the protocol in short. [protocol.md](../protocol.md) says how messages travel and what "
        "each key means, with\nexact types. `?` marks a key that may be left out; handles are "
        "`[slot, generation]`.");
    for (size_t g = 0; g < EO_COUNT_OF(message_groups); g++) {
        fprintf(out, "\n## %s\n\n%s\n", message_groups[g].title, message_groups[g].text);
        for (int i = EO_MESSAGE_NONE + 1; i < EO_MESSAGE_COUNT; i++) {
            const struct eo_message_schema *m = eo_message_schema((enum eo_message)i);
            if (m->from == message_groups[g].from) {
                message_section(out, m);
            }
        }
    }
}

/* ---- backends and engines ---- */

#define STABLE "stable"
#define EXPERIMENTAL "experimental"

static void write_backends(FILE *out)
{
    tabledoc_head(out, "Backends and collective engines", "backends/backends.def and distributed/engines.def",
                  "In the order of preference. `everyo doctor` says for each backend what is installed, initialised, "
                  "detected, supported and\nused; the reasons are in its report.\n\n"
                  "## Backends\n\n| backend | stability |\n| --- | --- |");
#define EO_BACKEND(name, symbol, stability) fprintf(out, "| `%s` | %s |\n", name, stability);
#include "backends/backends.def"
    fputs("\n## Collective engines\n\nThe first one that all ranks of a job have in the same version is used.\n\n"
          "| engine | version | what it is | stability | since |\n| --- | --- | --- | --- | --- |\n",
          out);
#define COLLECTIVE_ENGINE(name, version, stability, since, summary)                                                    \
    fprintf(out, "| `%s` | %d | %s | %s | %s |\n", #name, version, summary, stability, since);
#include "distributed/engines.def"
}

static void onnx_row(FILE *out, const char *name, const char *set, const char *versions, const char *row,
                     const char *note)
{
    fprintf(out, "| `%s` | %s | %s | ", name, set, versions);
    if (row[0] != '\0') {
        fprintf(out, "`%s`", row);
    } else {
        fputs("several", out);
    }
    fputs(" | ", out);
    tabledoc_cell(out, note);
    fputs(" |\n", out);
}

static void write_onnx(FILE *out)
{
    tabledoc_head(out, "ONNX operators", "daemon/formats/onnx/operators.def",
                  "What the importer reads ([onnx.md](../onnx.md)), with the row of [ops.md](ops.md) that an operator "
                  "becomes; `several` when\nit is composed. A model's operator set decides what a node means; "
                  "versions are those in which the entry holds.\n\n"
                  "| operator | set | versions | row | limits |\n| --- | --- | --- | --- | --- |");
#define ONNX_SET_DOMAIN "ai.onnx"
#define ONNX_SET_TRAINING "ai.onnx.preview.training"
#define ONNX(name, domain, since, until, fn, row, note)                                                                \
    onnx_row(out, #name, ONNX_SET_##domain, #since " to " #until, row, note);
#include "daemon/formats/onnx/operators.def"
#undef ONNX_SET_DOMAIN
#undef ONNX_SET_TRAINING
}

const struct tabledoc_page tabledoc_engine_pages[] = {
    {"reference/ops.md", write_ops},           {"reference/dtypes.md", write_dtypes},
    {"reference/messages.md", write_messages}, {"reference/backends.md", write_backends},
    {"reference/onnx.md", write_onnx},         {NULL, NULL}};
