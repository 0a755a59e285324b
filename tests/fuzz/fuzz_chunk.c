/* Everything a peer can put on a data socket. The first byte picks the collective, the rest is what the peer has sent
 * before it closed. Rank 0 of two then runs that collective three times: each ends with its result or an error, never
 * at its deadline, because the stream has an end. */
#include "distributed/engines/engines.h"
#include "distributed/engines/tcp.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { COUNT = 100, INPUT_MAX = 64 << 10 };

static const struct {
    struct tcp_tuning tuning;
    enum collective_kind kind;
} setups[] = {
    {{256 << 10, 16 << 10, true}, COLLECTIVE_ALL_REDUCE}, /* direct, one chunk */
    {{64, 1 << 20, true}, COLLECTIVE_ALL_REDUCE},         /* direct, a ring of slots */
    {{64, 0, false}, COLLECTIVE_ALL_REDUCE},              /* slices: inputs and results */
    {{64, 16 << 10, true}, COLLECTIVE_BROADCAST},         /* from rank 1 */
    {{64, 16 << 10, true}, COLLECTIVE_BARRIER},
};

static void promise(bool holds)
{
    if (!holds) {
        __builtin_trap();
    }
}

static int run(struct collective_comm *c, enum collective_kind kind, struct eo_error *err)
{
    const struct collective_engine *e = collective_engine_find("tcp");
    float data[COUNT] = {0};

    switch (kind) {
    case COLLECTIVE_ALL_REDUCE:
        return e->all_reduce(c, data, COUNT, EO_FLOAT32, COLLECTIVE_SUM, err);
    case COLLECTIVE_BROADCAST:
        return e->broadcast(c, data, sizeof(data), 1, err);
    default:
        return e->barrier(c, err);
    }
}

static void fill_socket(int fd, const uint8_t *data, size_t size)
{
    while (size > 0) {
        ssize_t n = send(fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n <= 0) {
            break;
        }
        data += n;
        size -= (size_t)n;
    }
    shutdown(fd, SHUT_WR);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct collective_config config = {.world_size = 2, .deadline_ms = 5000, .hosts = {"a:1", "b:2"}};
    struct collective_comm *c;
    struct eo_error err;
    int pair[2], fds[2];
    size_t setup = size > 0 ? data[0] % EO_COUNT_OF(setups) : 0;
    int code = EO_OK;

    if (size == 0 || size > INPUT_MAX || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) {
        return 0;
    }
    fill_socket(pair[1], data + 1, size - 1);
    fds[0] = -1;
    fds[1] = pair[0];
    promise(tcp_open_tuned(&config, fds, &setups[setup].tuning, &c, &err) == EO_OK);
    for (int i = 0; i < 3 && code == EO_OK; i++) {
        code = run(c, setups[setup].kind, &err);
        /* What the peer reported may be anything; what we found ourselves has no context. */
        promise(code == EO_OK || err.code == code);
        promise(code == EO_OK || err.n_contexts > 0 || code == EO_E_PEER_LOST || code == EO_E_BAD_FRAME ||
                code == EO_E_COLLECTIVE_MISMATCH);
    }
    tcp_close(c);
    close(pair[1]);
    return 0;
}
