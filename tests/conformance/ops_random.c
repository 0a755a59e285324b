/* Random calls of every row on every backend against the reference backend. A call is drawn from the cases of its row:
 * each size that occurs in a case is replaced, wherever it stands, by a random one (empty, 1, odd, around the widths of
 * vectors), so that what has to fit together still does; what eo_op_infer refuses is drawn again. The dtype, and for a
 * cast the target, is drawn too.
 *
 * EVERYO_TEST_SEED=N draws others, and N is printed by a failure: the same N replays it. EVERYO_TEST_ROUNDS=N draws
 * more per case. */
#include "tests/conformance/compare.h"

#include "proto/base/text.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { SEED = 20, ROUNDS = 4, TRIES = 6, MOST_ELEMENTS = 20000, MOST_SIZES = 12 };

static struct devices devices;
static uint64_t seed = SEED;
static int64_t rounds = ROUNDS;
static int n_calls[EO_OP_COUNT], n_declined;

/* ---- drawing ---- */

/* A stream of random numbers: one per draw, so that a call does not depend on those before it. */
struct draw {
    uint64_t key, index;
};

static uint64_t next(struct draw *d, uint64_t limit)
{
    return (uint64_t)(random_unit(d->key, d->index++) * (double)limit);
}

/* Sizes of a case and what stands for them in this draw. */
struct sizes {
    int64_t from[MOST_SIZES], to[MOST_SIZES];
    int n;
};

static int64_t replacement(struct sizes *s, struct draw *d, int64_t size)
{
    static const int64_t sizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 17, 31, 33, 65, 130};
    for (int i = 0; i < s->n; i++)
        if (s->from[i] == size)
            return s->to[i];
    /* Size 1 mostly stays: it is there to be broadcast. One draw in twelve is empty. */
    int64_t to = size == 1 && next(d, 4) != 0 ? 1 : next(d, 12) == 0 ? 0 : sizes[next(d, EO_COUNT_OF(sizes))];
    if (s->n < MOST_SIZES) {
        s->from[s->n] = size;
        s->to[s->n++] = to;
    }
    return to;
}

/* Copies text with its numbers replaced; negative ones, fractions and words stay. */
static void replace_numbers(const char *text, struct sizes *s, struct draw *d, char *out, size_t size)
{
    size_t n = 0;
    char before = ' ';
    out[0] = '\0';
    while (*text != '\0' && n + 1 < size) {
        size_t length = strspn(text, "0123456789");
        bool in_word = before != 'x' && (isalnum((unsigned char)before) || before == '_');
        bool whole = length > 0 && length < 7 && text[length] != '.' && before != '-' && before != '.' && !in_word;
        if (length > 0 && whole) {
            n += (size_t)snprintf(out + n, size - n, "%lld", (long long)replacement(s, d, strtoll(text, NULL, 10)));
        } else {
            length = length > 0 ? length : 1;
            n += (size_t)snprintf(out + n, size - n, "%.*s", (int)length, text);
        }
        before = text[length - 1];
        text += length;
    }
}

/* The operands of a case's text, "T 2x3; I 4", before memory is taken for them. */
static bool inputs_small(const char *text)
{
    int64_t count = 1;
    for (; *text != '\0'; text += strcspn(text, "0123456789;") == 0 ? 1 : strcspn(text, "0123456789;")) {
        size_t digits = strspn(text, "0123456789");
        if (*text == ';')
            count = 1;
        if (digits > 0) {
            count *= EO_MAX(strtoll(text, NULL, 10), 1);
            text += digits - 1;
        }
        if (count > MOST_ELEMENTS)
            return false;
    }
    return true;
}

static bool outputs_small(const struct run *r)
{
    for (int o = 0; o < r->n_out; o++)
        if (eo_tensor_desc_count(&r->out[o]) > MOST_ELEMENTS)
            return false;
    return true;
}

static enum eo_dtype draw_dtype(eo_dtype_set set, struct draw *d)
{
    enum eo_dtype dtype;
    do
        dtype = (enum eo_dtype)(1 + next(d, EO_DTYPE_LIMIT - 1));
    while (!(set & EO_DTYPE_BIT(dtype)));
    return dtype;
}

/* Sizes that stay what they are: the rng operand's 3 words, and of recurrent rows those that hang together with their
 * cases' 4 hidden units. */
static struct sizes fixed_sizes(enum eo_op op)
{
    static const struct sizes rng = {{3}, {3}, 1}, gates = {{4, 8, 12, 16, 24, 32}, {4, 8, 12, 16, 24, 32}, 6};
    if (op == EO_OP_RNN || op == EO_OP_LSTM || op == EO_OP_GRU)
        return gates;
    return (eo_op_schema(op)->flags & EO_OPF_RANDOM) != 0 ? rng : (struct sizes){.n = 0};
}

/* A call like the case's with other sizes; the attributes follow the sizes in every second try. */
static bool draw_call(const struct op_case *c, struct draw *d, struct run *r)
{
    struct eo_error err;
    for (int i = 0; i < TRIES; i++) {
        char inputs[256], attrs[256];
        struct sizes sizes = fixed_sizes(c->op);
        replace_numbers(c->inputs, &sizes, d, inputs, sizeof inputs);
        if (i % 2 == 0)
            replace_numbers(c->attrs, &sizes, d, attrs, sizeof attrs);
        else
            (void)eo_copy_text(attrs, sizeof attrs, c->attrs);
        const struct op_case drawn = {c->op, inputs, attrs};
        enum eo_dtype dtype = draw_dtype(case_dtypes(eo_op_schema(c->op)), d);
        if (!inputs_small(inputs))
            continue;
        if (case_init(r, &drawn, dtype, draw_dtype(EO_SET_ANY, d), &err) == EO_OK && outputs_small(r))
            return true;
        run_fini(r);
    }
    return false;
}

/* ---- comparing ---- */

static void try_call(struct run *r, struct draw *d, const char *how)
{
    struct eo_error err;
    struct results expected, actual;
    case_fill(r, next(d, 4) == 0 ? FILL_SPECIAL : FILL_ORDINARY, d->key);
    ASSERT_OK(run_on(devices.reference, r, -1, &expected, &err));
    for (int b = 0; b < devices.n; b++) {
        int rc = run_on(devices.under_test[b], r, -1, &actual, &err);
        /* The fake device is small: a lowering may need more than it has. */
        if (rc == EO_E_UNSUPPORTED || rc == EO_E_DEVICE_MEMORY) {
            n_declined++;
            continue;
        }
        ASSERT_OK(rc);
        compare_results(r, &expected, &actual, devices.names[b], how);
        results_fini(&actual);
    }
    results_fini(&expected);
    n_calls[r->op->op]++;
}

static bool has_special_data(enum eo_op op)
{
    return case_is_update(op) || op == EO_OP_SUM_SQUARES;
}

START_TEST(random_calls_match_the_reference)
{
    for (int c = 0; c < case_count(); c++) {
        for (int64_t round = 0; round < rounds && !has_special_data(case_at(c)->op); round++) {
            struct draw d = {seed * 1000003 + (uint64_t)c * 1009 + (uint64_t)round, 0};
            char how[96];
            struct run r;
            (void)snprintf(how, sizeof how, "EVERYO_TEST_SEED=%llu, case %d, round %lld", (unsigned long long)seed, c,
                           (long long)round);
            if (draw_call(case_at(c), &d, &r)) {
                try_call(&r, &d, how);
                run_fini(&r);
            }
        }
    }
}
END_TEST

START_TEST(every_row_was_drawn)
{
    int n = 0;
    for (int op = 1; op < EO_OP_COUNT; op++) {
        n += n_calls[op];
        CHECK(n_calls[op] > 0 || has_special_data((enum eo_op)op), "no random call of %s was possible",
              eo_op_schema((enum eo_op)op)->name);
    }
    printf("%d random calls of %d rows compared, %d declined by a backend; EVERYO_TEST_SEED=%llu\n", n, EO_OP_COUNT - 1,
           n_declined, (unsigned long long)seed);
}
END_TEST

static void from_environment(const char *name, int64_t *out)
{
    const char *text = getenv(name);
    if (text && !eo_parse_i64(text, out))
        fprintf(stderr, "%s is \"%s\", no number: left as it is\n", name, text);
}

int main(void)
{
    const TTest *const tests[] = {random_calls_match_the_reference, every_row_was_drawn};
    int64_t given = SEED;
    from_environment("EVERYO_TEST_SEED", &given);
    from_environment("EVERYO_TEST_ROUNDS", &rounds);
    seed = (uint64_t)given;
    /* The devices have threads, which a forked test would not have. */
    (void)setenv("CK_FORK", "no", 1);
    devices_open(&devices);
    int rc = eo_suite_run("random calls", tests, EO_COUNT_OF(tests));
    devices_close(&devices);
    return rc;
}
