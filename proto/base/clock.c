#include "proto/base/clock.h"

#include <stdio.h>
#include <time.h>

uint64_t eo_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int64_t eo_wall_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

char *eo_rfc3339(int64_t wall_ms, char *out, size_t size)
{
    struct tm utc;
    int64_t millis = wall_ms % 1000;
    int64_t seconds = wall_ms / 1000;
    time_t when;
    size_t used;

    if (size == 0) {
        return out;
    }
    out[0] = '\0';
    if (millis < 0) { /* division rounds to zero, the calendar counts down */
        millis += 1000;
        seconds -= 1;
    }
    when = (time_t)seconds;
    if (gmtime_r(&when, &utc) == NULL) {
        return out;
    }
    used = strftime(out, size, "%Y-%m-%dT%H:%M:%S", &utc);
    if (used == 0) {
        out[0] = '\0';
        return out;
    }
    snprintf(out + used, size - used, ".%03dZ", (int)millis);
    return out;
}
