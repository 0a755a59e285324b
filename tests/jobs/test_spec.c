#include "daemon/jobs/spec.h"

#include "daemon/train/metrics.h"
#include "proto/base/file.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct eo_error err;

static const char digits[] = "name: digits-mlp\n"
                             "model:\n"
                             "  - linear: {in: 64, out: 128}\n"
                             "  - relu\n"
                             "  - dropout: {p: 0.2}\n"
                             "  - linear: {in: 128, out: 10}\n"
                             "loss: cross_entropy\n"
                             "metrics: [accuracy]\n"
                             "optimizer: {adam: {lr: 0.005}}\n"
                             "data:\n"
                             "  train: {csv: digits.csv, target: label}\n"
                             "  validation: {split: 0.2, stratified: true}\n"
                             "  scale: {divide: 16}\n"
                             "  batch: 32\n"
                             "train: {epochs: 25, seed: 0, clip_norm: 1.0, checkpoint: {every_epochs: 5, keep: 2}}\n"
                             "device: auto\n";

static int parse(const char *text, struct job_spec **out)
{
    return spec_parse(text, strlen(text), "digits.yaml", NULL, 0, out, &err);
}

static int parse_set(const char *assignment, struct job_spec **out)
{
    return spec_parse(digits, sizeof(digits) - 1, "digits.yaml", &assignment, 1, out, &err);
}

START_TEST(the_job_of_the_design)
{
    struct job_spec *s;

    ASSERT_OK(parse(digits, &s));
    ck_assert_str_eq(s->name, "digits-mlp");
    ck_assert_int_eq(s->model->n_layers, 4);
    ck_assert_int_eq(s->model->layers[2].kind, LAYER_DROPOUT);
    ck_assert_double_eq(s->model->layers[2].args[0].number, 0.2);
    ck_assert_str_eq(s->model->layers[0].args[3].text, "he_uniform");
    ck_assert_int_eq(s->model->layers[0].line, 3);
    ck_assert_int_eq(s->model->loss, LOSS_CROSS_ENTROPY);
    ck_assert_int_eq(s->model->dtype, EO_FLOAT32);
    ck_assert_int_eq(s->model->input.shape[1], 64);
    ck_assert_int_eq(s->model->output.shape[1], 10);
    ck_assert_int_eq(s->n_metrics, 1);
    ck_assert_int_eq(s->metrics[0], METRIC_ACCURACY);
    ck_assert_int_eq(s->optimizer.kind, OPTIMIZER_ADAM);
    ck_assert_double_eq(s->optimizer.lr, 0.005);
    ck_assert_double_eq(s->optimizer.beta2, 0.999);
    ck_assert_int_eq(s->n_files, 1);
    ck_assert_str_eq(s->files[0].path, "digits.csv");
    ck_assert_int_eq(s->train.kind, SOURCE_CSV);
    ck_assert_str_eq(s->train.target, "label");
    ck_assert_int_eq(s->validation.kind, SOURCE_SPLIT);
    ck_assert_double_eq(s->validation.split, 0.2);
    ck_assert(s->validation.stratified);
    ck_assert_int_eq(s->test.kind, SOURCE_NONE);
    ck_assert_double_eq(s->scale_divide, 16);
    ck_assert_int_eq(s->batch, 32);
    ck_assert(s->shuffle);
    ck_assert_int_eq(s->epochs, 25);
    ck_assert_double_eq(s->clip_norm, 1);
    ck_assert_int_eq(s->checkpoint_every_epochs, 5);
    ck_assert_int_eq(s->checkpoint_keep, 2);
    ck_assert_str_eq(s->device, "auto");
    ck_assert_str_eq(s->fallback, "report");
    spec_free(s);
}
END_TEST

/* The stored form parses back to itself, and means the same. */
START_TEST(canonical_is_a_fixed_point)
{
    static const char *const texts[] = {
        digits,
        "model: [{sequential: [{linear: {in: 4, out: 3, bias: false, initializer: glorot_normal}}, tanh]},\n"
        "  {sequential: [{sequential: [{linear: {in: 3, out: 1}}]}]}]\n"
        "loss: bce_with_logits\nmetrics: [binary_accuracy]\n"
        "optimizer: {sgd: {lr: 1e-3, momentum: 0.9, nesterov: true, weight_decay: 1.0e-4}}\n"
        "data: {train: {csv: \"a b.csv\", target: -1}, test: {csv: c.csv}, scale: {standardize: true}}\n"
        "train: {max_steps: 7, seed: 9223372036854775807, clip_value: 0.5, accumulate: 4, ema: 0.99}\nprecision: "
        "float64\nschedule: [{warmup: {steps: 5}}, "
        "plateau]\n"
        "early_stopping: {patience: 3, metric: binary_accuracy, restore_best: false}\n"
        "hosts: [a:1, 'b:2']\ntime_limit: 90m\non_failure: restart\nfinite: skip\nthreads: 2\ndevice: cpu\n",
        "model: [flatten, {linear: {in: 784, out: 10}}]\nloss: cross_entropy\noptimizer: adam\n"
        "data: {train: {idx: x.gz, labels: y.gz}, validation: {split: 0.1}, shuffle: false}\ntrain: {epochs: 1}\n",
    };

    for (size_t i = 0; i < EO_COUNT_OF(texts); i++) {
        struct job_spec *s, *again;

        ASSERT_OK(parse(texts[i], &s));
        ASSERT_OK(spec_parse((const char *)s->canonical.data, s->canonical.size, "stored", NULL, 0, &again, &err));
        ck_assert_str_eq(eo_bytes_text(&again->canonical), eo_bytes_text(&s->canonical));
        ck_assert_str_eq(again->hash, s->hash);
        ck_assert_str_eq(again->state_hash, s->state_hash);
        ck_assert_int_eq(again->epochs, s->epochs);
        ck_assert_uint_eq(again->seed, s->seed);
        ck_assert_uint_eq(again->time_limit_ms, s->time_limit_ms);
        ck_assert_int_eq(again->n_hosts, s->n_hosts);
        ck_assert_mem_eq(&again->optimizer, &s->optimizer, sizeof(s->optimizer));
        ck_assert_int_eq(again->n_schedules, s->n_schedules);
        ck_assert_int_eq(again->accumulate, s->accumulate);
        ck_assert_double_eq(again->clip_value, s->clip_value);
        ck_assert_double_eq(again->ema, s->ema);
        ck_assert_mem_eq(again->schedules, s->schedules, sizeof(s->schedules));
        ck_assert_str_eq(again->early.metric, s->early.metric);
        ck_assert_int_eq(again->early.patience, s->early.patience);
        ck_assert(again->early.restore_best == s->early.restore_best);
        spec_free(again);
        spec_free(s);
    }
}
END_TEST

START_TEST(hashes_see_what_they_should)
{
    static const struct {
        const char *set;
        bool same_state;
    } rows[] = {
        {"train.epochs=50", true},
        {"name=other", true},
        {"device=cpu", true},
        {"train.checkpoint.keep=9", true},
        {"hosts=[a:1]", true},
        {"data.train.csv=/elsewhere/digits.csv", true},
        {"train.seed=1", false},
        {"optimizer.adam.lr=0.001", false},
        {"model.0.linear.bias=false", false},
        {"data.batch=16", false},
        {"data.scale.divide=8", false},
        {"train.clip_norm=2", false},
        {"precision=float64", false},
        {"data.shuffle=false", false},
        {"finite=skip", false},
    };
    struct job_spec *s, *other;

    ASSERT_OK(parse(digits, &s));
    for (size_t i = 0; i < EO_COUNT_OF(rows); i++) {
        ASSERT_OK(parse_set(rows[i].set, &other));
        ck_assert_msg(strcmp(s->hash, other->hash) != 0, "%s", rows[i].set);
        ck_assert_msg((strcmp(s->state_hash, other->state_hash) == 0) == rows[i].same_state, "%s", rows[i].set);
        spec_free(other);
    }
    ASSERT_OK(parse_set("train.seed=0", &other)); /* as it was */
    ck_assert_str_eq(s->hash, other->hash);
    spec_free(other);
    spec_free(s);
}
END_TEST

START_TEST(overrides_reach_lists_and_report_themselves)
{
    struct job_spec *s;

    ASSERT_OK(parse_set("model.0.linear.out=128", &s));
    spec_free(s);
    ASSERT_CODE(parse_set("model.0.linear.out=256", &s), EO_E_BAD_SPEC); /* the next linear takes 128 */
    ASSERT_CONTAINS(err.message, "digits.yaml:6:5");
    ASSERT_CONTAINS(err.message, "takes 128 features");
    ASSERT_CONTAINS(err.message, "[256]");
    ASSERT_CODE(parse_set("train.epochs=many", &s), EO_E_BAD_SPEC);
    ASSERT_CONTAINS(err.message, "--set \"train.epochs=many\"");
    ASSERT_CONTAINS(err.message, "whole number");
    ASSERT_CODE(parse_set("train.epoch=3", &s), EO_E_BAD_SPEC);
    ASSERT_CONTAINS(err.hint, "epochs");
    ASSERT_OK(parse_set("optimizer=sgd", &s));
    ck_assert_int_eq(s->optimizer.kind, OPTIMIZER_SGD);
    spec_free(s);
}
END_TEST

/* Each row changes one line of the job of the design. */
START_TEST(mistakes_are_told_with_place_value_and_choice)
{
    static const struct {
        const char *from, *to, *place, *message, *hint;
    } rows[] = {
        {"loss: cross_entropy", "los: cross_entropy", "digits.yaml:7:1", "unknown key \"los\"", "`loss`"},
        {"loss: cross_entropy", "loss: crossentropy", "digits.yaml:7:7", "\"crossentropy\"", "`cross_entropy`"},
        {"loss: cross_entropy\n", "", "digits.yaml:1:1", "no `loss`", ""},
        {"  - relu", "  - rellu", "digits.yaml:4:5", "\"rellu\"", "`relu`"},
        {"  - relu", "  - relu: {x: 1}", "digits.yaml:4:12", "takes no arguments", ""},
        {"  - relu", "  - [relu]", "digits.yaml:4:5", "a layer is a name", ""},
        {"  - relu", "  - sequential: []", "digits.yaml:4:17", "no layers", ""},
        {"  - dropout: {p: 0.2}", "  - dropout: {q: 0.2}", "digits.yaml:5:15", "no argument \"q\"", "p"},
        {"  - dropout: {p: 0.2}", "  - dropout: {p: 1.0}", "digits.yaml:5:18", "from 0 to 0.9999", ""},
        {"  - dropout: {p: 0.2}", "  - dropout: {p: \"0.2\"}", "digits.yaml:5:18", "not the text", ""},
        {"  - dropout: {p: 0.2}", "  - dropout: 0.2", "digits.yaml:5:14", "takes a map", ""},
        {"  - dropout: {p: 0.2}", "  - softmax: {axis: 0}", "digits.yaml:5:5", "feature dimensions", "batch"},
        {"{in: 64, out: 128}", "{in: 64}", "digits.yaml:3:5", "needs `out`", ""},
        {"{in: 64, out: 128}", "{in: 0, out: 128}", "digits.yaml:3:18", "whole number from 1", ""},
        {"{in: 64, out: 128}", "{in: 64.0, out: 128}", "digits.yaml:3:18", "not \"64.0\"", ""},
        {"{in: 64, out: 128}", "{in: 64, out: 128, initializer: he_uniforn}", "digits.yaml:3:45", "he_uniforn",
         "`he_uniform`"},
        {"{in: 128, out: 10}", "{in: 64, out: 10}", "digits.yaml:6:5", "layer 3 (linear): takes 64 features",
         "in: 128"},
        {"{in: 128, out: 10}", "{in: 128, out: 1}", "digits.yaml:3:3", "at least 2 logits", "bce_with_logits"},
        {"{in: 64, out: 128}", "{in: 2147483647, out: 2147483647}", "digits.yaml:", "", ""},
        {"metrics: [accuracy]", "metrics: accuracy", "digits.yaml:8:10", "takes a list", ""},
        {"metrics: [accuracy]", "metrics: [acuracy]", "digits.yaml:8:11", "\"acuracy\"", "`accuracy`"},
        {"metrics: [accuracy]", "metrics: [rmse]", "digits.yaml:8:11", "does not go with loss cross_entropy",
         "accuracy"},
        {"metrics: [accuracy]", "metrics: [accuracy, accuracy]", "digits.yaml:8:21", "second time", ""},
        {"{adam: {lr: 0.005}}", "{adm: {lr: 0.005}}", "digits.yaml:9:13", "\"adm\"", "`adam`"},
        {"{adam: {lr: 0.005}}", "{adam: {lr: 0}}", "digits.yaml:9:24", "above 0", ""},
        {"{adam: {lr: 0.005}}", "{adam: {lr: .inf}}", "digits.yaml:9:24", "above 0", ""},
        {"{adam: {lr: 0.005}}", "{adam: {rl: 0.1}}", "digits.yaml:9:20", "no parameter \"rl\"", "`lr`"},
        {"{adam: {lr: 0.005}}", "{adam: {betas: 0.9}}", "digits.yaml:9:27", "takes a list", ""},
        {"{adam: {lr: 0.005}}", "{adam: {betas: [0.9, 1]}}", "digits.yaml:9:33", "not 1", ""},
        {"{adam: {lr: 0.005}}", "{sgd: {nesterov: true}}", "digits.yaml:9:12", "nesterov without momentum", "momentum"},
        {"csv: digits.csv", "cvs: digits.csv", "digits.yaml:11:10", "names no data", "csv"},
        {"csv: digits.csv, ", "", "digits.yaml:11:10", "names no data", "csv"},
        {"csv: digits.csv", "csv: digits.csv, idx: x", "digits.yaml:11:10", "both `csv` and `idx`", ""},
        {"target: label", "targt: label", "digits.yaml:11:28", "unknown key \"targt\"", "`target`"},
        {"target: label", "target: ", "digits.yaml:11:", "no value", ""},
        {"{split: 0.2,", "{split: 1.5,", "digits.yaml:12:23", "between 0 and 1", ""},
        {"{divide: 16}", "{divide: 0}", "digits.yaml:13:19", "above 0", ""},
        {"{divide: 16}", "{divide: 16, standardize: true}", "digits.yaml:13:10", "undoes", ""},
        {"{divide: 16}", "{standardize: yes}", "digits.yaml:13:24", "true or false", ""},
        {"{divide: 16}", "{standardize_target: true}", "digits.yaml:13:10", "cross_entropy has classes", ""},
        {"  batch: 32", "  batch: 0", "digits.yaml:14:10", "from 1", ""},
        {"  batch: 32", "  batchs: 32", "digits.yaml:14:3", "\"batchs\"", "`batch`"},
        {"epochs: 25, ", "", "digits.yaml:15:8", "neither `epochs` nor `max_steps`", ""},
        {"seed: 0", "seed: -1", "digits.yaml:15:27", "from 0", ""},
        {"{every_epochs: 5, keep: 2}", "{every_epochs: 5, keep: 0}", "digits.yaml:15:82", "from 1 to 1000", ""},
        {"device: auto", "device: auto\nprecision: bfloat16", "digits.yaml:17:12", "not available in this version",
         "float32"},
        {"device: auto", "device: auto\nprecision: float", "digits.yaml:17:12", "\"float\"", ""},
        {"seed: 0", "seed: 0, accumulate: 0", "digits.yaml:15:42", "from 1", ""},
        {"seed: 0", "seed: 0, ema: 1", "digits.yaml:15:35", "between 0 and 1", ""},
        {"seed: 0", "seed: 0, clip_value: -1", "digits.yaml:15:42", "above 0", ""},
        {"device: auto", "device: auto\nschedule: cosinus", "digits.yaml:17:11", "\"cosinus\"", "cosine"},
        {"device: auto", "device: auto\nschedule: {cosine: {end: 1}}", "digits.yaml:17:21", "no parameter \"end\"", ""},
        {"device: auto", "device: auto\nschedule: {step: {gamma: 2}}", "digits.yaml:17:26", "at most 1", ""},
        {"device: auto", "device: auto\nschedule: [cosine, cosine]", "digits.yaml:17:20", "twice", ""},
        {"device: auto", "device: auto\nschedule: [step, linear, cosine, warmup, plateau]", "digits.yaml:17:11",
         "at most 4", ""},
        {"device: auto", "device: auto\nearly_stopping: {}", "digits.yaml:17:17", "no `patience`", ""},
        {"device: auto", "device: auto\nearly_stopping: {patience: 0}", "digits.yaml:17:28", "from 1", ""},
        {"device: auto", "device: auto\nearly_stopping: {patience: 3, metric: val_acuracy}", "digits.yaml:17:39",
         "does not report", "val_accuracy"},
        {"device: auto", "device: auto\nhosts: a:1", "digits.yaml:17:8", "takes a list", ""},
        {"device: auto", "device: auto\nhosts: [a:1, a:1]", "digits.yaml:17:14", "second time", ""},
        {"device: auto", "device: auto\nhosts: ['a:999999']", "digits.yaml:17:9", "", ""},
        {"device: auto", "device: auto\ntime_limit: soon", "digits.yaml:17:13", "duration", ""},
        {"device: auto", "device: auto\non_failure: retry", "digits.yaml:17:13", "\"retry\"", ""},
        {"device: auto", "device: auto\nfinite: never", "digits.yaml:17:9", "\"never\"", "stop"},
        {"name: digits-mlp", "name: ../etc", "digits.yaml:1:7", "letters", ""},
        {"name: digits-mlp", "name: [a]", "digits.yaml:1:7", "single value", ""},
    };

    for (size_t i = 0; i < EO_COUNT_OF(rows); i++) {
        char text[4096];
        const char *at = strstr(digits, rows[i].from);
        struct job_spec *s;

        ck_assert_msg(at != NULL, "row %zu", i);
        snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - digits), digits, rows[i].to, at + strlen(rows[i].from));
        eo_error_clear(&err);
        ck_assert_msg(parse(text, &s) == EO_E_BAD_SPEC, "row %zu: %s", i, rows[i].to);
        ASSERT_CONTAINS(err.message, rows[i].place);
        ASSERT_CONTAINS(err.message, rows[i].message);
        ASSERT_CONTAINS(err.hint, rows[i].hint);
    }
}
END_TEST

START_TEST(models_that_the_file_alone_can_judge)
{
    struct job_spec *s;
    static const char onnx[] = "model: {onnx: m.onnx}\nloss: mse\noptimizer: adam\n"
                               "data: {train: {csv: a.csv}}\ntrain: {epochs: 1}\n";
    static const char images[] = "model: [{linear: {in: 28, out: 8}}, relu, flatten, {linear: {in: 224, out: 10}}]\n"
                                 "loss: cross_entropy\noptimizer: adam\n"
                                 "data: {train: {idx: x, labels: y}}\ntrain: {epochs: 1}\n";
    static const char regression[] = "model: [{linear: {in: 4, out: 2}}]\nloss: mse\noptimizer: adam\n"
                                     "data: {train: {csv: a.csv}}\ntrain: {epochs: 1}\n";
    static const char nothing[] = "model: [relu]\nloss: mse\noptimizer: adam\n"
                                  "data: {train: {csv: a.csv}}\ntrain: {epochs: 1}\n";

    ASSERT_CODE(parse(onnx, &s), EO_E_BAD_SPEC);
    ASSERT_CONTAINS(err.message, "ONNX");
    /* rows of images: their shape is in the data, so the trainer decides */
    ASSERT_OK(parse(images, &s));
    ck_assert_int_eq(s->model->input.n_dims, 0);
    spec_free(s);
    ASSERT_CODE(parse(regression, &s), EO_E_BAD_SPEC);
    ASSERT_CONTAINS(err.message, "one target column");
    ASSERT_CODE(parse(nothing, &s), EO_E_BAD_SPEC);
    ASSERT_CONTAINS(err.message, "no parameters");
}
END_TEST

START_TEST(layers_are_bounded)
{
    char *text = malloc(200000), *at = text;
    struct job_spec *s;

    at += snprintf(at, 100, "model:\n");
    for (int i = 0; i <= MODEL_MAX_LAYERS; i++) {
        at += snprintf(at, 100, "  - relu\n");
    }
    snprintf(at, 200, "loss: mse\noptimizer: adam\ndata: {train: {csv: a}}\ntrain: {epochs: 1}\n");
    ASSERT_CODE(parse(text, &s), EO_E_BAD_SPEC);
    ASSERT_CONTAINS(err.message, "1024 layers");
    at = text + snprintf(text, 100, "model: ");
    for (int i = 0; i < 12; i++) {
        at += snprintf(at, 100, "[{sequential: ");
    }
    at += snprintf(at, 100, "[relu]");
    for (int i = 0; i < 12; i++) {
        at += snprintf(at, 100, "}]");
    }
    snprintf(at, 200, "\nloss: mse\noptimizer: adam\ndata: {train: {csv: a}}\ntrain: {epochs: 1}\n");
    ASSERT_CODE(parse(text, &s), EO_E_BAD_SPEC);
    ASSERT_CONTAINS(err.message, "nested");
    free(text);
}
END_TEST

START_TEST(the_examples_are_valid)
{
    static const char *const names[] = {"digits", "iris", "regression", "fashion-mnist"};

    for (size_t i = 0; i < EO_COUNT_OF(names); i++) {
        char path[512];
        struct eo_bytes text;
        struct job_spec *s;

        snprintf(path, sizeof(path), "%s/deploy/examples/%s.yaml", getenv("EO_SOURCE_DIR"), names[i]);
        ASSERT_OK(eo_file_read(path, 1 << 20, &text, &err));
        ASSERT_OK(spec_parse((const char *)text.data, text.size, path, NULL, 0, &s, &err));
        eo_bytes_fini(&text);
        spec_free(s);
    }
}
END_TEST

START_TEST(a_file_without_a_name_lends_its_own)
{
    struct job_spec *s;
    const char *text = strchr(digits, '\n') + 1;

    ASSERT_OK(spec_parse(text, strlen(text), "/home/me/My job_1.yaml", NULL, 0, &s, &err));
    ck_assert_str_eq(s->name, "Myjob_1");
    spec_free(s);
    ASSERT_OK(spec_parse(text, strlen(text), "/home/me/.yaml", NULL, 0, &s, &err));
    ck_assert_str_eq(s->name, "job");
    spec_free(s);
}
END_TEST

EO_SUITE("spec", the_job_of_the_design, canonical_is_a_fixed_point, hashes_see_what_they_should,
         overrides_reach_lists_and_report_themselves, mistakes_are_told_with_place_value_and_choice,
         models_that_the_file_alone_can_judge, layers_are_bounded, the_examples_are_valid,
         a_file_without_a_name_lends_its_own)
