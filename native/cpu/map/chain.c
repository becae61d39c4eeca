/* Chains: an engine for maps whose instructions are all simple and of one type. Eight vectors at a
 * time go through all instructions. Each instruction is a link: it takes the previous result in CPU
 * registers and reads its other operands from memory.
 *
 * The other engine (block.c) runs each instruction over a group of elements and stores each result.
 * A chain stores no value that only the next instruction reads. With arrays in the caches, a chain
 * of six operations takes two thirds of the time of the other engine. A single value for all
 * elements is read as vectors too, from a block of copies.
 *
 * If the result is stored with streaming stores and the arrays come from memory, the first links
 * prefetch lines of each array. A map of two instructions on three arrays is then as fast as a
 * hand-written loop, and a tenth faster than by block.c. Half the prefetch distance works as well;
 * twice the distance takes a third longer. */
#include "map.h"

#include <string.h>

/* Limits of a chain: the fewest and the most instructions, the most constants. With fewer than
 * LEAST_INSNS instructions, block.c is as fast, unless the chain writes with streaming stores and
 * so prefetches: then two instructions suffice. MOST_INSNS limits the stack: each link ends by
 * calling the next link, so in a build without optimisation the stack is as deep as the chain. */
enum { LEAST_INSNS = 3, MOST_INSNS = 24, MOST_CONSTS = 16 };

static uint32_t reads(const struct sp_map_insn *in, uint32_t slot)
{
    const uint32_t b = in->operands > 1 && in->b == slot, c = in->operands > 2 && in->c == slot;
    return (in->a == slot) | b << 1 | c << 2;
}

/* Returns 1 if an instruction after k + 1 reads the result of instruction k, or if instruction k +
 * 1 reads it twice. */
static uint32_t is_kept(const struct sp_map_job *job, uint32_t k)
{
    const uint32_t out = job->insns[k].out;
    for (uint32_t j = k + 1; j < job->ninsns; j++) {
        const uint32_t found = reads(&job->insns[j], out);
        if (j > k + 1 ? found : found & (found - 1))
            return 1;
        if (job->insns[j].out == out)
            return 0;
    }
    return 0;
}

void sp_map_choose_chain(struct sp_map_job *job)
{
    job->chained = 0;
    const uint32_t least = job->stream ? 2 : LEAST_INSNS;
    if (job->ninsns < least || job->ninsns > MOST_INSNS || job->nconsts > MOST_CONSTS)
        return;
    for (uint32_t k = 0; k < job->ninsns; k++)
        if (!job->insns[k].link || job->insns[k].type != job->insns[0].type)
            return;
    job->chained = 1;
    for (uint32_t k = 0; k < job->ninsns; k++) {
        struct sp_map_insn *const in = &job->insns[k];
        const uint32_t handed = k ? reads(in, in[-1].out) : 0;
        in->handed = handed & (handed - 1) ? 0 : handed;
        in->kept = is_kept(job, k);
    }
}

size_t sp_map_chain_scratch(const struct sp_map_job *job)
{
    return job->chained ? (SP_MAP_INPUTS + 2 * job->ninsns + (size_t)1) * sizeof(struct sp_map_link) : 0;
}

void sp_map_copies(const struct sp_map_job *job, char *to, const char *value)
{
    memcpy(to, value, job->width);
    for (size_t there = job->width; there < job->table->chain_nbytes; there *= 2)
        memcpy(to + there, to, there);
}

static void make_links(const struct sp_map_job *job, const struct sp_map_thread *t, char *to, sp_map_link_fn *store)
{
    struct sp_map_link *l = t->link;
    for (uint32_t i = 0; job->stream && i < SP_MAP_INPUTS; i++)
        if (job->x[i].base && t->slot[i].by)
            *l++ = (struct sp_map_link){.fn = job->table->link_ahead, .in = {t->slot[i].at}};
    for (uint32_t k = 0; k < job->ninsns; k++, l++) {
        const struct sp_map_insn *const in = &job->insns[k];
        const uint32_t slots[3] = {in->a, in->b, in->c};
        l->fn = in->link;
        l->handed = in->handed;
        for (uint32_t i = 0; i < in->operands; i++) {
            const struct sp_map_slot *const slot = &t->slot[slots[i]];
            l->in[i] = slot->scalar ? slot->copies : slot->at;
            l->moves[i] = slot->by ? ~(size_t)0 : 0;
        }
        if (in->kept) {
            l++;
            l->fn = job->table->link_keep;
            l->out = (char *)(uintptr_t)t->slot[in->out].at;
        }
    }
    l->fn = store;
    l->out = to;
}

size_t sp_map_run_chain(const struct sp_map_job *job, const struct sp_map_thread *t, char *to, size_t done, size_t end,
                        uint32_t past)
{
    const struct sp_map_table *const table = job->table;
    const size_t nbytes = (end - done) * job->width / table->chain_nbytes * table->chain_nbytes;
    if (!job->chained || nbytes == 0)
        return done;
    make_links(job, t, to, past ? table->link_past : table->link_store);
    table->chain(t->link, done * job->width, done * job->width + nbytes);
    return done + nbytes / job->width;
}
