#include "client/cli/report.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static bool line_shown; /* a progress line stands on the terminal */
static bool silent;

bool report_color(int fd)
{
    const char *term = getenv("TERM");
    const char *no_color = getenv("NO_COLOR");
    return isatty(fd) && (no_color == NULL || no_color[0] == '\0') && term != NULL && strcmp(term, "dumb") != 0;
}

int report_width(void)
{
    struct winsize size;
    if (!isatty(STDERR_FILENO)) {
        return 0;
    }
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void progress_clear(void)
{
    if (line_shown) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
        line_shown = false;
    }
}

void progress_off(void)
{
    silent = true;
}

/* Bytes of the first columns of a text; a character takes one column, and none is cut. */
static int bytes_of_columns(const char *text, int columns)
{
    int at = 0;
    for (; text[at] != '\0'; at++) {
        const bool starts = ((unsigned char)text[at] & 0xc0) != 0x80;
        if (starts && columns-- == 0) {
            break;
        }
    }
    return at;
}

void progress_show(const char *fmt, ...)
{
    const int width = report_width();
    if (silent || width == 0) {
        return;
    }
    char line[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    fprintf(stderr, "\r%.*s\033[K", bytes_of_columns(line, width - 1), line);
    fflush(stderr);
    line_shown = true;
}

void report_note(const char *fmt, ...)
{
    va_list args;
    progress_clear();
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
}

int report_failure(const struct eo_error *err)
{
    char text[8192];
    progress_clear();
    fflush(stdout);
    eo_error_text(err, report_color(STDERR_FILENO), text, sizeof text);
    fputs(text, stderr);
    const size_t n = strlen(text);
    if (n > 0 && text[n - 1] != '\n') {
        fputc('\n', stderr);
    }
    return eo_code_exit(err->code);
}
