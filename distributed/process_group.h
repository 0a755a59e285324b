/* A process group: the control plane of one rank above an engine. Verifies itself with a known-answer all-reduce when
 * it opens, carries the step-commit vote, compares layout and parameter hashes. */
#ifndef EO_DISTRIBUTED_PROCESS_GROUP_H
#define EO_DISTRIBUTED_PROCESS_GROUP_H

#include "distributed/collective.h"

struct process_group;

/* Opens engine `name` over fds (which belong to the group from here on, also when this fails) and runs the known-answer
 * check. layout_hash (SHA-256 of parameter names, shapes, dtypes, the spec hash and the engine's version) must be equal
 * on all ranks: DIVERGED otherwise, naming the rank. One thread at a time, but for process_group_abort and _progress.
 */
int process_group_open(const char *engine, const struct collective_config *config, const int *fds,
                       const uint8_t layout_hash[32], struct process_group **out, struct eo_error *err);
void process_group_close(struct process_group *g);
int process_group_rank(const struct process_group *g);
int process_group_size(const struct process_group *g);
const struct collective_config *process_group_config(const struct process_group *g);
/* Sum in place (gradients). */
int process_group_all_reduce(struct process_group *g, void *data, uint64_t count, enum eo_dtype dtype,
                             struct eo_error *err);
int process_group_broadcast(struct process_group *g, void *data, uint64_t bytes, int root, struct eo_error *err);

/* The step-commit vote, one tiny all-reduce: nobody applies a step unless all say ok. */
struct group_vote {
    bool ok;         /* in: my buckets are done and finite; out: everybody's are */
    int stop;        /* in: 0 or my wish to stop; out: the largest wish */
    double sums[16]; /* in: my loss and metric sums and counts; out: totals over ranks in rank order */
    int n_sums;
};
int process_group_vote(struct process_group *g, struct group_vote *vote, struct eo_error *err);
/* Compares a digest on all ranks; DIVERGED names the ranks that differ from rank 0. */
int process_group_expect_equal(struct process_group *g, const uint8_t digest[32], const char *what,
                               struct eo_error *err);
void process_group_abort(struct process_group *g, const struct eo_error *cause); /* any thread */
uint64_t process_group_progress(const struct process_group *g);                  /* any thread */

#endif
