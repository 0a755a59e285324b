/* everyod's own state and what handlers and modules build on. One per process; loop's thread only. */
#ifndef EO_DAEMON_SERVER_SERVER_H
#define EO_DAEMON_SERVER_SERVER_H

#include "daemon/server/config.h"
#include "daemon/server/connection.h"
#include "daemon/server/loop.h"
#include "daemon/server/stream.h"

enum { SERVER_MAX_LISTEN = 8, SERVER_NODE_SIZE = 33 };

struct server;

/* A part of the daemon with a life of its own. */
struct server_module {
    const char *name;
    /* Before the first connection is accepted. */
    int (*start)(struct server *s, void **out_state, struct eo_error *err);
    /* SIGTERM: take nothing new, let what runs write a checkpoint. Call server_drained when idle turns true. */
    void (*drain)(void *state);
    bool (*idle)(void *state);
    /* The end: free everything. Connections are closed and the loop still turns, so that done-calls arrive. */
    void (*stop)(void *state);
    void (*load)(void *state, uint32_t *out_running, uint32_t *out_queued);
    /* hello with role "data": r->params hold job, epoch, from_rank, to_rank, token. Answer with
     * request_send_and_detach. */
    int (*data_hello)(void *state, struct request *r, struct eo_error *err);
};
extern const struct server_module jobs_module; /* daemon/server/jobs.c */

struct session_table;
struct device_table;
struct models;
struct blob_keeper;
struct listener;

struct server {
    const struct config *config;
    struct loop *loop;
    struct stream_hub hub;
    char node[SERVER_NODE_SIZE]; /* random identity of this state directory, hex */
    char state_dir[1024];        /* absolute */
    char worker_path[1024];      /* everyod-worker beside this program or in libexec */
    uint64_t start_ns;
    int n_threads;               /* by --threads, affinity and cgroup */
    int n_cpus;                  /* by affinity and cgroup */
    uint64_t pool_bytes;         /* size of a device's pool: the limit, or the memory there is when that is less */
    uint64_t memory_limit_bytes; /* by --memory-limit, cgroup and memory of the host */
    bool draining, wrote_port_file;

    void *jobs; /* state of jobs_module */
    struct session_table *sessions;
    struct device_table *devices;
    struct models *models;
    struct blob_keeper *blob_keeper;

    struct listener *listeners[SERVER_MAX_LISTEN];
    int n_listeners;
    struct connection *connections; /* list */
    struct worker_process *workers; /* list, of devices and jobs */
    uint32_t n_connections;
    uint64_t buffered_bytes; /* payloads held by requests */
    struct eo_bytes scratch; /* outgoing envelopes are packed here */
    int lock_fd;
    int exit_code;
    struct server_private *private_;
};

void server_set_args(struct server *s, int argc, char *const *argv); /* what SIGHUP reads again */
int server_init(struct server *s, const struct config *c,
                struct eo_error *err);                     /* state directory, lock, node, modules */
int server_listen(struct server *s, struct eo_error *err); /* listeners, port file, READY=1 */
int server_run(struct server *s);                          /* returns the exit code */
void server_fini(struct server *s);
/* A module became idle while draining. */
void server_drained(struct server *s);
/* Answers made between cork and uncork leave in one write per connection. Calls nest. */
void server_cork(struct server *s);
void server_uncork(struct server *s);
void server_worker_gone(struct server *s);                     /* process.c: one less in workers */
const char *server_listen_text(const struct server *s, int i); /* "127.0.0.1:17743" */
/* The address other hosts should use: --advertise, else the first listener that is not loopback, else the first. */
const char *server_advertise(const struct server *s);

#endif
