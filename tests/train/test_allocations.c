/* After warm-up a training step allocates nothing on the heap: every way into malloc is counted here. */
#include "backends/registry.h"
#include "daemon/train/data.h"
#include "daemon/train/step.h"
#include "tests/nn/models.h"
#include "tests/support/suite.h"
#include "tests/train/run.h"

#include <malloc.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

static struct eo_error err;

/* ---- counting ---- */

static _Atomic bool counting;
static _Atomic int n_calls;

/* glibc's own names for what these replace; a sanitizer brings its own malloc, so there only glibc's is not counted. */
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define CAN_COUNT 1
static void count(void)
{
    if (atomic_load_explicit(&counting, memory_order_relaxed)) {
        atomic_fetch_add(&n_calls, 1);
    }
}

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *p);

void *malloc(size_t size)
{
    count();
    return __libc_malloc(size);
}
void *calloc(size_t n, size_t size)
{
    count();
    return __libc_calloc(n, size);
}
void *realloc(void *p, size_t size)
{
    count();
    return __libc_realloc(p, size);
}
void *aligned_alloc(size_t alignment, size_t size)
{
    count();
    return __libc_memalign(alignment, size);
}
void *memalign(size_t alignment, size_t size)
{
    count();
    return __libc_memalign(alignment, size);
}
int posix_memalign(void **out, size_t alignment, size_t size)
{
    count();
    *out = __libc_memalign(alignment, size);
    return *out != NULL ? 0 : 12;
}
void free(void *p)
{
    if (p != NULL) {
        count();
    }
    __libc_free(p);
}
#else
#define CAN_COUNT 0
#endif

/* ---- steps ---- */

enum { IN = 20, HIDDEN = 33, CLASSES = 5, BATCH = 32, LAST = 7 };

static void run_steps(const char *device, enum optimizer_kind optimizer, int threads)
{
    const struct eo_device_config device_config = {.threads = threads};
    struct layer layers[] = {linear_of(0, IN, HIDDEN, true), layer_of(LAYER_RELU, 1), layer_of(LAYER_DROPOUT, 2),
                             linear_of(3, HIDDEN, CLASSES, true)};
    struct model m = model_of(layers, 4, LOSS_CROSS_ENTROPY, EO_FLOAT32, (int64_t[]){IN}, 1);
    static const int metrics[] = {0};
    struct step_config config = {.model = &m, .fallback = PLAN_STRICT, .metrics = metrics, .n_metrics = 1};
    struct eo_device *dev;
    struct executor *x;
    struct train_step *s;
    struct step_result result;
    float *rows = aligned_alloc(64, BATCH * IN * 4);
    int64_t *classes = aligned_alloc(64, BATCH * 8);
    double norm;
    char why[200];

    ASSERT_OK(model_check(&m, &err));
    optimizer_default(optimizer, &config.optimizer);
    ASSERT_OK(registry_open(device, &device_config, &dev, why, sizeof(why), &err));
    ASSERT_OK(executor_new(dev, &x, &err));
    ASSERT_OK(step_new(&config, x, &s, &err));
    ASSERT_OK(step_prepare(s, BATCH, STEP_TRAIN, &err));
    ASSERT_OK(step_prepare(s, LAST, STEP_TRAIN, &err));
    ASSERT_OK(step_prepare(s, BATCH, STEP_EVALUATE, &err));
    for (int i = 0; i < BATCH * IN; i++) {
        rows[i] = (float)sin(i);
    }
    for (int i = 0; i < BATCH; i++) {
        classes[i] = i % CLASSES;
    }
    for (int i = 0; i < 20; i++) {
        int64_t n = i % 5 == 4 ? LAST : BATCH;
        const struct step_feed feed = {.x = rows, .y = classes, .n_rows = n, .n_global = n, .step = i};

        /* warm: one step of each kind, in which libraries set themselves up */
        atomic_store(&counting, i >= 5);
        ASSERT_OK(step_compute(s, &feed, &result, &err));
        ASSERT_OK(step_commit(s, &norm, &err));
        ASSERT_OK(step_update(s, 0.01, 1, i + 1, &err));
        ASSERT_OK(step_evaluate(s, &feed, &result, NULL, &err));
        atomic_store(&counting, false);
    }
    step_free(s);
    executor_free(x);
    registry_close(dev);
    free(rows);
    free(classes);
}

START_TEST(steps_allocate_nothing)
{
    static const char *const devices[] = {"cpu", "reference"};

    for (size_t d = 0; d < EO_COUNT_OF(devices); d++) {
        for (int threads = 1; threads <= 2; threads++) {
            atomic_store(&n_calls, 0);
            run_steps(devices[d], OPTIMIZER_ADAM, threads);
            run_steps(devices[d], OPTIMIZER_SGD, threads);
            ck_assert_int_eq(atomic_load(&n_calls), 0);
        }
    }
}
END_TEST

/* Allocations of a whole run that is cut after max_steps, in the middle of its first epoch. */
static int allocations_of_run(struct run *r, const char *max_steps, const char *output)
{
    const char *sets[] = {max_steps, "data.validation={split: 0.2}", NULL};
    int before;

    r->output = output;
    ASSERT_OK(run_job(r, run_blobs_job, sets, &err)); /* warm */
    before = atomic_load(&n_calls);
    atomic_store(&counting, true);
    ASSERT_OK(run_job(r, run_blobs_job, sets, &err));
    atomic_store(&counting, false);
    return atomic_load(&n_calls) - before;
}

/* The trainer around the steps allocates for set-up, ends of epochs and files: a run of 2 steps and one of 8 do the
 * same. */
START_TEST(the_trainer_allocates_nothing_per_step)
{
    struct run r;

    run_init(&r);
    run_blobs(&r, 200); /* 160 for training: 10 steps an epoch */
    ck_assert_int_eq(allocations_of_run(&r, "train.max_steps=2", "a"),
                     allocations_of_run(&r, "train.max_steps=8", "b"));
    run_fini(&r);
}
END_TEST

START_TEST(the_counter_counts)
{
    void *volatile p;

    atomic_store(&n_calls, 0);
    atomic_store(&counting, true);
    p = malloc(10);
    free(p);
    p = aligned_alloc(64, 64);
    free(p);
    atomic_store(&counting, false);
    ck_assert_int_eq(atomic_load(&n_calls), CAN_COUNT ? 4 : 0);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {the_counter_counts, steps_allocate_nothing, the_trainer_allocates_nothing_per_step};

    if (!CAN_COUNT) {
        printf("skipped: a sanitizer's allocator is in place of the one that is counted\n");
        return 77;
    }
    return eo_suite_run("allocations", tests, EO_COUNT_OF(tests));
}
