#include "daemon/server/data_hello.h"

#include "daemon/server/rank_run.h"
#include "daemon/server/server.h"
#include "proto/base/text.h"
#include "proto/version.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct handover {
    struct job *job; /* a reference */
    int from_rank;
};

static void on_detached(void *ctx, int fd, const struct eo_error *why)
{
    struct handover *h = ctx;
    struct eo_error err = {0};
    if (fd < 0) {
        eo_log_error("data socket", why);
    } else {
        if (h->job->run != NULL && rank_run_pass_fd(h->job->run, fd, h->from_rank, &err) != EO_OK) {
            eo_log_error("data socket", &err);
        }
        close(fd); /* the worker has its own copy */
    }
    job_unref(h->job);
    free(h);
}

/* Constant time: how many bytes agree must not show. */
static bool token_equal(const uint8_t *a, const uint8_t *b)
{
    uint8_t difference = 0;
    for (size_t i = 0; i < DATA_TOKEN_SIZE; i++) {
        difference |= (uint8_t)(a[i] ^ b[i]);
    }
    return difference == 0;
}

static int check(const struct data_expectation *e, const struct eo_item *params, int *out_from, struct eo_error *err)
{
    uint64_t epoch = 0;
    int64_t from = 0;
    int64_t to = 0;
    const uint8_t *token = NULL;
    size_t token_size = 0;
    int rc = eo_need_u64(params, "epoch", UINT64_MAX, &epoch, err);
    if (rc == EO_OK) {
        rc = eo_need_i64(params, "from_rank", 0, JOB_MAX_HOSTS - 1, &from, err);
    }
    if (rc == EO_OK) {
        rc = eo_need_i64(params, "to_rank", 0, JOB_MAX_HOSTS - 1, &to, err);
    }
    if (rc != EO_OK) {
        return rc;
    }
    if (!eo_item_as_bin(eo_item_get(params, "token"), &token, &token_size) || token_size != DATA_TOKEN_SIZE ||
        !token_equal(token, e->token)) {
        return EO_RAISE(err, EO_E_PEER_REJECTED, "AUTH: the data socket does not know this epoch's token");
    }
    if (epoch != e->epoch) {
        return EO_RAISE(err, EO_E_PEER_REJECTED, "STALE_EPOCH: epoch %llu, here runs %llu", (unsigned long long)epoch,
                        (unsigned long long)e->epoch);
    }
    if (to != e->rank || from <= to || from >= e->world_size) {
        return EO_RAISE(err, EO_E_PEER_REJECTED, "WRONG_RANK: rank %lld asks for rank %lld of %d, here runs rank %d",
                        (long long)from, (long long)to, e->world_size, e->rank);
    }
    *out_from = (int)from;
    return EO_OK;
}

int data_hello_accept(struct job *j, const struct data_expectation *e, struct request *r, struct eo_error *err)
{
    int from = 0;
    int rc = check(e, r->params, &from, err);
    if (rc != EO_OK) {
        return rc;
    }
    struct handover *h = calloc(1, sizeof *h);
    if (h == NULL) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory for a data socket");
    }
    h->job = job_ref(j);
    h->from_rank = from;
    struct eo_bytes *b = request_result(r);
    eo_pack_map(b, 2);
    eo_pack_kv_i64(b, "version", EO_PROTOCOL_MAX);
    eo_pack_kv_str(b, "build", eo_build());
    request_send_and_detach(r, on_detached, h);
    return EO_OK;
}
