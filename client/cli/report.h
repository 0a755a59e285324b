/* What a person sees: error reports, colour, the progress line. Results go to stdout, everything here to stderr. */
#ifndef EO_CLIENT_CLI_REPORT_H
#define EO_CLIENT_CLI_REPORT_H

#include "proto/codec.h"

#include <stdio.h>

bool report_color(int fd);                              /* a terminal, TERM not dumb, NO_COLOR not set */
int report_width(void);                                 /* columns of the terminal on stderr; 0 when it is none */
int report_failure(const struct eo_error *err);         /* prints the whole report; returns the exit code */
void report_note(const char *fmt, ...) EO_PRINTF(1, 2); /* one line on stderr, after clearing the progress line */

/* One line that is rewritten in place on a terminal; silent elsewhere, and after progress_off. */
void progress_off(void);
void progress_show(const char *fmt, ...) EO_PRINTF(1, 2);
void progress_clear(void);

#endif
