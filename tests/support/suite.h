/* What every libcheck program needs: main() for a list of tests, and assertions on eo_error. A failed assertion shows
 * the report. Running without forking (CK_FORK=no, set by eo_test) keeps sanitizers and debuggers useful. */
#ifndef EO_TESTS_SUPPORT_SUITE_H
#define EO_TESTS_SUPPORT_SUITE_H

#include "proto/base/error.h"

#include <check.h>
#include <stdlib.h>

static inline int eo_suite_run(const char *name, const TTest *const *tests, size_t n)
{
    Suite *suite = suite_create(name);
    SRunner *runner = srunner_create(suite);
    int failed;

    for (size_t i = 0; i < n; i++) {
        TCase *tcase = tcase_create(tests[i]->name);

        tcase_set_timeout(tcase, 60);
        tcase_add_test(tcase, tests[i]);
        suite_add_tcase(suite, tcase);
    }
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* EO_SUITE("arena", test_a, test_b) defines main. */
#define EO_SUITE(name, ...)                                                                                            \
    int main(void)                                                                                                     \
    {                                                                                                                  \
        const TTest *const tests[] = {__VA_ARGS__};                                                                    \
                                                                                                                       \
        return eo_suite_run((name), tests, EO_COUNT_OF(tests));                                                        \
    }

/* The call, whose last argument is &err, succeeds. */
#define ASSERT_OK(call)                                                                                                \
    do {                                                                                                               \
        int code_ = (call);                                                                                            \
        char text_[2048];                                                                                              \
                                                                                                                       \
        if (code_ != EO_OK) {                                                                                          \
            eo_error_text(&err, false, text_, sizeof(text_));                                                          \
            ck_abort_msg("%s\n%s", #call, text_);                                                                      \
        }                                                                                                              \
    } while (0)

/* The call fails with this code, returns it and fills err with a message. */
#define ASSERT_CODE(call, wanted)                                                                                      \
    do {                                                                                                               \
        ck_assert_int_eq((call), (wanted));                                                                            \
        ck_assert_int_eq(err.code, (wanted));                                                                          \
        ck_assert(err.message[0] != '\0');                                                                             \
    } while (0)

#define ASSERT_CONTAINS(text, part)                                                                                    \
    ck_assert_msg(strstr((text), (part)) != NULL, "\"%s\" does not contain \"%s\"", (text), (part))

#endif
