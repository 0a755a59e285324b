/* Ranks as processes: one is killed or stopped in the middle of an all-reduce, the others name it. */
#include "tests/distributed/ranks.h"
#include "tests/support/suite.h"

#include "proto/base/clock.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { GOING = -1, LARGE = 1 << 18, ROUNDS_MAX = 1000000 };

/* What a child writes to its pipe: GOING after its third round, then how it ended. */
struct note {
    int code;
    int culprit;
    char host[80];
    char message[320];
};

struct child {
    pid_t pid;
    int pipe; /* read end */
};

static void write_note(int fd, const struct note *note)
{
    if (write(fd, note, sizeof(*note)) != (ssize_t)sizeof(*note)) {
        _exit(3);
    }
}

static void run_child(struct ranks *g, int rank, uint64_t count, int fd)
{
    struct rank *r = &g->rank[rank];
    float *data = calloc((size_t)count, sizeof(*data));
    struct note note = {.code = GOING};
    struct eo_error err;
    int code;

    for (int other = 0; other < g->n; other++) {
        for (int peer = 0; peer < g->n; peer++) {
            if (other != rank && peer != other) {
                close(g->rank[other].fds[peer]);
            }
        }
    }
    code = data == NULL ? EO_RAISE(&err, EO_E_NO_MEMORY, "no memory")
                        : ranks_engine->open(&r->config, r->fds, &r->comm, &err);
    for (int round = 0; round < ROUNDS_MAX && code == EO_OK; round++) {
        if (round == 3) {
            write_note(fd, &note);
        }
        code = ranks_engine->all_reduce(r->comm, data, count, EO_FLOAT32, COLLECTIVE_SUM, &err);
    }
    if (code != EO_OK) {
        note = (struct note){.code = code, .culprit = err.rank};
        memcpy(note.host, err.host, sizeof(note.host));
        memcpy(note.message, err.message, sizeof(note.message));
        write_note(fd, &note);
    }
    free(data);
    ranks_close_rank(r);
    _exit(0);
}

static void start_children(struct ranks *g, uint64_t count, struct child *children)
{
    for (int r = 0; r < g->n; r++) {
        int fds[2];

        ck_assert_int_eq(pipe(fds), 0);
        children[r].pid = fork();
        ck_assert_int_ge(children[r].pid, 0);
        if (children[r].pid == 0) {
            run_child(g, r, count, fds[1]);
        }
        close(fds[1]);
        children[r].pipe = fds[0];
    }
    for (int a = 0; a < g->n; a++) {
        for (int b = 0; b < g->n; b++) {
            if (a != b) {
                close(g->rank[a].fds[b]);
            }
        }
    }
}

/* The next note of a child, or code 0 when none comes in time. */
static struct note next_note(const struct child *child, int timeout_ms)
{
    struct pollfd p = {.fd = child->pipe, .events = POLLIN};
    struct note note = {0};

    if (poll(&p, 1, timeout_ms) == 1 && read(child->pipe, &note, sizeof(note)) != (ssize_t)sizeof(note)) {
        note.code = 0;
    }
    return note;
}

struct trial {
    int n, victim, signal;
    uint64_t count, deadline_ms;
    int code;
    int within_ms;
};

static void hit_one(const struct trial *t)
{
    struct ranks *g = ranks_connect(t->n, RANKS_TCP, t->deadline_ms);
    struct child children[RANKS_MAX];
    struct note notes[RANKS_MAX] = {{0}};
    char host[32];
    uint64_t hit_ns;

    start_children(g, t->count, children);
    for (int r = 0; r < t->n; r++) {
        notes[r] = next_note(&children[r], 20000);
        ck_assert_msg(notes[r].code == GOING, "rank %d did not get going: %s", r, notes[r].message);
    }
    hit_ns = eo_now_ns();
    kill(children[t->victim].pid, t->signal);
    for (int r = 0; r < t->n; r++) {
        if (r != t->victim) {
            int64_t left_ms = t->within_ms - (int64_t)((eo_now_ns() - hit_ns) / 1000000);

            notes[r] = next_note(&children[r], (int)EO_MAX(left_ms, 0));
        }
    }
    for (int r = 0; r < t->n; r++) {
        kill(children[r].pid, SIGKILL);
        waitpid(children[r].pid, NULL, 0);
        close(children[r].pipe);
    }
    snprintf(host, sizeof(host), "node-%d:17743", t->victim);
    for (int r = 0; r < t->n; r++) {
        if (r != t->victim) {
            ck_assert_msg(notes[r].code == t->code && notes[r].culprit == t->victim &&
                              strcmp(notes[r].host, host) == 0 && strstr(notes[r].message, host) != NULL,
                          "rank %d of %d after signal %d to rank %d says in %d ms: code %d, rank %d, host %s: %s", r,
                          t->n, t->signal, t->victim, t->within_ms, notes[r].code, notes[r].culprit, notes[r].host,
                          notes[r].message);
        }
    }
    free(g);
}

START_TEST(a_killed_rank_is_named_by_all_within_two_seconds)
{
    for (int round = 0; round < 24; round++) {
        int n = 2 + round % 3;

        hit_one(&(const struct trial){.n = n,
                                      .victim = round / 3 % 2 == 0 ? 0 : n - 1,
                                      .signal = SIGKILL,
                                      .count = round / 6 % 2 == 0 ? LARGE : 100,
                                      .deadline_ms = 20000,
                                      .code = EO_E_PEER_LOST,
                                      .within_ms = 2000});
    }
}
END_TEST

START_TEST(a_stopped_rank_is_named_by_all_after_the_deadline)
{
    for (int round = 0; round < 6; round++) {
        int n = 2 + round % 3;

        hit_one(&(const struct trial){.n = n,
                                      .victim = round / 3 == 0 ? n - 1 : 0,
                                      .signal = SIGSTOP,
                                      .count = round % 2 == 0 ? LARGE : 100,
                                      .deadline_ms = 800,
                                      .code = EO_E_PEER_TIMEOUT,
                                      .within_ms = 4000});
    }
}
END_TEST

EO_SUITE("tcp_processes", a_killed_rank_is_named_by_all_within_two_seconds,
         a_stopped_rank_is_named_by_all_after_the_deadline)
