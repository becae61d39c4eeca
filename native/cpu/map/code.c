/* Checks the programs of maps and turns them into instructions for the engine (block.c). This file
 * computes no elements. */
#include "map.h"

#include <errno.h>
#include <string.h>

/* Returns the number of values that an op of a postfix program takes from the stack, or -1 for an
 * unknown op. Each op leaves one value. */
static int operands_of(uint32_t op)
{
    switch (op) {
    case SP_MAP_INPUT:
    case SP_MAP_CONST:
        return 0;
    case SP_MAP_NEG:
    case SP_MAP_ABS:
    case SP_MAP_RELU:
    case SP_MAP_SQUARE:
    case SP_MAP_EXP:
    case SP_MAP_LOG:
    case SP_MAP_SQRT:
    case SP_MAP_TANH:
    case SP_MAP_SIGMOID:
    case SP_MAP_SIN:
    case SP_MAP_COS:
    case SP_MAP_FLOOR:
        return 1;
    case SP_MAP_ADD:
    case SP_MAP_SUB:
    case SP_MAP_MUL:
    case SP_MAP_DIV:
    case SP_MAP_POW:
    case SP_MAP_MIN:
    case SP_MAP_MAX:
    case SP_MAP_LT:
    case SP_MAP_LE:
    case SP_MAP_GT:
    case SP_MAP_GE:
    case SP_MAP_EQ:
    case SP_MAP_NE:
        return 2;
    case SP_MAP_WHERE:
        return 3;
    default:
        return -1;
    }
}

/* Returns the rough cost of an op in additions, which decides how many elements are worth a
 * thread. */
static uint32_t weight_of(uint32_t op)
{
    switch (op) {
    case SP_MAP_EXP:
    case SP_MAP_LOG:
    case SP_MAP_TANH:
    case SP_MAP_SIGMOID:
        return 8;
    case SP_MAP_SIN:
    case SP_MAP_COS:
        return 16;
    case SP_MAP_POW:
        return 32;
    case SP_MAP_DIV:
    case SP_MAP_SQRT:
        return 4;
    default:
        return 1;
    }
}

/* Allocates `job->insns` in the caller's scratch memory, followed by a copy of the program, which
 * it returns. The program is copied, because another queue may write to the program's memory
 * between the check of a word and its use. Returns NULL when there is no memory. */
static const void *make_room(struct sp_map_job *job, size_t ninsns, const uint32_t *words, size_t nwords)
{
    const size_t nbytes = (ninsns + 1) * sizeof *job->insns;
    char *const room = sp_scratch(SP_SCRATCH_B, nbytes + nwords * sizeof *words);
    job->insns = (void *)room;
    job->ninsns = 0;
    job->weight = 1;
    return room ? memcpy(room + nbytes, words, nwords * sizeof *words) : NULL;
}

/* Appends an instruction. `from` is the type of a conversion's operand. */
static void emit(struct sp_map_job *job, uint32_t op, uint32_t type, uint32_t from, uint32_t out, const uint32_t in[3],
                 uint32_t operands)
{
    const struct sp_map_table *const t = job->table;
    const int converts = op == SP_MAP_CONVERT;
    job->insns[job->ninsns++] = (struct sp_map_insn){.fn = converts ? t->convert[type][from] : t->fn[type][op],
                                                     .past = converts ? NULL : t->past[type][op],
                                                     .link = converts ? NULL : t->link[type][op],
                                                     .type = type,
                                                     .operands = operands,
                                                     .out = out,
                                                     .a = in[0],
                                                     .b = in[1],
                                                     .c = in[2]};
    job->weight += weight_of(op);
}

/* Checks a postfix program. Returns the greatest depth of its stack, or -EINVAL. */
static int check_postfix(const struct sp_map_job *job, const uint32_t *program, uint32_t nops, uint32_t type)
{
    int depth = 0;
    int deepest = 0;
    for (uint32_t i = 0; i < nops; i++) {
        const uint32_t op = program[i] & 0xff;
        const uint32_t operand = program[i] >> 8;
        const int takes = operands_of(op);
        if (takes < 0 || depth < takes || (takes && !job->table->fn[type][op]))
            return -EINVAL;
        if (op == SP_MAP_INPUT && (operand >= SP_MAP_INPUTS || !job->x[operand].base))
            return -EINVAL;
        if (op == SP_MAP_CONST && operand >= job->nconsts)
            return -EINVAL;
        depth += 1 - takes;
        if (depth > SP_MAP_STACK)
            return -EINVAL;
        if (depth > deepest)
            deepest = depth;
    }
    return depth == 1 ? deepest : -EINVAL;
}

int sp_map_from_postfix(struct sp_map_job *job, const uint32_t *words, uint32_t nops, uint32_t type)
{
    if (nops == 0)
        return -EINVAL;
    const uint32_t *const program = make_room(job, nops, words, nops);
    if (!program)
        return -ENOMEM;
    const int deepest = check_postfix(job, program, nops, type);
    if (deepest < 0)
        return deepest;
    job->nregs = (uint32_t)deepest;
    job->width = sp_map_nbytes(type);
    uint32_t stack[SP_MAP_STACK + 3] = {0};
    uint32_t depth = 0;
    for (uint32_t i = 0; i < nops; i++) {
        const uint32_t op = program[i] & 0xff;
        const uint32_t operand = program[i] >> 8;
        const uint32_t takes = (uint32_t)operands_of(op);
        if (takes == 0) {
            stack[depth++] = op == SP_MAP_INPUT ? operand : SP_MAP_INPUTS + job->nregs + operand;
            continue;
        }
        depth -= takes;
        /* A register of the program is a buffer of intermediate results, one for each depth of the
         * stack. Register `depth` is free or holds this instruction's first operand. So the result
         * may go to it. */
        const uint32_t out = SP_MAP_INPUTS + depth;
        const uint32_t in[3] = {stack[depth], takes > 1 ? stack[depth + 1] : 0, takes > 2 ? stack[depth + 2] : 0};
        emit(job, op, type, type, out, in, takes);
        stack[depth++] = out;
    }
    if (job->ninsns == 0) /* the program is one input or one constant */
        emit(job, SP_MAP_CONVERT, type, type, SP_MAP_INPUTS, (const uint32_t[3]){stack[0]}, 1);
    return 0;
}

/* Returns the number of operands of an instruction, or -1 if the op is not available for this
 * type. */
static int lowered_operands(const struct sp_map_table *table, uint32_t op, uint32_t type)
{
    if (type >= SP_MAP_TYPES || op >= SP_MAP_LOWERED_OPS)
        return -1;
    if (op == SP_MAP_CONVERT)
        return 1;
    if (!table->fn[type][op])
        return -1;
    return op >= SP_MAP_FMA ? 3 : operands_of(op);
}

/* Returns an operand's index in the array `slot` of struct sp_map_thread. Returns -EINVAL if the
 * operand does not exist, or if an input has another type than the instruction reads. */
static int64_t slot_of(const struct sp_map_job *job, uint32_t operand, uint32_t type)
{
    const uint32_t kind = operand >> 28;
    const uint32_t index = operand & 0xfffffff;
    if (kind == SP_MAP_KIND_REGISTER && index < job->nregs)
        return SP_MAP_INPUTS + index;
    if (kind == SP_MAP_KIND_INPUT && index < SP_MAP_INPUTS && job->x[index].base && job->x[index].type == type)
        return index;
    if (kind == SP_MAP_KIND_CONST && index < job->nconsts)
        return (int64_t)SP_MAP_INPUTS + job->nregs + index;
    return -EINVAL;
}

int sp_map_from_words(struct sp_map_job *job, const uint32_t *words, uint32_t nwords)
{
    const uint32_t ninsns = nwords / SP_MAP_INSN_WORDS;
    if (ninsns == 0 || nwords % SP_MAP_INSN_WORDS || job->nconsts > 1u << 28)
        return -EINVAL;
    const struct sp_map_words *const code = make_room(job, ninsns, words, nwords);
    if (!code)
        return -ENOMEM;
    job->nregs = 0;
    job->width = 1;
    for (uint32_t i = 0; i < ninsns; i++) {
        const uint32_t out = code[i].head >> 16;
        if (out >= SP_MAP_REGISTERS)
            return -EINVAL;
        if (out >= job->nregs)
            job->nregs = out + 1;
    }
    for (uint32_t i = 0; i < ninsns; i++) {
        const uint32_t op = code[i].head & 0xff;
        const uint32_t type = code[i].head >> 8 & 0xff;
        const int takes = lowered_operands(job->table, op, type);
        if (takes < 1)
            return -EINVAL;
        const uint32_t from = op == SP_MAP_CONVERT ? code[i].c : type;
        if (from >= SP_MAP_TYPES || (op == SP_MAP_CONVERT && !job->table->convert[type][from]))
            return -EINVAL;
        int64_t slot[3] = {slot_of(job, code[i].a, from), 0, 0};
        if (takes > 1)
            slot[1] = slot_of(job, code[i].b, type);
        if (takes > 2)
            slot[2] = slot_of(job, code[i].c, type);
        if (slot[0] < 0 || slot[1] < 0 || slot[2] < 0)
            return -EINVAL;
        const uint32_t nbytes = sp_map_nbytes(type), read_nbytes = sp_map_nbytes(from);
        const uint32_t wide = nbytes > read_nbytes ? nbytes : read_nbytes;
        job->width = wide > job->width ? wide : job->width;
        const uint32_t in[3] = {(uint32_t)slot[0], (uint32_t)slot[1], (uint32_t)slot[2]};
        emit(job, op, type, from, SP_MAP_INPUTS + (code[i].head >> 16), in, (uint32_t)takes);
    }
    return 0;
}
