#include "backends/cpu/program.h"

#include "backends/cpu/parallel.h"

#include <string.h>

static int register_size(const struct program *p, int r)
{
    return r < p->n_inputs ? p->inputs[r].size : p->steps[r - p->n_inputs].size;
}

static bool register_is_one(const struct program *p, int r)
{
    return r < p->n_inputs ? p->inputs[r].is_one : p->steps[r - p->n_inputs].is_one;
}

static enum program_access access_of(const struct space *s, int input)
{
    int64_t dense = 1;
    bool is_dense = true, is_one = true;
    for (int d = s->n_dims - 1; d >= 0; d--) {
        is_dense = is_dense && s->stride[input][d] == dense;
        is_one = is_one && s->stride[input][d] == 0;
        dense *= s->shape[d];
    }
    return is_dense ? PROGRAM_DENSE : is_one ? PROGRAM_ONE : PROGRAM_VARIED;
}

/* Which inputs and steps are one element in the inner loop: known from the strides. */
static void classify(struct program *p)
{
    int inner = p->space.n_dims - 1;
    p->count = space_count(&p->space);
    p->row = inner >= 0 ? p->space.shape[inner] : 1;
    for (int i = 0; i < p->n_inputs; i++) {
        p->inputs[i].access = access_of(&p->space, i);
        p->has_varied = p->has_varied || p->inputs[i].access == PROGRAM_VARIED;
    }
    p->is_packed = p->has_varied && p->row < PROGRAM_ROW;
    for (int i = 0; i < p->n_inputs; i++) {
        enum program_access access = p->inputs[i].access;
        p->inputs[i].is_one =
            access == PROGRAM_ONE || (access == PROGRAM_VARIED && !p->is_packed && p->space.stride[i][inner] == 0);
    }
    for (int s = 0; s < p->n_steps; s++) {
        struct program_step *step = &p->steps[s];
        for (int i = 0; i < step->n_in; i++)
            step->scalars = (uint8_t)(step->scalars | (register_is_one(p, step->in[i]) ? 1u << i : 0));
        step->is_one = step->scalars == (1u << step->n_in) - 1;
    }
}

/* The last step that reads register r, -1 when none does. */
static int last_use(const struct program *p, int r)
{
    int last = -1;
    for (int s = 0; s < p->n_steps; s++)
        for (int i = 0; i < p->steps[s].n_in; i++)
            if (p->steps[s].in[i] == r)
                last = s;
    return last;
}

/* Scratch registers are handed out in order of the steps and taken back after their last use. */
static void assign_slots(struct program *p)
{
    int free_after[PROGRAM_REGISTERS], n = 0;
    for (int i = 0; i < p->n_inputs; i++)
        if (p->is_packed && p->inputs[i].access == PROGRAM_VARIED) {
            p->inputs[i].slot = (uint8_t)n;
            free_after[n++] = last_use(p, i);
        }
    for (int s = 0; s < p->n_steps; s++) {
        if (p->steps[s].output >= 0 && !p->steps[s].is_one && !p->around)
            continue;
        int slot = 0, last = last_use(p, p->n_inputs + s);
        while (slot < n && free_after[slot] >= s)
            slot++;
        n = slot == n ? n + 1 : n;
        free_after[slot] = last > s ? last : s;
        p->steps[s].slot = (uint8_t)slot;
    }
    p->n_slots = n;
}

/* A result that no cache holds is put together in a scratch register and goes to memory around the caches: its lines
 * need not be read first. */
static bool goes_around(const struct program *p)
{
    int narrowest = 8;
    for (int s = 0; s < p->n_steps; s++)
        if (p->steps[s].output >= 0)
            narrowest = EO_MIN(narrowest, p->steps[s].size);
    return p->count >= PROGRAM_AROUND_FROM / narrowest;
}

static void choose_block(struct program *p)
{
    int widest = 1;
    for (int r = 0; r < p->n_inputs + p->n_steps; r++)
        widest = EO_MAX(widest, register_size(p, r));
    p->block = PROGRAM_MAX_BLOCK;
    while (p->block > PROGRAM_MIN_BLOCK && p->block * p->n_slots * widest > PROGRAM_BLOCK_BYTES)
        p->block /= 2;
    /* A single step without scratch registers gains nothing from blocks. */
    if (p->n_steps == 1 && p->n_slots == 0)
        p->block = INT64_MAX;
}

/* Output 0 may lie over an input that has the result's shape and element size, when that input is not read any more
 * once the step that writes output 0 has run. */
static uint32_t in_place_mask(const struct program *p)
{
    uint32_t mask = 0;
    int writer = 0;
    while (writer < p->n_steps && p->steps[writer].output != 0)
        writer++;
    for (int i = 0; writer < p->n_steps && i < p->n_inputs; i++)
        if (p->inputs[i].access == PROGRAM_DENSE && p->inputs[i].size == p->steps[writer].size &&
            last_use(p, i) <= writer)
            mask |= 1u << i;
    return mask;
}

void program_plan(struct program *p, int threads, uint32_t *out_in_place, uint64_t *out_workspace)
{
    space_merge(&p->space);
    classify(p);
    p->around = goes_around(p);
    assign_slots(p);
    choose_block(p);
    *out_in_place = in_place_mask(p);
    *out_workspace = p->n_slots == 0 ? 0 : (uint64_t)threads * (uint64_t)p->n_slots * (uint64_t)p->block * 8;
}

/* One thread's work: where the registers are for the current block. */
struct run {
    const struct program *p;
    const struct eo_launch *l;
    const struct vector_block *around; /* NULL: results are written where they belong at once */
    const void *reg[PROGRAM_REGISTERS];
};

static char *slot_memory(const struct run *r, int slot, int thread)
{
    const struct program *p = r->p;
    return (char *)r->l->workspace + ((int64_t)thread * p->n_slots + slot) * p->block * 8;
}

/* All steps for n elements; the result's element number is first. */
static void run_steps(struct run *r, int64_t first, int64_t n, int thread)
{
    const struct program *p = r->p;
    for (int s = 0; s < p->n_steps; s++) {
        const struct program_step *step = &p->steps[s];
        const void *in[3] = {NULL, NULL, NULL};
        for (int i = 0; i < step->n_in; i++)
            in[i] = r->reg[step->in[i]];
        char *result = step->output >= 0 ? (char *)r->l->out[step->output] + first * step->size : NULL;
        if (step->is_one) {
            char *one = slot_memory(r, step->slot, thread);
            step->run(1, one, in, 0, &step->args);
            if (result)
                (*p->copies)[EO_OP_EXPAND][step->dtype](n, result, (const void *const[]){one}, 1, NULL);
            r->reg[p->n_inputs + s] = one;
            continue;
        }
        char *to = result && !r->around ? result : slot_memory(r, step->slot, thread);
        step->run(n, to, in, step->scalars, &step->args);
        if (to != result && result)
            r->around->stream(n * step->size, result, to);
        r->reg[p->n_inputs + s] = to;
    }
}

/* Dense and scalar inputs only: elements begin..end-1. */
static void run_flat(void *context, int64_t begin, int64_t end, int thread)
{
    struct run r = *(const struct run *)context;
    const struct program *p = r.p;
    for (int64_t first = begin; first < end;) {
        int64_t n = EO_MIN(end - first, p->block);
        for (int i = 0; i < p->n_inputs; i++)
            r.reg[i] = (const char *)r.l->in[i] + (p->inputs[i].is_one ? 0 : first * p->inputs[i].size);
        run_steps(&r, first, n, thread);
        first += n;
    }
    if (r.around)
        r.around->stream_end();
}

static const char *varied_row(const struct run *r, int input, int64_t row)
{
    const struct program *p = r->p;
    int64_t offset = space_offset(&p->space, input, p->space.n_dims - 1, row);
    return (const char *)r->l->in[input] + offset * p->inputs[input].size;
}

/* Rows begin..end-1, each one long enough to be worked on in place. */
static void run_rows(void *context, int64_t begin, int64_t end, int thread)
{
    struct run r = *(const struct run *)context;
    const struct program *p = r.p;
    for (int64_t row = begin; row < end; row++) {
        const char *base[EO_FUSED_MAX_INPUTS];
        for (int i = 0; i < p->n_inputs; i++) {
            int64_t dense = row * p->row * p->inputs[i].size;
            bool is_varied = p->inputs[i].access == PROGRAM_VARIED;
            base[i] = is_varied ? varied_row(&r, i, row) : (const char *)r.l->in[i] + (p->inputs[i].is_one ? 0 : dense);
        }
        for (int64_t at = 0; at < p->row;) {
            int64_t n = EO_MIN(p->row - at, p->block);
            for (int i = 0; i < p->n_inputs; i++)
                r.reg[i] = base[i] + (p->inputs[i].is_one ? 0 : at * p->inputs[i].size);
            run_steps(&r, row * p->row + at, n, thread);
            at += n;
        }
    }
    if (r.around)
        r.around->stream_end();
}

/* Copies rows of a broadcast input next to each other, so that the block looks dense. */
static void pack_rows(const struct run *r, int input, int64_t row, int64_t n_rows, char *to)
{
    const struct program *p = r->p;
    const struct program_input *in = &p->inputs[input];
    unsigned scalars = p->space.stride[input][p->space.n_dims - 1] == 0 ? 1 : 0;
    vector_map_fn copy = (*p->copies)[EO_OP_EXPAND][in->dtype];
    for (int64_t i = 0; i < n_rows; i++)
        copy(p->row, to + i * p->row * in->size, (const void *const[]){varied_row(r, input, row + i)}, scalars, NULL);
}

static void run_packed(void *context, int64_t begin, int64_t end, int thread)
{
    struct run r = *(const struct run *)context;
    const struct program *p = r.p;
    const int64_t rows_per_block = p->block / p->row;
    for (int64_t row = begin; row < end;) {
        int64_t n_rows = EO_MIN(end - row, rows_per_block), first = row * p->row;
        for (int i = 0; i < p->n_inputs; i++) {
            r.reg[i] = (const char *)r.l->in[i] + (p->inputs[i].is_one ? 0 : first * p->inputs[i].size);
            if (p->inputs[i].access == PROGRAM_VARIED) {
                char *to = slot_memory(&r, p->inputs[i].slot, thread);
                pack_rows(&r, i, row, n_rows, to);
                r.reg[i] = to;
            }
        }
        run_steps(&r, first, n_rows * p->row, thread);
        row += n_rows;
    }
    if (r.around)
        r.around->stream_end();
}

/* Lines that were just read are in the cache: writing around it would gain nothing. */
static bool is_in_place(const struct program *p, const struct eo_launch *l)
{
    bool found = false;
    for (int i = 0; i < p->n_inputs; i++)
        found = found || l->in[i] == l->out[0];
    return found;
}

int program_run(struct cpu_device *dev, const struct eo_launch *l, struct eo_error *err)
{
    (void)err;
    const struct program *p = l->state;
    struct run r = {.p = p, .l = l, .around = p->around && !is_in_place(p, l) ? dev->vec->block : NULL};
    if (p->count == 0)
        return EO_OK;
    if (p->has_varied)
        parallel_for(dev->base.info.threads, p->count / p->row, parallel_grain(p->cost * p->row),
                     p->is_packed ? run_packed : run_rows, &r);
    else
        parallel_for(dev->base.info.threads, p->count, parallel_grain(p->cost), run_flat, &r);
    return EO_OK;
}
