/* What systemd wants to hear (sd_notify protocol), spoken directly: READY, RELOADING, STOPPING, WATCHDOG. Does nothing
 * when NOTIFY_SOCKET is not set. */
#ifndef EO_DAEMON_SERVER_NOTIFY_H
#define EO_DAEMON_SERVER_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>

/* Takes NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID out of the environment, so that workers do not speak for us. */
void notify_init(void);
void notify_fini(void);
bool notify_active(void);
void notify_send(const char *text); /* "READY=1\nSTATUS=..."; never blocks, errors do not matter */
uint64_t notify_watchdog_ms(void);  /* how often WATCHDOG=1 is wanted; 0 = not */

#endif
