#include "daemon/jobs/journal.h"

#include "proto/base/text.h"
#include "proto/codec.h"
#include "proto/error_codec.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { JOURNAL_VERSION = 1, ERROR_MAX = 1 << 16, LIST_MAX = 1 << 18 };

struct write {
    struct write *next;
    struct job_record *record; /* NULL: remove id */
    char id[JOB_ID_SIZE];
    journal_done_fn done;
    void *ctx;
};

struct journal {
    sqlite3 *db;
    sqlite3_stmt *put, *remove;
    pthread_t thread;
    bool running;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t wake;
    struct write *head, **tail;
    bool closing;
    struct eo_error failure;
};

const char *journal_library(void)
{
    return sqlite3_libversion();
}

static int sqlite_error(sqlite3 *db, int code, const char *what, struct eo_error *err)
{
    const int base = code & 0xff;
    if (base == SQLITE_FULL) {
        EO_RAISE(err, EO_E_DISK_FULL, "the journal could not %s: no space left", what);
        eo_error_hint(err, "Free space on the disk of the state directory.");
    } else if (base == SQLITE_NOMEM) {
        EO_RAISE(err, EO_E_NO_MEMORY, "the journal could not %s: out of memory", what);
    } else if (base == SQLITE_NOTADB || base == SQLITE_CORRUPT) {
        EO_RAISE(err, EO_E_STATE_DIR, "the journal is damaged or not a journal");
        eo_error_hint(
            err, "Move journal.sqlite and its -wal and -shm files away to start with an empty one; the job folders "
                 "keep their results.");
    } else {
        EO_RAISE(err, EO_E_STATE_DIR, "the journal could not %s", what);
    }
    eo_error_cause(err, "sqlite", code, db != NULL ? sqlite3_errmsg(db) : sqlite3_errstr(code));
    return err != NULL ? err->code : EO_E_STATE_DIR;
}

static int run_sql(sqlite3 *db, const char *sql, const char *what, struct eo_error *err)
{
    int code = sqlite3_exec(db, sql, NULL, NULL, NULL);
    return code == SQLITE_OK ? EO_OK : sqlite_error(db, code, what, err);
}

/* ---- schema ---- */

/* migrations[v] leads from version v to v + 1. */
static const char *const migrations[JOURNAL_VERSION] = {
    "CREATE TABLE job ("
    " id TEXT PRIMARY KEY, key TEXT NOT NULL UNIQUE, name TEXT NOT NULL, state INTEGER NOT NULL, reason TEXT NOT NULL,"
    " spec TEXT NOT NULL, spec_hash TEXT NOT NULL, resume TEXT NOT NULL, files BLOB NOT NULL, hosts BLOB NOT NULL,"
    " submitted_ms INTEGER NOT NULL, started_ms INTEGER NOT NULL, ended_ms INTEGER NOT NULL, restarts INTEGER NOT NULL,"
    " steps INTEGER NOT NULL, epochs INTEGER NOT NULL, seconds REAL NOT NULL, parameters_sha256 TEXT NOT NULL,"
    " metrics BLOB NOT NULL, ranks BLOB NOT NULL, error BLOB NOT NULL);",
};

static int user_version(sqlite3 *db, int *out, struct eo_error *err)
{
    sqlite3_stmt *s = NULL;
    int code = sqlite3_prepare_v2(db, "PRAGMA user_version", -1, &s, NULL);
    if (code == SQLITE_OK && sqlite3_step(s) == SQLITE_ROW) {
        *out = sqlite3_column_int(s, 0);
    } else {
        code = sqlite3_extended_errcode(db);
    }
    sqlite3_finalize(s);
    return code == SQLITE_OK ? EO_OK : sqlite_error(db, code, "be read", err);
}

static int migrate(sqlite3 *db, struct eo_error *err)
{
    int version = 0;
    int rc = user_version(db, &version, err);
    if (rc == EO_OK && version > JOURNAL_VERSION) {
        EO_RAISE(err, EO_E_STATE_DIR, "the journal has version %d, this everyod knows %d", version, JOURNAL_VERSION);
        eo_error_hint(err, "Use the newer everyod that wrote it, or another state directory.");
        return EO_E_STATE_DIR;
    }
    for (; version < JOURNAL_VERSION && rc == EO_OK; version++) {
        char pragma[64];
        snprintf(pragma, sizeof pragma, "PRAGMA user_version = %d", version + 1);
        rc = run_sql(db, "BEGIN IMMEDIATE", "be migrated", err);
        if (rc == EO_OK) {
            rc = run_sql(db, migrations[version], "be migrated", err);
        }
        if (rc == EO_OK) {
            rc = run_sql(db, pragma, "be migrated", err);
        }
        if (rc == EO_OK) {
            rc = run_sql(db, "COMMIT", "be migrated", err);
        } else {
            sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
        }
    }
    return rc;
}

/* ---- writing ---- */

static const char put_sql[] =
    "INSERT INTO job VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18,?19,?20,?21)"
    " ON CONFLICT(id) DO UPDATE SET state=?4, reason=?5, started_ms=?12, ended_ms=?13, restarts=?14, steps=?15, "
    "epochs=?16,"
    " seconds=?17, parameters_sha256=?18, metrics=?19, ranks=?20, error=?21";

static void bind_text(sqlite3_stmt *s, int i, const char *text)
{
    sqlite3_bind_text(s, i, text, -1, SQLITE_STATIC);
}

static void bind_bytes(sqlite3_stmt *s, int i, const struct eo_bytes *b)
{
    sqlite3_bind_blob(s, i, b->size > 0 ? (const void *)b->data : "", (int)b->size, SQLITE_STATIC);
}

static void pack_files(const struct job_record *r, struct eo_bytes *b)
{
    eo_pack_array(b, (size_t)r->n_files);
    for (int i = 0; i < r->n_files; i++) {
        eo_pack_map(b, 3);
        eo_pack_kv_str(b, "path", r->files[i].path);
        eo_pack_kv_str(b, "sha256", r->files[i].sha256);
        eo_pack_kv_u64(b, "size", r->files[i].size);
    }
}

static void pack_hosts(const struct job_record *r, struct eo_bytes *b)
{
    eo_pack_array(b, (size_t)r->n_hosts);
    for (int i = 0; i < r->n_hosts; i++) {
        eo_pack_str(b, r->hosts[i]);
    }
}

static void bind_record(sqlite3_stmt *s, const struct job_record *r, const struct eo_bytes *files,
                        const struct eo_bytes *hosts, const struct eo_bytes *error)
{
    bind_text(s, 1, r->id);
    bind_text(s, 2, r->key);
    bind_text(s, 3, r->name);
    sqlite3_bind_int(s, 4, (int)r->state);
    bind_text(s, 5, r->reason);
    bind_text(s, 6, r->spec != NULL ? r->spec : "");
    bind_text(s, 7, r->spec_hash);
    bind_text(s, 8, r->resume);
    bind_bytes(s, 9, files);
    bind_bytes(s, 10, hosts);
    sqlite3_bind_int64(s, 11, r->submitted_ms);
    sqlite3_bind_int64(s, 12, r->started_ms);
    sqlite3_bind_int64(s, 13, r->ended_ms);
    sqlite3_bind_int64(s, 14, r->restarts);
    sqlite3_bind_int64(s, 15, r->steps);
    sqlite3_bind_int64(s, 16, r->epochs);
    sqlite3_bind_double(s, 17, r->seconds);
    bind_text(s, 18, r->parameters_sha256);
    bind_bytes(s, 19, &r->metrics);
    bind_bytes(s, 20, &r->ranks);
    bind_bytes(s, 21, error);
}

static int step_write(struct journal *j, sqlite3_stmt *s, struct eo_error *err)
{
    int code = sqlite3_step(s);
    sqlite3_reset(s);
    sqlite3_clear_bindings(s);
    return code == SQLITE_DONE ? EO_OK : sqlite_error(j->db, sqlite3_extended_errcode(j->db), "be written", err);
}

static int write_record(struct journal *j, const struct job_record *r, struct eo_error *err)
{
    struct eo_bytes files;
    struct eo_bytes hosts;
    struct eo_bytes error;
    int rc;
    eo_bytes_init(&files, LIST_MAX);
    eo_bytes_init(&hosts, LIST_MAX);
    eo_bytes_init(&error, ERROR_MAX);
    pack_files(r, &files);
    pack_hosts(r, &hosts);
    if (r->error.code != 0) {
        eo_error_pack(&error, &r->error);
    }
    if (files.failed || hosts.failed || error.failed) {
        rc = EO_RAISE(err, EO_E_NO_MEMORY, "no memory to write job %.8s to the journal", r->id);
    } else {
        bind_record(j->put, r, &files, &hosts, &error);
        rc = step_write(j, j->put, err);
    }
    eo_bytes_fini(&files);
    eo_bytes_fini(&hosts);
    eo_bytes_fini(&error);
    return rc;
}

static int write_one(struct journal *j, const struct write *w, struct eo_error *err)
{
    if (w->record != NULL) {
        return write_record(j, w->record, err);
    }
    bind_text(j->remove, 1, w->id);
    return step_write(j, j->remove, err);
}

/* All waiting writes in one transaction: one fsync for a burst. When it fails, all of them fail alike. */
static void write_batch(struct journal *j, struct write *batch)
{
    struct eo_error err = {0};
    int rc = run_sql(j->db, "BEGIN IMMEDIATE", "be written", &err);
    for (const struct write *w = batch; w != NULL && rc == EO_OK; w = w->next) {
        rc = write_one(j, w, &err);
    }
    if (rc == EO_OK) {
        rc = run_sql(j->db, "COMMIT", "be written", &err);
    }
    if (rc != EO_OK) {
        sqlite3_exec(j->db, "ROLLBACK", NULL, NULL, NULL);
    }
    while (batch != NULL) {
        struct write *w = batch;
        batch = w->next;
        if (w->done != NULL) {
            w->done(w->ctx, rc == EO_OK ? NULL : &err);
        } else if (rc != EO_OK) {
            pthread_mutex_lock(&j->lock);
            j->failure = err;
            pthread_mutex_unlock(&j->lock);
        }
        job_record_free(w->record);
        free(w);
    }
}

static void *journal_thread(void *ctx)
{
    struct journal *j = ctx;
    pthread_mutex_lock(&j->lock);
    for (;;) {
        while (j->head == NULL && !j->closing) {
            pthread_cond_wait(&j->wake, &j->lock);
        }
        struct write *batch = j->head;
        if (batch == NULL) {
            break;
        }
        j->head = NULL;
        j->tail = &j->head;
        pthread_mutex_unlock(&j->lock);
        write_batch(j, batch);
        pthread_mutex_lock(&j->lock);
    }
    pthread_mutex_unlock(&j->lock);
    return NULL;
}

static int queue_write(struct journal *j, struct job_record *record, const char *id, journal_done_fn done, void *ctx,
                       struct eo_error *err)
{
    struct write *w = record != NULL || id != NULL ? calloc(1, sizeof *w) : NULL;
    if (w == NULL) {
        job_record_free(record);
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory to queue a journal write");
    }
    w->record = record;
    eo_copy_text(w->id, sizeof w->id, record != NULL ? record->id : id);
    w->done = done;
    w->ctx = ctx;
    pthread_mutex_lock(&j->lock);
    *j->tail = w;
    j->tail = &w->next;
    pthread_cond_signal(&j->wake);
    pthread_mutex_unlock(&j->lock);
    return EO_OK;
}

int journal_put(struct journal *j, struct job_record *record, journal_done_fn done, void *ctx, struct eo_error *err)
{
    return queue_write(j, record, NULL, done, ctx, err);
}

int journal_remove(struct journal *j, const char *id, journal_done_fn done, void *ctx, struct eo_error *err)
{
    return queue_write(j, NULL, id, done, ctx, err);
}

bool journal_failure(struct journal *j, struct eo_error *out)
{
    pthread_mutex_lock(&j->lock);
    const bool failed = j->failure.code != 0;
    if (failed) {
        *out = j->failure;
        eo_error_clear(&j->failure);
    }
    pthread_mutex_unlock(&j->lock);
    return failed;
}

/* ---- reading ---- */

static void column_text(sqlite3_stmt *s, int i, char *out, size_t size)
{
    const unsigned char *text = sqlite3_column_text(s, i);
    eo_copy_text(out, size, text != NULL ? (const char *)text : "");
}

static void column_bytes(sqlite3_stmt *s, int i, struct eo_bytes *out)
{
    eo_bytes_append(out, sqlite3_column_blob(s, i), (size_t)sqlite3_column_bytes(s, i));
}

static int read_files(sqlite3_stmt *s, int column, struct job_record *r, struct eo_error *err)
{
    struct eo_doc doc;
    int rc = eo_doc_parse(&doc, sqlite3_column_blob(s, column), (size_t)sqlite3_column_bytes(s, column), err);
    if (rc != EO_OK) {
        return rc;
    }
    r->n_files = (int)EO_MIN(eo_item_count(doc.root), (size_t)JOB_MAX_FILES);
    for (int i = 0; i < r->n_files && rc == EO_OK; i++) {
        struct job_file_ref *f = &r->files[i];
        const struct eo_item *it = eo_item_at(doc.root, (size_t)i);
        rc = eo_need_str(it, "path", f->path, sizeof f->path, err);
        if (rc == EO_OK) {
            rc = eo_need_str(it, "sha256", f->sha256, sizeof f->sha256, err);
        }
        if (rc == EO_OK) {
            rc = eo_need_u64(it, "size", UINT64_MAX, &f->size, err);
        }
    }
    eo_doc_fini(&doc);
    return rc;
}

static int read_hosts(sqlite3_stmt *s, int column, struct job_record *r, struct eo_error *err)
{
    struct eo_doc doc;
    int rc = eo_doc_parse(&doc, sqlite3_column_blob(s, column), (size_t)sqlite3_column_bytes(s, column), err);
    if (rc != EO_OK) {
        return rc;
    }
    r->n_hosts = (int)EO_MIN(eo_item_count(doc.root), (size_t)JOB_MAX_HOSTS);
    for (int i = 0; i < r->n_hosts; i++) {
        const char *text = "";
        size_t n = 0;
        eo_item_as_str(eo_item_at(doc.root, (size_t)i), &text, &n);
        snprintf(r->hosts[i], sizeof r->hosts[i], "%.*s", (int)n, text);
    }
    eo_doc_fini(&doc);
    return EO_OK;
}

static int read_error(sqlite3_stmt *s, int column, struct job_record *r, struct eo_error *err)
{
    struct eo_doc doc;
    const int size = sqlite3_column_bytes(s, column);
    if (size == 0) {
        return EO_OK;
    }
    int rc = eo_doc_parse(&doc, sqlite3_column_blob(s, column), (size_t)size, err);
    if (rc == EO_OK) {
        eo_error_unpack(doc.root, &r->error);
        eo_doc_fini(&doc);
    }
    return rc;
}

static int read_record(sqlite3_stmt *s, struct job_record *r, struct eo_error *err)
{
    column_text(s, 0, r->id, sizeof r->id);
    column_text(s, 1, r->key, sizeof r->key);
    column_text(s, 2, r->name, sizeof r->name);
    const int state = sqlite3_column_int(s, 3);
    r->state = state >= 0 && state < JOB_STATE_COUNT ? (enum job_state)state : JOB_INTERRUPTED;
    column_text(s, 4, r->reason, sizeof r->reason);
    const unsigned char *spec = sqlite3_column_text(s, 5);
    r->spec = strdup(spec != NULL ? (const char *)spec : "");
    column_text(s, 6, r->spec_hash, sizeof r->spec_hash);
    column_text(s, 7, r->resume, sizeof r->resume);
    r->submitted_ms = sqlite3_column_int64(s, 10);
    r->started_ms = sqlite3_column_int64(s, 11);
    r->ended_ms = sqlite3_column_int64(s, 12);
    r->restarts = sqlite3_column_int64(s, 13);
    r->steps = sqlite3_column_int64(s, 14);
    r->epochs = sqlite3_column_int64(s, 15);
    r->seconds = sqlite3_column_double(s, 16);
    column_text(s, 17, r->parameters_sha256, sizeof r->parameters_sha256);
    column_bytes(s, 18, &r->metrics);
    column_bytes(s, 19, &r->ranks);
    if (r->spec == NULL || r->metrics.failed || r->ranks.failed) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory to read the journal");
    }
    int rc = read_files(s, 8, r, err);
    if (rc == EO_OK) {
        rc = read_hosts(s, 9, r, err);
    }
    return rc == EO_OK ? read_error(s, 20, r, err) : rc;
}

int journal_load(struct journal *j, void (*fn)(void *ctx, struct job_record *r), void *ctx, struct eo_error *err)
{
    sqlite3_stmt *s = NULL;
    int code = sqlite3_prepare_v2(j->db, "SELECT * FROM job ORDER BY submitted_ms, rowid", -1, &s, NULL);
    int rc = code == SQLITE_OK ? EO_OK : sqlite_error(j->db, code, "be read", err);
    while (rc == EO_OK && (code = sqlite3_step(s)) == SQLITE_ROW) {
        struct job_record *r = job_record_new();
        rc = r != NULL ? read_record(s, r, err) : EO_RAISE(err, EO_E_NO_MEMORY, "no memory to read the journal");
        if (rc == EO_OK) {
            fn(ctx, r);
        } else {
            job_record_free(r);
        }
    }
    if (rc == EO_OK && code != SQLITE_DONE) {
        rc = sqlite_error(j->db, sqlite3_extended_errcode(j->db), "be read", err);
    }
    sqlite3_finalize(s);
    return rc;
}

/* ---- opening ---- */

static int prepare(struct journal *j, const char *path, struct eo_error *err)
{
    int code = sqlite3_open_v2(
        path, &j->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX | SQLITE_OPEN_NOFOLLOW, NULL);
    if (code != SQLITE_OK) {
        return sqlite_error(j->db, code, "be opened", err);
    }
    sqlite3_busy_timeout(j->db, 2000);
    int rc = run_sql(j->db, "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA trusted_schema=OFF;", "be opened",
                     err);
    if (rc == EO_OK) {
        rc = migrate(j->db, err);
    }
    if (rc == EO_OK) {
        code = sqlite3_prepare_v2(j->db, put_sql, -1, &j->put, NULL);
        if (code == SQLITE_OK) {
            code = sqlite3_prepare_v2(j->db, "DELETE FROM job WHERE id = ?1", -1, &j->remove, NULL);
        }
        rc = code == SQLITE_OK ? EO_OK : sqlite_error(j->db, code, "be used", err);
    }
    return rc;
}

int journal_open(const char *path, struct journal **out, struct eo_error *err)
{
    struct journal *j = calloc(1, sizeof *j);
    if (j == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for the journal");
    }
    j->tail = &j->head;
    pthread_mutex_init(&j->lock, NULL);
    pthread_cond_init(&j->wake, NULL);
    int rc = prepare(j, path, err);
    if (rc == EO_OK) {
        int errnum = pthread_create(&j->thread, NULL, journal_thread, j);
        j->running = errnum == 0;
        if (errnum != 0) {
            rc = EO_RAISE_ERRNO(err, EO_E_NO_MEMORY, errnum, "the journal's thread could not be started");
        }
    }
    if (rc != EO_OK) {
        eo_error_push(err, "while opening %s", path);
        journal_close(j);
        return rc;
    }
    *out = j;
    return EO_OK;
}

void journal_close(struct journal *j)
{
    if (j == NULL) {
        return;
    }
    if (j->running) {
        pthread_mutex_lock(&j->lock);
        j->closing = true;
        pthread_cond_signal(&j->wake);
        pthread_mutex_unlock(&j->lock);
        pthread_join(j->thread, NULL);
    }
    sqlite3_finalize(j->put);
    sqlite3_finalize(j->remove);
    sqlite3_close(j->db);
    pthread_cond_destroy(&j->wake);
    pthread_mutex_destroy(&j->lock);
    free(j);
}
