/* libeveryo: talk to everyod from C. C99-clean and C++-safe.
 *
 * Model: a client is one connection with one session. Calls are synchronous; those that return nothing of interest
 * (create, run, free) are pipelined: they return as soon as the request is queued. A call that fails later poisons its
 * outputs: reading one, or anything computed from it, returns the first cause, and so does the next everyo_sync.
 *
 * Ownership: what a _new, _create or _connect function made is freed by the matching _free or _close, NULL allowed.
 * Strings returned by accessors live as long as their object. Out-arguments are untouched on failure. Thread-safety:
 * one everyo_client (and what was made from it) belongs to one thread at a time; different clients are independent.
 * After fork the child must not use the parent's clients: calls in it fail with 1008, everyo_close is allowed.
 *
 * Every function that can fail returns 0 or a positive error number (docs/errors; `everyo explain 2001`), and fills
 * *err when err is not NULL. */
#ifndef EVERYO_EVERYO_H
#define EVERYO_EVERYO_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EVERYO_VERSION_MAJOR 0
#define EVERYO_VERSION_MINOR 1
#define EVERYO_VERSION_PATCH 0

#if defined(__GNUC__)
#define EVERYO_API __attribute__((visibility("default")))
#else
#define EVERYO_API
#endif

typedef struct everyo_client everyo_client;
typedef struct everyo_graph everyo_graph;
typedef struct everyo_plan everyo_plan;

/* A failure, owned by the caller, no need to free. */
typedef struct everyo_error {
    int code;          /* 2001; 0 = none */
    int exit_code;     /* sysexits-like */
    char message[320]; /* one line */
    char hint[320];    /* what to do; may be empty */
    char text[3072];   /* the whole report as `everyo` prints it */
} everyo_error;

/* A tensor on the daemon: a value, cheap to copy. id 0 is no tensor. */
typedef struct everyo_tensor {
    uint64_t id;
    int dtype; /* enum everyo_dtype */
    int n_dims;
    int64_t shape[8];
} everyo_tensor;

enum everyo_dtype {
    EVERYO_FLOAT32 = 1,
    EVERYO_FLOAT64 = 2,
    EVERYO_FLOAT16 = 3,
    EVERYO_BFLOAT16 = 4,
    EVERYO_INT8 = 5,
    EVERYO_INT16 = 6,
    EVERYO_INT32 = 7,
    EVERYO_INT64 = 8,
    EVERYO_UINT8 = 9,
    EVERYO_UINT16 = 10,
    EVERYO_UINT32 = 11,
    EVERYO_UINT64 = 12,
    EVERYO_BOOL = 13
};

EVERYO_API const char *everyo_version(void);
EVERYO_API size_t everyo_dtype_size(int dtype);      /* 0 when unknown */
EVERYO_API const char *everyo_dtype_name(int dtype); /* "float32" */
EVERYO_API uint64_t everyo_tensor_bytes(const everyo_tensor *t);

/* host: `host`, `host:port`, `[v6]:port`, `unix:PATH`, a path-less "local:" starts a private daemon that dies with the
 * client; NULL takes EVERYO_HOST, else 127.0.0.1:17743. timeout_ms 0 = 5000. */
EVERYO_API int everyo_connect(const char *host, int timeout_ms, everyo_client **out, everyo_error *err);
EVERYO_API void everyo_close(everyo_client *c);
EVERYO_API int everyo_ping(everyo_client *c, double *out_rtt_us, everyo_error *err);
EVERYO_API int everyo_sync(everyo_client *c, everyo_error *err); /* waits for all queued calls; first error */

/* Tensors. shape has n_dims entries (0..8); data is C order, little-endian. device NULL = the daemon's default. */
EVERYO_API int everyo_tensor_create(everyo_client *c, int dtype, const int64_t *shape, int n_dims, const void *data,
                                    const char *device, everyo_tensor *out, everyo_error *err);
EVERYO_API int everyo_tensor_fill(everyo_client *c, int dtype, const int64_t *shape, int n_dims, double value,
                                  const char *device, everyo_tensor *out, everyo_error *err);
EVERYO_API int everyo_tensor_read(everyo_client *c, const everyo_tensor *t, void *out, size_t size, everyo_error *err);
EVERYO_API int everyo_tensor_free(everyo_client *c, const everyo_tensor *t, everyo_error *err);

/* One operation by name (docs/reference/ops.md). attrs: "axis=1, keepdims=true, shape=[2,3]" or NULL. Shapes and dtypes
 * are inferred and checked here before anything is sent. Operations whose result's shape depends on data (nonzero,
 * compress) wait for the daemon's answer, and a failure is reported at once; all others are pipelined. */
EVERYO_API int everyo_op(everyo_client *c, const char *op, const char *attrs, const everyo_tensor *inputs, int n_inputs,
                         everyo_tensor *outputs, int n_outputs, everyo_error *err);
EVERYO_API int everyo_matmul(everyo_client *c, const everyo_tensor *a, const everyo_tensor *b, everyo_tensor *out,
                             everyo_error *err);

/* Graphs: define once, run many times. Values are numbers of the graph; the first error sticks until
 * everyo_plan_create. */
typedef uint32_t everyo_value;
EVERYO_API everyo_graph *everyo_graph_new(void);
EVERYO_API void everyo_graph_free(everyo_graph *g);
EVERYO_API everyo_value everyo_graph_input(everyo_graph *g, const char *name, int dtype, const int64_t *shape,
                                           int n_dims);
/* The value of the op's first output. */
EVERYO_API everyo_value everyo_graph_op(everyo_graph *g, const char *op, const char *attrs, const everyo_value *inputs,
                                        int n_inputs);
EVERYO_API void everyo_graph_output(everyo_graph *g, const char *name, everyo_value value);
/* Adds outputs as_prefix + wrt[i] with d of / d wrt[i]; `of` names an output with one element. */
EVERYO_API void everyo_graph_gradient(everyo_graph *g, const char *of, const char *const *wrt, int n_wrt,
                                      const char *as_prefix);
EVERYO_API int everyo_plan_create(everyo_client *c, const everyo_graph *g, const char *device, everyo_plan **out,
                                  everyo_error *err);
EVERYO_API void everyo_plan_free(everyo_plan *p); /* before its client is closed */
/* feeds by name; outputs by name receive new tensors. */
EVERYO_API int everyo_plan_run(everyo_plan *p, const char *const *feed_names, const everyo_tensor *feeds, int n_feeds,
                               const char *const *fetch_names, everyo_tensor *fetches, int n_fetches,
                               everyo_error *err);

#ifdef __cplusplus
}
#endif

#endif
