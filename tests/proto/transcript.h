/* Golden transcripts of the protocol: what a client and a daemon of version 1 say to each other, byte by byte.
 *
 * tests/vectors/protocol-1/NAME.txt holds the bytes for ever; transcripts.c says the same with today's encoder. A file
 * is text: `#` starts a comment, `> label` a frame of the client, `< label` one of the daemon, indented hex digits are
 * its bytes. */
#ifndef EO_TESTS_PROTO_TRANSCRIPT_H
#define EO_TESTS_PROTO_TRANSCRIPT_H

#include "proto/codec.h"
#include "proto/frame.h"

enum { TRANSCRIPT_MAX = 16 };

struct transcript_frame {
    char direction; /* '>' or '<' */
    char label[64];
    struct eo_bytes bytes; /* header, envelope, payload */
};

struct transcript {
    struct transcript_frame frames[TRANSCRIPT_MAX];
    int n;
    struct eo_bytes envelope; /* of the frame being made */
};

struct transcript_case {
    const char *name;
    const char *about;
    void (*make)(struct transcript *t);
    bool replays; /* a real daemon gives the same answers, when all such cases run in the order of the table */
};
extern const struct transcript_case transcript_cases[];
extern const int transcript_n_cases;

void transcript_init(struct transcript *t);
void transcript_fini(struct transcript *t);
bool transcript_read(struct transcript *t, const char *path, struct eo_error *err); /* inits t */
/* The parts of a frame; false when it is none. The doc lives until eo_doc_fini, payload as long as the frame. */
bool transcript_split(const struct transcript_frame *f, struct eo_doc *doc, struct eo_envelope *out,
                      const uint8_t **payload, size_t *payload_size, struct eo_error *err);

#endif
