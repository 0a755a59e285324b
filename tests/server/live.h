/* One daemon for all tests of a program, and what they assert at the end of each: it answers, and no descriptor is
 * left. */
#ifndef EO_TESTS_SERVER_LIVE_H
#define EO_TESTS_SERVER_LIVE_H

#include "proto/base/clock.h"
#include "tests/support/daemon_fixture.h"
#include "tests/support/raw_client.h"
#include "tests/support/suite.h"

#include <poll.h>
#include <string.h>

static struct daemon_fixture d;
static struct eo_error err;

static inline void live_start(const char *const *args)
{
    memset(&err, 0, sizeof(err));
    ASSERT_OK(daemon_init(&d, &err));
    ASSERT_OK(daemon_start(&d, args, &err));
}

/* No more than n descriptors stay open once the daemon has noticed what was closed. */
static inline void live_expect_descriptors(int n)
{
    const uint64_t until = eo_now_ns() + (uint64_t)DAEMON_WAIT_MS * 1000000;
    int seen = daemon_descriptors(&d);
    while (seen > n && eo_now_ns() < until) {
        poll(NULL, 0, 1);
        seen = daemon_descriptors(&d);
    }
    ck_assert_int_le(seen, n);
}

static inline void live_stop(void)
{
    ASSERT_OK(daemon_stop(&d, &err));
    daemon_remove(&d);
}

static inline void live_ping(void)
{
    struct raw_client c;
    ASSERT_OK(raw_open(&c, &d.endpoint, &err));
    ASSERT_OK(raw_ping(&c, &err));
    raw_close(&c);
}

#endif
