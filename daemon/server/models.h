/* ONNX models that are run for clients (model.run, model.describe): the queue, their workers, their results.
 *
 * Each run has a worker process of its own, not the device's interactive one. A model is a stranger's bytes: what
 * parses and runs it may crash, take long or take all memory, and must not take the tensors and plans of sessions
 * along; its end is the only sure way to stop a kernel in the middle; and the memory of a large model goes back to the
 * host with it. That costs a process start, some ten milliseconds, which is little beside reading a model.
 *
 * One run at a time on each device, since two would share its threads; sessions take turns. Results lie in one file
 * below state/models, without a name once the run has ended, so that nothing stays behind whatever ends. A run belongs
 * to the connection that asked for it and ends with it. Loop's thread only. */
#ifndef EO_DAEMON_SERVER_MODELS_H
#define EO_DAEMON_SERVER_MODELS_H

#include "daemon/server/connection.h"

enum {
    MODELS_MAX_WAITING = 64,    /* of all sessions; more are answered busy */
    MODELS_MAX_OF_SESSION = 16, /* waiting, running and with results that nobody has freed */
    MODELS_ID_SIZE = 33
};

struct models;

/* What a client asks for, checked. */
struct model_task {
    bool describe;
    char device[16];      /* "" = auto */
    struct eo_bytes body; /* n_keys key, value pairs of task.model; the rest is added when it starts */
    uint32_t n_keys;
    struct eo_bytes blobs; /* names of its contents, BLOBS_NAME bytes each */
};

int models_init(struct server *s, struct eo_error *err); /* removes what an earlier daemon left */
void models_fini(struct server *s);                      /* after the loop has settled */
/* Queues a run; the request is answered when it has ended. Takes the task's buffers over, in any case.
 * Errors: SHUTTING_DOWN, BUSY, QUOTA, NO_MEMORY. */
int models_submit(struct request *r, struct model_task *task, struct eo_error *err);
void models_pin_blobs(const struct server *s, struct eo_bytes *out); /* as jobs_pin_blobs */
/* A descriptor of the results of an ended run of r's session, the caller's to close; BAD_PARAMS: there is none of this
 * name. */
int models_results(const struct request *r, const char *id, int *out_fd, struct eo_error *err);
int models_free(const struct request *r, const char *id, struct eo_error *err);

#endif
