/* The one error type (design section 11).
 *
 * An eo_error is owned by the caller, usually on its stack, and never allocates: every text is a fixed buffer and
 * a cut text ends in "..." (field truncated is set). Functions that can fail return an int: 0 (EO_OK) or the code,
 * and take `struct eo_error *err` as their last argument; err may be NULL, is untouched on success and is
 * completely rewritten by EO_RAISE on failure.
 *
 * The first detector raises, callers only add context (eo_error_push), libraries never log. Text that came from
 * outside is quoted with eo_quote() first. Thread-safety: an eo_error belongs to one thread at a time. */
#ifndef EO_PROTO_BASE_ERROR_H
#define EO_PROTO_BASE_ERROR_H

#include "proto/base/compiler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum eo_code {
    EO_OK = 0,
#define EO_ERROR(name, number, exit_code, retryable, summary) EO_E_##name = (number),
#include "proto/tables/errors.def"
};

enum { EO_ERROR_INPUTS = 4, EO_ERROR_CAUSES = 3, EO_ERROR_CONTEXTS = 4, EO_ERROR_DIMS = 8 };

/* One operand of the failed operation. marked_dim is the offending dimension or -1. */
struct eo_error_input {
    char name[24];
    char dtype[12];
    uint8_t n_dims;
    int8_t marked_dim;
    int64_t shape[EO_ERROR_DIMS];
};

/* One link of the cause chain; source is "errno", "cuda", "cublas", "openssl", "sqlite", "peer", ... */
struct eo_error_cause {
    char source[12];
    int64_t code;
    char text[128];
};

struct eo_error {
    int code;          /* enum eo_code; 0 = no error */
    char message[320]; /* one line, lower case, no period; holds the values that were wrong */
    char detail[512];  /* full sentences: facts */
    char hint[320];    /* full sentences: what to do; empty when no advice can be right */
    char op[32];       /* operation, empty when none */
    char node[64];     /* node id and user label, e.g. `14 "hidden1"`, or the job file position */
    char backend[32];
    char device[32];
    char host[80]; /* host:port as the user typed it, for peer errors */
    int rank;      /* -1 = none */
    uint8_t n_inputs, n_causes, n_contexts;
    bool truncated;
    struct eo_error_input inputs[EO_ERROR_INPUTS];
    struct eo_error_cause causes[EO_ERROR_CAUSES];
    char contexts[EO_ERROR_CONTEXTS][128]; /* innermost first */
    const char *file;                      /* source position of the raise: log only, never sent */
    int line;
};

/* Fills *err (NULL allowed) and returns code, so that `return EO_RAISE(err, EO_E_BAD_HANDLE, "...", x);` works. */
#define EO_RAISE(err, code_, ...) eo_error_raise((err), (code_), __FILE__, __LINE__, __VA_ARGS__)
/* A fault of our own: fails the request, keeps the process, asks for a report. Never reachable by design. */
#define EO_BUG(err, ...) eo_error_bug((err), __FILE__, __LINE__, __VA_ARGS__)
/* Like EO_RAISE plus a cause {errno, strerror}. errno_ is saved by the caller. */
#define EO_RAISE_ERRNO(err, code_, errno_, ...)                                                                        \
    eo_error_raise_errno((err), (code_), (errno_), __FILE__, __LINE__, __VA_ARGS__)

#ifdef __clang_analyzer__
/* The static analyzer sees one file at a time: it has to be told that a raise never returns 0. */
#undef EO_RAISE
#undef EO_BUG
#undef EO_RAISE_ERRNO
#define EO_RAISE(err, code_, ...) (eo_error_raise((err), (code_), __FILE__, __LINE__, __VA_ARGS__) != 0 ? 1 : 2)
#define EO_BUG(err, ...) (eo_error_bug((err), __FILE__, __LINE__, __VA_ARGS__) != 0 ? 1 : 2)
#define EO_RAISE_ERRNO(err, code_, errno_, ...)                                                                        \
    (eo_error_raise_errno((err), (code_), (errno_), __FILE__, __LINE__, __VA_ARGS__) != 0 ? 1 : 2)
#endif

int eo_error_raise(struct eo_error *err, int code, const char *file, int line, const char *fmt, ...) EO_PRINTF(5, 6);
int eo_error_raise_errno(struct eo_error *err, int code, int errnum, const char *file, int line, const char *fmt, ...)
    EO_PRINTF(6, 7);
int eo_error_bug(struct eo_error *err, const char *file, int line, const char *fmt, ...) EO_PRINTF(4, 5);

/* Decorations; all accept err == NULL. */
void eo_error_clear(struct eo_error *err);
void eo_error_detail(struct eo_error *err, const char *fmt, ...) EO_PRINTF(2, 3);
void eo_error_hint(struct eo_error *err, const char *fmt, ...) EO_PRINTF(2, 3);
void eo_error_push(struct eo_error *err, const char *fmt, ...) EO_PRINTF(2, 3);
void eo_error_at_op(struct eo_error *err, const char *op, const char *node);
void eo_error_at_device(struct eo_error *err, const char *backend, const char *device);
void eo_error_at_host(struct eo_error *err, const char *host, int rank);
void eo_error_input(struct eo_error *err, const char *name, const char *dtype, const int64_t *shape, int n_dims,
                    int marked_dim);
void eo_error_cause(struct eo_error *err, const char *source, int64_t code, const char *text);

/* Facts of a code (errors.def). Unknown codes give "unknown error", exit code 70, not retryable. */
const char *eo_code_name(int code);    /* "SHAPE_MISMATCH" */
const char *eo_code_summary(int code); /* one line */
int eo_code_exit(int code);            /* sysexits-like exit code of a command that fails with it */
bool eo_code_retryable(int code);
int eo_code_count(void);
int eo_code_at(int index); /* index 0..count-1 -> code */

/* Renderings of the same struct (the msgpack map is eo_error_pack/eo_error_unpack in proto/error_codec.h).
 * Both write at most size bytes including the final NUL and return the length they wanted (snprintf style). */
size_t eo_error_text(const struct eo_error *err, bool color, char *out, size_t size); /* several lines */
size_t eo_error_json(const struct eo_error *err, char *out, size_t size);             /* one line; log form */

/* Copies at most 80 bytes of untrusted text with control and non-ASCII bytes escaped, in double quotes; returns out. */
char *eo_quote(const char *text, size_t length, char *out, size_t size);

#endif
