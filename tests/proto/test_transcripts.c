/* The encoder still makes the bytes of version 1, and the decoder still reads them.
 *
 * `test_transcripts print DIR` writes the files: for a new case only. */
#include "proto/graph.h"
#include "tests/proto/transcript.h"
#include "tests/support/suite.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

static struct eo_error err;

static const char *folder(void)
{
    static char path[1024];
    const char *root = getenv("EO_SOURCE_DIR");
    snprintf(path, sizeof path, "%s/tests/vectors/protocol-1", root != NULL ? root : ".");
    return path;
}

static void read_case(const struct transcript_case *c, struct transcript *out)
{
    char path[1200];
    snprintf(path, sizeof path, "%s/%s.txt", folder(), c->name);
    if (!transcript_read(out, path, &err)) {
        ck_abort_msg("%s", err.message);
    }
}

START_TEST(the_encoder_makes_these_bytes)
{
    for (int i = 0; i < transcript_n_cases; i++) {
        struct transcript kept;
        struct transcript made;
        read_case(&transcript_cases[i], &kept);
        transcript_init(&made);
        transcript_cases[i].make(&made);
        ck_assert_int_eq(made.n, kept.n);
        for (int k = 0; k < kept.n; k++) {
            const struct transcript_frame *old = &kept.frames[k];
            const struct transcript_frame *now = &made.frames[k];
            ck_assert_int_eq(now->direction, old->direction);
            ck_assert_str_eq(now->label, old->label);
            ck_assert_msg(
                now->bytes.size == old->bytes.size && memcmp(now->bytes.data, old->bytes.data, old->bytes.size) == 0,
                "%s, frame %d (%s) has other bytes than in version 1", transcript_cases[i].name, k, old->label);
        }
        transcript_fini(&kept);
        transcript_fini(&made);
    }
}
END_TEST

START_TEST(the_decoder_reads_them)
{
    for (int i = 0; i < transcript_n_cases; i++) {
        struct transcript kept;
        read_case(&transcript_cases[i], &kept);
        for (int k = 0; k < kept.n; k++) {
            const struct transcript_frame *f = &kept.frames[k];
            struct eo_doc doc;
            struct eo_envelope e;
            struct eo_bytes again;
            const uint8_t *payload = NULL;
            size_t size = 0;
            if (!transcript_split(f, &doc, &e, &payload, &size, &err)) {
                ck_abort_msg("%s, frame %d: %s", transcript_cases[i].name, k, err.message);
            }
            ck_assert_int_eq(e.type == 0, f->direction == '>');
            if (e.type != 1) {
                ck_assert_str_eq(e.method, f->label);
            }
            /* Written again, the same bytes: nothing of the message was lost. */
            eo_bytes_init(&again, EO_ENVELOPE_MAX);
            eo_pack_item(&again, doc.root);
            ck_assert_mem_eq(again.data, f->bytes.data + EO_FRAME_HEADER_SIZE, again.size);
            ck_assert_uint_eq(again.size + EO_FRAME_HEADER_SIZE + size, f->bytes.size);
            eo_bytes_fini(&again);
            if (strcmp(e.method, "plan.create") == 0) {
                struct eo_graph *g = NULL;
                ASSERT_OK(eo_graph_decode(payload, size, &g, &err));
                ck_assert_uint_eq(g->n_nodes, 3);
                eo_graph_free(g);
            }
            eo_doc_fini(&doc);
        }
        transcript_fini(&kept);
    }
}
END_TEST

START_TEST(no_file_is_left_over)
{
    DIR *dir = opendir(folder());
    int n = 0;
    ck_assert_ptr_nonnull(dir);
    for (struct dirent *e = readdir(dir); e != NULL; e = readdir(dir)) {
        bool known = e->d_name[0] == '.' || strcmp(e->d_name, "README.md") == 0;
        for (int i = 0; i < transcript_n_cases && !known; i++) {
            char name[80];
            snprintf(name, sizeof name, "%s.txt", transcript_cases[i].name);
            known = strcmp(name, e->d_name) == 0;
            n += known;
        }
        ck_assert_msg(known, "%s belongs to no case", e->d_name);
    }
    closedir(dir);
    ck_assert_int_eq(n, transcript_n_cases);
}
END_TEST

/* ---- writing ---- */

static void print_bytes(FILE *out, const uint8_t *data, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        fprintf(out, "%s%02x", i % 16 == 0 ? i == 0 ? "  " : "\n  " : i % 2 == 0 ? " " : "", data[i]);
    }
    fputs(size > 0 ? "\n" : "", out);
}

static int print_all(const char *dir)
{
    for (int i = 0; i < transcript_n_cases; i++) {
        char path[1200];
        struct transcript t;
        snprintf(path, sizeof path, "%s/%s.txt", dir, transcript_cases[i].name);
        FILE *out = fopen(path, "w");
        if (out == NULL) {
            perror(path);
            return 1;
        }
        fprintf(out, "# Protocol version 1: %s.\n", transcript_cases[i].about);
        transcript_init(&t);
        transcript_cases[i].make(&t);
        for (int k = 0; k < t.n; k++) {
            const struct transcript_frame *f = &t.frames[k];
            struct eo_frame_header h;
            fprintf(out, "%c %s\n", f->direction, f->label);
            if (eo_frame_decode(f->bytes.data, 64 << 20, &h, &err) == EO_OK) {
                print_bytes(out, f->bytes.data, EO_FRAME_HEADER_SIZE);
                print_bytes(out, f->bytes.data + EO_FRAME_HEADER_SIZE, h.envelope_size);
                print_bytes(out, f->bytes.data + EO_FRAME_HEADER_SIZE + h.envelope_size, (size_t)h.payload_size);
            }
        }
        transcript_fini(&t);
        fclose(out);
    }
    return 0;
}

int main(int argc, char **argv)
{
    const TTest *const tests[] = {the_encoder_makes_these_bytes, the_decoder_reads_them, no_file_is_left_over};
    if (argc == 3 && strcmp(argv[1], "print") == 0) {
        return print_all(argv[2]);
    }
    return eo_suite_run("golden transcripts", tests, EO_COUNT_OF(tests));
}
