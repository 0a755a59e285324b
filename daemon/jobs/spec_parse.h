/* The inside of spec.c: what its files share. */
#ifndef EO_DAEMON_JOBS_SPEC_PARSE_H
#define EO_DAEMON_JOBS_SPEC_PARSE_H

#include "daemon/jobs/spec.h"
#include "daemon/jobs/yaml_tree.h"

#include <float.h>

struct spec_parse {
    struct job_spec *spec;
    const struct yaml_tree *tree;
    struct eo_error *err;
};

/* One key of a map: read stores its value. later: why the key is known but not accepted ("a later version"). */
struct spec_key {
    const char *name;
    int (*read)(struct spec_parse *p, const struct yaml_item *value);
    bool required;
    const char *later;
};

/* ---- spec_values.c: typed values with their errors ---- */

/* BAD_SPEC at an item: "job.yaml:3:7: ...". */
int spec_fail(const struct spec_parse *p, const struct yaml_item *at, const char *fmt, ...) EO_PRINTF(3, 4);
/* Adds "Did you mean ...?" or the list of names. */
void spec_suggest(const struct spec_parse *p, const char *word, const char *const *names, int n);
/* what: the value's name in messages, as people write it: "train.epochs". */
int spec_text(const struct spec_parse *p, const struct yaml_item *v, const char *what, char *out, size_t size);
int spec_i64(const struct spec_parse *p, const struct yaml_item *v, const char *what, int64_t min, int64_t max,
             int64_t *out);
/* range: min and max in words, "above 0" */
int spec_f64(const struct spec_parse *p, const struct yaml_item *v, const char *what, double min, double max,
             const char *range, double *out);
int spec_bool(const struct spec_parse *p, const struct yaml_item *v, const char *what, bool *out);
/* One of n words; *out is its index. */
int spec_choice(const struct spec_parse *p, const struct yaml_item *v, const char *what, const char *const *names,
                int n, int *out);
int spec_kind(const struct spec_parse *p, const struct yaml_item *v, const char *what, enum yaml_kind kind);
/* Every key of map v goes to its row; unknown ones are refused with the nearest row, missing required ones named. */
int spec_map(struct spec_parse *p, const struct yaml_item *v, const char *what, const struct spec_key *keys, int n);

/* ---- spec_model.c: model, loss, metrics, optimizer ---- */

int spec_read_model(struct spec_parse *p, const struct yaml_item *v);
int spec_read_loss(struct spec_parse *p, const struct yaml_item *v);
int spec_read_metrics(struct spec_parse *p, const struct yaml_item *v);
int spec_read_optimizer(struct spec_parse *p, const struct yaml_item *v);
/* Shapes, and whether loss, metrics and targets fit together; after everything is read. root: for positions. */
int spec_check_model(struct spec_parse *p, const struct yaml_item *root);

/* ---- spec_schedule.c: how the rate changes and when training ends early ---- */

int spec_read_schedule(struct spec_parse *p, const struct yaml_item *v);
int spec_read_early_stopping(struct spec_parse *p, const struct yaml_item *v);
/* Whether the watched metric exists; after metrics and data are read. */
int spec_check_early_stopping(struct spec_parse *p, const struct yaml_item *root);

/* ---- spec_data.c: data ---- */

int spec_read_data(struct spec_parse *p, const struct yaml_item *v);
int spec_check_data(struct spec_parse *p, const struct yaml_item *root);

/* ---- spec_write.c ---- */

/* Fills canonical, hash and state_hash. */
int spec_write(struct job_spec *s, struct eo_error *err);

#endif
