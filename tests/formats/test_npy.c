#include "daemon/formats/npy.h"

#include "proto/base/file.h"
#include "tests/support/suite.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LIMIT_BYTES = 1 << 20, N_VECTORS = 33 };

static struct eo_error err;

static const char *vector_path(const char *name)
{
    static char path[1024];

    snprintf(path, sizeof(path), "%s/tests/vectors/npy/%s", getenv("EO_SOURCE_DIR"), name);
    return path;
}

static int read_bytes(const void *data, size_t size, struct host_tensor *out)
{
    struct stream *s;
    int status;

    ASSERT_OK(stream_open_memory("t.npy", data, size, &s, &err));
    status = npy_read_stream(s, LIMIT_BYTES, out, &err);
    stream_close(s);
    return status;
}

/* A file of version 1.0 with this header and n bytes of zeros behind it. */
static int read_header_text(const char *header, size_t n, struct host_tensor *out)
{
    static uint8_t file[1 << 16];
    const size_t length = strlen(header);

    memcpy(file, "\x93NUMPY\x01\x00", 8);
    file[8] = (uint8_t)(length & 0xff);
    file[9] = (uint8_t)(length >> 8);
    memcpy(file + 10, header, length);
    memset(file + 10 + length, 0, n);
    return read_bytes(file, 10 + length + n, out);
}

static double value_at(const struct host_tensor *x, int64_t i)
{
    switch ((enum eo_dtype)x->desc.dtype) {
    case EO_FLOAT32:
        return (double)((float *)x->data)[i];
    case EO_FLOAT64:
        return ((double *)x->data)[i];
    case EO_FLOAT16:
        return (double)eo_half_to_float(((uint16_t *)x->data)[i]);
    case EO_INT8:
        return ((int8_t *)x->data)[i];
    case EO_INT16:
        return ((int16_t *)x->data)[i];
    case EO_INT32:
        return ((int32_t *)x->data)[i];
    case EO_INT64:
        return (double)((int64_t *)x->data)[i];
    case EO_UINT8:
    case EO_BOOL:
        return ((uint8_t *)x->data)[i];
    case EO_UINT16:
        return ((uint16_t *)x->data)[i];
    case EO_UINT32:
        return ((uint32_t *)x->data)[i];
    case EO_UINT64:
        return (double)((uint64_t *)x->data)[i];
    default:
        ck_abort_msg("dtype %d", x->desc.dtype);
    }
    return 0;
}

static void read_vector(const char *name, struct host_tensor *out)
{
    char file[64];

    snprintf(file, sizeof(file), "%s.npy", name);
    ASSERT_OK(npy_read(vector_path(file), LIMIT_BYTES, out, &err));
}

/* What numpy 1.24.2 wrote for every dtype, both byte orders: (2,3) of arange(6) * step + start. */
START_TEST(every_dtype_in_both_byte_orders)
{
    static const struct {
        enum eo_dtype dtype;
        double start, step;
    } rows[] = {{EO_FLOAT32, 1, -1.5}, {EO_FLOAT64, 1, -1.5}, {EO_FLOAT16, 1, -1.5}, {EO_INT8, -3, 1},
                {EO_INT16, -3, 1},     {EO_INT32, -3, 1},     {EO_INT64, -3, 1},     {EO_UINT8, 250, 1},
                {EO_UINT16, 250, 1},   {EO_UINT32, 250, 1},   {EO_UINT64, 250, 1}};

    for (size_t r = 0; r < EO_COUNT_OF(rows); r++) {
        for (int big = 0; big < (eo_dtype_size(rows[r].dtype) > 1 ? 2 : 1); big++) {
            char name[32];
            struct host_tensor x;

            snprintf(name, sizeof(name), "%s%s", eo_dtype_name(rows[r].dtype), big != 0 ? "-big" : "");
            read_vector(name, &x);
            ck_assert_int_eq(x.desc.dtype, rows[r].dtype);
            ck_assert_int_eq(x.desc.n_dims, 2);
            ck_assert_int_eq(x.desc.shape[0], 2);
            ck_assert_int_eq(x.desc.shape[1], 3);
            for (int64_t i = 0; i < 6; i++) {
                ck_assert_double_eq(value_at(&x, i), rows[r].start + rows[r].step * (double)i);
            }
            host_tensor_fini(&x);
        }
    }
}
END_TEST

START_TEST(bools_and_special_values)
{
    static const uint8_t bools[] = {1, 0, 1, 0, 0, 1};
    struct host_tensor x;

    read_vector("bool", &x);
    ck_assert_int_eq(x.desc.dtype, EO_BOOL);
    ck_assert_mem_eq(x.data, bools, sizeof(bools));
    host_tensor_fini(&x);
    read_vector("special", &x);
    ck_assert(isnan(value_at(&x, 0)));
    ck_assert_double_eq(value_at(&x, 1), (double)INFINITY);
    ck_assert_double_eq(value_at(&x, 2), (double)-INFINITY);
    ck_assert(signbit(value_at(&x, 3)));
    ck_assert_double_eq(value_at(&x, 4), 0x1p-1074);
    host_tensor_fini(&x);
}
END_TEST

START_TEST(fortran_order_is_turned)
{
    struct host_tensor x;

    read_vector("fortran", &x);
    ck_assert_int_eq(x.desc.n_dims, 3);
    for (int64_t i = 0; i < 24; i++) {
        ck_assert_double_eq(value_at(&x, i), (double)i);
    }
    host_tensor_fini(&x);
    read_vector("fortran-big", &x);
    for (int64_t i = 0; i < 6; i++) {
        ck_assert_double_eq(value_at(&x, i), (double)i);
    }
    host_tensor_fini(&x);
}
END_TEST

START_TEST(every_rank_and_version)
{
    static const char *const versions[] = {"version-2", "version-3"};
    struct host_tensor x;

    read_vector("rank-0", &x);
    ck_assert_int_eq(x.desc.n_dims, 0);
    ck_assert_double_eq(value_at(&x, 0), 2.5);
    host_tensor_fini(&x);
    read_vector("empty", &x);
    ck_assert_int_eq(x.desc.n_dims, 3);
    ck_assert_int_eq(x.desc.shape[1], 0);
    ck_assert_ptr_nonnull(x.data);
    host_tensor_fini(&x);
    read_vector("rank-8", &x);
    ck_assert_int_eq(x.desc.n_dims, 8);
    ck_assert_double_eq(value_at(&x, 255), 255);
    host_tensor_fini(&x);
    for (size_t i = 0; i < EO_COUNT_OF(versions); i++) {
        read_vector(versions[i], &x);
        ck_assert_double_eq(value_at(&x, 2), 2);
        host_tensor_fini(&x);
    }
}
END_TEST

START_TEST(what_is_no_tensor_is_refused)
{
    struct host_tensor x;

    ASSERT_CODE(npy_read(vector_path("complex.npy"), LIMIT_BYTES, &x, &err), EO_E_BAD_FILE);
    ASSERT_CONTAINS(err.message, "<c8");
    ASSERT_CONTAINS(err.hint, "bool");
    ASSERT_CODE(npy_read(vector_path("text.npy"), LIMIT_BYTES, &x, &err), EO_E_BAD_FILE);
    ASSERT_CONTAINS(err.message, "<U2");
    ASSERT_CODE(npy_read(vector_path("fields.npy"), LIMIT_BYTES, &x, &err), EO_E_BAD_FILE);
    ASSERT_CONTAINS(err.hint, "fields");
    ASSERT_CODE(npy_read(vector_path("rank-9.npy"), LIMIT_BYTES, &x, &err), EO_E_TOO_LARGE);
    ASSERT_CODE(npy_read("/nonexistent.npy", LIMIT_BYTES, &x, &err), EO_E_NO_FILE);
    ASSERT_CODE(npy_read(vector_path("float32.npy"), 23, &x, &err), EO_E_TOO_LARGE);
}
END_TEST

START_TEST(headers_as_other_writers_have_them)
{
    static const char *const good[] = {
        "{'descr':'<f4','fortran_order':False,'shape':(2,)}",
        "{ \"shape\" : ( 2 , ) , \"fortran_order\" : False , \"descr\" : \"<f4\" , }   \n",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2L,), }\n",
        "{'descr': '<f4', 'fortran_order': True, 'shape': (2,), }\n",
    };
    struct host_tensor x;

    for (size_t i = 0; i < EO_COUNT_OF(good); i++) {
        ASSERT_OK(read_header_text(good[i], 8, &x));
        ck_assert_int_eq(x.desc.dtype, EO_FLOAT32);
        ck_assert_int_eq(x.desc.n_dims, 1);
        ck_assert_int_eq(x.desc.shape[0], 2);
        host_tensor_fini(&x);
    }
    ASSERT_OK(read_header_text("{'descr': '|V2', 'fortran_order': False, 'shape': (2,)}", 4, &x));
    ck_assert_int_eq(x.desc.dtype, EO_BFLOAT16);
    host_tensor_fini(&x);
}
END_TEST

START_TEST(headers_that_lie_are_refused)
{
    static const char *const bad[] = {
        "",
        "{",
        "{}",
        "{'descr': '<f4', 'fortran_order': False}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'more': 1}",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': [2]}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2 3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} x",
        "{'descr': '<f4' 'fortran_order': False, 'shape': (2,)}",
        "{'descr': 'f4', 'fortran_order': False, 'shape': (2,)}",
        "{'descr': '', 'fortran_order': False, 'shape': (2,)}",
        "{'descr': '|f4', 'fortran_order': False, 'shape': (2,)}",
        "{'descr': '<f4<f4<f4<f4<f4<f4', 'fortran_order': False, 'shape': (2,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776,)}",
    };
    struct host_tensor x;

    for (size_t i = 0; i < EO_COUNT_OF(bad); i++) {
        ck_assert_msg(read_header_text(bad[i], 8, &x) == EO_E_BAD_FILE, "%s: %s", bad[i], err.message);
    }
    ASSERT_CODE(
        read_header_text(
            "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 9223372036854775807)}", 8, &x),
        EO_E_TOO_LARGE);
    ASSERT_CODE(read_bytes("\x93NUMPX\x01\x00\x02\x00{}", 12, &x), EO_E_BAD_FILE);
    ASSERT_CODE(read_bytes("\x93NUMPY\x04\x00\x02\x00{}", 12, &x), EO_E_BAD_FILE);
    ASSERT_CODE(read_bytes("\x93NUMPY\x02\x00\xff\xff\xff\xff{}", 14, &x), EO_E_TOO_LARGE);
}
END_TEST

START_TEST(a_bool_is_zero_or_one)
{
    struct eo_bytes file;
    struct host_tensor x;

    ASSERT_OK(eo_file_read(vector_path("bool.npy"), LIMIT_BYTES, &file, &err));
    file.data[file.size - 1] = 2;
    ASSERT_CODE(read_bytes(file.data, file.size, &x), EO_E_BAD_FILE);
    ASSERT_CONTAINS(err.message, "element 5");
    eo_bytes_fini(&file);
}
END_TEST

START_TEST(a_cut_anywhere_is_refused)
{
    struct eo_bytes file;
    struct host_tensor x;

    ASSERT_OK(eo_file_read(vector_path("fortran-big.npy"), LIMIT_BYTES, &file, &err));
    for (size_t cut = 0; cut < file.size; cut++) {
        ASSERT_CODE(read_bytes(file.data, cut, &x), EO_E_BAD_FILE);
    }
    eo_bytes_fini(&file);
}
END_TEST

/* ---- writing ---- */

static void write_file(const char *path, const struct host_tensor *t)
{
    FILE *f = fopen(path, "wbe");

    ck_assert_ptr_nonnull(f);
    ASSERT_OK(npy_write(fileno(f), path, t, &err));
    ck_assert_int_eq(fclose(f), 0);
}

/* Rewriting what NumPy wrote in little endian and C order gives its bytes again. */
START_TEST(files_are_those_of_numpy)
{
    char path[64];
    size_t n = 0, same = 0;
    DIR *d = opendir(vector_path(""));

    ck_assert_ptr_nonnull(d);
    snprintf(path, sizeof(path), "/tmp/eo-npy-%d", (int)getpid());
    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        const char *name = vector_path(e->d_name);
        struct host_tensor x, again;
        struct eo_bytes theirs, ours;

        n += strstr(e->d_name, ".npy") != NULL;
        if (strstr(e->d_name, ".npy") == NULL || npy_read(name, LIMIT_BYTES, &x, &err) != EO_OK) {
            continue;
        }
        write_file(path, &x);
        ASSERT_OK(eo_file_read(name, LIMIT_BYTES, &theirs, &err));
        ASSERT_OK(eo_file_read(path, LIMIT_BYTES, &ours, &err));
        ck_assert_uint_eq(ours.size, npy_written_bytes(&x.desc));
        ASSERT_OK(npy_read(path, LIMIT_BYTES, &again, &err));
        ck_assert(eo_tensor_desc_equal(&x.desc, &again.desc));
        ck_assert(memcmp(x.data, again.data, eo_tensor_desc_bytes(&x.desc)) == 0);
        same += ours.size == theirs.size && memcmp(ours.data, theirs.data, ours.size) == 0;
        eo_bytes_fini(&ours);
        eo_bytes_fini(&theirs);
        host_tensor_fini(&x);
        host_tensor_fini(&again);
    }
    closedir(d);
    unlink(path);
    ck_assert_uint_eq(n, N_VECTORS);
    ck_assert_uint_eq(same, 16); /* 11 dtypes, bool, rank 0 and 8, empty, special */
}
END_TEST

START_TEST(bfloat16_is_written_as_float32)
{
    uint16_t values[3] = {0x3fc0, 0xff80, 0x0001};
    const struct host_tensor t = {.desc = {.dtype = EO_BFLOAT16, .n_dims = 1, .shape = {3}}, .data = values};
    char path[64];
    struct host_tensor x;

    snprintf(path, sizeof(path), "/tmp/eo-npy-%d", (int)getpid());
    write_file(path, &t);
    ASSERT_OK(npy_read(path, LIMIT_BYTES, &x, &err));
    unlink(path);
    ck_assert_int_eq(x.desc.dtype, EO_FLOAT32);
    ck_assert_int_eq(npy_written_dtype(EO_BFLOAT16), EO_FLOAT32);
    ck_assert_double_eq(value_at(&x, 0), 1.5);
    ck_assert_double_eq(value_at(&x, 1), (double)-INFINITY);
    ck_assert_double_eq(value_at(&x, 2), 0x1p-133);
    host_tensor_fini(&x);
}
END_TEST

START_TEST(large_shapes_have_a_header_that_fits)
{
    uint8_t nothing = 0;
    struct host_tensor t = {.desc = {.dtype = EO_FLOAT64, .n_dims = 8, .shape = {0}}, .data = &nothing};
    char path[64];
    struct host_tensor x;

    for (int i = 1; i < 8; i++) {
        t.desc.shape[i] = INT64_MAX;
    }
    snprintf(path, sizeof(path), "/tmp/eo-npy-%d", (int)getpid());
    write_file(path, &t);
    ASSERT_CODE(npy_read(path, LIMIT_BYTES, &x, &err), EO_E_TOO_LARGE); /* as eo_tensor_desc_check has it */
    unlink(path);
}
END_TEST

EO_SUITE("npy", every_dtype_in_both_byte_orders, bools_and_special_values, fortran_order_is_turned,
         every_rank_and_version, what_is_no_tensor_is_refused, headers_as_other_writers_have_them,
         headers_that_lie_are_refused, a_bool_is_zero_or_one, a_cut_anywhere_is_refused, files_are_those_of_numpy,
         bfloat16_is_written_as_float32, large_shapes_have_a_header_that_fits)
