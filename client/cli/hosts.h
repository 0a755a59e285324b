/* Which daemons a command talks to. */
#ifndef EO_CLIENT_CLI_HOSTS_H
#define EO_CLIENT_CLI_HOSTS_H

#include "client/cli/cli.h"
#include "client/lib/connection.h"
#include "client/lib/local_daemon.h"

enum { HOSTS_MAX = 64 };

struct hosts {
    struct eo_endpoint *endpoints; /* owned */
    size_t n;
    bool is_explicit; /* by -H or EVERYO_HOST: never replaced by anything else */
};

/* -H, else EVERYO_HOST, else 127.0.0.1:17743. */
int hosts_resolve(const struct cli *cli, struct hosts *out, struct eo_error *err);
void hosts_fini(struct hosts *h);

/* One daemon for a command, private if allowed. Close both with hosts_close. */
struct host_link {
    struct eo_connection *connection;
    struct eo_local_daemon *local;
};
enum hosts_private {
    HOSTS_NEVER_PRIVATE,  /* ping, ls, status, ...: never start a daemon */
    HOSTS_PRIVATE_IF_NONE /* run, demo, doctor: when no host is named and none runs here, or with --local */
};
int hosts_open(const struct cli *cli, const struct hosts *h, enum hosts_private policy, struct host_link *out,
               struct eo_error *err);
int hosts_open_one(const struct cli *cli, const struct eo_endpoint *ep, struct eo_connection **out,
                   struct eo_error *err);
void hosts_close(struct host_link *l);

#endif
