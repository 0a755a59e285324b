#include "daemon/jobs/journal.h"

#include "proto/base/text.h"
#include "proto/codec.h"
#include "proto/error_codec.h"

#include <errno.h>
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
};

const char *journal_library(void)
{
    return sqlite3_libversion();
}

static int damaged(const char *how, struct eo_error *err)
{
    EO_RAISE(err, EO_E_STATE_DIR, "the journal is damaged: %s", how);
    eo_error_hint(err, "Move journal.sqlite and its -wal and -shm files away to start with an empty one; the folders "
                       "of jobs keep their results.");
    return EO_E_STATE_DIR;
}

static int sqlite_error(sqlite3 *db, int code, const char *what, struct eo_error *err)
{
    const int base = code & 0xff;
    const int errnum = db != NULL ? sqlite3_system_errno(db) : 0;
    /* A full disk also shows up as an I/O error, where SQLite extends its shared memory file. */
    if (base == SQLITE_FULL || (base == SQLITE_IOERR && (errnum == ENOSPC || errnum == EDQUOT))) {
        EO_RAISE(err, EO_E_DISK_FULL, "the journal could not %s: no space left", what);
        eo_error_hint(err, "Free space on the disk of the state directory.");
    } else if (base == SQLITE_NOMEM) {
        EO_RAISE(err, EO_E_NO_MEMORY, "the journal could not %s: out of memory", what);
    } else if (base == SQLITE_NOTADB || base == SQLITE_CORRUPT) {
        damaged("it is not a database, or its pages do not fit together", err);
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
    " spec TEXT NOT NULL, spec_hash TEXT NOT NULL, device TEXT NOT NULL, resume TEXT NOT NULL, files BLOB NOT NULL,"
    " resume_files BLOB NOT NULL, hosts BLOB NOT NULL,"
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
    if (rc == EO_OK && version < 0) {
        return damaged("its version is negative", err);
    }
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

/* What the columns of a row are, in the order of put_sql and get_sql. */
enum column {
    COLUMN_ID,
    COLUMN_KEY,
    COLUMN_NAME,
    COLUMN_STATE,
    COLUMN_REASON,
    COLUMN_SPEC,
    COLUMN_SPEC_HASH,
    COLUMN_DEVICE,
    COLUMN_RESUME,
    COLUMN_FILES,
    COLUMN_RESUME_FILES,
    COLUMN_HOSTS,
    COLUMN_SUBMITTED,
    COLUMN_STARTED,
    COLUMN_ENDED,
    COLUMN_RESTARTS,
    COLUMN_STEPS,
    COLUMN_EPOCHS,
    COLUMN_SECONDS,
    COLUMN_PARAMETERS,
    COLUMN_METRICS,
    COLUMN_RANKS,
    COLUMN_ERROR
};

#define COLUMNS                                                                                                        \
    "id, key, name, state, reason, spec, spec_hash, device, resume, files, resume_files, hosts, submitted_ms, "        \
    "started_ms, ended_ms, restarts, steps, epochs, seconds, parameters_sha256, metrics, ranks, error"

/* What was submitted never changes afterwards. */
static const char put_sql[] =
    "INSERT INTO job (" COLUMNS ") VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)"
    " ON CONFLICT(id) DO UPDATE SET state=excluded.state, reason=excluded.reason, device=excluded.device,"
    " started_ms=excluded.started_ms, ended_ms=excluded.ended_ms, restarts=excluded.restarts, steps=excluded.steps,"
    " epochs=excluded.epochs, seconds=excluded.seconds, parameters_sha256=excluded.parameters_sha256,"
    " metrics=excluded.metrics, ranks=excluded.ranks, error=excluded.error";
static const char get_sql[] = "SELECT " COLUMNS " FROM job ORDER BY submitted_ms, rowid";

static void bind_text(sqlite3_stmt *s, enum column c, const char *text)
{
    sqlite3_bind_text(s, (int)c + 1, text, -1, SQLITE_STATIC);
}

static void bind_int(sqlite3_stmt *s, enum column c, int64_t v)
{
    sqlite3_bind_int64(s, (int)c + 1, v);
}

static void bind_bytes(sqlite3_stmt *s, enum column c, const struct eo_bytes *b)
{
    sqlite3_bind_blob(s, (int)c + 1, b->size > 0 ? (const void *)b->data : "", (int)b->size, SQLITE_STATIC);
}

static void pack_files(const struct job_file_ref *files, int n, struct eo_bytes *b)
{
    eo_pack_array(b, (size_t)n);
    for (int i = 0; i < n; i++) {
        eo_pack_map(b, 3);
        eo_pack_kv_str(b, "path", files[i].path);
        eo_pack_kv_str(b, "sha256", files[i].sha256);
        eo_pack_kv_u64(b, "size", files[i].size);
    }
}

static void pack_hosts(const struct job_record *r, struct eo_bytes *b)
{
    eo_pack_array(b, (size_t)r->n_hosts);
    for (int i = 0; i < r->n_hosts; i++) {
        eo_pack_str(b, r->hosts[i]);
    }
}

/* The packed columns of a record. */
struct packed {
    struct eo_bytes files, resume_files, hosts, error;
};

static bool pack_record(struct packed *p, const struct job_record *r)
{
    eo_bytes_init(&p->files, LIST_MAX);
    eo_bytes_init(&p->resume_files, LIST_MAX);
    eo_bytes_init(&p->hosts, LIST_MAX);
    eo_bytes_init(&p->error, ERROR_MAX);
    pack_files(r->files, r->n_files, &p->files);
    pack_files(r->resume_files, r->n_resume_files, &p->resume_files);
    pack_hosts(r, &p->hosts);
    if (r->error.code != 0) {
        eo_error_pack(&p->error, &r->error);
    }
    return !p->files.failed && !p->resume_files.failed && !p->hosts.failed && !p->error.failed;
}

static void packed_fini(struct packed *p)
{
    eo_bytes_fini(&p->files);
    eo_bytes_fini(&p->resume_files);
    eo_bytes_fini(&p->hosts);
    eo_bytes_fini(&p->error);
}

static void bind_record(sqlite3_stmt *s, const struct job_record *r, const struct packed *p)
{
    bind_text(s, COLUMN_ID, r->id);
    bind_text(s, COLUMN_KEY, r->key);
    bind_text(s, COLUMN_NAME, r->name);
    bind_int(s, COLUMN_STATE, (int64_t)r->state);
    bind_text(s, COLUMN_REASON, r->reason);
    bind_text(s, COLUMN_SPEC, r->spec != NULL ? r->spec : "");
    bind_text(s, COLUMN_SPEC_HASH, r->spec_hash);
    bind_text(s, COLUMN_DEVICE, r->device);
    bind_text(s, COLUMN_RESUME, r->resume);
    bind_bytes(s, COLUMN_FILES, &p->files);
    bind_bytes(s, COLUMN_RESUME_FILES, &p->resume_files);
    bind_bytes(s, COLUMN_HOSTS, &p->hosts);
    bind_int(s, COLUMN_SUBMITTED, r->submitted_ms);
    bind_int(s, COLUMN_STARTED, r->started_ms);
    bind_int(s, COLUMN_ENDED, r->ended_ms);
    bind_int(s, COLUMN_RESTARTS, r->restarts);
    bind_int(s, COLUMN_STEPS, r->steps);
    bind_int(s, COLUMN_EPOCHS, r->epochs);
    sqlite3_bind_double(s, COLUMN_SECONDS + 1, r->seconds);
    bind_text(s, COLUMN_PARAMETERS, r->parameters_sha256);
    bind_bytes(s, COLUMN_METRICS, &r->metrics);
    bind_bytes(s, COLUMN_RANKS, &r->ranks);
    bind_bytes(s, COLUMN_ERROR, &p->error);
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
    struct packed p;
    int rc;
    if (pack_record(&p, r)) {
        bind_record(j->put, r, &p);
        rc = step_write(j, j->put, err);
    } else {
        rc = EO_RAISE(err, EO_E_NO_MEMORY, "no memory to write job %.8s to the journal", r->id);
    }
    packed_fini(&p);
    return rc;
}

static int write_one(struct journal *j, const struct write *w, struct eo_error *err)
{
    if (w->record != NULL) {
        return write_record(j, w->record, err);
    }
    sqlite3_bind_text(j->remove, 1, w->id, -1, SQLITE_STATIC);
    return step_write(j, j->remove, err);
}

static int write_transaction(struct journal *j, const struct write *first, const struct write *end,
                             struct eo_error *err)
{
    int rc = run_sql(j->db, "BEGIN IMMEDIATE", "be written", err);
    for (const struct write *w = first; w != end && rc == EO_OK; w = w->next) {
        rc = write_one(j, w, err);
    }
    if (rc == EO_OK) {
        rc = run_sql(j->db, "COMMIT", "be written", err);
    }
    if (rc != EO_OK) {
        sqlite3_exec(j->db, "ROLLBACK", NULL, NULL, NULL);
    }
    return rc;
}

/* All waiting writes in one transaction: one fsync for a burst. When it fails, each has one of its own, so that a write
 * that cannot succeed takes no other with it. */
static void write_batch(struct journal *j, struct write *batch)
{
    struct eo_error err = {0};
    const bool together = write_transaction(j, batch, NULL, &err) == EO_OK;
    const bool single = batch->next == NULL;
    while (batch != NULL) {
        struct write *w = batch;
        batch = w->next;
        int rc = together ? EO_OK : err.code;
        if (!together && !single) {
            rc = write_transaction(j, w, w->next, &err);
        }
        w->done(w->ctx, rc == EO_OK ? NULL : &err);
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

/* ---- reading ---- */

static void column_text(sqlite3_stmt *s, enum column c, char *out, size_t size)
{
    const unsigned char *text = sqlite3_column_text(s, (int)c);
    eo_copy_text(out, size, text != NULL ? (const char *)text : "");
}

static void column_bytes(sqlite3_stmt *s, enum column c, struct eo_bytes *out)
{
    eo_bytes_append(out, sqlite3_column_blob(s, (int)c), (size_t)sqlite3_column_bytes(s, (int)c));
}

static int column_doc(sqlite3_stmt *s, enum column c, struct eo_doc *out, struct eo_error *err)
{
    const void *blob = sqlite3_column_blob(s, (int)c); /* before its size, as SQLite's manual asks */
    return eo_doc_parse(out, blob, (size_t)sqlite3_column_bytes(s, (int)c), err);
}

static int read_files(sqlite3_stmt *s, enum column c, int most, struct job_record *r,
                      bool (*set)(struct job_record *r, const struct job_file_ref *files, int n), struct eo_error *err)
{
    struct eo_doc doc;
    int rc = column_doc(s, c, &doc, err);
    if (rc != EO_OK) {
        return rc;
    }
    const int n = (int)EO_MIN(eo_item_count(doc.root), (size_t)most);
    struct job_file_ref *list = calloc((size_t)EO_MAX(n, 1), sizeof *list);
    if (list == NULL) {
        rc = EO_RAISE(err, EO_E_NO_MEMORY, "no memory to read the journal");
    }
    for (int i = 0; i < n && rc == EO_OK; i++) {
        const struct eo_item *it = eo_item_at(doc.root, (size_t)i);
        rc = eo_need_str(it, "path", list[i].path, sizeof list[i].path, err);
        if (rc == EO_OK) {
            rc = eo_need_str(it, "sha256", list[i].sha256, sizeof list[i].sha256, err);
        }
        if (rc == EO_OK) {
            rc = eo_need_u64(it, "size", UINT64_MAX, &list[i].size, err);
        }
    }
    if (rc == EO_OK && !set(r, list, n)) {
        rc = EO_RAISE(err, EO_E_NO_MEMORY, "no memory to read the journal");
    }
    free(list);
    eo_doc_fini(&doc);
    return rc;
}

static int read_hosts(sqlite3_stmt *s, struct job_record *r, struct eo_error *err)
{
    struct eo_doc doc;
    char hosts[JOB_MAX_HOSTS][JOB_HOST_SIZE];
    int rc = column_doc(s, COLUMN_HOSTS, &doc, err);
    if (rc != EO_OK) {
        return rc;
    }
    const int n = (int)EO_MIN(eo_item_count(doc.root), (size_t)JOB_MAX_HOSTS);
    for (int i = 0; i < n; i++) {
        const char *text = "";
        size_t length = 0;
        eo_item_as_str(eo_item_at(doc.root, (size_t)i), &text, &length);
        snprintf(hosts[i], sizeof hosts[i], "%.*s", (int)length, text);
    }
    if (!job_record_set_hosts(r, (const char(*)[JOB_HOST_SIZE])hosts, n)) {
        rc = EO_RAISE(err, EO_E_NO_MEMORY, "no memory to read the journal");
    }
    eo_doc_fini(&doc);
    return rc;
}

static int read_error(sqlite3_stmt *s, struct job_record *r, struct eo_error *err)
{
    struct eo_doc doc;
    if (sqlite3_column_bytes(s, COLUMN_ERROR) == 0) {
        return EO_OK;
    }
    int rc = column_doc(s, COLUMN_ERROR, &doc, err);
    if (rc == EO_OK) {
        eo_error_unpack(doc.root, &r->error);
        eo_doc_fini(&doc);
    }
    return rc;
}

static void read_scalars(sqlite3_stmt *s, struct job_record *r)
{
    const int state = sqlite3_column_int(s, COLUMN_STATE);
    column_text(s, COLUMN_ID, r->id, sizeof r->id);
    column_text(s, COLUMN_KEY, r->key, sizeof r->key);
    column_text(s, COLUMN_NAME, r->name, sizeof r->name);
    r->state = state >= 0 && state < JOB_STATE_COUNT ? (enum job_state)state : JOB_INTERRUPTED;
    column_text(s, COLUMN_REASON, r->reason, sizeof r->reason);
    const unsigned char *spec = sqlite3_column_text(s, COLUMN_SPEC);
    r->spec = strdup(spec != NULL ? (const char *)spec : "");
    column_text(s, COLUMN_SPEC_HASH, r->spec_hash, sizeof r->spec_hash);
    column_text(s, COLUMN_DEVICE, r->device, sizeof r->device);
    column_text(s, COLUMN_RESUME, r->resume, sizeof r->resume);
    r->submitted_ms = sqlite3_column_int64(s, COLUMN_SUBMITTED);
    r->started_ms = sqlite3_column_int64(s, COLUMN_STARTED);
    r->ended_ms = sqlite3_column_int64(s, COLUMN_ENDED);
    r->restarts = sqlite3_column_int64(s, COLUMN_RESTARTS);
    r->steps = sqlite3_column_int64(s, COLUMN_STEPS);
    r->epochs = sqlite3_column_int64(s, COLUMN_EPOCHS);
    r->seconds = sqlite3_column_double(s, COLUMN_SECONDS);
    column_text(s, COLUMN_PARAMETERS, r->parameters_sha256, sizeof r->parameters_sha256);
    column_bytes(s, COLUMN_METRICS, &r->metrics);
    column_bytes(s, COLUMN_RANKS, &r->ranks);
}

/* Ids become names of folders: nothing but an id may stand there. */
static int read_record(sqlite3_stmt *s, struct job_record *r, struct eo_error *err)
{
    struct eo_error why = {0};
    read_scalars(s, r);
    if (r->spec == NULL || r->metrics.failed || r->ranks.failed) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory to read the journal");
    }
    if (!job_id_valid(r->id) || (r->resume[0] != '\0' && !job_id_valid(r->resume))) {
        return damaged("a row's id is no job id", err);
    }
    int rc = read_files(s, COLUMN_FILES, JOB_MAX_FILES, r, job_record_set_files, &why);
    if (rc == EO_OK) {
        rc = read_files(s, COLUMN_RESUME_FILES, JOB_MAX_RESUME_FILES, r, job_record_set_resume_files, &why);
    }
    if (rc == EO_OK) {
        rc = read_hosts(s, r, &why);
    }
    if (rc == EO_OK) {
        rc = read_error(s, r, &why);
    }
    if (rc == EO_OK) {
        return EO_OK;
    }
    if (rc == EO_E_NO_MEMORY) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "%s", why.message);
    }
    damaged("a row cannot be read", err);
    eo_error_detail(err, "Job %s: %s.", r->id, why.message);
    return EO_E_STATE_DIR;
}

int journal_load(struct journal *j, void (*fn)(void *ctx, struct job_record *r), void *ctx, struct eo_error *err)
{
    sqlite3_stmt *s = NULL;
    int code = sqlite3_prepare_v2(j->db, get_sql, -1, &s, NULL);
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
