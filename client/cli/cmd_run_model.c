/* everyo run: an ONNX model and its inputs go to a daemon, the outputs come back. No file is looked into here: what
 * strangers wrote is parsed in a worker of the daemon. */
#include "client/cli/cli.h"
#include "client/cli/hosts.h"
#include "client/cli/item_json.h"
#include "client/cli/job_files.h"
#include "client/cli/model_text.h"
#include "client/cli/remote_file.h"
#include "client/cli/report.h"
#include "proto/base/file.h"
#include "proto/base/text.h"
#include "proto/frame.h"

#include <stdlib.h>
#include <string.h>

enum { NAME_SIZE = 1025, PATH_SIZE = 2048 };

struct input {
    char name[NAME_SIZE]; /* "" = the model's only one */
    const char *format;
    struct job_file file;
};

struct model_run {
    const struct cli *cli;
    struct job_file model;
    struct input *inputs;
    int n_inputs;
    struct hosts hosts;
    struct host_link link;
    struct eo_reply reply;
    char run[40]; /* the results, as the daemon calls them */
};

/* ---- files ---- */

static int hash_file(struct job_file *f, const char *path, struct eo_error *err)
{
    if (!eo_copy_text(f->path, sizeof f->path, path) || !eo_copy_text(f->local, sizeof f->local, path)) {
        return EO_RAISE(err, EO_E_NO_FILE, "the path %.40s... is too long", path);
    }
    return eo_file_sha256(path, f->sha256, &f->size, err);
}

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text);
    const size_t k = strlen(end);
    return n >= k && strcmp(text + n - k, end) == 0;
}

static int find_format(const char *path, const char **out, struct eo_error *err)
{
    if (ends_with(path, ".npy") || ends_with(path, ".npy.gz")) {
        *out = "npy";
    } else if (ends_with(path, ".pb")) {
        *out = "pb";
    } else {
        EO_RAISE(err, EO_E_USAGE, "the input %s is neither .npy nor .pb", path);
        eo_error_hint(err, "numpy.save writes .npy; .pb is a tensor of ONNX, as its test data have them.");
        return EO_E_USAGE;
    }
    return EO_OK;
}

/* NAME=FILE or FILE. A name of ONNX may hold nearly anything, a '=' it hardly ever has. */
static int take_input(const char *text, struct input *in, struct eo_error *err)
{
    const char *equals = strchr(text, '=');
    const char *path = equals != NULL ? equals + 1 : text;
    const size_t length = equals != NULL ? (size_t)(equals - text) : 0;
    if (length >= sizeof in->name || path[0] == '\0' || (equals != NULL && length == 0)) {
        EO_RAISE(err, EO_E_USAGE, "--input %.80s is not NAME=FILE", text);
        return EO_E_USAGE;
    }
    memcpy(in->name, text, length);
    in->name[length] = '\0';
    int rc = find_format(path, &in->format, err);
    return rc == EO_OK ? hash_file(&in->file, path, err) : rc;
}

static int find_files(struct model_run *r, struct eo_error *err)
{
    const struct cli_list *list = &r->cli->inputs;
    int rc = hash_file(&r->model, r->cli->arguments[0], err);
    if (rc != EO_OK) {
        return rc;
    }
    r->inputs = calloc((size_t)list->n + 1, sizeof *r->inputs);
    if (r->inputs == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for inputs");
    }
    for (int i = 0; i < list->n && rc == EO_OK; i++) {
        rc = take_input(list->values[i], &r->inputs[r->n_inputs++], err);
    }
    return rc;
}

/* ---- sending ---- */

static bool on_upload(void *ctx, const struct job_file *file, uint64_t done, uint64_t sent)
{
    EO_UNUSED(ctx);
    if (sent > 0) {
        progress_show("uploading %s %3.0f%%", file->path,
                      file->size > 0 ? 100.0 * (double)done / (double)file->size : 100.0);
    }
    return true;
}

static int upload(struct model_run *r, struct eo_error *err)
{
    int rc = job_file_upload(r->link.connection, &r->model, on_upload, NULL, err);
    for (int i = 0; i < r->n_inputs && rc == EO_OK; i++) {
        rc = job_file_upload(r->link.connection, &r->inputs[i].file, on_upload, NULL, err);
    }
    progress_clear();
    return rc;
}

static void pack_inputs(const struct model_run *r, struct eo_bytes *p)
{
    eo_pack_str(p, "inputs");
    eo_pack_array(p, (size_t)r->n_inputs);
    for (int i = 0; i < r->n_inputs; i++) {
        const struct input *in = &r->inputs[i];
        eo_pack_map(p, 4);
        eo_pack_kv_str(p, "name", in->name);
        eo_pack_kv_str(p, "sha256", in->file.sha256);
        eo_pack_kv_str(p, "format", in->format);
        eo_pack_kv_str(p, "file", in->file.path);
    }
}

static int call(struct model_run *r, struct eo_error *err)
{
    const bool is_describe = r->cli->given[CLI_OPT_DESCRIBE];
    const bool is_named = r->cli->given[CLI_OPT_BACKEND];
    struct eo_bytes p;
    eo_bytes_init(&p, EO_ENVELOPE_MAX);
    eo_pack_map(&p, is_describe ? 2 : 5);
    eo_pack_kv_str(&p, "model", r->model.sha256);
    eo_pack_kv_str(&p, "name", r->model.path);
    if (!is_describe) {
        pack_inputs(r, &p);
        eo_pack_kv_str(&p, "device", is_named ? r->cli->value[CLI_OPT_BACKEND] : "auto");
        eo_pack_kv_str(&p, "fallback", is_named ? "strict" : "report");
    }
    int rc = eo_connection_call(r->link.connection, is_describe ? "model.describe" : "model.run", &p, NULL, 0,
                                &r->reply, err);
    eo_bytes_fini(&p);
    return rc;
}

/* ---- results ---- */

static void pack_run(void *ctx, struct eo_bytes *params)
{
    eo_pack_kv_str(params, "run", ctx);
}

static int fetch_one(struct model_run *r, size_t i, const struct eo_item *output, const char *path,
                     struct eo_error *err)
{
    char name[64];
    snprintf(name, sizeof name, "output %zu", i);
    struct remote_file file = {.method = "model.read", .pack = pack_run, .n_keys = 1, .ctx = r->run, .name = name};
    int rc = eo_need_u64(output, "offset", INT64_MAX, &file.offset, err);
    if (rc == EO_OK) {
        rc = eo_need_u64(output, "bytes", INT64_MAX - file.offset, &file.size, err);
    }
    return rc == EO_OK ? remote_file_fetch(r->link.connection, &file, path, err) : rc;
}

static bool output_path(const struct model_run *r, size_t i, char *out, size_t size)
{
    char name[32];
    out[0] = '\0';
    snprintf(name, sizeof name, "%zu.npy", i);
    return !r->cli->given[CLI_OPT_OUTPUT_DIR] || eo_path_join(out, size, r->cli->value[CLI_OPT_OUTPUT_DIR], name);
}

static int fetch_all(struct model_run *r, struct eo_error *err)
{
    const struct eo_item *outputs = eo_item_get(r->reply.result, "outputs");
    int rc = eo_need_str(r->reply.result, "run", r->run, sizeof r->run, err);
    for (size_t i = 0; i < eo_item_count(outputs) && rc == EO_OK; i++) {
        char path[PATH_SIZE];
        if (!output_path(r, i, path, sizeof path)) {
            return EO_RAISE(err, EO_E_CANNOT_CREATE, "the path of output %zu is too long", i);
        }
        if (path[0] != '\0') {
            rc = fetch_one(r, i, eo_item_at(outputs, i), path, err);
        }
    }
    progress_clear();
    return rc;
}

static int print_json(const struct model_run *r)
{
    static const char *const not_run[] = {"schema", "run", "outputs", NULL};
    static const char *const not_output[] = {"offset", "bytes", NULL};
    const struct eo_item *outputs = eo_item_get(r->reply.result, "outputs");
    struct json_line line;
    struct eo_json *j = json_line_begin(&line);
    eo_json_kv_i64(j, "schema", 1);
    eo_json_kv_string(j, "model", r->model.path);
    item_json_pairs_but(j, r->reply.result, not_run);
    eo_json_key(j, "outputs");
    eo_json_begin_array(j);
    for (size_t i = 0; i < eo_item_count(outputs); i++) {
        char path[PATH_SIZE];
        output_path(r, i, path, sizeof path);
        eo_json_begin_object(j);
        item_json_pairs_but(j, eo_item_at(outputs, i), not_output);
        eo_json_kv_string(j, "file", path[0] != '\0' ? path : NULL);
        eo_json_end_object(j);
    }
    eo_json_end_array(j);
    return json_line_end(&line, true);
}

/* "0.4ms" where it matters: small models run in less than one. */
static char *short_time(double seconds, char *out, size_t size)
{
    if (seconds < 0.1) {
        snprintf(out, size, "%.1fms", 1e3 * seconds);
        return out;
    }
    return eo_format_duration(seconds, out, size);
}

static void note_run(const struct model_run *r)
{
    char text[300];
    char load[32];
    char run[32];
    const struct eo_item *m = r->reply.result;
    const long long n_threads = (long long)item_i64(m, "threads", 0);
    item_text(m, "fallback", text, sizeof text);
    if (text[0] != '\0') {
        report_note("not all of it ran on the device: %s", text);
    }
    if (!r->cli->given[CLI_OPT_QUIET]) {
        report_note("ran in %s on %s with %lld thread%s; loading took %s",
                    short_time(item_f64(m, "run_seconds"), run, sizeof run), item_text(m, "device", text, sizeof text),
                    n_threads, n_threads == 1 ? "" : "s", short_time(item_f64(m, "load_seconds"), load, sizeof load));
    }
}

static int print_results(const struct model_run *r)
{
    const struct eo_item *outputs = eo_item_get(r->reply.result, "outputs");
    note_run(r);
    if (r->cli->given[CLI_OPT_JSON]) {
        return print_json(r);
    }
    for (size_t i = 0; i < eo_item_count(outputs); i++) {
        char path[PATH_SIZE];
        output_path(r, i, path, sizeof path);
        model_text_output(eo_item_at(outputs, i), path);
    }
    return 0;
}

static int print_description(const struct model_run *r)
{
    if (r->cli->given[CLI_OPT_JSON]) {
        return item_json_print(r->reply.result);
    }
    model_text_describe(r->model.path, r->reply.result);
    return 0;
}

/* ---- the command ---- */

static int check_options(const struct cli *cli, struct eo_error *err)
{
    static const enum cli_option running[] = {CLI_OPT_INPUT, CLI_OPT_OUTPUT_DIR, CLI_OPT_BACKEND};
    for (size_t i = 0; i < EO_COUNT_OF(running); i++) {
        if (cli->given[CLI_OPT_DESCRIBE] && cli->given[running[i]]) {
            return EO_RAISE(err, EO_E_USAGE, "--describe runs nothing, so it takes no %s",
                            cli_options[running[i]].long_name);
        }
    }
    return EO_OK;
}

static int open_host(struct model_run *r, struct eo_error *err)
{
    int rc = hosts_resolve(r->cli, &r->hosts, err);
    if (rc == EO_OK && r->hosts.n > 1) {
        rc = EO_RAISE(err, EO_E_USAGE, "run talks to one host, %zu are named", r->hosts.n);
    }
    return rc == EO_OK ? hosts_open(r->cli, &r->hosts, HOSTS_PRIVATE_IF_NONE, &r->link, err) : rc;
}

static int run_model(struct model_run *r, struct eo_error *err)
{
    int rc = check_options(r->cli, err);
    if (rc == EO_OK) {
        rc = find_files(r, err);
    }
    if (rc == EO_OK && r->cli->given[CLI_OPT_OUTPUT_DIR]) { /* before anything runs in vain */
        rc = eo_dir_ensure(r->cli->value[CLI_OPT_OUTPUT_DIR], 0777, err);
    }
    if (rc == EO_OK) {
        rc = open_host(r, err);
    }
    if (rc == EO_OK) {
        rc = upload(r, err);
    }
    if (rc == EO_OK) {
        rc = call(r, err);
    }
    return rc == EO_OK && !r->cli->given[CLI_OPT_DESCRIBE] ? fetch_all(r, err) : rc;
}

int cmd_RUN_MODEL(const struct cli *cli)
{
    struct eo_error err = {0};
    struct model_run r = {.cli = cli};
    int exit_code;
    if (run_model(&r, &err) != EO_OK) {
        exit_code = report_failure(&err);
    } else {
        exit_code = cli->given[CLI_OPT_DESCRIBE] ? print_description(&r) : print_results(&r);
    }
    eo_reply_fini(&r.reply);
    hosts_close(&r.link);
    hosts_fini(&r.hosts);
    free(r.inputs);
    return exit_code;
}
