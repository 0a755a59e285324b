#include "tests/distributed/ranks.h"

#include "proto/base/clock.h"
#include "proto/base/compiler.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

const struct collective_engine *ranks_engine;

static void demand(bool ok, const char *what)
{
    if (!ok) {
        perror(what);
        exit(EXIT_FAILURE);
    }
}

static void connect_tcp(int out[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    out[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    demand(listener >= 0 && out[0] >= 0, "socket");
    demand(bind(listener, (struct sockaddr *)&address, size) == 0 && listen(listener, 1) == 0, "listen");
    demand(getsockname(listener, (struct sockaddr *)&address, &size) == 0, "getsockname");
    demand(connect(out[0], (struct sockaddr *)&address, size) == 0, "connect");
    out[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    demand(out[1] >= 0, "accept");
    close(listener);
}

struct ranks *ranks_connect(int n, enum ranks_mesh mesh, uint64_t deadline_ms)
{
    struct ranks *g = calloc(1, sizeof(*g));

    demand(g != NULL, "calloc");
    ranks_engine = collective_engine_find("tcp");
    g->n = n;
    for (int a = 0; a < n; a++) {
        struct rank *r = &g->rank[a];

        r->rank = r->config.rank = a;
        r->world_size = r->config.world_size = n;
        r->config.deadline_ms = deadline_ms;
        r->config.epoch = 3;
        r->fds[a] = -1;
        for (int b = 0; b < n; b++) {
            snprintf(r->config.hosts[b], sizeof(r->config.hosts[b]), "node-%d:17743", b);
        }
        for (int b = 0; b < a; b++) {
            int pair[2];

            if (mesh == RANKS_TCP) {
                connect_tcp(pair);
            } else {
                demand(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0, "socketpair");
            }
            r->fds[b] = pair[0];
            g->rank[b].fds[a] = pair[1];
        }
    }
    return g;
}

struct ranks *ranks_open(int n, enum ranks_mesh mesh, uint64_t deadline_ms, const struct tcp_tuning *tuning)
{
    struct ranks *g = ranks_connect(n, mesh, deadline_ms);
    struct eo_error err;

    for (int i = 0; i < n; i++) {
        struct rank *r = &g->rank[i];

        if (tcp_open_tuned(&r->config, r->fds, tuning == NULL ? &tcp_tuning_default : tuning, &r->comm, &err) != 0) {
            fprintf(stderr, "rank %d: %s\n", i, err.message);
            exit(EXIT_FAILURE);
        }
    }
    return g;
}

void ranks_close_rank(struct rank *r)
{
    if (r->comm != NULL) {
        ranks_engine->close(r->comm);
        r->comm = NULL;
    }
}

void ranks_close(struct ranks *g)
{
    for (int i = 0; i < g->n; i++) {
        ranks_close_rank(&g->rank[i]);
    }
    free(g);
}

struct job {
    struct rank *rank;
    rank_fn fn;
};

static void *rank_main(void *arg)
{
    struct job *job = (struct job *)arg;
    uint64_t begin_ns = eo_now_ns();

    job->rank->code = job->fn(job->rank, &job->rank->err);
    job->rank->elapsed_ns = eo_now_ns() - begin_ns;
    return NULL;
}

void ranks_run(struct ranks *g, rank_fn fn, const void *arg)
{
    pthread_t threads[RANKS_MAX];
    struct job jobs[RANKS_MAX];

    for (int i = 0; i < g->n; i++) {
        g->rank[i].arg = arg;
        eo_error_clear(&g->rank[i].err);
        jobs[i] = (struct job){&g->rank[i], fn};
        demand(pthread_create(&threads[i], NULL, rank_main, &jobs[i]) == 0, "pthread_create");
    }
    for (int i = 0; i < g->n; i++) {
        pthread_join(threads[i], NULL);
    }
}
