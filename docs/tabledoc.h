/* tabledoc: reference pages and man pages from the tables. */
#ifndef EO_DOCS_TABLEDOC_H
#define EO_DOCS_TABLEDOC_H

#include <stdio.h>

/* A page writes itself to out. */
struct tabledoc_page {
    const char *path; /* below docs/ */
    void (*write)(FILE *out);
};

/* tabledoc_engine.c, tabledoc_jobs.c, tabledoc_tools.c, tabledoc_man.c; the last entry has no path. */
extern const struct tabledoc_page tabledoc_engine_pages[];
extern const struct tabledoc_page tabledoc_jobs_pages[];
extern const struct tabledoc_page tabledoc_tools_pages[];
extern const struct tabledoc_page tabledoc_man_pages[];

/* The head of a reference page: title, what it is made of, a paragraph. */
void tabledoc_head(FILE *out, const char *title, const char *table, const char *text);
/* Text inside a table cell, | escaped; an empty one becomes "-". */
void tabledoc_cell(FILE *out, const char *text);
/* A number as people write it: 1e-08 as it is, 9223372036854775807 as 2^63 - 1, infinite bounds as words. */
char *tabledoc_number(double v, char *out, size_t size);
char *tabledoc_range(double min, double max, char *out, size_t size); /* "0 to 1", "any finite", "any" */

/* Exit codes of the tools with their meaning, and what they heed in the environment: sections of cli.md and of the man
 * pages. A row without a name ends the list. */
struct tabledoc_fact {
    const char *name, *text;
};
extern const struct tabledoc_fact tabledoc_exit_codes[];
extern const struct tabledoc_fact tabledoc_tool_environment[];
extern const struct tabledoc_fact tabledoc_daemon_environment[];
extern const struct tabledoc_fact tabledoc_daemon_signals[];

/* The rows of daemon/server/config.def. */
struct tabledoc_setting {
    const char *flag, *key, *kind, *argument, *fallback, *when, *help;
    double min, max;
};
extern const struct tabledoc_setting tabledoc_settings[];
extern const int tabledoc_n_settings;

#endif
