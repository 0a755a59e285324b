/* Where connections come from: connecting by name with a deadline, and listening sockets. */
#include "proto/base/clock.h"
#include "proto/base/text.h"
#include "proto/channel.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum { MAX_ATTEMPTS = 16, MAX_REASONS = EO_ERROR_CAUSES, BACKLOG = 128 };
static const uint64_t stagger_ns = 250000000u; /* RFC 8305, section 5 */

/* ---- reports ---- */

static const char *advice_for(int errnum)
{
    switch (errnum) {
    case ECONNREFUSED:
        return "Nothing listens there. Start everyod on that host, or check the port.";
    case ENOENT:
        return "There is no such socket. Start everyod with --listen unix:PATH, or check the path.";
    case EACCES:
    case EPERM:
        return "The socket belongs to another user, or a firewall forbids the connection.";
    case EHOSTUNREACH:
    case ENETUNREACH:
        return "Check the address of the host and the network between.";
    default:
        return "";
    }
}

static int unreachable(const struct eo_endpoint *ep, int errnum, struct eo_error *err)
{
    char reason[96];

    EO_RAISE(err, EO_E_UNREACHABLE, "could not reach %s: %s", ep->text, strerror_r(errnum, reason, sizeof(reason)));
    eo_error_at_host(err, ep->text, -1);
    eo_error_hint(err, "%s", advice_for(errnum));
    return EO_E_UNREACHABLE;
}

static int connect_late(const struct eo_endpoint *ep, struct eo_error *err)
{
    EO_RAISE(err, EO_E_TIMED_OUT, "connecting to %s did not finish in time", ep->text);
    eo_error_at_host(err, ep->text, -1);
    eo_error_hint(err, "The host may be down, or a firewall drops the packets without an answer.");
    return EO_E_TIMED_OUT;
}

static int resolve(const struct eo_endpoint *ep, int flags, struct addrinfo **out, struct eo_error *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | flags};
    char port[8];
    int failed;

    snprintf(port, sizeof(port), "%u", (unsigned)ep->port);
    failed = getaddrinfo(ep->host, port, &hints, out);
    if (failed == 0) {
        return EO_OK;
    }
    if (failed == EAI_MEMORY) {
        return EO_RAISE(err, EO_E_NO_MEMORY, "no memory to look up %s", ep->text);
    }
    EO_RAISE(err, EO_E_UNREACHABLE, "could not find an address for %s: %s", ep->text, gai_strerror(failed));
    eo_error_at_host(err, ep->text, -1);
    eo_error_cause(err, "resolver", failed, gai_strerror(failed));
    if (failed == EAI_NONAME) {
        eo_error_hint(err, "Check the spelling of the host name, or give its address.");
    }
    return EO_E_UNREACHABLE;
}

/* ---- connecting: the addresses of a name race, each starting 250 ms after the one before or when that one failed ----
 */

struct race {
    const struct addrinfo *next;
    uint64_t next_start_ns;
    struct pollfd open[MAX_ATTEMPTS];
    const struct addrinfo *to[MAX_ATTEMPTS]; /* where each of them goes */
    int n_open;
    int winner; /* fd, or -1 */
    int reasons[MAX_REASONS];
    char addresses[MAX_REASONS][64];
    int n_reasons;
};

static void race_lost(struct race *r, int fd, int errnum, const struct addrinfo *to)
{
    if (fd >= 0) {
        close(fd);
    }
    if (r->n_reasons < MAX_REASONS) {
        r->reasons[r->n_reasons] = errnum;
        eo_sockaddr_text(to->ai_addr, to->ai_addrlen, r->addresses[r->n_reasons], sizeof(r->addresses[0]));
        r->n_reasons++;
    }
    r->next_start_ns = 0; /* nothing to wait for: the next address starts at once */
}

/* On loopback a client may be given the very port it connects to and then be connected to itself (simultaneous open).
 * Nobody listens there. */
static bool is_self_connected(int fd)
{
    struct sockaddr_storage own = {0}, peer = {0};
    socklen_t own_length = sizeof(own), peer_length = sizeof(peer);

    return getsockname(fd, (struct sockaddr *)&own, &own_length) == 0 &&
           getpeername(fd, (struct sockaddr *)&peer, &peer_length) == 0 && own_length == peer_length &&
           memcmp(&own, &peer, own_length) == 0;
}

static void race_start(struct race *r)
{
    const struct addrinfo *ai = r->next;
    int fd = socket(ai->ai_family, ai->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, ai->ai_protocol);

    r->next = ai->ai_next;
    r->next_start_ns = eo_now_ns() + stagger_ns;
    if (fd < 0) {
        race_lost(r, -1, errno, ai);
    } else if (connect(fd, ai->ai_addr, ai->ai_addrlen) == 0 || errno == EINPROGRESS) {
        r->to[r->n_open] = ai;
        r->open[r->n_open++] = (struct pollfd){.fd = fd, .events = POLLOUT};
    } else {
        race_lost(r, fd, errno, ai);
    }
}

static void race_settle(struct race *r, int index)
{
    int fd = r->open[index].fd;
    int errnum = 0;
    socklen_t size = sizeof(errnum);
    const struct addrinfo *to = r->to[index];

    r->n_open--;
    r->open[index] = r->open[r->n_open];
    r->to[index] = r->to[r->n_open];
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &errnum, &size) != 0) {
        errnum = errno;
    }
    if (errnum == 0 && is_self_connected(fd)) {
        errnum = ECONNREFUSED;
    }
    if (errnum == 0) {
        r->winner = fd;
        return;
    }
    race_lost(r, fd, errnum, to);
}

/* Milliseconds until the earlier of deadline and next start; -1 when neither is set. */
static int race_timeout(const struct race *r, uint64_t deadline_ns)
{
    uint64_t now = eo_now_ns();
    uint64_t until = deadline_ns == 0 ? UINT64_MAX : deadline_ns;

    if (r->next != NULL && r->n_open < MAX_ATTEMPTS) {
        until = EO_MIN(until, r->next_start_ns);
    }
    if (until == UINT64_MAX) {
        return -1;
    }
    return until <= now ? 0 : (int)EO_MIN((until - now + 999999) / 1000000, (uint64_t)1000000);
}

static int race_run(struct race *r, uint64_t deadline_ns)
{
    while (r->winner < 0) {
        if (r->next != NULL && r->n_open < MAX_ATTEMPTS && (r->n_open == 0 || eo_now_ns() >= r->next_start_ns)) {
            race_start(r);
            continue;
        }
        if (r->n_open == 0) {
            return EO_E_UNREACHABLE;
        }
        if (poll(r->open, (nfds_t)r->n_open, race_timeout(r, deadline_ns)) > 0) {
            /* Backwards, because settling moves the last entry into the gap. */
            for (int i = r->n_open - 1; i >= 0 && r->winner < 0; i--) {
                if (r->open[i].revents != 0) {
                    race_settle(r, i);
                }
            }
        } else if (deadline_ns != 0 && eo_now_ns() >= deadline_ns) {
            return EO_E_TIMED_OUT;
        }
    }
    return EO_OK;
}

static int connect_tcp(const struct eo_endpoint *ep, uint64_t deadline_ns, int *out_fd, struct eo_error *err)
{
    struct race r = {.winner = -1};
    struct addrinfo *list = NULL;
    int code = ep->port == 0 ? EO_RAISE(err, EO_E_BAD_ENDPOINT, "cannot connect to port 0 of %s", ep->text)
                             : resolve(ep, 0, &list, err);

    if (code != EO_OK) {
        return code;
    }
    r.next = list;
    code = race_run(&r, deadline_ns);
    freeaddrinfo(list);
    for (int i = 0; i < r.n_open; i++) {
        close(r.open[i].fd);
    }
    if (code == EO_E_TIMED_OUT) {
        return connect_late(ep, err);
    }
    if (code != EO_OK) {
        unreachable(ep, r.n_reasons > 0 ? r.reasons[0] : EHOSTUNREACH, err);
        for (int i = 0; i < r.n_reasons; i++) {
            char text[128];
            char reason[64];

            snprintf(text, sizeof(text), "%s: %s", r.addresses[i], strerror_r(r.reasons[i], reason, sizeof(reason)));
            eo_error_cause(err, "errno", r.reasons[i], text);
        }
        return EO_E_UNREACHABLE;
    }
    *out_fd = r.winner;
    return EO_OK;
}

static bool unix_address(const struct eo_endpoint *ep, struct sockaddr_un *out)
{
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    return eo_copy_text(out->sun_path, sizeof(out->sun_path), ep->host);
}

/* A full backlog blocks the connect of a unix socket; SO_SNDTIMEO is what bounds it. */
static int connect_unix(const struct eo_endpoint *ep, uint64_t deadline_ns, int *out_fd, struct eo_error *err)
{
    uint64_t now = eo_now_ns();
    uint64_t left_ns = deadline_ns > now ? deadline_ns - now : 1000;
    struct timeval limit = {.tv_sec = (time_t)(left_ns / 1000000000u),
                            .tv_usec = (suseconds_t)(left_ns % 1000000000u / 1000u)};
    struct sockaddr_un un;
    int failed;
    int fd;

    if (!unix_address(ep, &un)) {
        return unreachable(ep, ENAMETOOLONG, err);
    }
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return unreachable(ep, errno, err);
    }
    if (deadline_ns != 0) {
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    }
    do {
        failed = connect(fd, (struct sockaddr *)&un, sizeof(un)) == 0 ? 0 : errno;
    } while (failed == EINTR);
    if (failed == 0) {
        *out_fd = fd;
        return EO_OK;
    }
    close(fd);
    return failed == EAGAIN ? connect_late(ep, err) : unreachable(ep, failed, err);
}

int eo_channel_connect(struct eo_channel *c, const struct eo_endpoint *ep, uint64_t deadline_ns, struct eo_error *err)
{
    int fd = -1;
    int code;

    *c = (struct eo_channel){.fd = -1};
    code = ep->is_unix ? connect_unix(ep, deadline_ns, &fd, err) : connect_tcp(ep, deadline_ns, &fd, err);
    if (code == EO_OK) {
        code = eo_channel_init(c, fd, err);
    }
    if (code == EO_OK) {
        eo_copy_text(c->peer, sizeof(c->peer), ep->text); /* as the user typed it */
    }
    return code;
}

/* ---- listening ---- */

static int in_use(const struct eo_endpoint *ep, struct eo_error *err)
{
    EO_RAISE_ERRNO(err, EO_E_ADDRESS_IN_USE, EADDRINUSE, "cannot listen on %s: something listens there already",
                   ep->text);
    eo_error_hint(err, "Another everyod may be running (everyo -H %s ping); choose another address with --listen.",
                  ep->text);
    return EO_E_ADDRESS_IN_USE;
}

static int cannot_listen(const struct eo_endpoint *ep, int errnum, struct eo_error *err)
{
    char reason[96];

    if (errnum == EADDRINUSE) {
        return in_use(ep, err);
    }
    EO_RAISE_ERRNO(err, EO_E_CANNOT_CREATE, errnum, "cannot listen on %s: %s", ep->text,
                   strerror_r(errnum, reason, sizeof(reason)));
    if (errnum == EADDRNOTAVAIL) {
        eo_error_hint(err, "The address belongs to no interface of this host.");
    } else if (errnum == EACCES && !ep->is_unix) {
        eo_error_hint(err, "Ports below 1024 are reserved; choose a higher one.");
    }
    return EO_E_CANNOT_CREATE;
}

static uint16_t port_of(int fd)
{
    struct sockaddr_storage address = {0};
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    socklen_t length = sizeof(address);

    if (getsockname(fd, (struct sockaddr *)&address, &length) != 0) {
        return 0;
    }
    if (address.ss_family == AF_INET6) {
        memcpy(&v6, &address, sizeof(v6));
        return ntohs(v6.sin6_port);
    }
    memcpy(&v4, &address, sizeof(v4));
    return ntohs(v4.sin_port);
}

static int listen_tcp(const struct eo_endpoint *ep, int *out_fd, uint16_t *out_port, struct eo_error *err)
{
    struct addrinfo *list = NULL;
    int code = resolve(ep, AI_PASSIVE, &list, err);
    int one = 1;
    int failed;
    int fd;

    if (code != EO_OK) {
        return code;
    }
    fd = socket(list->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    failed = fd < 0 ? errno : 0;
    if (failed == 0) {
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
        if (list->ai_family == AF_INET6) { /* exactly the address given: [::] does not take IPv4 along */
            setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
        }
        if (bind(fd, list->ai_addr, list->ai_addrlen) != 0 || listen(fd, BACKLOG) != 0) {
            failed = errno;
            close(fd);
        }
    }
    freeaddrinfo(list);
    if (failed != 0) {
        return cannot_listen(ep, failed, err);
    }
    *out_fd = fd;
    *out_port = port_of(fd);
    return EO_OK;
}

/* A socket file that nobody listens on: left behind by a process that ended without cleaning up. */
static bool is_stale(const struct sockaddr_un *un)
{
    struct stat st;
    bool refused;
    int fd;

    if (lstat(un->sun_path, &st) != 0 || !S_ISSOCK(st.st_mode)) {
        return false;
    }
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return false;
    }
    refused = connect(fd, (const struct sockaddr *)un, sizeof(*un)) != 0 && errno == ECONNREFUSED;
    close(fd);
    return refused;
}

static int listen_unix(const struct eo_endpoint *ep, int *out_fd, uint16_t *out_port, struct eo_error *err)
{
    struct sockaddr_un un;
    int failed = 0;
    int fd;

    if (!unix_address(ep, &un)) {
        return cannot_listen(ep, ENAMETOOLONG, err);
    }
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return cannot_listen(ep, errno, err);
    }
    if (bind(fd, (struct sockaddr *)&un, sizeof(un)) != 0) {
        failed = errno;
        if (failed == EADDRINUSE && is_stale(&un)) {
            unlink(un.sun_path);
            failed = bind(fd, (struct sockaddr *)&un, sizeof(un)) == 0 ? 0 : errno;
        }
    }
    /* The mode is set before listen(): until then every connect is refused, so nobody slips in under the umask's mode.
     */
    if (failed == 0 && (chmod(un.sun_path, 0600) != 0 || listen(fd, BACKLOG) != 0)) {
        failed = errno;
        unlink(un.sun_path);
    }
    if (failed != 0) {
        close(fd);
        return cannot_listen(ep, failed, err);
    }
    *out_fd = fd;
    *out_port = 0;
    return EO_OK;
}

int eo_listen(const struct eo_endpoint *ep, int *out_fd, uint16_t *out_port, struct eo_error *err)
{
    return ep->is_unix ? listen_unix(ep, out_fd, out_port, err) : listen_tcp(ep, out_fd, out_port, err);
}
