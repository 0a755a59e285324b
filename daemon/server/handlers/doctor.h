/* The report that doctor collects: checks come in from a file thread, a worker and peers; the last one answers. */
#ifndef EO_DAEMON_SERVER_HANDLERS_DOCTOR_H
#define EO_DAEMON_SERVER_HANDLERS_DOCTOR_H

#include "daemon/server/server.h"

enum check_status { CHECK_OK, CHECK_WARN, CHECK_FAIL, CHECK_SKIP };

struct doctor {
    struct request *request;
    int n_pending; /* parts that have not reported */
    uint32_t n_checks;
    struct eo_bytes checks; /* packed maps */
};

struct check {
    const char *name;
    enum check_status status;
    const char *backend, *peer; /* NULL = none */
    char what[200], why[400], fix[300];
};

void check_add(struct doctor *d, const struct check *c);
void check_say(char *out, size_t size, const char *fmt, ...) EO_PRINTF(3, 4);
void doctor_part_done(struct doctor *d); /* answers after the last part */
/* Asks peers in parallel; each one is a part. endpoints: a checked array of strings. */
int doctor_peers(struct doctor *d, const struct eo_item *endpoints, struct eo_error *err);
/* Facts of this host that need file access: runs on a file thread, writes into checks of its own. */
void doctor_host(const struct server *s, struct doctor *into);

#endif
