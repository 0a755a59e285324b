#include "backends/registry.h"

#include "tests/support/fake_device.h"
#include "tests/support/suite.h"

#include <string.h>

static struct eo_error err;

static void with_fake(const struct fake_device_options *options)
{
    registry_reset();
    fake_device_configure(options);
    ASSERT_OK(registry_add(&fake_backend, &err));
}

START_TEST(test_built_in_backends)
{
    registry_reset();
    ck_assert_int_eq(registry_count(), 2);
    ck_assert_str_eq(registry_at(0)->name, "cpu");
    ck_assert_str_eq(registry_at(1)->name, "reference");
    ck_assert_ptr_null(registry_at(2));
    ck_assert_ptr_null(registry_at(-1));
    ck_assert_ptr_eq(registry_find("reference"), registry_at(1));
    ck_assert_ptr_null(registry_find("refer"));
    ck_assert_ptr_null(registry_find(""));
}
END_TEST

START_TEST(test_adding)
{
    struct eo_backend other = fake_backend;
    with_fake(NULL);
    ck_assert_int_eq(registry_count(), 3);
    ck_assert_ptr_eq(registry_find("fake"), &fake_backend);
    ASSERT_CODE(registry_add(&fake_backend, &err), EO_E_BACKEND_FAILED);
    ASSERT_CONTAINS(err.message, "already");
    other.name = "other";
    other.abi = EO_BACKEND_ABI + 1;
    ASSERT_CODE(registry_add(&other, &err), EO_E_BACKEND_FAILED);
    ASSERT_CONTAINS(err.message, "interface 2");
    other.abi = EO_BACKEND_ABI;
    other.select = NULL;
    ASSERT_CODE(registry_add(&other, &err), EO_E_BACKEND_FAILED);
    ASSERT_CONTAINS(err.message, "has no select");
    other.select = fake_backend.select;
    other.sync = NULL;
    other.self_check = NULL;
    ASSERT_OK(registry_add(&other, &err)); /* these two are optional */
    registry_reset();
    ck_assert_ptr_null(registry_find("fake"));
}
END_TEST

START_TEST(test_too_many_are_refused)
{
    static struct eo_backend many[8];
    static const char *const names[8] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    int rc = EO_OK, n = 0;
    registry_reset();
    for (; n < 8 && rc == EO_OK; n++) {
        many[n] = fake_backend;
        many[n].name = names[n];
        rc = registry_add(&many[n], &err);
    }
    ck_assert_int_eq(rc, EO_E_BACKEND_FAILED);
    ck_assert_int_eq(n, 5);
    registry_reset();
}
END_TEST

/* Each of the first four facts, when it is the first false one. */
START_TEST(test_each_fact_refuses)
{
    static const char *const words[] = {"not installed: ", "not initialised: ", "no hardware: ", "not in this build: "};
    for (int f = EO_FACT_INSTALLED; f <= EO_FACT_BUILT; f++) {
        struct fake_device_options options = {0};
        struct eo_backend_facts facts;
        struct eo_device *dev = NULL;
        char refusal[224];
        options.facts[f] = EO_FACT_NO;
        with_fake(&options);
        fake_backend.probe(&facts);
        registry_first_refusal(&facts, refusal, sizeof refusal);
        ck_assert_int_eq(strncmp(refusal, words[f], strlen(words[f])), 0);
        ASSERT_CODE(registry_open("fake", NULL, &dev, NULL, 0, &err), EO_E_NO_DEVICE);
        ASSERT_CONTAINS(err.message, words[f]);
        ck_assert_str_eq(err.backend, "fake");
        ck_assert_str_ne(err.hint, "");
    }
    fake_device_configure(NULL);
}
END_TEST

START_TEST(test_fact_without_reason)
{
    struct eo_backend_facts facts;
    char refusal[64], cut[8];
    memset(&facts, 0, sizeof facts);
    registry_first_refusal(&facts, refusal, sizeof refusal);
    ck_assert_str_eq(refusal, "not installed: no reason was given");
    registry_first_refusal(&facts, cut, sizeof cut);
    ck_assert_str_eq(cut, "not ins");
    for (int f = 0; f < EO_FACT_COUNT; f++) {
        facts.state[f] = EO_FACT_YES;
        ck_assert_str_ne(registry_fact_name((enum eo_fact)f), "?");
    }
    registry_first_refusal(&facts, refusal, sizeof refusal);
    ck_assert_str_eq(refusal, "");
    ck_assert_str_eq(registry_fact_name(EO_FACT_COUNT), "?");
}
END_TEST

START_TEST(test_open_by_name)
{
    static const char *const wrong[] = {"", ":", "fakes", "fake:", "fake:x", "fake:-1", "fake:1000", "FAKE", "cuda:0"};
    struct eo_device *dev = NULL;
    char reason[128] = "x";
    with_fake(NULL);
    ASSERT_OK(registry_open("fake", NULL, &dev, reason, sizeof reason, &err));
    ck_assert_str_eq(dev->info.name, "fake");
    ck_assert_str_eq(reason, "fake was asked for by name");
    registry_close(dev);
    ASSERT_OK(registry_open("fake:0", NULL, &dev, NULL, 0, &err));
    registry_close(dev);
    registry_close(NULL);
    for (size_t i = 0; i < EO_COUNT_OF(wrong); i++) {
        ASSERT_CODE(registry_open(wrong[i], NULL, &dev, reason, sizeof reason, &err), EO_E_NO_DEVICE);
        ASSERT_CONTAINS(err.detail, "reference: can be used");
        ck_assert_str_eq(reason, "");
    }
    ASSERT_CODE(registry_open("fake:1", NULL, &dev, NULL, 0, &err), EO_E_NO_DEVICE);
    ASSERT_CONTAINS(err.message, "fake has 1");
}
END_TEST

START_TEST(test_no_device)
{
    struct eo_device *dev = NULL;
    with_fake(&(struct fake_device_options){.no_devices = true});
    ASSERT_CODE(registry_open("fake", NULL, &dev, NULL, 0, &err), EO_E_NO_DEVICE);
    ASSERT_CONTAINS(err.message, "fake has 0");
    fake_device_configure(NULL);
    registry_reset();
}
END_TEST

START_TEST(test_hostile_names_are_quoted)
{
    struct eo_device *dev = NULL;
    ASSERT_CODE(registry_open("gpu\n\x1b[31m", NULL, &dev, NULL, 0, &err), EO_E_NO_DEVICE);
    ck_assert_ptr_null(strchr(err.message, '\n'));
    ck_assert_ptr_null(strchr(err.message, '\x1b'));
}
END_TEST

EO_SUITE("registry", test_built_in_backends, test_adding, test_too_many_are_refused, test_each_fact_refuses,
         test_fact_without_reason, test_open_by_name, test_no_device, test_hostile_names_are_quoted)
