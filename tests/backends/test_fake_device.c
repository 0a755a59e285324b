/* The fake device must be as strict as it says: a lenient one would hide what it is there to find. */
#include "tests/support/fake_device.h"

#include "backends/registry.h"
#include "tests/support/suite.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct eo_error err;
static const struct eo_tensor_desc four = {EO_FLOAT32, 1, {4}};
static struct eo_attrs no_attrs;

static struct eo_device *open_fake(const struct fake_device_options *options)
{
    struct eo_device *dev = NULL;
    registry_reset();
    fake_device_configure(options);
    ASSERT_OK(registry_add(&fake_backend, &err));
    ASSERT_OK(registry_open("fake", NULL, &dev, NULL, 0, &err));
    fake_device_configure(NULL);
    return dev;
}

static void *upload(struct eo_device *dev, float a, float b, float c, float d)
{
    const float host[4] = {a, b, c, d};
    void *p = NULL;
    ASSERT_OK(fake_backend.alloc(dev, sizeof host, &p, &err));
    ASSERT_OK(fake_backend.copy_in(dev, p, host, sizeof host, &err));
    return p;
}

/* Queues y = a + b over four elements; the node view is gone when this returns. */
static int queue_add(struct eo_device *dev, void *a, void *b, void *y)
{
    struct eo_tensor_desc descs[3] = {four, four, four};
    struct eo_node_view node = {.op = eo_op_schema(EO_OP_ADD),
                                .attrs = &no_attrs,
                                .n_in = 2,
                                .n_out = 1,
                                .in = {&descs[0], &descs[1]},
                                .out = {&descs[2]}};
    struct eo_kernel k;
    ASSERT_OK(fake_backend.select(dev, &node, &k, &err));
    struct eo_launch l = {.node = &node, .in = {a, b}, .out = {y}, .state = k.state};
    int rc = k.run(dev, &l, &err);
    k.state_free(k.state);
    memset(descs, 0xFF, sizeof descs);
    memset(&node, 0xFF, sizeof node);
    return rc;
}

static void check_sum(const struct fake_device_options *options)
{
    struct eo_device *dev = open_fake(options);
    void *a = upload(dev, 1, 2, 3, 4), *b = upload(dev, 10, 20, 30, 40), *y = upload(dev, 0, 0, 0, 0);
    float host[4];
    ASSERT_OK(queue_add(dev, a, b, y));
    ASSERT_OK(queue_add(dev, y, b, a));
    ASSERT_OK(fake_backend.copy(dev, b, a, sizeof host, &err));
    ASSERT_OK(fake_backend.sync(dev, &err));
    ASSERT_OK(fake_backend.copy_out(dev, host, b, sizeof host, &err));
    ck_assert(host[0] == 21 && host[1] == 42 && host[2] == 63 && host[3] == 84);
    ck_assert_uint_eq(dev->n_launches, 2);
    registry_close(dev);
}

START_TEST(test_results_with_both_queues)
{
    check_sum(NULL);
    check_sum(&(struct fake_device_options){.threaded = true});
}
END_TEST

START_TEST(test_work_waits_for_sync)
{
    struct eo_device *dev = open_fake(NULL);
    void *a = upload(dev, 1, 1, 1, 1), *y = upload(dev, 0, 0, 0, 0);
    ASSERT_OK(queue_add(dev, a, a, y));
    ck_assert_uint_eq(fake_device_stats(dev).executed, 0);
    ck_assert_uint_eq(fake_device_stats(dev).queued, 3);
    ASSERT_OK(fake_backend.sync(dev, &err));
    ck_assert_uint_eq(fake_device_stats(dev).executed, 1);
    ck_assert_uint_eq(fake_device_stats(dev).syncs, 1);
    registry_close(dev);
}
END_TEST

/* The source of copy_in is taken at the call: the caller may use it again at once. */
START_TEST(test_copy_in_is_staged)
{
    struct eo_device *dev = open_fake(NULL);
    float host[4] = {1, 2, 3, 4};
    void *p = upload(dev, 0, 0, 0, 0);
    ASSERT_OK(fake_backend.copy_in(dev, p, host, sizeof host, &err));
    memset(host, 0, sizeof host);
    ASSERT_OK(fake_backend.copy_out(dev, host, p, sizeof host, &err));
    ck_assert(host[0] == 1 && host[3] == 4);
    registry_close(dev);
}
END_TEST

START_TEST(test_pointers_fault)
{
    struct eo_device *dev = open_fake(NULL);
    volatile float *p = upload(dev, 1, 2, 3, 4);
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        (void)signal(SIGSEGV, SIG_DFL);
        _exit(p[0] == 1);
    }
    ck_assert_int_gt(child, 0);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    registry_close(dev);
}
END_TEST

START_TEST(test_pointers_are_checked)
{
    struct eo_device *dev = open_fake(NULL);
    float host[8];
    char *a = upload(dev, 1, 2, 3, 4), *y = upload(dev, 0, 0, 0, 0);
    ck_assert_int_eq(queue_add(dev, a, a + 4, y), EO_E_INTERNAL); /* runs over the end */
    ck_assert_int_eq(queue_add(dev, host, a, y), EO_E_INTERNAL);  /* host memory */
    ck_assert_int_eq(queue_add(dev, NULL, a, y), EO_E_INTERNAL);
    ck_assert_int_eq(fake_backend.copy_in(dev, a, host, 17, &err), EO_E_INTERNAL);
    ck_assert_int_eq(fake_backend.copy_out(dev, host, a - 4, 4, &err), EO_E_INTERNAL);
    ck_assert_int_eq(fake_backend.copy(dev, a, y + 16, 1, &err), EO_E_INTERNAL);
    fake_backend.free(dev, y, 16);
    ck_assert_int_eq(queue_add(dev, a, a, y), EO_E_INTERNAL); /* freed */
    ASSERT_OK(fake_backend.sync(dev, &err));
    fake_backend.free(dev, y, 16); /* twice: found at the next sync */
    ck_assert_int_eq(fake_backend.sync(dev, &err), EO_E_INTERNAL);
    registry_close(dev);
}
END_TEST

/* Memory that is freed while work on it is queued is not handed out before that work is done. */
START_TEST(test_free_is_ordered_with_work)
{
    struct eo_device *dev = open_fake(NULL);
    void *a = upload(dev, 1, 2, 3, 4), *b = upload(dev, 5, 5, 5, 5), *y = upload(dev, 0, 0, 0, 0), *c = NULL;
    float host[4];
    ASSERT_OK(queue_add(dev, a, b, y));
    fake_backend.free(dev, a, 16);
    ASSERT_OK(fake_backend.alloc(dev, 16, &c, &err));
    ck_assert_ptr_ne(c, a);
    ASSERT_OK(fake_backend.copy_out(dev, host, y, sizeof host, &err));
    ck_assert(host[0] == 6 && host[3] == 9);
    ck_assert_int_eq(fake_device_stats(dev).live_blocks, 3);
    registry_close(dev);
}
END_TEST

START_TEST(test_fresh_memory_is_nan)
{
    struct eo_device *dev = open_fake(NULL);
    float host[4] = {0};
    void *p = NULL;
    ASSERT_OK(fake_backend.alloc(dev, sizeof host, &p, &err));
    ASSERT_OK(fake_backend.copy_out(dev, host, p, sizeof host, &err));
    for (int i = 0; i < 4; i++)
        ck_assert(host[i] != host[i]);
    registry_close(dev);
}
END_TEST

START_TEST(test_memory_is_limited)
{
    struct eo_device *dev = open_fake(&(struct fake_device_options){.memory_bytes = 65536});
    void *p = NULL, *q = NULL;
    ck_assert_uint_eq(dev->info.memory_total, 65536);
    ASSERT_CODE(fake_backend.alloc(dev, 65537, &p, &err), EO_E_DEVICE_MEMORY);
    ASSERT_OK(fake_backend.alloc(dev, 65536, &p, &err));
    ASSERT_CODE(fake_backend.alloc(dev, 1, &q, &err), EO_E_DEVICE_MEMORY);
    fake_backend.free(dev, p, 65536);
    ASSERT_OK(fake_backend.alloc(dev, 65536, &q, &err)); /* the queued release is waited for */
    registry_close(dev);
}
END_TEST

/* The first error of queued work is told by copy_out, then by sync, which forgets it; later work is dropped. */
START_TEST(test_late_errors)
{
    struct eo_device *dev = open_fake(&(struct fake_device_options){.fail_launch = 2});
    void *a = upload(dev, 1, 1, 1, 1), *y = upload(dev, 7, 7, 7, 7);
    float host[4];
    ASSERT_OK(queue_add(dev, a, a, a));
    ASSERT_OK(queue_add(dev, a, a, y));
    ASSERT_OK(queue_add(dev, a, a, y));
    ASSERT_CODE(fake_backend.copy_out(dev, host, y, sizeof host, &err), EO_E_BACKEND_FAILED);
    ASSERT_CODE(fake_backend.sync(dev, &err), EO_E_BACKEND_FAILED);
    ASSERT_CONTAINS(err.message, "launch 2");
    ASSERT_OK(fake_backend.sync(dev, &err));
    ASSERT_OK(fake_backend.copy_out(dev, host, y, sizeof host, &err));
    ck_assert(host[0] == 7);
    registry_close(dev);
}
END_TEST

static bool declines_add(const struct eo_node_view *node)
{
    return node->op->op == EO_OP_ADD;
}

START_TEST(test_declining)
{
    static const struct eo_fused_program program;
    struct eo_device *dev = open_fake(&(struct fake_device_options){.declines = declines_add});
    struct eo_kernel k;
    struct eo_node_view node = {
        .op = eo_op_schema(EO_OP_ADD), .attrs = &no_attrs, .n_in = 2, .n_out = 1, .in = {&four, &four}, .out = {&four}};
    ASSERT_CODE(fake_backend.select(dev, &node, &k, &err), EO_E_UNSUPPORTED);
    ASSERT_CONTAINS(err.detail, "fake.add");
    node.op = eo_op_schema(EO_OP_MULTIPLY);
    ASSERT_OK(fake_backend.select(dev, &node, &k, &err));
    k.state_free(k.state);
    node.op = NULL;
    node.fused = &program;
    ASSERT_CODE(fake_backend.select(dev, &node, &k, &err), EO_E_UNSUPPORTED);
    registry_close(dev);
}
END_TEST

EO_SUITE("fake device", test_results_with_both_queues, test_work_waits_for_sync, test_copy_in_is_staged,
         test_pointers_fault, test_pointers_are_checked, test_free_is_ordered_with_work, test_fresh_memory_is_nan,
         test_memory_is_limited, test_late_errors, test_declining)
