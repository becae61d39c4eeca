/* Runs the instructions of a map over a block of elements. One group of elements at a time goes
 * through all instructions, so intermediate values never leave L1, and all arrays are read side by
 * side. Contiguous inputs are read in place. Other inputs are gathered, a block at a time
 * (gather.c). An input with a single value for the whole block is passed as one value. */
#include "map.h"

#include <errno.h>
#include <string.h>

/* A group is the elements that go through all instructions together. Its size, GROUP_NBYTES, is
 * long enough to hide the time in which an instruction starts. It is short enough that hardware
 * prefetches all arrays at once. With arrays in memory, groups of 64 to 256 floats are as fast as a
 * hand-written loop for the expression. Groups of 1024 floats are a sixth slower. With arrays in
 * the caches, groups of 256 floats are a tenth faster than groups of 128. Software prefetches made
 * each of these cases slower.
 *
 * A block of LONG elements or more begins with a short group, so that later stores do not straddle
 * cache lines. numpy's large arrays begin 16 bytes after the start of a line; inputs with the same
 * offset are then read in whole lines too. With arrays in the caches, this makes a map a tenth
 * faster, and a map that runs as a chain (chain.c) a third. */
enum { BLOCK_NBYTES = 2048, GROUP_NBYTES = 1024, L1_NBYTES = 24 * 1024, LEAST = 64, APART = 64, LONG = 4096 };

/* Returns how many elements of the widest type fit into `nbytes`, or fewer if `buffers` buffers of
 * them would exceed the cache. */
static uint32_t fitting(const struct sp_map_job *job, size_t buffers, uint32_t nbytes)
{
    const size_t most = L1_NBYTES / (buffers * job->width) / LEAST * LEAST;
    const uint32_t wanted = nbytes / job->width;
    return most >= wanted ? wanted : most < LEAST ? LEAST : (uint32_t)most;
}

void sp_map_choose_block(struct sp_map_job *job)
{
    uint32_t inputs = 0, spread = !job->y.whole && !job->y.in_rows, periods = 0;
    job->rows = !job->y.whole;
    for (uint32_t i = 0; i < SP_MAP_INPUTS; i++) {
        const struct sp_map_operand *const x = &job->x[i];
        inputs += x->base != NULL;
        periods |= x->period != 0;
        job->rows |= x->base && !x->whole && !x->period;
        spread |= x->base && !x->whole && !x->period && !x->in_rows;
    }
    const struct sp_map_insn *const only = job->insns;
    job->copies = job->ninsns == 1 && only->a < SP_MAP_INPUTS && only->fn == job->table->convert[only->type][only->type];
    job->block = fitting(job, inputs + 1, BLOCK_NBYTES);
    /* A single instruction has no intermediate values, so a block is computed as one group. */
    job->group = job->ninsns == 1 ? job->block : fitting(job, inputs + job->nregs + 1, GROUP_NBYTES);
    job->again = (uint32_t)(job->total < SP_MAP_PERIOD ? job->total : SP_MAP_PERIOD);
    job->most = spread ? job->block : periods ? job->again : job->total;
    sp_map_choose_chain(job);
}

static size_t rounded(size_t nbytes)
{
    return (nbytes + APART - 1) / APART * APART;
}

/* Returns the number of bytes that a gathered input takes. An input with a period needs its
 * pattern, and a repeated part for blocks that begin anywhere in the pattern. */
static size_t gathered_nbytes(const struct sp_map_job *job, const struct sp_map_operand *x)
{
    if (!x->base || x->whole)
        return 0;
    return rounded((x->period ? x->period + job->again : job->block) * sp_map_nbytes(x->type)) + APART;
}

/* Copies the pattern of a repeating input to `to`, and repeats it there as far as a block of
 * elements may read. */
static void repeat(const struct sp_map_job *job, const struct sp_map_operand *x, char *to)
{
    const size_t period = (size_t)x->period * sp_map_nbytes(x->type);
    const size_t wanted = period + job->again * (size_t)sp_map_nbytes(x->type);
    sp_map_gather(job, x, to, 0, (size_t)x->period);
    for (size_t there = period; there < wanted; there *= 2)
        memcpy(to + there, to, wanted - there < there ? wanted - there : there);
}

int sp_map_begin(const struct sp_map_job *job, struct sp_map_thread *t, size_t extra)
{
    const size_t nslots = SP_MAP_INPUTS + (size_t)job->nregs + job->nconsts;
    const size_t steps = (job->ninsns + (size_t)1) * sizeof(struct sp_map_step);
    const size_t links = sp_map_chain_scratch(job), at_once = job->chained ? rounded(job->table->chain_nbytes) : 0;
    const size_t group = rounded((size_t)job->group * job->width);
    /* A register of the program is a buffer of intermediate results. APART more bytes per buffer
     * place the buffers in different cache sets. */
    const size_t register_nbytes = (group > at_once ? group : at_once) + APART;
    size_t nbytes = rounded(nslots * sizeof *t->slot) + rounded(steps) + rounded(links) + rounded(extra);
    nbytes += job->nregs * register_nbytes + rounded((size_t)job->block * job->width);
    nbytes += (SP_MAP_INPUTS + job->nconsts) * at_once;
    for (uint32_t i = 0; i < SP_MAP_INPUTS; i++)
        nbytes += gathered_nbytes(job, &job->x[i]);
    char *at = sp_scratch(SP_SCRATCH_A, nbytes);
    if (!at)
        return -ENOMEM;
    t->slot = (void *)at;
    memset(at, 0, nslots * sizeof *t->slot);
    at += rounded(nslots * sizeof *t->slot);
    t->step = (void *)at;
    at += rounded(steps);
    t->link = (void *)at;
    at += rounded(links);
    t->extra = at;
    at += rounded(extra);
    for (uint32_t i = 0; i < SP_MAP_INPUTS; i++) {
        t->gathered[i] = at;
        if (job->x[i].period)
            repeat(job, &job->x[i], at);
        at += gathered_nbytes(job, &job->x[i]);
    }
    struct sp_map_slot *const registers = t->slot + SP_MAP_INPUTS, *const consts = registers + job->nregs;
    for (uint32_t i = 0; i < job->nregs; i++, at += register_nbytes)
        registers[i].at = at;
    for (uint32_t i = 0; i < job->nconsts; i++, at += at_once) {
        consts[i] = (struct sp_map_slot){.at = job->consts + (size_t)i * job->const_nbytes, .scalar = 1, .copies = at};
        if (job->chained)
            sp_map_copies(job, at, consts[i].at);
    }
    for (uint32_t i = 0; i < SP_MAP_INPUTS; i++, at += at_once)
        t->slot[i].copies = at;
    t->result = at;
    return 0;
}

/* Finds where block [at, at + count) of input i lies, and gathers it if needed. `index` is the
 * index of element `at`. `in_row` says that the block stays in one row. */
static void find_input(const struct sp_map_job *job, struct sp_map_thread *t, uint32_t i, uint64_t at, size_t count,
                       const uint64_t index[SP_MAP_DIMS], int in_row)
{
    struct sp_map_slot *const slot = &t->slot[i];
    const struct sp_map_operand *const x = &job->x[i];
    const uint32_t nbytes = sp_map_nbytes(x->type);
    slot->by = nbytes;
    slot->scalar = 0;
    if (x->whole) {
        slot->at = x->base + at * nbytes;
        return;
    }
    if (x->period) {
        slot->at = t->gathered[i] + at % x->period * nbytes;
        return;
    }
    if (in_row) {
        const int64_t stride = x->stride[job->ndim - 1];
        slot->at = sp_map_address(job, x, index);
        slot->scalar = stride == 0;
        slot->by = stride == 0 ? 0 : nbytes;
        if ((uintptr_t)slot->at % nbytes == 0 && (stride == 0 || stride == nbytes || count == 1)) {
            if (job->chained && slot->scalar)
                sp_map_copies(job, slot->copies, slot->at);
            return;
        }
    }
    sp_map_gather(job, x, t->gathered[i], at, count);
    slot->at = t->gathered[i];
    slot->scalar = 0;
    slot->by = nbytes;
}

/* Makes a step of each instruction: the instruction's function, with the addresses of its operands
 * in this block. The last instruction writes to `to`. */
static void make_steps(const struct sp_map_job *job, const struct sp_map_thread *t, char *to)
{
    struct sp_map_step *s = t->step;
    for (uint32_t k = 0; k < job->ninsns; k++, s++) {
        const struct sp_map_insn *const in = &job->insns[k];
        const struct sp_map_slot *const a = &t->slot[in->a], *const b = &t->slot[in->b], *const c = &t->slot[in->c];
        /* Assign field by field. run_steps soon reads single fields, and such a read would wait for
         * a wider store. */
        s->fn = in->fn;
        s->scalars = a->scalar | b->scalar << 1 | c->scalar << 2;
        s->out = (char *)(uintptr_t)t->slot[in->out].at;
        s->out_by = 0;
        s->in[0] = a->at;
        s->in[1] = b->at;
        s->in[2] = c->at;
        s->by[0] = a->by;
        s->by[1] = b->by;
        s->by[2] = c->by;
    }
    s[-1].out = to;
    s[-1].out_by = sp_map_result_nbytes(job);
}

/* Runs the first `nsteps` instructions for elements [done, end) of the block, one group at a
 * time. */
static void run_steps(const struct sp_map_job *job, const struct sp_map_thread *t, uint32_t nsteps, size_t done, size_t end)
{
    const struct sp_map_step *const last = t->step + nsteps;
    for (; done < end; done += job->group) {
        const size_t n = end - done < job->group ? end - done : job->group;
        for (const struct sp_map_step *s = t->step; s < last; s++)
            s->fn(s->out + done * s->out_by, s->in[0] + done * s->by[0], s->in[1] + done * s->by[1],
                  s->in[2] + done * s->by[2], s->scalars, n);
    }
}

/* Runs all instructions for elements [done, end), which fill whole cache lines of `out`. Stores the
 * result with streaming stores, which bypass the caches. */
static void run_past(const struct sp_map_job *job, const struct sp_map_thread *t, size_t done, size_t end)
{
    struct sp_map_step *const last = t->step + job->ninsns - 1;
    const struct sp_map_step kept = *last;
    uint32_t nsteps = job->ninsns;
    if (job->insns[nsteps - 1].past) {
        last->fn = job->insns[nsteps - 1].past;
    /* the last instruction has no function with streaming stores: compute a group, then copy it */
    } else {
        last[1] = (struct sp_map_step){.fn = job->table->past_copy[job->y.type],
                                       .out = last->out,
                                       .out_by = last->out_by,
                                       .in = {t->result, t->result, t->result}};
        last->out = t->result;
        last->out_by = 0;
        nsteps++;
    }
    run_steps(job, t, nsteps, done, end);
    *last = kept;
}

const void *sp_map_block(const struct sp_map_job *job, struct sp_map_thread *t, uint64_t at, size_t count, void *direct,
                         uint32_t past)
{
    uint64_t index[SP_MAP_DIMS];
    if (job->rows)
        sp_map_indices(job, at, index);
    const int in_row = job->rows && count <= job->shape[job->ndim - 1] - index[job->ndim - 1];
    for (uint32_t i = 0; i < SP_MAP_INPUTS; i++)
        if (job->x[i].base)
            find_input(job, t, i, at, count, index, in_row);
    if (job->copies && !direct && t->slot[job->insns->a].by)
        /* The program only copies its input, and the caller, a reduction, asked for no copy in
         * `direct`. So return the address of the input itself. */
        return t->slot[job->insns->a].at;
    char *const to = direct ? direct : t->result;
    make_steps(job, t, to);
    const uint32_t nbytes = sp_map_result_nbytes(job), line = SP_MAP_LINES / nbytes;
    const size_t over = direct && (past || count >= LONG) ? -(uintptr_t)to % SP_MAP_LINES / nbytes : 0;
    const size_t first = over < count ? over : count;
    const size_t lines = past && direct ? (count - first) / line * line : 0;
    run_steps(job, t, job->ninsns, 0, first);
    size_t done = sp_map_run_chain(job, t, to, first, lines ? first + lines : count, lines != 0);
    if (lines) {
        run_past(job, t, done, first + lines);
        done = first + lines;
    }
    run_steps(job, t, job->ninsns, done, count);
    return to;
}

size_t sp_map_step(const struct sp_map_job *job, uint64_t at, uint64_t most)
{
    const uint64_t row = job->shape[job->ndim - 1];
    uint64_t step = most < job->block ? most : job->block;
    if (job->ndim > 1 && row >= SP_MAP_WHOLE_ROW && row - at % row < step)
        step = row - at % row;
    return (size_t)step;
}
