#include "tests/client/run_cli.h"

#include "tests/support/suite.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MAX_WORDS = 40 };

static int catch_into(int fd, FILE *stream, int *out_saved)
{
    fflush(stream);
    const int file = memfd_create("cli", MFD_CLOEXEC);
    ck_assert_int_ge(file, 0);
    *out_saved = fcntl(fd, F_DUPFD_CLOEXEC, 10);
    ck_assert_int_ge(*out_saved, 0);
    ck_assert_int_eq(dup2(file, fd), fd);
    return file;
}

static char *release(int fd, FILE *stream, int file, int saved)
{
    fflush(stream);
    ck_assert_int_eq(dup2(saved, fd), fd);
    close(saved);
    const off_t size = lseek(file, 0, SEEK_END);
    ck_assert_int_ge((int)size, 0);
    char *text = calloc(1, (size_t)size + 1);
    ck_assert_ptr_nonnull(text);
    ck_assert_int_eq(pread(file, text, (size_t)size, 0), (int)size);
    close(file);
    return text;
}

struct cli_run run_cli(enum cli_program program, const char *const *args)
{
    char *argv[MAX_WORDS + 2] = {NULL};
    int argc = 0;
    argv[argc++] = strdup(cli_program_name(program));
    for (; args[argc - 1] != NULL; argc++) {
        ck_assert_int_lt(argc, MAX_WORDS);
        argv[argc] = strdup(args[argc - 1]);
    }
    int saved_out = -1;
    int saved_err = -1;
    struct cli_run r = {0};
    const int out = catch_into(STDOUT_FILENO, stdout, &saved_out);
    const int err = catch_into(STDERR_FILENO, stderr, &saved_err);
    r.exit_code = cli_main(program, argc, argv);
    r.out = release(STDOUT_FILENO, stdout, out, saved_out);
    r.err = release(STDERR_FILENO, stderr, err, saved_err);
    for (int i = 0; i < argc; i++) {
        free(argv[i]);
    }
    return r;
}

void cli_run_fini(struct cli_run *r)
{
    free(r->out);
    free(r->err);
    memset(r, 0, sizeof *r);
}
