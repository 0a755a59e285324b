#include "daemon/formats/safetensors.h"

#include "proto/base/file.h"
#include "tests/support/suite.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static struct eo_error err;

/* header with its length in front, data_bytes announced behind it */
static int parse(const char *header, uint64_t data_bytes, struct safetensors *out)
{
    size_t n = strlen(header);
    uint8_t *file = malloc(8 + n);
    uint64_t length = n;
    int status;

    memcpy(file, &length, 8);
    memcpy(file + 8, header, n);
    status = safetensors_parse("t.safetensors", file, 8 + n, 8 + n + data_bytes, out, &err);
    free(file);
    return status;
}

START_TEST(a_header_is_read)
{
    struct safetensors s;
    const struct safetensors_tensor *t;

    ASSERT_OK(parse("{\"__metadata__\":{\"format\":\"x\"},"
                    "\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[8,32]},"
                    "\"a\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]},"
                    "\"e\":{\"dtype\":\"BF16\",\"shape\":[0,5],\"data_offsets\":[8,8]}}   ",
                    24 + 8, &s));
    ck_assert_uint_eq(s.n_tensors, 3);
    ck_assert_str_eq(s.tensors[0].name, "a");
    ck_assert_str_eq(s.tensors[1].name, "b");
    ck_assert_str_eq(s.tensors[2].name, "e");
    t = safetensors_find(&s, "b");
    ck_assert_ptr_nonnull(t);
    ck_assert_int_eq(t->desc.dtype, EO_FLOAT32);
    ck_assert_int_eq(t->desc.n_dims, 2);
    ck_assert_int_eq(t->desc.shape[1], 3);
    ck_assert_ptr_null(safetensors_find(&s, "c"));
    ck_assert_str_eq(safetensors_metadata(&s, "format"), "x");
    ck_assert_ptr_null(safetensors_metadata(&s, "y"));
    safetensors_close(&s);
}
END_TEST

START_TEST(hostile_headers_are_refused)
{
    static const struct {
        const char *header;
        uint64_t data_bytes;
        const char *why;
    } bad[] = {
        {"[]", 0, "no JSON object"},
        {"{\"a\":1}", 0, "dtype"},
        {"{\"a\":{\"dtype\":\"F33\",\"shape\":[],\"data_offsets\":[0,4]}}", 4, "not supported"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,8]}}", 8, "do not fit its dtype and shape"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, "dimension"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}}", 4, "dimension"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4, "8 dimensions"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":{},\"data_offsets\":[0,4]}}", 4, "shape"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[4,0]}}", 4, "outside"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[-4,0]}}", 4, "outside"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[4,8]}}", 4, "outside"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0]}}", 4, "data_offsets"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[4,8]}}", 8, "gap"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},"
         "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
         8, "overlaps"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
         "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
         8, "overlaps"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}", 8, "behind the last"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},"
         "\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[4,8]}}",
         8, "JSON"},
        {"{\"__metadata__\":{\"x\":1}}", 0, "__metadata__"},
        {"{\"__metadata__\":[]}", 0, "__metadata__"},
        {"{\"a\":", 0, "JSON"},
    };

    for (size_t i = 0; i < EO_COUNT_OF(bad); i++) {
        struct safetensors s;

        ASSERT_CODE(parse(bad[i].header, bad[i].data_bytes, &s), EO_E_BAD_FILE);
        ASSERT_CONTAINS(err.message, "t.safetensors");
        ASSERT_CONTAINS(err.message, bad[i].why);
    }
}
END_TEST

START_TEST(sizes_that_lie)
{
    static const uint64_t lengths[] = {0, 1, 9, 1000, UINT64_C(1) << 31, UINT64_MAX - 7, UINT64_MAX};
    struct safetensors s;
    uint8_t file[16] = {0};

    for (size_t i = 0; i < EO_COUNT_OF(lengths); i++) {
        memcpy(file, &lengths[i], 8);
        memcpy(file + 8, "{}      ", 8);
        ASSERT_CODE(safetensors_parse("t", file, 16, 16, &s, &err), EO_E_BAD_FILE);
    }
    /* a header within a huge file, but larger than any that is read */
    memcpy(file, &(uint64_t){SAFETENSORS_MAX_HEADER + 1}, 8);
    ASSERT_CODE(safetensors_parse("t", file, 16, UINT64_MAX, &s, &err), EO_E_TOO_LARGE);
    for (size_t n = 0; n < 8; n++) {
        ASSERT_CODE(safetensors_parse("t", file, n, n, &s, &err), EO_E_BAD_FILE);
    }
    ASSERT_CODE(parse("{\"a\":{\"dtype\":\"F64\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,0]}}", 0, &s),
                EO_E_TOO_LARGE);
}
END_TEST

START_TEST(written_and_read_again)
{
    char folder[] = "/tmp/eo-st-XXXXXX", path[64], sha256[65], sha256_of_file[65];
    float w[6] = {1, 2, 3, 4, 5, -0.0f}, back[6];
    double d = 0.1, d_back;
    uint8_t flags[3] = {1, 0, 1}, flags_back[3];
    uint64_t bytes, bytes_of_file;
    struct safetensors s;
    const struct safetensors_tensor list[] = {
        {.name = "flags", .desc = {.dtype = EO_BOOL, .n_dims = 1, .shape = {3}}, .data = flags},
        {.name = "0.weight", .desc = {.dtype = EO_FLOAT32, .n_dims = 2, .shape = {2, 3}}, .data = w},
        {.name = "scalar", .desc = {.dtype = EO_FLOAT64}, .data = &d},
        {.name = "none", .desc = {.dtype = EO_FLOAT32, .n_dims = 1, .shape = {0}}, .data = NULL},
    };
    const struct safetensors_meta meta[] = {{"format", "everyo"}, {"note", "quote \" and \n line"}};

    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/m.safetensors", folder);
    ASSERT_OK(safetensors_write(path, list, 4, meta, 2, sha256, &bytes, &err));
    ASSERT_OK(eo_file_sha256(path, sha256_of_file, &bytes_of_file, &err));
    ck_assert_str_eq(sha256, sha256_of_file);
    ck_assert_uint_eq(bytes, bytes_of_file);
    ASSERT_CODE(safetensors_write(path, list, 4, meta, 2, NULL, NULL, &err), EO_E_CANNOT_CREATE); /* never overwrites */
    ASSERT_OK(safetensors_open(path, &s, &err));
    ck_assert_uint_eq(s.n_tensors, 4);
    for (uint32_t i = 0; i < s.n_tensors; i++) {
        ck_assert_uint_eq(s.tensors[i].offset_bytes % eo_dtype_size((enum eo_dtype)s.tensors[i].desc.dtype), 0);
    }
    ASSERT_OK(safetensors_read(&s, safetensors_find(&s, "0.weight"), back, &err));
    ck_assert_mem_eq(back, w, sizeof(w));
    ASSERT_OK(safetensors_read(&s, safetensors_find(&s, "scalar"), &d_back, &err));
    ck_assert_mem_eq(&d_back, &d, sizeof(d));
    ASSERT_OK(safetensors_read(&s, safetensors_find(&s, "flags"), flags_back, &err));
    ck_assert_mem_eq(flags_back, flags, sizeof(flags));
    ASSERT_OK(safetensors_read(&s, safetensors_find(&s, "none"), NULL, &err));
    ck_assert_str_eq(safetensors_metadata(&s, "note"), meta[1].value);
    /* the file shrinks under the reader */
    ck_assert_int_eq(truncate(path, (off_t)bytes - 4), 0);
    ASSERT_CODE(safetensors_read(&s, safetensors_find(&s, "flags"), flags_back, &err), EO_E_BAD_FILE);
    safetensors_close(&s);
    ASSERT_CODE(safetensors_open(path, &s, &err), EO_E_BAD_FILE);
    ASSERT_CODE(safetensors_open(folder, &s, &err), EO_E_BAD_FILE);
    ASSERT_OK(eo_dir_remove(folder, &err));
    ASSERT_CODE(safetensors_open(path, &s, &err), EO_E_NO_FILE);
    ASSERT_CODE(safetensors_write(path, list, 4, meta, 2, NULL, NULL, &err), EO_E_CANNOT_CREATE);
}
END_TEST

START_TEST(a_file_cut_by_an_error_is_removed)
{
    char folder[] = "/tmp/eo-st-XXXXXX", path[64];
    float *w = calloc(100000, sizeof(*w));
    const struct safetensors_tensor one = {
        .name = "w", .desc = {.dtype = EO_FLOAT32, .n_dims = 1, .shape = {100000}}, .data = w};
    struct rlimit before, small;

    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/m.safetensors", folder);
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 5000;
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
    ASSERT_CODE(safetensors_write(path, &one, 1, NULL, 0, NULL, NULL, &err), EO_E_IO);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
    ck_assert_int_ne(access(path, F_OK), 0);
    ck_assert_int_eq(rmdir(folder), 0);
    free(w);
}
END_TEST

EO_SUITE("safetensors", a_header_is_read, hostile_headers_are_refused, sizes_that_lie, written_and_read_again,
         a_file_cut_by_an_error_is_removed)
