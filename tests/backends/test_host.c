#include "backends/host.h"

#include "backends/registry.h"
#include "tests/support/suite.h"

#include <string.h>

static struct eo_error err;

START_TEST(test_memory)
{
    static const uint64_t sizes[] = {1, 63, 64, 4096, 9 << 20};
    struct eo_device *dev = NULL;
    ASSERT_OK(registry_open("reference", NULL, &dev, NULL, 0, &err));
    for (size_t i = 0; i < EO_COUNT_OF(sizes); i++) {
        void *p = NULL;
        ASSERT_OK(host_alloc(dev, sizes[i], &p, &err));
        ck_assert_uint_eq((uintptr_t)p % HOST_ALIGNMENT, 0);
        memset(p, 1, sizes[i]);
        host_free(dev, p, sizes[i]);
    }
    void *p = &err;
    ASSERT_OK(host_alloc(dev, 0, &p, &err));
    ck_assert_ptr_null(p);
    host_free(dev, p, 0);
    ASSERT_OK(host_copy(dev, NULL, NULL, 0, &err));
    registry_close(dev);
}
END_TEST

START_TEST(test_too_much_memory_is_an_error)
{
    static const uint64_t sizes[] = {UINT64_MAX, (uint64_t)INT64_MAX, (uint64_t)1 << 60};
    struct eo_device *dev = NULL;
    ASSERT_OK(registry_open("reference", NULL, &dev, NULL, 0, &err));
    for (size_t i = 0; i < EO_COUNT_OF(sizes); i++) {
        void *p = NULL;
        ASSERT_CODE(host_alloc(dev, sizes[i], &p, &err), EO_E_DEVICE_MEMORY);
        ck_assert_ptr_null(p);
    }
    registry_close(dev);
}
END_TEST

START_TEST(test_overlapping_copies)
{
    char text[16] = "0123456789";
    ASSERT_OK(host_copy(NULL, text + 2, text, 8, &err));
    ck_assert_str_eq(text, "0101234567");
}
END_TEST

START_TEST(test_what_the_host_grants)
{
    uint64_t total = 0, idle = 0;
    char name[64] = "", one[2];
    host_memory(&total, &idle);
    ck_assert_uint_gt(total, 0);
    ck_assert_uint_le(idle, total);
    ck_assert_int_ge(host_threads(), 1);
    host_cpu_name(name, sizeof name);
    ck_assert_uint_gt(strlen(name), 0);
    host_cpu_name(one, sizeof one);
    ck_assert_uint_eq(strlen(one), 1);
}
END_TEST

EO_SUITE("host", test_memory, test_too_much_memory_is_an_error, test_overlapping_copies, test_what_the_host_grants)
