#include "proto/einsum.h"

#include "proto/shape_rules.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* One comma-separated part of the equation. */
struct part {
    int n;        /* letters */
    int ellipsis; /* letters before "...", -1: there is none */
    int at[EO_MAX_DIMS];
    uint8_t letter[EO_MAX_DIMS];
};

struct reader {
    const struct eo_op_schema *op;
    const char *text;
    int at; /* next character */
    struct part parts[EO_EINSUM_OPERANDS], result;
    int n_parts;
    bool has_result;
    struct eo_error *err;
};

static int letter_of(char c)
{
    if (c >= 'A' && c <= 'Z') {
        return c - 'A';
    }
    return c >= 'a' && c <= 'z' ? c - 'a' + 26 : -1;
}

static const char *name_of(int label, char out[EO_EINSUM_NAME])
{
    if (label < EO_EINSUM_LETTERS) {
        snprintf(out, EO_EINSUM_NAME, "%c", label < 26 ? 'A' + label : 'a' + label - 26);
    } else {
        snprintf(out, EO_EINSUM_NAME, "...[-%d]", label - EO_EINSUM_LETTERS + 1);
    }
    return out;
}

static void skip_spaces(struct reader *r)
{
    while (r->text[r->at] == ' ') {
        r->at++;
    }
}

static int refuse_character(const struct reader *r)
{
    unsigned char c = (unsigned char)r->text[r->at];
    int code;

    if (c >= 0x21 && c < 0x7F) {
        code = EO_RAISE(r->err, EO_E_BAD_ATTRIBUTE, "equation, character %d: '%c' cannot stand here", r->at + 1, c);
    } else {
        code =
            EO_RAISE(r->err, EO_E_BAD_ATTRIBUTE, "equation, character %d: byte 0x%02X cannot stand here", r->at + 1, c);
    }
    eo_error_hint(r->err, "Letters, commas, ... and one ->, as in ij,jk->ik.");
    return code;
}

/* Letters and "..." up to a comma, an arrow or the end. */
static int read_part(struct reader *r, struct part *p)
{
    p->ellipsis = -1;
    for (skip_spaces(r); r->text[r->at] != '\0' && r->text[r->at] != ',' && r->text[r->at] != '-'; skip_spaces(r)) {
        int letter = letter_of(r->text[r->at]);

        if (letter >= 0 && p->n == EO_MAX_DIMS) {
            return EO_RAISE(r->err, EO_E_BAD_ATTRIBUTE, "equation, character %d: more than %d letters", r->at + 1,
                            EO_MAX_DIMS);
        }
        if (letter >= 0) {
            p->at[p->n] = r->at++;
            p->letter[p->n++] = (uint8_t)letter;
        } else if (strncmp(r->text + r->at, "...", 3) == 0 && p->ellipsis < 0) {
            p->ellipsis = p->n;
            r->at += 3;
        } else {
            return refuse_character(r);
        }
    }
    return EO_OK;
}

static int read_parts(struct reader *r)
{
    int rc = EO_OK;

    for (bool more = true; rc == EO_OK && more;) {
        if (r->n_parts == EO_EINSUM_OPERANDS) {
            return EO_RAISE(r->err, EO_E_BAD_ATTRIBUTE, "equation, character %d: more than %d operands", r->at + 1,
                            EO_EINSUM_OPERANDS);
        }
        rc = read_part(r, &r->parts[r->n_parts++]);
        more = r->text[r->at] == ',';
        r->at += more ? 1 : 0;
    }
    if (rc != EO_OK || r->text[r->at] == '\0') {
        return rc;
    }
    if (r->text[r->at + 1] != '>') {
        return refuse_character(r);
    }
    r->at += 2;
    r->has_result = true;
    rc = read_part(r, &r->result);
    return rc == EO_OK && r->text[r->at] != '\0' ? refuse_character(r) : rc;
}

/* ---- dimensions ---- */

/* Labels of the dimensions of operand i. */
static int label_operand(const struct reader *r, const struct eo_tensor_desc *const *in, int n_in, int i,
                         struct eo_einsum *e)
{
    const struct part *p = &r->parts[i];
    int rank = in[i]->n_dims, hidden = rank - p->n, d = 0;

    if (hidden < 0 || (hidden > 0 && p->ellipsis < 0)) {
        int code = EO_RAISE(r->err, EO_E_SHAPE_MISMATCH, "operand %d has rank %d, the equation names %d dimension%s", i,
                            rank, p->n, p->n == 1 ? "" : "s");

        eo_shape_mark(r->op, in, n_in, i, -1, -1, -1, r->err);
        return code;
    }
    for (int k = 0; k <= p->n; k++) {
        for (int h = hidden; k == p->ellipsis && h > 0; h--) {
            e->label[i][d++] = (uint8_t)(EO_EINSUM_LETTERS + h - 1);
        }
        if (k < p->n) {
            e->label[i][d++] = p->letter[k];
        }
    }
    return EO_OK;
}

/* Where a label got its size. */
struct origin {
    int operand, dim; /* operand -1: not seen yet */
};

static int refuse_sizes(const struct reader *r, const struct eo_tensor_desc *const *in, int n_in, int label,
                        struct origin a, struct origin b)
{
    char name[EO_EINSUM_NAME];
    int code =
        EO_RAISE(r->err, EO_E_SHAPE_MISMATCH, "index %s is %" PRId64 " in operand %d and %" PRId64 " in operand %d",
                 name_of(label, name), in[a.operand]->shape[a.dim], a.operand, in[b.operand]->shape[b.dim], b.operand);

    eo_shape_mark(r->op, in, n_in, a.operand, a.dim, b.operand, b.operand == a.operand ? -1 : b.dim, r->err);
    return code;
}

/* Equal names have equal sizes, or 1 in some operands; within an operand they are equal. */
static int size_operand(const struct reader *r, const struct eo_tensor_desc *const *in, int n_in, int i,
                        struct eo_einsum *e, struct origin *origins)
{
    for (int d = 0; d < in[i]->n_dims; d++) {
        int label = e->label[i][d];
        int64_t size = in[i]->shape[d];
        struct origin here = {i, d}, *first = &origins[label];

        for (int other = 0; other < d; other++) {
            if (e->label[i][other] == label && in[i]->shape[other] != size) {
                return refuse_sizes(r, in, n_in, label, (struct origin){i, other}, here);
            }
        }
        if (first->operand >= 0 && size != 1 && e->size[label] != 1 && size != e->size[label]) {
            return refuse_sizes(r, in, n_in, label, *first, here);
        }
        if (first->operand < 0 || e->size[label] == 1) {
            e->size[label] = size;
            *first = here;
        }
    }
    return EO_OK;
}

/* ---- the result ---- */

static void append_hidden(struct eo_einsum *e, const struct origin *origins, bool used)
{
    for (int h = EO_MAX_DIMS - 1; used && h >= 0; h--) {
        if (origins[EO_EINSUM_LETTERS + h].operand >= 0) {
            e->out[e->n_out++] = (uint8_t)(EO_EINSUM_LETTERS + h);
        }
    }
}

static int too_many_dims(const struct reader *r, int n, const char *what)
{
    return EO_RAISE(r->err, EO_E_BAD_ATTRIBUTE, "%s would have %d dimensions, a tensor has at most %d", what, n,
                    EO_MAX_DIMS);
}

static int count_hidden(const struct origin *origins)
{
    int n = 0;

    for (int h = 0; h < EO_MAX_DIMS; h++) {
        n += origins[EO_EINSUM_LETTERS + h].operand >= 0 ? 1 : 0;
    }
    return n;
}

static int explicit_result(const struct reader *r, const struct origin *origins, struct eo_einsum *e)
{
    const struct part *p = &r->result;
    int hidden = p->ellipsis >= 0 ? count_hidden(origins) : 0;
    uint64_t seen = 0;

    if (p->n + hidden > EO_MAX_DIMS) {
        return too_many_dims(r, p->n + hidden, "the result");
    }
    for (int k = 0; k <= p->n; k++) {
        append_hidden(e, origins, k == p->ellipsis);
        if (k == p->n) {
            break;
        }
        if (origins[p->letter[k]].operand < 0) {
            return EO_RAISE(r->err, EO_E_BAD_ATTRIBUTE, "equation, character %d: no operand has index %c", p->at[k] + 1,
                            r->text[p->at[k]]);
        }
        if ((seen >> p->letter[k] & 1) != 0) {
            return EO_RAISE(r->err, EO_E_BAD_ATTRIBUTE, "equation, character %d: the result has index %c twice",
                            p->at[k] + 1, r->text[p->at[k]]);
        }
        seen |= (uint64_t)1 << p->letter[k];
        e->out[e->n_out++] = p->letter[k];
    }
    return EO_OK;
}

/* "..." first, then the letters that occur once. */
static int implicit_result(const struct reader *r, const struct origin *origins, struct eo_einsum *e)
{
    int uses[EO_EINSUM_LETTERS] = {0}, n = count_hidden(origins);

    for (int i = 0; i < r->n_parts; i++) {
        for (int k = 0; k < r->parts[i].n; k++) {
            uses[r->parts[i].letter[k]]++;
        }
    }
    for (int l = 0; l < EO_EINSUM_LETTERS; l++) {
        n += uses[l] == 1 ? 1 : 0;
    }
    if (n > EO_MAX_DIMS) {
        return too_many_dims(r, n, "the result");
    }
    append_hidden(e, origins, true);
    for (int l = 0; l < EO_EINSUM_LETTERS; l++) {
        if (uses[l] == 1) {
            e->out[e->n_out++] = (uint8_t)l;
        }
    }
    return EO_OK;
}

/* ---- the order of work ---- */

/* Which labels each operand has, which are needed later, and whether all that is left in between fits. */
static int plan(const struct reader *r, const struct eo_tensor_desc *const *in, struct eo_einsum *e)
{
    uint64_t later = 0, left = 0;

    for (int k = 0; k < e->n_out; k++) {
        later |= (uint64_t)1 << e->out[k];
    }
    for (int i = e->n_operands - 1; i >= 0; i--) {
        e->needed[i] = later;
        for (int d = 0; d < in[i]->n_dims; d++) {
            bool full = in[i]->shape[d] == e->size[e->label[i][d]];

            e->has[i] |= full ? (uint64_t)1 << e->label[i][d] : 0;
        }
        later |= e->has[i];
    }
    for (int i = 0; i < e->n_operands; i++) {
        int n;

        left = (left | e->has[i]) & e->needed[i];
        n = __builtin_popcountll(left);
        if (n > EO_MAX_DIMS) {
            char what[64];
            int code;

            snprintf(what, sizeof(what), "what is left of operands 0 to %d", i);
            code = too_many_dims(r, n, what);
            eo_error_hint(r->err, "Operands are multiplied from left to right: order them so that indices are summed "
                                  "early.");
            return code;
        }
    }
    return EO_OK;
}

int eo_einsum_read(const struct eo_op_schema *op, const struct eo_tensor_desc *const *in, int n_in,
                   const struct eo_attrs *attrs, struct eo_einsum *out, struct eo_error *err)
{
    struct reader r = {.op = op, .text = eo_attr_text(op, attrs, "equation"), .err = err};
    struct origin origins[EO_EINSUM_LABELS];
    int rc = read_parts(&r);

    memset(out, 0, sizeof(*out));
    for (int l = 0; l < EO_EINSUM_LABELS; l++) {
        origins[l] = (struct origin){-1, -1};
    }
    if (rc != EO_OK) {
        return rc;
    }
    if (r.n_parts != n_in) {
        return EO_RAISE(err, EO_E_BAD_ATTRIBUTE, "the equation has %d operand%s, the call %d", r.n_parts,
                        r.n_parts == 1 ? "" : "s", n_in);
    }
    out->n_operands = n_in;
    for (int i = 0; rc == EO_OK && i < n_in; i++) {
        rc = label_operand(&r, in, n_in, i, out);
    }
    for (int i = 0; rc == EO_OK && i < n_in; i++) {
        rc = size_operand(&r, in, n_in, i, out, origins);
    }
    if (rc == EO_OK) {
        rc = r.has_result ? explicit_result(&r, origins, out) : implicit_result(&r, origins, out);
    }
    return rc == EO_OK ? plan(&r, in, out) : rc;
}
