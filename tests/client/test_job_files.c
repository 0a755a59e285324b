/* Which files go with a job, and what is downloaded into which names. */
#include "client/cli/job_files.h"

#include "client/cli/job_fetch.h"
#include "proto/base/file.h"
#include "proto/base/sha256.h"
#include "tests/client/fake_server.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct eo_error err;
static char dir[64];
static struct job_files found;

static void make_dir(void)
{
    snprintf(dir, sizeof dir, "/tmp/eo-job-files-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void remove_dir(void)
{
    ASSERT_OK(eo_dir_remove(dir, &err));
}

static const char *in_dir(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static void write_file(const char *name, const char *text)
{
    char parent[256];
    snprintf(parent, sizeof parent, "%s", in_dir(name));
    *strrchr(parent, '/') = '\0';
    ASSERT_OK(eo_dir_ensure(parent, 0777, &err));
    ASSERT_OK(eo_file_write_atomic(in_dir(name), text, strlen(text), 0666, &err));
}

/* job_files_find for paths as job.check gives them. */
static int find(const char *spec, bool far, const char *const *paths)
{
    struct eo_bytes b;
    struct eo_doc doc;
    size_t n = 0;
    while (paths[n] != NULL) {
        n++;
    }
    eo_bytes_init(&b, 1 << 20);
    eo_pack_array(&b, n);
    for (size_t i = 0; i < n; i++) {
        eo_pack_map(&b, 1);
        eo_pack_kv_str(&b, "path", paths[i]);
    }
    ASSERT_OK(eo_doc_parse(&doc, b.data, b.size, &err));
    memset(&err, 0, sizeof err);
    const int rc = job_files_find(doc.root, spec, far, &found, &err);
    eo_doc_fini(&doc);
    eo_bytes_fini(&b);
    return rc;
}

#define FIND(spec, far, ...) find((spec), (far), (const char *const[]){__VA_ARGS__, NULL})

START_TEST(relative_paths_start_at_the_job_file)
{
    char spec[128];
    char absolute[128];
    make_dir();
    write_file("jobs/data.csv", "1,2\n");
    write_file("shared/more.csv", "");
    snprintf(spec, sizeof spec, "%s/jobs/job.yaml", dir);
    snprintf(absolute, sizeof absolute, "%s/shared/more.csv", dir);
    ASSERT_OK(FIND(spec, false, "data.csv", "../shared/more.csv", absolute));
    ck_assert_uint_eq(found.n, 3);
    ck_assert_str_eq(found.files[0].path, "data.csv"); /* as the spec says it */
    ck_assert_str_eq(found.files[0].local, in_dir("jobs/data.csv"));
    ck_assert_uint_eq(found.files[0].size, 4);
    char hash[65];
    ck_assert(eo_sha256_of("1,2\n", 4, hash));
    ck_assert_str_eq(found.files[0].sha256, hash);
    ck_assert_uint_eq(found.files[1].size, 0);
    ck_assert_str_eq(found.files[2].local, absolute);
    /* A job file named without a folder lies here, one in the root lies there. */
    ck_assert_int_eq(chdir(in_dir("jobs")), 0);
    ASSERT_OK(FIND("job.yaml", false, "data.csv"));
    ck_assert_str_eq(found.files[0].local, "data.csv");
    ck_assert_int_eq(chdir("/"), 0);
    ck_assert_int_eq(FIND("/job.yaml", false, "no-such-data.csv"), EO_E_NO_FILE);
    ASSERT_CONTAINS(err.message, "/no-such-data.csv");
    remove_dir();
}
END_TEST

START_TEST(what_is_missing_is_named)
{
    char spec[128];
    make_dir();
    snprintf(spec, sizeof spec, "%s/job.yaml", dir);
    ck_assert_int_eq(FIND(spec, false, "data.csv"), EO_E_NO_FILE);
    ASSERT_CONTAINS(err.message, in_dir("data.csv"));
    ASSERT_CONTAINS(err.hint, spec);
    ck_assert_int_eq(FIND(spec, true, "data.csv"), EO_E_NO_FILE); /* relative: it must be here */
    ck_assert_int_eq(FIND(spec, false, "/nonexistent/data.csv"), EO_E_NO_FILE);
    ASSERT_OK(FIND(spec, true, "/nonexistent/data.csv")); /* the daemon may have it */
    ck_assert_str_eq(found.files[0].sha256, "");
    ck_assert_int_eq(FIND(spec, true, dir), EO_E_NO_FILE); /* a folder is no file */
    ck_assert_int_eq(mkfifo(in_dir("fifo"), 0600), 0);
    ck_assert_int_ne(FIND(spec, false, "fifo"), EO_OK); /* must not block */
    remove_dir();
}
END_TEST

START_TEST(what_a_daemon_names_is_bounded)
{
    const char *many[JOB_FILES_MAX + 2] = {NULL};
    char long_path[1100];
    char long_spec[1100];
    for (int i = 0; i <= JOB_FILES_MAX; i++) {
        many[i] = "x";
    }
    ck_assert_int_eq(find("/tmp/job.yaml", false, many), EO_E_BAD_SPEC);
    memset(long_path, 'x', sizeof long_path - 1);
    long_path[sizeof long_path - 1] = '\0';
    ck_assert_int_ne(FIND("/tmp/job.yaml", false, long_path), EO_OK);
    memcpy(long_spec, long_path, sizeof long_path);
    long_spec[0] = '/';
    long_spec[1050] = '/';
    ck_assert_int_eq(FIND(long_spec, false, "data.csv"), EO_E_BAD_SPEC);
}
END_TEST

START_TEST(submit_names_them)
{
    struct eo_bytes b;
    struct eo_doc doc;
    char text[80];
    uint64_t size = 0;
    eo_bytes_init(&b, 1 << 16);
    memset(&found, 0, sizeof found);
    found.n = 2;
    found.files[0] = (struct job_file){.path = "a.csv", .local = "/here/a.csv", .sha256 = "00ff", .size = 12};
    found.files[1] = (struct job_file){.path = "/there/b.csv"};
    job_files_pack(&b, &found);
    ASSERT_OK(eo_doc_parse(&doc, b.data, b.size, &err));
    ck_assert_uint_eq(eo_item_count(doc.root), 2);
    ASSERT_OK(eo_need_str(eo_item_at(doc.root, 0), "sha256", text, sizeof text, &err));
    ck_assert_str_eq(text, "00ff");
    ASSERT_OK(eo_need_u64(eo_item_at(doc.root, 0), "size", 100, &size, &err));
    ck_assert_uint_eq(size, 12);
    ck_assert_uint_eq(eo_item_count(eo_item_at(doc.root, 1)), 1); /* its path alone */
    eo_doc_fini(&doc);
    eo_bytes_fini(&b);
}
END_TEST

/* ---- checkpoints ---- */

static void write_checkpoint(const char *name)
{
    char path[128];
    static const char *const files[] = {"manifest.json", "model.safetensors", "state.safetensors"};
    for (size_t i = 0; i < EO_COUNT_OF(files); i++) {
        snprintf(path, sizeof path, "%s/%s", name, files[i]);
        write_file(path, name);
    }
}

START_TEST(a_checkpoint_is_found_in_three_places)
{
    make_dir();
    write_checkpoint("out/checkpoints/step-000000000009");
    write_checkpoint("out/checkpoints/step-000000000110");
    write_file("out/checkpoints/step-000000000999/model.safetensors", "half a checkpoint"); /* does not count */
    write_file("out/model.safetensors", "x");
    static const char *const places[] = {"out", "out/checkpoints", "out/checkpoints/step-000000000110"};
    for (size_t i = 0; i < EO_COUNT_OF(places); i++) {
        ASSERT_OK(job_files_find_checkpoint(in_dir(places[i]), &found, &err));
        ck_assert_uint_eq(found.n, 3);
        ck_assert_str_eq(found.files[2].path, "state.safetensors");
        ck_assert_str_eq(found.files[2].local, in_dir("out/checkpoints/step-000000000110/state.safetensors"));
        ck_assert_uint_eq(found.files[0].size, strlen("out/checkpoints/step-000000000110"));
    }
    ASSERT_OK(job_files_find_checkpoint(in_dir("out/checkpoints/step-000000000009"), &found, &err));
    ASSERT_CODE(job_files_find_checkpoint(dir, &found, &err), EO_E_NO_FILE);
    ASSERT_CONTAINS(err.hint, "checkpoints");
    ASSERT_CODE(job_files_find_checkpoint("/nonexistent", &found, &err), EO_E_NO_FILE);
    unlink(in_dir("out/checkpoints/step-000000000110/manifest.json"));
    ASSERT_CODE(job_files_find_checkpoint(in_dir("out"), &found, &err), EO_E_NO_FILE);
    ASSERT_CONTAINS(err.message, "manifest.json");
    remove_dir();
}
END_TEST

/* ---- uploading ---- */

enum { STORE_MAX = 16 << 20 };

struct store {
    uint64_t received; /* answered to blob.have */
    bool have;
    int refuse_at; /* the put with this number fails; -1 none */
    uint8_t *bytes;
    uint64_t size, end;
    int n_puts;
};

static void blob_daemon(struct fake_peer *p)
{
    struct store *s = p->ctx;
    fake_hello(p, 100);
    while (fake_read(p, NULL)) {
        if (strcmp(p->request.method, "blob.have") == 0) {
            struct eo_bytes *b = fake_result(p, p->request.id);
            eo_pack_map(b, 2);
            eo_pack_str(b, "have");
            eo_pack_array(b, 1);
            eo_pack_bool(b, s->have);
            eo_pack_str(b, "received");
            eo_pack_array(b, 1);
            eo_pack_u64(b, s->received);
            fake_send(p, NULL, 0);
            continue;
        }
        uint64_t offset = 0;
        struct eo_error fault = {0};
        if (eo_need_u64(p->request.params, "offset", STORE_MAX, &offset, &fault) ||
            eo_need_u64(p->request.params, "size", STORE_MAX, &s->size, &fault) ||
            offset + p->payload.size > STORE_MAX) {
            fake_complain(p, "blob.put: %s", fault.message);
            return;
        }
        if (s->n_puts++ == s->refuse_at) {
            fake_fail(p, p->request.id, EO_E_DISK_FULL, "no room for it");
            continue;
        }
        if (p->payload.size > 0) {
            memcpy(s->bytes + offset, p->payload.data, p->payload.size);
        }
        s->end = offset + p->payload.size;
        fake_ok(p, p->request.id);
    }
}

struct told {
    int calls;
    uint64_t done, sent;
    int stop_after; /* 0 = never */
};

static bool tell(void *ctx, const struct job_file *file, uint64_t done, uint64_t sent)
{
    struct told *t = ctx;
    EO_UNUSED(file);
    t->calls++;
    t->done = done;
    t->sent = sent;
    return t->calls != t->stop_after;
}

static int upload(struct store *s, struct told *t)
{
    struct fake_server *server = fake_server_start(blob_daemon, s);
    struct eo_connection *c = NULL;
    s->bytes = calloc(1, STORE_MAX);
    memset(&err, 0, sizeof err);
    ASSERT_OK(eo_connection_open(fake_server_endpoint(server), NULL, &c, &err));
    const int rc = job_files_upload(c, &found, tell, t, &err);
    eo_connection_close(c);
    fake_server_stop(server);
    return rc;
}

/* A file of n bytes as the only one to upload. */
static void one_file(size_t n)
{
    char *text = malloc(n + 1);
    for (size_t i = 0; i < n; i++) {
        text[i] = (char)('a' + i % 23);
    }
    text[n] = '\0';
    write_file("blob", text);
    memset(&found, 0, sizeof found);
    found.n = 1;
    snprintf(found.files[0].local, sizeof found.files[0].local, "%s", in_dir("blob"));
    ck_assert(eo_sha256_of(text, n, found.files[0].sha256));
    found.files[0].size = n;
    free(text);
}

START_TEST(a_file_travels_in_chunks)
{
    static const size_t sizes[] = {0, 1, EO_CHUNK_MAX, EO_CHUNK_MAX + 1, 2 * EO_CHUNK_MAX + 77};
    for (size_t i = 0; i < EO_COUNT_OF(sizes); i++) {
        struct store s = {.refuse_at = -1};
        struct told t = {0};
        make_dir();
        one_file(sizes[i]);
        ASSERT_OK(upload(&s, &t));
        ck_assert_uint_eq(s.size, sizes[i]);
        ck_assert_uint_eq(s.end, sizes[i]);
        ck_assert_int_eq(s.n_puts, sizes[i] == 0 ? 1 : (int)((sizes[i] + EO_CHUNK_MAX - 1) / EO_CHUNK_MAX));
        char hash[65];
        ck_assert(eo_sha256_of(s.bytes, (size_t)s.end, hash));
        ck_assert_str_eq(hash, found.files[0].sha256);
        ck_assert_uint_eq(t.done, sizes[i]);
        ck_assert_uint_eq(t.sent, sizes[i]);
        free(s.bytes);
        remove_dir();
    }
}
END_TEST

START_TEST(what_is_there_does_not_travel)
{
    struct store s = {.refuse_at = -1, .have = true};
    struct told t = {0};
    make_dir();
    one_file(1000);
    found.files[1] = (struct job_file){.path = "/on/the/daemons/host"};
    found.n = 2;
    ASSERT_OK(upload(&s, &t));
    ck_assert_int_eq(s.n_puts, 0);
    ck_assert_int_eq(t.calls, 1);
    ck_assert_uint_eq(t.sent, 0);
    free(s.bytes);
    /* An upload that was cut off goes on where it stopped; a daemon that claims more than there is gets the end. */
    s = (struct store){.refuse_at = -1, .received = 600};
    found.n = 1;
    ASSERT_OK(upload(&s, &t));
    ck_assert_uint_eq(t.sent, 400);
    ck_assert_uint_eq(s.end, 1000);
    free(s.bytes);
    s = (struct store){.refuse_at = -1, .received = 5000};
    ASSERT_OK(upload(&s, &t));
    ck_assert_uint_eq(s.end, 1000);
    free(s.bytes);
    remove_dir();
}
END_TEST

START_TEST(an_upload_may_fail_or_be_given_up)
{
    struct told t = {0};
    make_dir();
    one_file(3 * EO_CHUNK_MAX);
    for (int at = 0; at < 3; at++) {
        struct store s = {.refuse_at = at};
        ASSERT_CODE(upload(&s, &t), EO_E_DISK_FULL);
        free(s.bytes);
    }
    struct store s = {.refuse_at = -1};
    t = (struct told){.stop_after = 2};
    ASSERT_CODE(upload(&s, &t), EO_E_CANCELLED);
    ck_assert_int_le(s.n_puts, 2);
    free(s.bytes);
    ck_assert_int_eq(truncate(in_dir("blob"), 100), 0); /* it shrinks behind our back */
    s = (struct store){.refuse_at = -1};
    t = (struct told){0};
    ASSERT_CODE(upload(&s, &t), EO_E_IO);
    free(s.bytes);
    unlink(in_dir("blob"));
    s = (struct store){.refuse_at = -1};
    ASSERT_CODE(upload(&s, &t), EO_E_NO_FILE);
    free(s.bytes);
    remove_dir();
}
END_TEST

/* ---- fetching ---- */

struct offer {
    const char *name, *bytes, *sha256; /* sha256 NULL: the right one */
};

static void file_daemon(struct fake_peer *p)
{
    const struct offer *o = p->ctx;
    char hash[65];
    fake_hello(p, 100);
    while (fake_read(p, NULL)) {
        if (strcmp(p->request.method, "job.files") == 0) {
            struct eo_bytes *b = fake_result(p, p->request.id);
            eo_pack_map(b, 1);
            eo_pack_str(b, "files");
            eo_pack_array(b, 1);
            eo_pack_map(b, 3);
            eo_pack_kv_str(b, "name", o->name);
            eo_pack_kv_u64(b, "size", strlen(o->bytes));
            eo_sha256_of(o->bytes, strlen(o->bytes), hash);
            eo_pack_kv_str(b, "sha256", o->sha256 != NULL ? o->sha256 : hash);
            fake_send(p, NULL, 0);
        } else {
            uint64_t offset = 0;
            eo_item_as_u64(eo_item_get(p->request.params, "offset"), &offset);
            eo_pack_map(fake_result(p, p->request.id), 0);
            fake_send(p, o->bytes + offset, strlen(o->bytes + offset));
        }
    }
}

static int fetch(struct offer o, const char *const *only, size_t *out_n)
{
    struct fake_server *server = fake_server_start(file_daemon, &o);
    struct eo_connection *c = NULL;
    memset(&err, 0, sizeof err);
    ASSERT_OK(eo_connection_open(fake_server_endpoint(server), NULL, &c, &err));
    const int rc = job_fetch(c, "3f2a", in_dir("got"), only, out_n, &err);
    eo_connection_close(c);
    fake_server_stop(server);
    return rc;
}

static void assert_file(const char *name, const char *wanted)
{
    struct eo_bytes text;
    ASSERT_OK(eo_file_read(in_dir(name), 1000, &text, &err));
    ck_assert_str_eq(eo_bytes_text(&text), wanted);
    eo_bytes_fini(&text);
}

START_TEST(files_get_their_names_when_they_are_whole)
{
    size_t n = 9;
    make_dir();
    ASSERT_OK(fetch((struct offer){"model.safetensors", "weights", NULL}, NULL, &n));
    ck_assert_uint_eq(n, 1);
    assert_file("got/model.safetensors", "weights");
    ASSERT_OK(fetch((struct offer){"model.safetensors", "", NULL}, NULL, &n)); /* replaces it */
    assert_file("got/model.safetensors", "");
    ASSERT_OK(fetch((struct offer){"checkpoints/step-1/..hidden", "deep", NULL}, NULL, &n));
    assert_file("got/checkpoints/step-1/..hidden", "deep");
    ASSERT_OK(fetch((struct offer){"checkpoints/x", "deep", NULL}, job_fetch_results, &n)); /* not among them */
    ck_assert_uint_eq(n, 0);
    ck_assert_int_ne(access(in_dir("got/checkpoints/x"), F_OK), 0);
    const char *wrong = "00000000000000000000000000000000000000000000000000000000000000ff";
    ASSERT_CODE(fetch((struct offer){"bad", "bytes", wrong}, NULL, &n), EO_E_BAD_FILE);
    ck_assert_int_ne(access(in_dir("got/bad"), F_OK), 0);
    ck_assert_int_ne(access(in_dir("got/bad.part"), F_OK), 0);
    /* Nothing is written through a link that somebody left in the way. */
    char link_path[256];
    snprintf(link_path, sizeof link_path, "%s/got/linked.part", dir);
    ck_assert_int_eq(symlink(in_dir("victim"), link_path), 0);
    ASSERT_CODE(fetch((struct offer){"linked", "bytes", NULL}, NULL, &n), EO_E_CANNOT_CREATE);
    ck_assert_int_ne(access(in_dir("victim"), F_OK), 0);
    remove_dir();
}
END_TEST

START_TEST(unsafe_names_are_refused)
{
    static const char *const names[] = {"",      "/etc/passwd", "..", ".",   "../x", "a/../b",   "a/..",  "a//b",
                                        "a/./b", "a/",          "//", "./a", "a\nb", "\x1b[31m", "a\x7f", "x/\xc2\x9b"};
    static const char *const fine[] = {"a", "a/b", "..a", "a..", ".hidden", "a/b/c.d", "\xc3\xa9", "a b", "...", "-f"};
    size_t n = 9;
    for (size_t i = 0; i < EO_COUNT_OF(names); i++) {
        ck_assert_msg(!job_fetch_name_is_safe(names[i]), "\"%s\" passes", names[i]);
    }
    for (size_t i = 0; i < EO_COUNT_OF(fine); i++) {
        ck_assert_msg(job_fetch_name_is_safe(fine[i]), "\"%s\" is refused", fine[i]);
    }
    make_dir();
    ASSERT_CODE(fetch((struct offer){"../outside", "bytes", NULL}, NULL, &n), EO_E_BAD_ENVELOPE);
    ck_assert_int_ne(access(in_dir("outside"), F_OK), 0);
    ck_assert_uint_eq(n, 9); /* untouched on failure */
    remove_dir();
}
END_TEST

EO_SUITE("cli job files", relative_paths_start_at_the_job_file, what_is_missing_is_named,
         what_a_daemon_names_is_bounded, submit_names_them, a_checkpoint_is_found_in_three_places,
         a_file_travels_in_chunks, what_is_there_does_not_travel, an_upload_may_fail_or_be_given_up,
         files_get_their_names_when_they_are_whole, unsafe_names_are_refused)
