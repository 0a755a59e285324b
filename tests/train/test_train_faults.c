/* Every allocation of a short run fails once: each time an error, no leak, no crash, and no damaged checkpoint. */
#include "proto/base/file.h"
#include "tests/support/failing_alloc.h"
#include "tests/train/run.h"

#include <string.h>

static struct run run;

static bool train(void)
{
    const char *sets[] = {"device=reference", "train.epochs=1", "data.batch=64", NULL};

    return run_job(&run, run_blobs_job, sets, NULL) == EO_OK;
}

START_TEST(every_allocation_may_fail)
{
    struct eo_error err = {0};

    run_init(&run);
    run.device = "reference";
    run.resume = "auto";
    run_blobs(&run, 60);
    ck_assert_int_ge(alloc_exhaust(train), 100);
    ASSERT_OK(run_job(&run, run_blobs_job, (const char *[]){"data.batch=64", "train.epochs=2", NULL}, &err));
    ck_assert_int_eq(run.n_warnings, 0); /* no checkpoint was damaged */
    run_fini(&run);
}
END_TEST

EO_SUITE("train faults", every_allocation_may_fail)
