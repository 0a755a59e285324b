#include "daemon/jobs/journal.h"
#include "proto/base/file.h"
#include "proto/codec.h"
#include "tests/support/suite.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[64];
static char path[100];

static void open_dir(void)
{
    snprintf(dir, sizeof(dir), "/tmp/everyo-journal-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/journal.sqlite", dir);
}

static void close_dir(void)
{
    struct eo_error err = {0};

    ASSERT_OK(eo_dir_remove(dir, &err));
}

/* ---- records ---- */

static struct job_record *make(int number, enum job_state state)
{
    struct job_record *r = job_record_new();

    ck_assert_ptr_nonnull(r);
    snprintf(r->id, sizeof(r->id), "%032x", (unsigned)number);
    snprintf(r->key, sizeof(r->key), "key-%d", number);
    snprintf(r->name, sizeof(r->name), "job %d", number);
    r->state = state;
    r->spec = strdup("name: x\n");
    r->submitted_ms = 1000 + number;
    return r;
}

static struct job_record *make_full(void)
{
    const struct job_file_ref files[2] = {{.path = "data/train.csv", .sha256 = "ab", .size = (uint64_t)1 << 40},
                                          {.path = "/srv/x.csv"}};
    const struct job_file_ref checkpoint = {.path = "model.safetensors", .sha256 = "cd", .size = 3};
    const char hosts[3][JOB_HOST_SIZE] = {"alpha:17743", "[::1]:9", "unix:/run/e"};
    struct job_record *r = make(7, JOB_FAILED);

    snprintf(r->reason, sizeof(r->reason), "EO-7004: the loss is not finite");
    snprintf(r->spec_hash, sizeof(r->spec_hash), "feed");
    snprintf(r->device, sizeof(r->device), "cpu");
    snprintf(r->resume, sizeof(r->resume), "%032x", 3u);
    ck_assert(job_record_set_files(r, files, 2));
    ck_assert(job_record_set_resume_files(r, &checkpoint, 1));
    ck_assert(job_record_set_hosts(r, hosts, 3));
    r->started_ms = 5;
    r->ended_ms = 6;
    r->restarts = 2;
    r->steps = INT64_MAX;
    r->epochs = 4;
    r->seconds = 1.25;
    snprintf(r->parameters_sha256, sizeof(r->parameters_sha256), "0123");
    eo_pack_map(&r->metrics, 1);
    eo_pack_kv_f64(&r->metrics, "loss", 0.5);
    eo_pack_array(&r->ranks, 0);
    EO_RAISE(&r->error, EO_E_NON_FINITE, "the loss is not finite at step %d", 9);
    eo_error_at_host(&r->error, "alpha:17743", 0);
    return r;
}

/* ---- waiting for the journal's thread ---- */

struct outcome {
    pthread_mutex_t lock;
    pthread_cond_t told;
    int n; /* done calls so far */
    int order[256];
    int codes[256];
};
static struct outcome outcome = {.lock = PTHREAD_MUTEX_INITIALIZER, .told = PTHREAD_COND_INITIALIZER};

static void done(void *ctx, const struct eo_error *err)
{
    pthread_mutex_lock(&outcome.lock);
    outcome.order[outcome.n] = (int)(intptr_t)ctx;
    outcome.codes[outcome.n] = err != NULL ? err->code : EO_OK;
    outcome.n++;
    pthread_cond_signal(&outcome.told);
    pthread_mutex_unlock(&outcome.lock);
}

static void wait_done(int n)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 30;
    pthread_mutex_lock(&outcome.lock);
    while (outcome.n < n) {
        ck_assert_int_eq(pthread_cond_timedwait(&outcome.told, &outcome.lock, &until), 0);
    }
    pthread_mutex_unlock(&outcome.lock);
}

static void put(struct journal *j, struct job_record *r, int number)
{
    struct eo_error err = {0};

    ASSERT_OK(journal_put(j, r, done, (void *)(intptr_t)number, &err));
}

static int put_and_wait(struct journal *j, struct job_record *r)
{
    const int before = outcome.n = 0;

    put(j, r, 0);
    wait_done(before + 1);
    return outcome.codes[before];
}

/* ---- reading back ---- */

struct loaded {
    struct job_record *records[64];
    int n;
};

static void take(void *ctx, struct job_record *r)
{
    struct loaded *l = ctx;

    l->records[l->n++] = r;
}

static void load(struct loaded *l)
{
    struct journal *j = NULL;
    struct eo_error err = {0};

    l->n = 0;
    ASSERT_OK(journal_open(path, &j, &err));
    ASSERT_OK(journal_load(j, take, l, &err));
    journal_close(j);
}

static void unload(struct loaded *l)
{
    while (l->n > 0) {
        job_record_free(l->records[--l->n]);
    }
}

static struct journal *open_journal(void)
{
    struct journal *j = NULL;
    struct eo_error err = {0};

    ASSERT_OK(journal_open(path, &j, &err));
    return j;
}

/* ---- what it keeps ---- */

START_TEST(everything_comes_back)
{
    struct loaded l;

    open_dir();
    struct journal *j = open_journal();
    ck_assert_int_eq(put_and_wait(j, make_full()), EO_OK);
    journal_close(j);
    load(&l);
    ck_assert_int_eq(l.n, 1);

    struct job_record *want = make_full();
    const struct job_record *r = l.records[0];

    ck_assert_str_eq(r->id, want->id);
    ck_assert_str_eq(r->key, want->key);
    ck_assert_str_eq(r->name, want->name);
    ck_assert_int_eq((int)r->state, (int)want->state);
    ck_assert_str_eq(r->reason, want->reason);
    ck_assert_str_eq(r->spec, want->spec);
    ck_assert_str_eq(r->spec_hash, want->spec_hash);
    ck_assert_str_eq(r->device, want->device);
    ck_assert_str_eq(r->resume, want->resume);
    ck_assert_int_eq(r->n_files, 2);
    ck_assert_mem_eq(r->files, want->files, 2 * sizeof(*r->files));
    ck_assert_int_eq(r->n_resume_files, 1);
    ck_assert_str_eq(r->resume_files[0].path, "model.safetensors");
    ck_assert_int_eq(r->n_hosts, 3);
    ck_assert_str_eq(r->hosts[2], "unix:/run/e");
    ck_assert_int_eq(r->submitted_ms, want->submitted_ms);
    ck_assert_int_eq(r->started_ms, 5);
    ck_assert_int_eq(r->ended_ms, 6);
    ck_assert_int_eq(r->restarts, 2);
    ck_assert(r->steps == INT64_MAX);
    ck_assert_int_eq(r->epochs, 4);
    ck_assert(r->seconds == 1.25);
    ck_assert_str_eq(r->parameters_sha256, "0123");
    ck_assert_uint_eq(r->metrics.size, want->metrics.size);
    ck_assert_mem_eq(r->metrics.data, want->metrics.data, want->metrics.size);
    ck_assert_uint_eq(r->ranks.size, 1);
    ck_assert_int_eq(r->error.code, EO_E_NON_FINITE);
    ck_assert_str_eq(r->error.message, want->error.message);
    ck_assert_str_eq(r->error.host, "alpha:17743");
    job_record_free(want);
    unload(&l);
    close_dir();
}
END_TEST

START_TEST(later_writes_change_the_state_not_what_was_submitted)
{
    struct loaded l;

    open_dir();
    struct journal *j = open_journal();
    ck_assert_int_eq(put_and_wait(j, make(1, JOB_QUEUED)), EO_OK);

    struct job_record *r = make(1, JOB_RUNNING);

    free(r->spec);
    r->spec = strdup("name: forged\n");
    snprintf(r->device, sizeof(r->device), "cpu");
    ck_assert_int_eq(put_and_wait(j, r), EO_OK);
    journal_close(j);
    load(&l);
    ck_assert_int_eq(l.n, 1);
    ck_assert_int_eq((int)l.records[0]->state, (int)JOB_RUNNING);
    ck_assert_str_eq(l.records[0]->device, "cpu");
    ck_assert_str_eq(l.records[0]->spec, "name: x\n");
    unload(&l);
    close_dir();
}
END_TEST

START_TEST(a_burst_keeps_its_order)
{
    enum { N = 100 };
    struct loaded l;

    open_dir();
    outcome.n = 0;
    struct journal *j = open_journal();
    for (int i = 0; i < N; i++) {
        put(j, make(i % 10, i >= 90 ? JOB_SUCCEEDED : JOB_RUNNING), i);
    }
    journal_close(j); /* finishes what is queued */
    ck_assert_int_eq(outcome.n, N);
    for (int i = 0; i < N; i++) {
        ck_assert_int_eq(outcome.order[i], i);
        ck_assert_int_eq(outcome.codes[i], EO_OK);
    }
    load(&l);
    ck_assert_int_eq(l.n, 10);
    for (int i = 0; i < l.n; i++) {
        ck_assert_int_eq(l.records[i]->submitted_ms, 1000 + i); /* oldest first */
        ck_assert_int_eq((int)l.records[i]->state, (int)JOB_SUCCEEDED);
    }
    unload(&l);
    close_dir();
}
END_TEST

START_TEST(a_write_that_cannot_be_takes_no_other_with_it)
{
    struct loaded l;

    open_dir();
    outcome.n = 0;
    struct journal *j = open_journal();
    ck_assert_int_eq(put_and_wait(j, make(1, JOB_QUEUED)), EO_OK);
    outcome.n = 0;

    struct job_record *same_key = make(2, JOB_QUEUED);

    snprintf(same_key->key, sizeof(same_key->key), "key-1");
    put(j, make(3, JOB_QUEUED), 0);
    put(j, same_key, 1);
    put(j, make(4, JOB_QUEUED), 2);
    journal_close(j);
    ck_assert_int_eq(outcome.n, 3);
    ck_assert_int_eq(outcome.codes[0], EO_OK);
    ck_assert_int_eq(outcome.codes[1], EO_E_STATE_DIR);
    ck_assert_int_eq(outcome.codes[2], EO_OK);
    load(&l);
    ck_assert_int_eq(l.n, 3);
    unload(&l);
    close_dir();
}
END_TEST

START_TEST(removed_is_gone_and_its_key_free)
{
    struct eo_error err = {0};
    struct loaded l;

    open_dir();
    struct journal *j = open_journal();
    ck_assert_int_eq(put_and_wait(j, make(1, JOB_QUEUED)), EO_OK);
    outcome.n = 0;
    ASSERT_OK(journal_remove(j, "00000000000000000000000000000001", done, NULL, &err));
    ASSERT_OK(journal_remove(j, "no such id", done, NULL, &err));
    wait_done(2);
    ck_assert_int_eq(outcome.codes[0], EO_OK);
    ck_assert_int_eq(outcome.codes[1], EO_OK);

    struct job_record *r = make(2, JOB_QUEUED);

    snprintf(r->key, sizeof(r->key), "key-1");
    ck_assert_int_eq(put_and_wait(j, r), EO_OK);
    journal_close(j);
    load(&l);
    ck_assert_int_eq(l.n, 1);
    ck_assert_str_eq(l.records[0]->key, "key-1");
    unload(&l);
    close_dir();
}
END_TEST

/* ---- files that are no journal of ours ---- */

static void run_sql(const char *sql)
{
    sqlite3 *db = NULL;

    ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
    ck_assert_int_eq(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static void expect_refused(const char *part)
{
    struct journal *j = NULL;
    struct eo_error err = {0};

    ASSERT_CODE(journal_open(path, &j, &err), EO_E_STATE_DIR);
    ASSERT_CONTAINS(err.message, part);
    ck_assert_ptr_null(j);
    ck_assert(err.hint[0] != '\0');
}

START_TEST(versions)
{
    struct loaded l;
    struct eo_error err = {0};

    open_dir();
    ASSERT_OK(eo_file_write_atomic(path, "", 0, 0600, &err)); /* an empty file is a new journal */
    load(&l);
    ck_assert_int_eq(l.n, 0);
    run_sql("PRAGMA user_version = 99");
    expect_refused("version 99");
    run_sql("PRAGMA user_version = -3");
    expect_refused("damaged");
    close_dir();
}
END_TEST

START_TEST(damaged_files)
{
    struct eo_error err = {0};
    char garbage[8192];

    open_dir();
    memset(garbage, 'x', sizeof(garbage));
    ASSERT_OK(eo_file_write_atomic(path, garbage, sizeof(garbage), 0600, &err));
    expect_refused("damaged");

    /* A real one whose pages are overwritten. */
    unlink(path);
    struct journal *j = open_journal();
    ck_assert_int_eq(put_and_wait(j, make(1, JOB_QUEUED)), EO_OK);
    journal_close(j);

    struct eo_bytes whole;

    ASSERT_OK(eo_file_read(path, 1 << 24, &whole, &err));
    ck_assert_uint_gt(whole.size, 4096);
    memset(whole.data + 100, 0xa5, whole.size - 100);
    ASSERT_OK(eo_file_write_atomic(path, whole.data, whole.size, 0600, &err));
    eo_bytes_fini(&whole);
    struct loaded l = {.n = 0};
    int rc = journal_open(path, &j, &err);
    if (rc == EO_OK) {
        rc = journal_load(j, take, &l, &err);
        journal_close(j);
    }
    ck_assert_int_eq(rc, EO_E_STATE_DIR);
    ck_assert_int_eq(l.n, 0);
    close_dir();
}
END_TEST

static void expect_bad_row(const char *sql)
{
    struct journal *j = open_journal();
    struct eo_error err = {0};
    struct loaded l = {.n = 0};

    ck_assert_int_eq(put_and_wait(j, make(1, JOB_QUEUED)), EO_OK);
    journal_close(j);
    run_sql(sql);
    j = open_journal();
    ASSERT_CODE(journal_load(j, take, &l, &err), EO_E_STATE_DIR);
    ASSERT_CONTAINS(err.message, "damaged");
    ck_assert_int_eq(l.n, 0);
    journal_close(j);
    run_sql("DELETE FROM job");
}

START_TEST(rows_that_cannot_be)
{
    open_dir();
    expect_bad_row("UPDATE job SET id = '../../../../home'");
    expect_bad_row("UPDATE job SET id = 'abc'");
    expect_bad_row("UPDATE job SET resume = '..'");
    expect_bad_row("UPDATE job SET files = X'c1'");
    expect_bad_row("UPDATE job SET files = X'9180'"); /* an entry without path */
    expect_bad_row("UPDATE job SET hosts = ''");
    expect_bad_row("UPDATE job SET error = X'ff00'");
    close_dir();
}
END_TEST

START_TEST(places_where_none_can_be)
{
    struct journal *j = NULL;
    struct eo_error err = {0};

    open_dir();
    ASSERT_CODE(journal_open("/nowhere/at/all/journal.sqlite", &j, &err), EO_E_STATE_DIR);
    ASSERT_CODE(journal_open(dir, &j, &err), EO_E_STATE_DIR);
    journal_close(NULL);
    close_dir();
}
END_TEST

/* ---- full disks ---- */

/* A write fails with an error, what was written before stays, and later writes succeed again. */
START_TEST(a_file_that_must_not_grow)
{
    struct rlimit before, small = {.rlim_cur = 64 << 10};
    struct loaded l;
    int first_failure = -1;

    open_dir();
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    small.rlim_max = before.rlim_max;
    struct journal *j = open_journal();
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
    for (int i = 0; i < 60 && first_failure < 0; i++) {
        if (put_and_wait(j, make(i, JOB_QUEUED)) != EO_OK) {
            first_failure = i;
        }
    }
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
    ck_assert_int_gt(first_failure, 0);
    ck_assert_int_eq(put_and_wait(j, make(first_failure, JOB_QUEUED)), EO_OK);
    journal_close(j);
    load(&l);
    ck_assert_int_eq(l.n, first_failure + 1);
    unload(&l);
    close_dir();
}
END_TEST

enum { CHILD_OK = 0, CHILD_CANNOT = 50, CHILD_NO_ERROR = 51, CHILD_WRONG_CODE = 52, CHILD_LOST = 53 };

/* In a mount namespace of its own. */
static int fill_small_disk(void)
{
    struct journal *j = NULL;
    struct eo_error err = {0};
    struct loaded l = {.n = 0};
    int code = EO_OK;
    int i = 0;

    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", dir, "tmpfs", 0, "size=192k") != 0) {
        return CHILD_CANNOT;
    }
    if (journal_open(path, &j, &err) != EO_OK) {
        return CHILD_LOST;
    }
    for (; i < 60 && code == EO_OK; i++) {
        code = put_and_wait(j, make(i, JOB_QUEUED));
    }
    journal_close(j);
    if (code == EO_OK) {
        return CHILD_NO_ERROR;
    }
    if (code != EO_E_DISK_FULL) {
        return CHILD_WRONG_CODE;
    }
    if (journal_open(path, &j, &err) != EO_OK || journal_load(j, take, &l, &err) != EO_OK) {
        return CHILD_LOST;
    }
    const int kept = l.n;
    unload(&l);
    journal_close(j);
    return kept == i - 1 ? CHILD_OK : CHILD_LOST;
}

START_TEST(a_full_disk)
{
    int status = 0;

    open_dir();
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        _exit(fill_small_disk());
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    if (WEXITSTATUS(status) == CHILD_CANNOT) {
        printf("a_full_disk: no mount namespace here, so no small disk\n");
    } else {
        ck_assert_int_eq(WEXITSTATUS(status), CHILD_OK);
    }
    close_dir();
}
END_TEST

/* ---- crashes ---- */

static int acknowledge_fd;

static void acknowledge(void *ctx, const struct eo_error *err)
{
    const int number = (int)(intptr_t)ctx;

    if (err != NULL || write(acknowledge_fd, &number, sizeof(number)) != (ssize_t)sizeof(number)) {
        _exit(1);
    }
}

static void write_for_ever(void)
{
    struct journal *j = NULL;
    struct eo_error err = {0};

    if (journal_open(path, &j, &err) != EO_OK) {
        _exit(1);
    }
    for (int i = 0;; i++) {
        if (journal_put(j, make(i % 50, i < 50 ? JOB_QUEUED : JOB_RUNNING), acknowledge, (void *)(intptr_t)i, &err) !=
            EO_OK) {
            _exit(1);
        }
        sched_yield();
    }
}

static int read_number(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int number = -1;

    ck_assert_int_eq(poll(&p, 1, 30000), 1);
    return read(fd, &number, sizeof(number)) == (ssize_t)sizeof(number) ? number : -1;
}

/* What was acknowledged is there after kill -9, whenever that comes. */
START_TEST(a_killed_writer)
{
    for (int round = 0; round < 5; round++) {
        int fds[2];
        struct loaded l;
        int last = -1;

        open_dir();
        ck_assert_int_eq(pipe(fds), 0);
        acknowledge_fd = fds[1];
        pid_t child = fork();
        ck_assert_int_ge(child, 0);
        if (child == 0) {
            close(fds[0]);
            write_for_ever();
        }
        close(fds[1]);
        for (int i = 0; i < 3 + 11 * round; i++) {
            last = read_number(fds[0]);
            ck_assert_int_eq(last, i);
        }
        kill(child, SIGKILL);
        ck_assert_int_eq(waitpid(child, NULL, 0), child);
        for (int more = read_number(fds[0]); more >= 0; more = read_number(fds[0])) {
            last = more;
        }
        close(fds[0]);
        load(&l);
        ck_assert_int_ge(l.n, EO_MIN(last + 1, 50));
        for (int i = 0; i < l.n; i++) {
            ck_assert_int_eq(l.records[i]->submitted_ms, 1000 + i);
            ck_assert(i + 50 > last || l.records[i]->state == JOB_RUNNING);
        }
        unload(&l);
        close_dir();
    }
}
END_TEST

EO_SUITE("journal", everything_comes_back, later_writes_change_the_state_not_what_was_submitted,
         a_burst_keeps_its_order, a_write_that_cannot_be_takes_no_other_with_it, removed_is_gone_and_its_key_free,
         versions, damaged_files, rows_that_cannot_be, places_where_none_can_be, a_file_that_must_not_grow, a_full_disk,
         a_killed_writer)
