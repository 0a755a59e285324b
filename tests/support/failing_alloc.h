/* Allocations that fail on purpose: the nth one, then the next, until the work succeeds without a failure. Included by
 * one source of a test program, whose CMakeLists.txt calls eo_test_failing_alloc(NAME): the linker redirects the calls
 * of our own objects to these hooks, also under a sanitizer; those inside shared libraries stay as they are. */
#ifndef EO_TESTS_SUPPORT_FAILING_ALLOC_H
#define EO_TESTS_SUPPORT_FAILING_ALLOC_H

#include <check.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

static bool alloc_armed;
static bool alloc_has_failed;
static int alloc_calls_left; /* until the one that fails */

static bool alloc_fails_now(void)
{
    if (!alloc_armed || alloc_calls_left-- != 0) {
        return false;
    }
    alloc_has_failed = true;
    alloc_armed = false;
    errno = ENOMEM;
    return true;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);

void *__wrap_malloc(size_t size)
{
    return alloc_fails_now() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return alloc_fails_now() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
    return alloc_fails_now() ? NULL : __real_realloc(memory, size);
}

/* Assertions of libcheck allocate too: work that asserts calls this before the first of them. */
static inline bool alloc_disarm(void)
{
    alloc_armed = false;
    return alloc_has_failed;
}

/* Runs work with the first allocation failing, then the second, ... until nothing failed; returns how many failures
 * that took. work returns whether it succeeded; success although an allocation failed is an error of the test's
 * subject. */
static inline int alloc_exhaust(bool (*work)(void))
{
    for (int nth = 0; nth < 100000; nth++) {
        bool ok, failed;

        alloc_has_failed = false;
        alloc_calls_left = nth;
        alloc_armed = true;
        ok = work();
        failed = alloc_disarm();
        if (!failed) {
            ck_assert(ok);
            return nth;
        }
        ck_assert_msg(!ok, "allocation %d failed and nobody noticed", nth);
    }
    ck_abort_msg("no end of allocations");
}

#endif
