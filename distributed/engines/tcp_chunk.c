#include "distributed/engines/tcp_chunk.h"

#include "proto/base/compiler.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const uint8_t magic[4] = {'E', 'O', 'C', 'H'};
static const char *const kind_names[] = {"all_reduce", "broadcast", "barrier"};
static const char *const reduce_names[] = {"sum", "min", "max"};

static void put(uint8_t *out, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++) {
        out[i] = (uint8_t)(value >> (8 * i));
    }
}

static uint64_t get(const uint8_t *in, int bytes)
{
    uint64_t value = 0;

    for (int i = 0; i < bytes; i++) {
        value |= (uint64_t)in[i] << (8 * i);
    }
    return value;
}

void tcp_chunk_encode(const struct tcp_chunk *chunk, uint8_t out[TCP_CHUNK_HEADER])
{
    memcpy(out, magic, sizeof(magic));
    out[4] = chunk->type;
    out[5] = chunk->print.kind;
    out[6] = chunk->print.reduce;
    out[7] = chunk->print.dtype;
    put(out + 8, chunk->print.epoch, 8);
    put(out + 16, chunk->print.seq, 8);
    put(out + 24, chunk->print.count, 8);
    put(out + 32, chunk->offset, 8);
    put(out + 40, chunk->length, 4);
    out[44] = chunk->phase;
    out[45] = chunk->print.root;
    put(out + 46, 0, 2);
}

static const char *fault_of(const uint8_t in[TCP_CHUNK_HEADER], const struct tcp_chunk *chunk)
{
    uint32_t limit = chunk->type == TCP_CHUNK_DATA    ? TCP_CHUNK_MAX
                     : chunk->type == TCP_CHUNK_ABORT ? TCP_CHUNK_ABORT_MAX
                                                      : 0;

    if (memcmp(in, magic, sizeof(magic)) != 0) {
        return "the magic is wrong";
    }
    if (chunk->type == 0 || chunk->type >= TCP_CHUNK_TYPES) {
        return "the chunk type is unknown";
    }
    if (chunk->print.kind >= EO_COUNT_OF(kind_names)) {
        return "the kind of collective is unknown";
    }
    if (chunk->print.reduce >= EO_COUNT_OF(reduce_names)) {
        return "the reduction is unknown";
    }
    if (chunk->print.dtype != EO_DTYPE_NONE && !eo_dtype_valid(chunk->print.dtype)) {
        return "the dtype is unknown";
    }
    if (chunk->print.root >= COLLECTIVE_MAX_RANKS) {
        return "the root is no rank";
    }
    if (chunk->phase >= TCP_PHASES) {
        return "the phase is unknown";
    }
    if (get(in + 46, 2) != 0) {
        return "reserved bits are set";
    }
    if (chunk->length > limit) {
        return "the payload is longer than its limit";
    }
    if (chunk->type == TCP_CHUNK_DATA && (chunk->phase == TCP_PHASE_OPEN) != (chunk->length == 0)) {
        return "payload and phase do not fit together";
    }
    return NULL;
}

bool tcp_chunk_decode(const uint8_t in[TCP_CHUNK_HEADER], struct tcp_chunk *out, const char **why)
{
    *out = (struct tcp_chunk){
        .type = in[4],
        .phase = in[44],
        .length = (uint32_t)get(in + 40, 4),
        .offset = get(in + 32, 8),
        .print = {.epoch = get(in + 8, 8),
                  .seq = get(in + 16, 8),
                  .count = get(in + 24, 8),
                  .kind = in[5],
                  .reduce = in[6],
                  .dtype = in[7],
                  .root = in[45]},
    };
    *why = fault_of(in, out);
    return *why == NULL;
}

bool tcp_fingerprint_equal(const struct tcp_fingerprint *a, const struct tcp_fingerprint *b)
{
    return a->epoch == b->epoch && a->seq == b->seq && a->count == b->count && a->kind == b->kind &&
           a->reduce == b->reduce && a->dtype == b->dtype && a->root == b->root;
}

char *tcp_fingerprint_text(const struct tcp_fingerprint *print, char *out, size_t size)
{
    const char *kind = print->kind < EO_COUNT_OF(kind_names) ? kind_names[print->kind] : "?";
    const char *reduce = print->reduce < EO_COUNT_OF(reduce_names) ? reduce_names[print->reduce] : "?";
    char what[64] = "";

    if (print->kind == COLLECTIVE_ALL_REDUCE) {
        snprintf(what, sizeof(what), " (%s of %" PRIu64 " %s)", reduce, print->count,
                 eo_dtype_name((enum eo_dtype)print->dtype));
    } else if (print->kind == COLLECTIVE_BROADCAST) {
        snprintf(what, sizeof(what), " (%" PRIu64 " bytes from rank %u)", print->count, (unsigned)print->root);
    }
    snprintf(out, size, "%s %" PRIu64 " of epoch %" PRIu64 "%s", kind, print->seq, print->epoch, what);
    return out;
}
