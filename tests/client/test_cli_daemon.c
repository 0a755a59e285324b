/* Commands that talk to a daemon: what they send, print and exit with. */
#include "proto/base/file.h"
#include "tests/client/fake_jobs.h"
#include "tests/client/run_cli.h"
#include "tests/support/suite.h"

#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct eo_error err;
static struct cli_run r;
static struct fake_jobs jobs;
static struct fake_server *server;
static const char *host; /* of server */
static char dir[64], spec[96], data[96], output[96];

static void setup(void)
{
    snprintf(dir, sizeof dir, "/tmp/eo-cli-daemon-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(spec, sizeof spec, "%s/job.yaml", dir);
    snprintf(data, sizeof data, "%s/data.csv", dir);
    snprintf(output, sizeof output, "%s/out", dir);
    ASSERT_OK(eo_file_write_atomic(spec, "name: digits\n", 13, 0666, &err));
    ASSERT_OK(eo_file_write_atomic(data, "1,2\n", 4, 0666, &err));
    memset(&jobs, 0, sizeof jobs);
    server = fake_server_start(fake_jobs_script, &jobs);
    host = fake_server_endpoint(server)->text;
}

static void teardown(void)
{
    fake_server_stop(server);
    ASSERT_OK(eo_dir_remove(dir, &err));
}

static void assert_exit(int wanted)
{
    ck_assert_msg(r.exit_code == wanted, "exit code %d\n--- out\n%s--- err\n%s", r.exit_code, r.out, r.err);
}

/* The NDJSON lines of r.out; the caller drops the array. */
static json_t *lines(void)
{
    json_t *all = json_array();
    char *rest = r.out;
    for (char *line = strsep(&rest, "\n"); line != NULL && *line != '\0'; line = strsep(&rest, "\n")) {
        json_error_t fault;
        json_t *one = json_loads(line, JSON_REJECT_DUPLICATES, &fault);
        ck_assert_msg(one != NULL, "%s in %s", fault.text, line);
        json_array_append_new(all, one);
    }
    ck_assert_uint_gt(json_array_size(all), 0);
    return all;
}

static const char *text_at(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "(none)";
}

/* ---- queries ---- */

START_TEST(pings)
{
    setup();
    r = RUN(CLI_EVERYO, "ping", "-H", host, "-c", "3");
    assert_exit(0);
    ASSERT_CONTAINS(r.out, "everyod 0.1.0 (fake), 3 round trips");
    cli_run_fini(&r);
    char two[700];
    snprintf(two, sizeof two, "%s,unix:/nonexistent/socket", host);
    r = RUN(CLI_EVERYO, "ping", "--json", "-H", two);
    assert_exit(69);
    json_t *all = lines();
    const json_t *hosts = json_object_get(json_array_get(all, 0), "hosts");
    ck_assert_uint_eq(json_array_size(hosts), 2);
    ck_assert(json_is_true(json_object_get(json_array_get(hosts, 0), "ok")));
    ck_assert(json_is_null(json_object_get(json_array_get(hosts, 0), "error")));
    ck_assert(json_is_false(json_object_get(json_array_get(hosts, 1), "ok")));
    ck_assert_int_eq(json_integer_value(json_object_get(json_object_get(json_array_get(hosts, 1), "error"), "code")),
                     1009);
    ck_assert(json_is_null(json_object_get(json_array_get(hosts, 1), "rtt_us")));
    json_decref(all);
    cli_run_fini(&r);
    teardown();
}
END_TEST

START_TEST(a_daemon_that_stops_answering)
{
    setup();
    jobs.hangs_at = "info";
    r = RUN(CLI_EVERYO, "info", "-H", host, "--timeout", "50ms");
    assert_exit(124);
    ASSERT_CONTAINS(r.err, "EO-1010");
    ASSERT_CONTAINS(r.err, host);
    cli_run_fini(&r);
    teardown();
}
END_TEST

/* A daemon of another version may leave keys out. */
START_TEST(answers_without_keys_are_shown_as_they_are)
{
    static const char *const commands[] = {"info", "doctor", "version"};
    setup();
    for (size_t i = 0; i < EO_COUNT_OF(commands); i++) {
        for (int as_json = 0; as_json <= 1; as_json++) {
            r = as_json ? RUN(CLI_EVERYO, commands[i], "-H", host, "--json") : RUN(CLI_EVERYO, commands[i], "-H", host);
            assert_exit(0);
            ck_assert(r.out[0] != '\0');
            if (as_json) {
                json_decref(lines());
            }
            cli_run_fini(&r);
        }
    }
    r = RUN(CLI_EVERYO, "ops", "matmul", "-H", host);
    assert_exit(0);
    ASSERT_CONTAINS(r.out, "not supported");
    cli_run_fini(&r);
    r = RUN(CLI_EVERYO, "ops", "matmul", "--support", "--json", "-H", host);
    assert_exit(0);
    ASSERT_CONTAINS(r.out, "\"support\":{");
    cli_run_fini(&r);
    teardown();
}
END_TEST

START_TEST(lists_and_shows_jobs)
{
    setup();
    r = RUN(CLI_SUBMIT, "ls", "-H", host);
    assert_exit(0);
    ASSERT_CONTAINS(r.out, "01234567  succeeded    100%  2025-11-30T13:45:40  digits\n");
    cli_run_fini(&r);
    r = RUN(CLI_SUBMIT, "ls", "--json", "-a", "-H", host);
    assert_exit(0);
    json_t *all = lines();
    const json_t *job = json_array_get(json_object_get(json_array_get(all, 0), "jobs"), 0);
    ck_assert_str_eq(text_at(job, "job_id"), FAKE_JOB);
    ck_assert(json_is_true(json_object_get(json_object_get(job, "metrics"), "nonfinite")));
    json_decref(all);
    cli_run_fini(&r);
    jobs.n_jobs = 25; /* more than one answer holds */
    for (int with_all = 0; with_all <= 1; with_all++) {
        r = with_all ? RUN(CLI_SUBMIT, "ls", "-a", "--json", "-H", host) : RUN(CLI_SUBMIT, "ls", "--json", "-H", host);
        assert_exit(0);
        all = lines();
        ck_assert_uint_eq(json_array_size(json_object_get(json_array_get(all, 0), "jobs")), with_all ? 25 : 20);
        ck_assert_int_eq(json_integer_value(json_object_get(json_array_get(all, 0), "total")), 25);
        json_decref(all);
        cli_run_fini(&r);
    }
    r = RUN(CLI_SUBMIT, "status", "0123", "-H", host);
    assert_exit(0);
    ASSERT_CONTAINS(r.out, "job " FAKE_JOB "\n");
    ASSERT_CONTAINS(r.out, "val_accuracy");
    cli_run_fini(&r);
    r = RUN(CLI_SUBMIT, "status", "--json", "0123", "-H", host);
    assert_exit(0);
    all = lines(); /* one document without a key twice */
    ck_assert_int_eq(json_integer_value(json_object_get(json_array_get(all, 0), "schema")), 1);
    json_decref(all);
    cli_run_fini(&r);
    teardown();
}
END_TEST

START_TEST(logs_cancels_waits_removes)
{
    setup();
    r = RUN(CLI_SUBMIT, "logs", "-f", "0123", "-H", host);
    assert_exit(0);
    ck_assert_str_eq(r.out, "epoch 1\nepoch 2\n");
    cli_run_fini(&r);
    r = RUN(CLI_SUBMIT, "cancel", "0123", "-H", host);
    assert_exit(0);
    ASSERT_CONTAINS(r.out, "had already ended: succeeded");
    cli_run_fini(&r);
    r = RUN(CLI_SUBMIT, "rm", "0123", "--json", "-H", host);
    assert_exit(0);
    ck_assert_str_eq(r.out, "{\"schema\":1,\"job_id\":\"0123\",\"removed\":1}\n");
    ck_assert_int_eq(jobs.n_removed, 1);
    cli_run_fini(&r);
    jobs.end_state = "failed";
    jobs.error_code = EO_E_PEER_LOST;
    r = RUN(CLI_SUBMIT, "wait", "0123", "-H", host);
    assert_exit(1);
    ASSERT_CONTAINS(r.out, "job 01234567 failed after 20 steps");
    ASSERT_CONTAINS(r.err, "EO-5001");
    ASSERT_CONTAINS(r.err, "beta:2 (rank 1)");
    cli_run_fini(&r);
    jobs.error_code = EO_E_BAD_FILE; /* bad data that was found late */
    r = RUN(CLI_SUBMIT, "wait", "0123", "-q", "-H", host);
    assert_exit(65);
    cli_run_fini(&r);
    jobs.end_state = "cancelled";
    jobs.error_code = EO_E_CANCELLED;
    r = RUN(CLI_SUBMIT, "wait", "0123", "-H", host);
    assert_exit(1);
    cli_run_fini(&r);
    teardown();
}
END_TEST

START_TEST(waits_only_so_long)
{
    setup();
    jobs.hangs_at = "job.watch";
    r = RUN(CLI_SUBMIT, "wait", "0123", "--timeout", "80ms", "-H", host);
    assert_exit(124);
    ASSERT_CONTAINS(r.err, "has not ended yet");
    cli_run_fini(&r);
    teardown();
}
END_TEST

START_TEST(fetches)
{
    char path[160];
    setup();
    r = RUN(CLI_SUBMIT, "fetch", "0123", output, "-H", host);
    assert_exit(0);
    ASSERT_CONTAINS(r.out, "5 files in ");
    snprintf(path, sizeof path, "%s/checkpoints/step-000000000010/manifest.json", output);
    ck_assert_int_eq(access(path, R_OK), 0);
    cli_run_fini(&r);
    r = RUN(CLI_SUBMIT, "fetch", "0123", "/dev/null/out", "-H", host);
    assert_exit(73);
    cli_run_fini(&r);
    teardown();
}
END_TEST

/* ---- run ---- */

static void check_result(const json_t *result, const char *state)
{
    static const char *const keys[] = {"event", "schema", "job_id",  "state",      "metrics", "parameters_sha256",
                                       "ranks", "steps",  "seconds", "world_size", "error"};
    for (size_t i = 0; i < EO_COUNT_OF(keys); i++) {
        ck_assert_msg(json_object_get(result, keys[i]) != NULL, "no key %s", keys[i]);
    }
    ck_assert_uint_eq(json_object_size(result), EO_COUNT_OF(keys));
    ck_assert_str_eq(text_at(result, "event"), "result");
    ck_assert_str_eq(text_at(result, "state"), state);
    ck_assert_str_eq(text_at(result, "job_id"), FAKE_JOB);
}

START_TEST(runs_as_ndjson)
{
    static const char *const order[] = {"upload", "submitted", "state", "progress", "progress", "log", "result"};
    char path[160];
    setup();
    jobs.data_file = "data.csv";
    r = RUN(CLI_SUBMIT, "run", spec, "--json", "-o", output, "--set", "train.epochs=2", "-H", host);
    assert_exit(0);
    json_t *all = lines();
    ck_assert_uint_eq(json_array_size(all), EO_COUNT_OF(order));
    for (size_t i = 0; i < EO_COUNT_OF(order); i++) {
        ck_assert_str_eq(text_at(json_array_get(all, i), "event"), order[i]);
    }
    const json_t *upload = json_array_get(all, 0);
    ck_assert_str_eq(text_at(upload, "path"), "data.csv");
    ck_assert_int_eq(json_integer_value(json_object_get(upload, "sent")), 4);
    ck_assert_uint_eq(jobs.put_bytes, 4);
    const json_t *state = json_array_get(all, 2);
    ck_assert_uint_eq(json_object_size(state), 3);
    ck_assert_str_eq(text_at(state, "reason"), "waits for a slot");
    ck_assert_str_eq(text_at(json_array_get(all, 5), "text"), "epoch 1\nepoch 2\n");
    const json_t *result = json_array_get(all, 6);
    check_result(result, "succeeded");
    const json_t *metrics = json_object_get(result, "metrics");
    ck_assert(json_is_null(json_object_get(metrics, "loss")));
    ck_assert(json_is_true(json_object_get(metrics, "nonfinite")));
    ck_assert(json_is_null(json_object_get(result, "error")));
    json_decref(all);
    ASSERT_CONTAINS(jobs.submitted, "\"spec\":\"canonical: true\\n\"");
    ASSERT_CONTAINS(jobs.submitted, "\"files\":[{\"path\":\"data.csv\",\"sha256\":\"");
    ASSERT_CONTAINS(jobs.submitted, "\"hosts\":[\"127.0.0.1:");
    ck_assert_ptr_null(strstr(jobs.submitted, "resume"));
    snprintf(path, sizeof path, "%s/model.safetensors", output);
    ck_assert_int_eq(access(path, R_OK), 0);
    snprintf(path, sizeof path, "%s/checkpoints", output); /* results only; fetch takes all */
    ck_assert_int_ne(access(path, R_OK), 0);
    cli_run_fini(&r);
    teardown();
}
END_TEST

START_TEST(runs_for_people)
{
    setup();
    jobs.data_file = "data.csv";
    jobs.have_blobs = true;
    r = RUN(CLI_SUBMIT, spec, "-H", host);
    assert_exit(0);
    ck_assert_uint_eq(jobs.put_bytes, 0); /* the daemon had it */
    ASSERT_CONTAINS(r.err, "job 01234567 submitted to 127.0.0.1:");
    ASSERT_CONTAINS(r.err, "queued: waits for a slot");
    ASSERT_CONTAINS(r.err, "epoch 2/2  loss 0.5  accuracy 0.875"); /* the end of an epoch; no terminal here */
    ck_assert_ptr_null(strstr(r.err, "epoch 1/2"));
    ASSERT_CONTAINS(r.err, "everyo-submit fetch 01234567 DIR -H 127.0.0.1:");
    ASSERT_CONTAINS(r.out, "job 01234567 succeeded after 20 steps in 1.5s\n");
    ck_assert_ptr_null(strstr(r.out, "epoch 1\n")); /* the log is for `logs` */
    cli_run_fini(&r);
    r = RUN(CLI_SUBMIT, spec, "-q", "-H", host);
    assert_exit(0);
    ck_assert_str_eq(r.err, "");
    cli_run_fini(&r);
    r = RUN(CLI_SUBMIT, spec, "--detach", "--parsable", "-H", host);
    assert_exit(0);
    ck_assert_str_eq(r.out, FAKE_JOB "\n");
    cli_run_fini(&r);
    r = RUN(CLI_SUBMIT, spec, "--validate", "-H", host);
    assert_exit(0);
    ASSERT_CONTAINS(r.out, "is valid: 1 data file\n");
    cli_run_fini(&r);
    teardown();
}
END_TEST

START_TEST(runs_that_fail)
{
    setup();
    jobs.end_state = "failed";
    jobs.error_code = EO_E_NON_FINITE;
    r = RUN(CLI_SUBMIT, spec, "--json", "-H", host);
    assert_exit(1);
    json_t *all = lines();
    const json_t *result = json_array_get(all, json_array_size(all) - 1);
    check_result(result, "failed");
    const json_t *error = json_object_get(result, "error");
    ck_assert_int_eq(json_integer_value(json_object_get(error, "code")), 7004);
    ck_assert_str_eq(text_at(error, "message"), "as the test wants it");
    ck_assert_str_eq(text_at(error, "hint"), "Change the test.");
    ck_assert_str_eq(text_at(error, "host"), "beta:2");
    ck_assert_int_eq(json_integer_value(json_object_get(error, "rank")), 1);
    json_decref(all);
    cli_run_fini(&r);
    jobs.data_file = "absent.csv";
    r = RUN(CLI_SUBMIT, spec, "--json", "-H", host);
    assert_exit(66);
    ASSERT_CONTAINS(r.err, "absent.csv");
    all = lines();
    result = json_array_get(all, 0);
    ck_assert_str_eq(text_at(result, "state"), "failed");
    ck_assert(json_is_null(json_object_get(result, "job_id")));
    ck_assert_int_eq(json_integer_value(json_object_get(json_object_get(result, "error"), "code")), 7002);
    json_decref(all);
    cli_run_fini(&r);
    r = RUN(CLI_SUBMIT, spec, "--validate", "-H", host);
    assert_exit(66);
    cli_run_fini(&r);
    r = RUN(CLI_SUBMIT, spec, "--json", "-H", "unix:/nonexistent/socket");
    assert_exit(69);
    all = lines();
    ck_assert_str_eq(text_at(json_array_get(all, 0), "event"), "result");
    json_decref(all);
    cli_run_fini(&r);
    teardown();
}
END_TEST

START_TEST(resumes)
{
    char path[160];
    setup();
    r = RUN(CLI_SUBMIT, spec, "-d", "--resume", "89ab", "-H", host);
    assert_exit(0);
    ASSERT_CONTAINS(jobs.submitted, "\"resume\":\"89ab\"");
    ck_assert_ptr_null(strstr(jobs.submitted, "resume_files"));
    cli_run_fini(&r);
    r = RUN(CLI_SUBMIT, spec, "-d", "--resume", dir, "-H", host); /* a folder without a checkpoint */
    assert_exit(66);
    cli_run_fini(&r);
    snprintf(path, sizeof path, "%s/checkpoints/step-000000000010", dir);
    ASSERT_OK(eo_dir_ensure(path, 0777, &err));
    static const char *const names[] = {"manifest.json", "model.safetensors", "state.safetensors"};
    for (size_t i = 0; i < EO_COUNT_OF(names); i++) {
        snprintf(path, sizeof path, "%s/checkpoints/step-000000000010/%s", dir, names[i]);
        ASSERT_OK(eo_file_write_atomic(path, names[i], strlen(names[i]), 0666, &err));
    }
    r = RUN(CLI_SUBMIT, spec, "-d", "--resume", dir, "-H", host);
    assert_exit(0);
    ASSERT_CONTAINS(jobs.submitted, "\"resume_files\":[{\"path\":\"manifest.json\",\"sha256\":\"");
    ASSERT_CONTAINS(jobs.submitted, "{\"path\":\"state.safetensors\"");
    ck_assert_ptr_null(strstr(jobs.submitted, "\"resume\""));
    ck_assert_uint_eq(jobs.put_bytes, 13 + 17 + 17);
    cli_run_fini(&r);
    teardown();
}
END_TEST

START_TEST(survives_a_lost_connection)
{
    setup();
    jobs.lose_watch = 2;
    r = RUN(CLI_SUBMIT, spec, "--json", "-H", host);
    assert_exit(0);
    ck_assert_int_eq(jobs.n_watches, 3);
    ck_assert_uint_eq(jobs.log_offset, 16); /* goes on behind what was seen */
    ASSERT_CONTAINS(r.err, "lost, trying again");
    json_t *all = lines();
    check_result(json_array_get(all, json_array_size(all) - 1), "succeeded");
    json_decref(all);
    cli_run_fini(&r);
    teardown();
}
END_TEST

START_TEST(names_a_lost_coordinator)
{
    struct fake_jobs other = {0};
    char two[700];
    setup();
    struct fake_server *second = fake_server_start(fake_jobs_script, &other);
    snprintf(two, sizeof two, "%s,%s", host, fake_server_endpoint(second)->text);
    jobs.lose_watch = 1;
    r = RUN(CLI_SUBMIT, spec, "--json", "-H", two);
    assert_exit(1);
    ASSERT_CONTAINS(r.err, "EO-5001");
    ASSERT_CONTAINS(r.err, host);
    ASSERT_CONTAINS(r.err, "is succeeded there"); /* what the other host knows */
    json_t *all = lines();
    const json_t *result = json_array_get(all, json_array_size(all) - 1);
    check_result(result, "failed");
    ck_assert_str_eq(text_at(json_object_get(result, "error"), "host"), host);
    ck_assert_int_eq(json_integer_value(json_object_get(result, "world_size")), 2);
    json_decref(all);
    cli_run_fini(&r);
    fake_server_stop(second);
    teardown();
}
END_TEST

START_TEST(the_flag_beats_the_hosts_of_the_spec)
{
    const char *named[2] = {NULL, NULL};
    struct fake_jobs other = {0};
    setup();
    struct fake_server *second = fake_server_start(fake_jobs_script, &other);
    named[0] = fake_server_endpoint(second)->text;
    jobs.spec_hosts = named;
    other.spec_hosts = named;
    r = RUN(CLI_SUBMIT, spec, "-H", host); /* the flag wins */
    assert_exit(0);
    ck_assert_int_eq(jobs.n_watches, 1);
    ck_assert_int_eq(other.n_watches, 0);
    cli_run_fini(&r);
    fake_server_stop(second);
    teardown();
}
END_TEST

START_TEST(an_interrupt_cancels_with_a_checkpoint)
{
    setup();
    jobs.waits_for_cancel = true;
    jobs.interrupt = pthread_self();
    r = RUN(CLI_SUBMIT, spec, "-H", host);
    assert_exit(130);
    ck_assert_int_eq(jobs.n_cancels, 1);
    ASSERT_CONTAINS(r.err, "cancelling 01234567 with a checkpoint");
    ASSERT_CONTAINS(r.out, "cancelled after 20 steps");
    cli_run_fini(&r);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    teardown();
}
END_TEST

EO_SUITE("cli with a daemon", pings, a_daemon_that_stops_answering, answers_without_keys_are_shown_as_they_are,
         lists_and_shows_jobs, logs_cancels_waits_removes, waits_only_so_long, fetches, runs_as_ndjson, runs_for_people,
         runs_that_fail, resumes, survives_a_lost_connection, names_a_lost_coordinator,
         the_flag_beats_the_hosts_of_the_spec, an_interrupt_cancels_with_a_checkpoint)
