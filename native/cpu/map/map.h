/* Declarations that the files of the maps share. code.c decodes programs into instructions. run.c
 * and fold.c run them a block at a time by block.c. kernels.inc has the table of an instruction
 * set's loops. */
#ifndef SP_CPU_MAP_H
#define SP_CPU_MAP_H
#include "include/sp_map.h"
#include "cpu/runtime/kernel.h"

#include <stddef.h>

enum {
    SP_MAP_MOST_BLOCK = 512, /* fold.c allocates at least this many accumulators per thread */
    /* Streaming stores begin at an address that is a multiple of this, and write a multiple of this
     * many bytes. */
    SP_MAP_LINES = 128,
    SP_MAP_LANES = 32,      /* number of accumulators (lanes) that reduce a row */
    /* Rows of at least this many elements are long. If arrays are not contiguous, no block crosses
     * the end of a long row. */
    SP_MAP_WHOLE_ROW = 256,
    SP_MAP_PERIOD = 2048,   /* limit of a repeating input's period, in elements */
};

/* A loop that runs one instruction over n elements. Bits of `scalars` mark operands that are a
 * single value for all elements: 1 for a, 2 for b, 4 for c. `out` equals an operand or is disjoint
 * from it. */
typedef void sp_map_fn(void *out, const void *a, const void *b, const void *c, uint32_t scalars, size_t n);

/* The functions of one reduction of a map (fold.c). An accumulator has at most 8 bytes. Sums have
 * double or int64_t accumulators; max and min have accumulators of the element's type. */
struct sp_map_folds {
    uint32_t nbytes; /* bytes of an accumulator */
    void (*first)(void *acc, size_t n);
    /* reduces x[i] into the accumulator lanes[i % SP_MAP_LANES], for each i < n */
    void (*run)(void *lanes, const void *x, size_t n);
    /* reduces the accumulators lanes[0..SP_MAP_LANES) into lanes[0] */
    void (*join)(void *lanes);
    /* reduces x[r * width + i] of each row r into acc[i] */
    void (*rows)(void *acc, const void *x, size_t rows, size_t width);
    /* reduces other[i] into acc[i] */
    void (*merge)(void *acc, const void *other, size_t n);
    /* stores y[i] = acc[i], or acc[i] / count if count is not 0 */
    void (*store)(void *y, const void *acc, size_t n, size_t count);
};

/* The function of a link, one step of a chain (struct sp_map_link). Each instruction set casts it
 * to its own type. */
typedef void sp_map_link_fn(void);
/* A chain (chain.c) runs all instructions of a map on eight vectors at a time. A link is one step
 * of a chain, mostly one instruction. It hands its result to the next link in CPU registers. */
struct sp_map_link {
    sp_map_link_fn *fn;
    /* which operand the previous link of the chain leaves in CPU registers; 1: a, 2: b, 4: c, 0: none */
    uint32_t handed;
    /* per operand: address of its elements, or of eight vectors with copies of a single value */
    const char *in[3];
    /* Per operand, a mask for the offset that a pass over the arrays adds to `in`. It is all ones
     * if `in` points to elements of an array. It is 0 if `in` points to copies of a single value or
     * to a kept result, which have the same address in each pass. */
    size_t moves[3];
    char *out;         /* where the link stores its result; unused if it stores none */
};

struct sp_map_table {
    /* functions of the operations, indexed by [element type][op]; NULL: the type lacks the op */
    sp_map_fn *fn[SP_MAP_TYPES][SP_MAP_LOWERED_OPS];
    /* functions that convert a type, indexed by [result type][operand type]; NULL: not available */
    sp_map_fn *convert[SP_MAP_TYPES][SP_MAP_TYPES];
    /* Functions as in `fn`, but with streaming stores to `out`. Such a store does not read a line
     * before it writes the line, and it evicts no needed line. The address and the size of `out`
     * are multiples of SP_MAP_LINES bytes. If `fence` is NULL, `past` and `past_copy` are
     * empty. Otherwise `past_copy` has a function for each type. */
    sp_map_fn *past[SP_MAP_TYPES][SP_MAP_LOWERED_OPS];
    sp_map_fn *past_copy[SP_MAP_TYPES];
    void (*fence)(void); /* orders streaming stores; called after the last of them */
    /* links of chains (struct sp_map_link), indexed by [element type][op]; NULL: chains cannot run
     * the op */
    sp_map_link_fn *link[SP_MAP_TYPES][SP_MAP_LOWERED_OPS];
    sp_map_link_fn *link_ahead, *link_keep, *link_store, *link_past;
    uint32_t chain_nbytes; /* bytes of each array that a chain (struct sp_map_link) handles at a time */
    /* Runs a chain for bytes [at, end) of the arrays. end - at is a multiple of chain_nbytes. */
    void (*chain)(const struct sp_map_link *first, size_t at, size_t end);
    struct sp_map_folds fold[SP_MAP_FOLDS][SP_MAP_TYPES];
};

/* An instruction. `out`, a, b and c are indices in the array `slot` of struct sp_map_thread. The
 * array has first the 8 inputs, then the program's registers (buffers of intermediate results),
 * then the constants. */
struct sp_map_insn {
    sp_map_fn *fn, *past;
    /* the instruction's function in a chain (struct sp_map_link); NULL: no chain can run it */
    sp_map_link_fn *link;
    uint32_t out, a, b, c;
    uint32_t type, operands;
    /* Only for chains (struct sp_map_link). `handed` is the operand that the previous link leaves
     * in CPU registers (1: a, 2: b, 4: c, 0: none). `kept` is 1 if the chain also stores this
     * instruction's result to memory: if an instruction after the next one reads it, or the next
     * one reads it twice. */
    uint32_t handed, kept;
};

struct sp_map_operand {
    char *base; /* address of the first element; NULL: the operand is not used */
    int64_t stride[SP_MAP_DIMS];
    uint32_t type;
    /* 1: the operand's elements are contiguous and aligned, in the order of the iteration space */
    uint32_t whole;
    /* 1: rows are long, and each row is contiguous and aligned, or a single value */
    uint32_t in_rows;
    /* the first `period` elements are contiguous and repeat; 0: the input does not repeat */
    uint64_t period;
};

struct sp_map_job {
    const struct sp_map_table *table;
    struct sp_map_insn *insns;
    uint32_t ninsns, nregs, nconsts;
    const char *consts;
    uint32_t const_nbytes; /* distance in bytes between neighbouring constants in `consts` */
    uint32_t width;        /* bytes of the widest element type */
    uint32_t weight;       /* cost of computing one element, as a number of simple operations */
    /* group: number of elements that go through all instructions together. block: the largest
     * number of elements that sp_map_block computes without `direct`, as one or more groups. */
    uint32_t group, block;
    /* A repeating input's pattern is gathered in a block of memory. The first `again` elements of
     * the repetition follow it there, so that one call can read on past the pattern's end. */
    uint32_t again;
    uint32_t rows;         /* 1: some array is neither contiguous nor a repeating pattern */
    uint32_t chained;      /* 1: the instructions run as a chain (struct sp_map_link) */
    uint32_t copies;       /* 1: the only instruction copies an input */
    /* The largest number of elements of one call of sp_map_block by run.c. If `rows` is 1 and a row
     * has at least SP_MAP_WHOLE_ROW elements, a call also ends at the end of the row. */
    uint64_t most;
    uint32_t stream, ndim;
    uint64_t shape[SP_MAP_DIMS], total;
    struct sp_map_operand x[SP_MAP_INPUTS], y;
    int failed; /* 1: a task could not allocate its scratch memory */
};

static inline uint32_t sp_map_nbytes(uint32_t type)
{
    static const uint8_t nbytes[SP_MAP_TYPES] = {4, 8, 4, 8, 1, 1, 2, 2};
    return nbytes[type];
}

/* Returns the type of the last instruction. It is the type of the elements that the program
 * computes, before a reduction (sp_map_fold). */
static inline uint32_t sp_map_result(const struct sp_map_job *job)
{
    return job->insns[job->ninsns - 1].type;
}

static inline uint32_t sp_map_result_nbytes(const struct sp_map_job *job)
{
    return sp_map_nbytes(sp_map_result(job));
}

/* Decodes the postfix program of a map_* kernel into `job->insns` and the rest of the job's code.
 * Returns -EINVAL for an unknown op, an op that the type lacks, an operand out of range, or an x
 * that is NULL. Returns -EINVAL also if the stack overflows or underflows, or if not exactly one
 * value is left. Returns -ENOMEM if memory is short. */
int sp_map_from_postfix(struct sp_map_job *job, const uint32_t *program, uint32_t nops, uint32_t type);
/* Decodes a program of lowered instructions; returns as sp_map_from_postfix does. */
int sp_map_from_words(struct sp_map_job *job, const uint32_t *words, uint32_t nwords);

/* sp_map_indices computes the index of element `at` in the iteration space. sp_map_address returns
 * the address of the element at an index in an operand. */
void sp_map_indices(const struct sp_map_job *job, uint64_t at, uint64_t index[SP_MAP_DIMS]);
char *sp_map_address(const struct sp_map_job *job, const struct sp_map_operand *x, const uint64_t index[SP_MAP_DIMS]);
/* Copies elements [at, at + count) of an operand to the contiguous `to`. */
void sp_map_gather(const struct sp_map_job *job, const struct sp_map_operand *x, char *to, uint64_t at, size_t count);
/* Copies elements [at, at + count) from the contiguous `from` to y. */
void sp_map_scatter(const struct sp_map_job *job, const char *from, uint64_t at, size_t count);

/* Chooses the sizes of groups and blocks, and whether the job runs as a chain: sets all members of
 * struct sp_map_job from `group` to `most`. To be called once the job's instructions and operands
 * are set. */
void sp_map_choose_block(struct sp_map_job *job);
/* Decides whether the job's instructions run as a chain (struct sp_map_link). Sets `chained` of the
 * job, and `handed` and `kept` of each instruction. */
void sp_map_choose_chain(struct sp_map_job *job);

/* Where the values of an operand lie: an input, a constant, or a register of the program. A
 * register is a buffer of intermediate results. It has room for one group, the elements that go
 * through all instructions together. */
struct sp_map_slot {
    const char *at;
    /* bytes from one element of a block to the next; 0 for a single value, and for a register,
     * because every group of elements uses the same buffer */
    uint32_t by;
    uint32_t scalar; /* 1: a single value for all elements */
    /* Only if a chain reads a single value: memory for eight vectors of copies of this value. */
    char *copies;
};
/* An instruction with the addresses of its operands and its result in one block of elements. */
struct sp_map_step {
    sp_map_fn *fn;
    uint32_t scalars, out_by, by[3];
    char *out;
    const char *in[3];
};
/* The memory that a thread needs to compute blocks of elements. */
struct sp_map_thread {
    struct sp_map_slot *slot;
    struct sp_map_step *step;
    struct sp_map_link *link;
    char *gathered[SP_MAP_INPUTS];
    char *result;
    void *extra; /* memory for the caller, as many bytes as sp_map_begin was asked for */
};
/* Sets up `t` in scratch memory of the calling thread (SP_SCRATCH_A), with `extra` bytes for the
 * caller. Returns 0 or -ENOMEM. */
int sp_map_begin(const struct sp_map_job *job, struct sp_map_thread *t, size_t extra);
/* Computes elements [at, at + count) of the map and returns the address of the results. If `direct`
 * is not NULL, the results are stored there. count must be at most job->most, and at most
 * job->block if `direct` is NULL. If `past` is not 0, whole cache lines of `direct` are written
 * with streaming stores. */
const void *sp_map_block(const struct sp_map_job *job, struct sp_map_thread *t, uint64_t at, size_t count, void *direct,
                         uint32_t past);
/* Returns the bytes of scratch memory for all links (struct sp_map_link) of the job's chain. */
size_t sp_map_chain_scratch(const struct sp_map_job *job);
/* Fills chain_nbytes bytes at `to` with copies of a value, which a chain reads as eight vectors. */
void sp_map_copies(const struct sp_map_job *job, char *to, const char *value);
/* Computes elements [done, end) of the block by the job's chain (struct sp_map_link), chain_nbytes
 * of each operand at a time. Leaves a shorter rest, and returns the index of the first element that
 * it left. If `past` is not 0, it writes with streaming stores. Element `done` of `to` must then be
 * at the start of a cache line. */
size_t sp_map_run_chain(const struct sp_map_job *job, const struct sp_map_thread *t, char *to, size_t done, size_t end,
                        uint32_t past);
/* Returns how many elements the block from element `at` on should have, at most `most`: no more
 * than job->block, and if rows are long, no more than the rest of the row. */
size_t sp_map_step(const struct sp_map_job *job, uint64_t at, uint64_t most);

/* Computes the job's map: runs its program for all elements and stores them to y. Returns 0 or
 * -errno. */
int sp_map_run(struct sp_map_job *job, const struct sp_tile_plan *plan, struct sp_pool *pool);
/* Computes the job's map over [outer, n, inner] and reduces it along n to y[outer, inner]. `fold`
 * is the reduction (enum sp_map_fold). Returns 0 or -errno. */
int sp_map_fold(struct sp_map_job *job, uint32_t fold, uint64_t outer, uint64_t n, uint64_t inner,
                const struct sp_tile_plan *plan, struct sp_pool *pool);

/* Sets up a job over plain arrays of n elements of one type. The caller adds the instructions. */
void sp_map_plain(struct sp_map_job *job, const struct sp_map_table *table, void *y, const void *const *x, uint64_t n,
                  uint32_t type);

/* Runs the kernel fused_map. Returns 0 or -errno. */
struct sp_args_fused_map;
int sp_map_fused(const struct sp_map_table *table, const struct sp_args_fused_map *args,
                 const struct sp_tile_plan *plan, struct sp_pool *pool);
#endif
