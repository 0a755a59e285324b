#include "daemon/jobs/job.h"
#include "tests/support/suite.h"

#include <string.h>

START_TEST(states_have_names_and_know_their_end)
{
    static const struct {
        enum job_state state;
        const char *name;
        bool ended;
    } rows[] = {{JOB_QUEUED, "queued", false},         {JOB_STARTING, "starting", false},
                {JOB_RUNNING, "running", false},       {JOB_SUCCEEDED, "succeeded", true},
                {JOB_FAILED, "failed", true},          {JOB_CANCELLED, "cancelled", true},
                {JOB_INTERRUPTED, "interrupted", true}};

    ck_assert_int_eq(EO_COUNT_OF(rows), JOB_STATE_COUNT);
    for (size_t i = 0; i < EO_COUNT_OF(rows); i++) {
        ck_assert_str_eq(job_state_name(rows[i].state), rows[i].name);
        ck_assert_int_eq(job_state_ended(rows[i].state), rows[i].ended);
    }
    ck_assert_str_eq(job_state_name((enum job_state)99), "?");
}
END_TEST

START_TEST(ids_are_random_and_valid)
{
    char ids[64][JOB_ID_SIZE];
    struct eo_error err = {0};

    for (size_t i = 0; i < EO_COUNT_OF(ids); i++) {
        ASSERT_OK(job_id_make(ids[i], &err));
        ck_assert(job_id_valid(ids[i]));
        for (size_t k = 0; k < i; k++) {
            ck_assert_str_ne(ids[i], ids[k]);
        }
    }
}
END_TEST

START_TEST(id_prefixes)
{
    static const char *const good[] = {"0", "deadbeef", "0123456789abcdef0123456789abcdef"};
    static const char *const bad[] = {"", "ABC", "g", "12 ", "../12", "0123456789abcdef0123456789abcdef0"};

    for (size_t i = 0; i < EO_COUNT_OF(good); i++) {
        ck_assert_msg(job_id_valid_prefix(good[i]), "%s", good[i]);
    }
    for (size_t i = 0; i < EO_COUNT_OF(bad); i++) {
        ck_assert_msg(!job_id_valid_prefix(bad[i]), "%s", bad[i]);
    }
    ck_assert(!job_id_valid("deadbeef"));
}
END_TEST

START_TEST(names_stay_below_their_folder)
{
    static const char *const good[] = {"a", "model.safetensors", "checkpoints/step-000000000001/manifest.json",
                                       "a.b/c"};
    static const char *const bad[] = {"",    "/",    "/etc/passwd", "..",      "a/..", "a/../b",
                                      "./a", "a//b", "a/",          ".hidden", "a/.b"};

    for (size_t i = 0; i < EO_COUNT_OF(good); i++) {
        ck_assert_msg(job_file_name_safe(good[i]), "%s", good[i]);
    }
    for (size_t i = 0; i < EO_COUNT_OF(bad); i++) {
        ck_assert_msg(!job_file_name_safe(bad[i]), "%s", bad[i]);
    }
}
END_TEST

START_TEST(copies_are_deep)
{
    const struct job_file_ref files[2] = {{.path = "a.csv", .sha256 = "00", .size = 7}, {.path = "b.csv"}};
    const char hosts[2][JOB_HOST_SIZE] = {"alpha:1", "[::1]:2"};
    struct job_record *r = job_record_new();

    ck_assert_ptr_nonnull(r);
    r->spec = strdup("name: x");
    ck_assert(job_record_set_files(r, files, 2));
    ck_assert(job_record_set_resume_files(r, files, 1));
    ck_assert(job_record_set_hosts(r, hosts, 2));
    eo_bytes_append(&r->metrics, "\x80", 1);
    r->error.code = EO_E_NO_FILE;

    struct job_record *c = job_record_copy(r);

    ck_assert_ptr_nonnull(c);
    memset(r->files, 0, 2 * sizeof(*r->files));
    memset(r->resume_files, 0, sizeof(*r->resume_files));
    memset(r->hosts, 0, 2 * sizeof(*r->hosts));
    r->spec[0] = '?';
    r->metrics.data[0] = 0;
    job_record_free(r);
    ck_assert_str_eq(c->files[0].path, "a.csv");
    ck_assert_uint_eq(c->files[0].size, 7);
    ck_assert_int_eq(c->n_files, 2);
    ck_assert_str_eq(c->resume_files[0].path, "a.csv");
    ck_assert_int_eq(c->n_resume_files, 1);
    ck_assert_str_eq(c->hosts[1], "[::1]:2");
    ck_assert_str_eq(c->spec, "name: x");
    ck_assert_uint_eq(c->metrics.size, 1);
    ck_assert_uint_eq(c->metrics.data[0], 0x80);
    ck_assert_int_eq(c->error.code, EO_E_NO_FILE);

    /* Lists are replaced, also by themselves and by nothing. */
    ck_assert(job_record_set_files(c, c->files + 1, 1));
    ck_assert_str_eq(c->files[0].path, "b.csv");
    ck_assert(job_record_set_hosts(c, NULL, 0));
    ck_assert_int_eq(c->n_hosts, 0);
    job_record_free(c);
    job_record_free(NULL);
}
END_TEST

EO_SUITE("job record", states_have_names_and_know_their_end, ids_are_random_and_valid, id_prefixes,
         names_stay_below_their_folder, copies_are_deep)
