#include "daemon/server/notify.h"

#include "proto/base/text.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static struct {
    struct sockaddr_un address;
    socklen_t length;
    int fd;
    uint64_t watchdog_ms;
} notify = {.fd = -1};

static uint64_t read_watchdog(void)
{
    const char *usec = getenv("WATCHDOG_USEC");
    const char *pid = getenv("WATCHDOG_PID");
    int64_t value = 0, owner = 0;
    if (!usec || !eo_parse_i64(usec, &value) || value <= 0) {
        return 0;
    }
    if (pid && (!eo_parse_i64(pid, &owner) || owner != getpid())) {
        return 0;
    }
    return (uint64_t)EO_MAX(value / 1000 / 2, 1); /* twice per interval, as sd_watchdog_enabled(3) advises */
}

void notify_init(void)
{
    const char *path = getenv("NOTIFY_SOCKET");
    notify.watchdog_ms = read_watchdog();
    size_t n = path ? strlen(path) : 0;
    if (n > 1 && n < sizeof(notify.address.sun_path) && (path[0] == '/' || path[0] == '@')) {
        notify.address.sun_family = AF_UNIX;
        memcpy(notify.address.sun_path, path, n + 1);
        if (path[0] == '@') { /* abstract: the name begins with NUL and has no end mark */
            notify.address.sun_path[0] = '\0';
        }
        notify.length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + (path[0] == '@' ? 0 : 1));
        notify.fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    }
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
}

void notify_fini(void)
{
    if (notify.fd >= 0) {
        close(notify.fd);
        notify.fd = -1;
    }
}

bool notify_active(void)
{
    return notify.fd >= 0;
}

void notify_send(const char *text)
{
    if (notify.fd >= 0) {
        (void)sendto(notify.fd, text, strlen(text), MSG_NOSIGNAL, (const struct sockaddr *)&notify.address,
                     notify.length);
    }
}

uint64_t notify_watchdog_ms(void)
{
    return notify.fd >= 0 ? notify.watchdog_ms : 0;
}
