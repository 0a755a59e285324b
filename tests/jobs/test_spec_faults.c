/* Every allocation of spec_parse fails once: each time an error, never a leak or a crash. */
#include "daemon/jobs/spec.h"
#include "tests/support/failing_alloc.h"
#include "tests/support/suite.h"

#include <string.h>

static bool parse(void)
{
    static const char text[] = "model: [{sequential: [{linear: {in: 4, out: 3}}, relu]}, {linear: {in: 3, out: 2}}]\n"
                               "loss: cross_entropy\nmetrics: [accuracy]\noptimizer: adam\n"
                               "data: {train: {csv: a.csv}, validation: {split: 0.1}}\ntrain: {epochs: 1}\n";
    const char *sets[] = {"train.checkpoint.keep=3", "data.batch=7"};
    struct job_spec *spec;
    int status = spec_parse(text, sizeof(text) - 1, "a.yaml", sets, 2, &spec, NULL);

    if (status == EO_OK) {
        spec_free(spec);
    }
    return status == EO_OK;
}

START_TEST(every_allocation_may_fail)
{
    ck_assert_int_ge(alloc_exhaust(parse), 4);
}
END_TEST

EO_SUITE("spec faults", every_allocation_may_fail)
