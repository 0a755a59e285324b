/* Pages about what a job file may name: layers, losses, optimizers, metrics. */
#include "daemon/nn/model.h"
#include "daemon/train/metrics.h"
#include "daemon/train/optimizer.h"
#include "daemon/train/schedule.h"
#include "docs/tabledoc.h"

#include <string.h>

/* Each table tells its own stability; its functions do not. */
#define STABLE "stable"
#define EXPERIMENTAL "experimental"

/* ---- layers ---- */

static void layer_default(FILE *out, const struct layer_arg_schema *a)
{
    char text[32];
    if (a->required) {
        fputs("required", out);
    } else if (a->kind == ARG_NAME) {
        fprintf(out, "`%s`", a->fallback_text);
    } else if (a->kind == ARG_BOOL) {
        fputs(a->fallback != 0 ? "true" : "false", out);
    } else {
        fputs(tabledoc_number(a->fallback, text, sizeof text), out);
    }
}

static void layer_section(FILE *out, const struct layer_schema *l)
{
    static const char *const kinds[] = {
        [ARG_INT] = "int", [ARG_FLOAT] = "float", [ARG_BOOL] = "bool", [ARG_NAME] = "name"};
    char range[80];
    fprintf(out, "\n## %s\n\n%s.\n", l->name, l->summary);
    if (l->n_args > 0) {
        fputs("\n| argument | kind | default | range | meaning |\n| --- | --- | --- | --- | --- |\n", out);
    }
    for (int i = 0; i < l->n_args; i++) {
        const struct layer_arg_schema *a = &l->args[i];
        fprintf(out, "| `%s` | %s | ", a->name, kinds[a->kind]);
        layer_default(out, a);
        if (a->kind == ARG_INT || a->kind == ARG_FLOAT) {
            fprintf(out, " | %s | ", tabledoc_range(a->min, a->max, range, sizeof range));
        } else {
            fputs(" | - | ", out);
        }
        tabledoc_cell(out, a->help);
        fputs(" |\n", out);
    }
    fprintf(out, "\nStability: %s, since %s\n", l->stability, l->since);
}

static void write_layers(FILE *out)
{
    tabledoc_head(
        out, "Layers", "daemon/nn/layers.def and daemon/nn/initializers.def",
        "The entries of `model:` in a job file: `relu` alone, `linear: {in: 64, out: 128}` with arguments, a "
        "list for `sequential`.\nShapes are checked from the first layer to the last before anything starts.");
    fputs("\n| layer | what it does |\n| --- | --- |\n", out);
    for (int i = 0; i < LAYER_COUNT; i++) {
        const struct layer_schema *l = layer_schema((enum layer_kind)i);
        fprintf(out, "| [%s](#%s) | ", l->name, l->name);
        tabledoc_cell(out, l->summary);
        fputs(" |\n", out);
    }
    for (int i = 0; i < LAYER_COUNT; i++) {
        layer_section(out, layer_schema((enum layer_kind)i));
    }
    fputs("\n## Initializers\n\nHow a weight may start (`initializer:`). fan_in and fan_out are the features that come "
          "in "
          "and go out.\n\n| initializer | other name | values |\n| --- | --- | --- |\n",
          out);
#define INITIALIZER(name, NAME, alias, kind, spread, summary)                                                          \
    fprintf(out, "| `%s` | %s%s%s | %s |\n", #name, (alias)[0] != '\0' ? "`" : "-", alias,                             \
            (alias)[0] != '\0' ? "`" : "", summary);
#include "daemon/nn/initializers.def"
}

/* ---- losses ---- */

#define TARGETS_CLASSES "one class index (int64) per row"
#define TARGETS_LIKE_OUTPUT "the dtype and shape of the output"

static void write_losses(FILE *out)
{
    tabledoc_head(out, "Losses", "daemon/nn/losses.def",
                  "The value of `loss:` in a job file. The loss of a batch is the mean over its rows.");
    fputs("\n| loss | per row | targets | stability | since |\n| --- | --- | --- | --- | --- |\n", out);
#define LOSS(name, NAME, summary, targets, stability, since)                                                           \
    fprintf(out, "| `%s` | ", #name);                                                                                  \
    tabledoc_cell(out, summary);                                                                                       \
    fprintf(out, " | %s | %s | %s |\n", TARGETS_##targets, stability, since);
#include "daemon/nn/losses.def"
}

/* ---- optimizers ---- */

static void optimizer_params(FILE *out, enum optimizer_kind kind)
{
    char first[32];
    char second[32];
    fputs("\n| key | default | range | meaning |\n| --- | --- | --- | --- |\n", out);
    for (int i = 0; i < optimizer_n_params(kind); i++) {
        const struct optimizer_param *p = optimizer_param(kind, i);
        fprintf(out, "| `%s` | ", p->name);
        if (p->is_bool) {
            fputs("false | true or false", out);
        } else if (p->is_pair) {
            fprintf(out, "[%s, %s] | both %s", tabledoc_number(p->fallback, first, sizeof first),
                    tabledoc_number(p->fallback2, second, sizeof second), p->range);
        } else {
            fprintf(out, "%s | %s", tabledoc_number(p->fallback, first, sizeof first), p->range);
        }
        fputs(" | ", out);
        tabledoc_cell(out, p->help);
        fputs(" |\n", out);
    }
}

static void write_optimizers(FILE *out)
{
    static const char *const since[] = {
#define OPTIMIZER(name, NAME, summary, params, stability, since) [OPTIMIZER_##NAME] = stability ", since " since,
#include "daemon/train/optimizers.def"
    };
    tabledoc_head(
        out, "Optimizers", "daemon/train/optimizers.def",
        "The value of `optimizer:` in a job file, such as `{adam: {lr: 0.005}}`. State is kept in the dtype of "
        "the parameters; steps are\ncomputed in float64 and rounded once.");
    for (int i = 0; i < OPTIMIZER_COUNT; i++) {
        const enum optimizer_kind kind = (enum optimizer_kind)i;
        fprintf(out, "\n## %s\n\n%s.\n", optimizer_name(kind), optimizer_summary(kind));
        optimizer_params(out, kind);
        fprintf(out, "\nStability: %s\n", since[i]);
    }
}

/* ---- schedules ---- */

static void schedule_params(FILE *out, enum schedule_kind kind)
{
    char number[32];
    if (schedule_n_params(kind) > 0) {
        fputs("\n| key | default | range | meaning |\n| --- | --- | --- | --- |\n", out);
    }
    for (int i = 0; i < schedule_n_params(kind); i++) {
        const struct schedule_param *p = schedule_param(kind, i);
        fprintf(out, "| `%s` | %s | %s | ", p->name, tabledoc_number(p->fallback, number, sizeof number), p->range);
        tabledoc_cell(out, p->help);
        fputs(" |\n", out);
    }
}

static void write_schedules(FILE *out)
{
    static const char *const since[] = {
#define SCHEDULE(name, NAME, summary, params, stability, since) [SCHEDULE_##NAME] = stability ", since " since,
#include "daemon/train/schedules.def"
    };
    tabledoc_head(out, "Learning rate schedules", "daemon/train/schedules.def",
                  "The value of `schedule:` in a job file: a name, a name with parameters such as "
                  "`{cosine: {end_factor: 0.1}}`, or a list of\nthem, whose factors are multiplied: "
                  "`[{warmup: {epochs: 2}}, cosine]`. Each is a factor of the optimizer's `lr`, worked out for\nevery "
                  "step with bits that do not depend on the machine. `plateau` watches `val_loss`, or `loss` without "
                  "validation data.");
    for (int i = 0; i < SCHEDULE_COUNT; i++) {
        const enum schedule_kind kind = (enum schedule_kind)i;
        fprintf(out, "\n## %s\n\n%s.\n", schedule_name(kind), schedule_summary(kind));
        schedule_params(out, kind);
        fprintf(out, "\nStability: %s\n", since[i]);
    }
}

/* ---- metrics ---- */

static void write_metrics(FILE *out)
{
    static const char *const since[] = {
#define METRIC(name, NAME, summary, losses, n_sums, better, stability, since) [METRIC_##NAME] = stability " | " since,
#include "daemon/train/metrics.def"
    };
    tabledoc_head(
        out, "Metrics", "daemon/train/metrics.def",
        "Entries of `metrics:` in a job file. Each is reported for the training data by its name, for the "
        "validation data with `val_`\nand for the test data with `test_` before it, `loss` always beside them. "
        "Sums are float64, so that batches and ranks may be\nadded up in any number.");
    fputs("\n| metric | what it is | better | with the losses | stability | since |\n| --- | --- | --- | --- | --- | "
          "--- |\n",
          out);
    for (int i = 0; i < METRIC_COUNT; i++) {
        const enum metric_kind kind = (enum metric_kind)i;
        const char *separator = "";
        fprintf(out, "| `%s` | ", metric_name(kind));
        tabledoc_cell(out, metric_summary(kind));
        fprintf(out, " | %s | ", metric_higher_is_better(kind) ? "higher" : "lower");
        for (int l = 0; l < LOSS_COUNT; l++) {
            if (metric_fits(kind, (enum loss_kind)l)) {
                fprintf(out, "%s`%s`", separator, loss_name((enum loss_kind)l));
                separator = ", ";
            }
        }
        fprintf(out, " | %s |\n", since[i]);
    }
}

const struct tabledoc_page tabledoc_jobs_pages[] = {
    {"reference/layers.md", write_layers},         {"reference/losses.md", write_losses},
    {"reference/optimizers.md", write_optimizers}, {"reference/schedules.md", write_schedules},
    {"reference/metrics.md", write_metrics},       {NULL, NULL}};
