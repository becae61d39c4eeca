/* Declarations that the files of the maps share. code.c decodes instructions, block.c runs a block
 * of them, run.c and fold.c call it. kernels.inc has the table of an instruction set's loops. */
#ifndef SP_CPU_MAP_H
#define SP_CPU_MAP_H
#include "include/sp_map.h"
#include "cpu/runtime/kernel.h"

#include <stddef.h>

enum {
    SP_MAP_MOST_BLOCK = 512, /* elements of a block */
    /* bytes: stores past the caches are multiples of this size, and so aligned */
    SP_MAP_LINES = 128,
    SP_MAP_LANES = 32,        /* accumulators of a fold along a row */
    SP_MAP_WHOLE_ROW = 256,   /* rows from this length on are not joined into one block */
    SP_MAP_PERIOD = 2048,     /* most elements of a repeating input */
};

/* One instruction over n elements. Bits of `scalars`: 1: a is a single value for all elements, 2:
 * b, 4: c. `out` equals an operand or is disjoint from it. */
typedef void sp_map_fn(void *out, const void *a, const void *b, const void *c, uint32_t scalars, size_t n);

/* Accumulators have at most 8 bytes: double, int64_t for sums, elements for max and min. */
struct sp_map_folds {
    uint32_t nbytes; /* of an accumulator */
    void (*first)(void *acc, size_t n);
    /* folds x[i] into lane[i % LANES] */
    void (*run)(void *lanes, const void *x, size_t n);
    /* folds all lanes into lanes[0] */
    void (*join)(void *lanes);
    /* folds x[r * width + i] of each row into acc[i] */
    void (*rows)(void *acc, const void *x, size_t rows, size_t width);
    /* folds other[i] into acc[i] */
    void (*merge)(void *acc, const void *other, size_t n);
    /* y[i] = acc[i], or acc[i] / count if count is not 0 */
    void (*store)(void *y, const void *acc, size_t n, size_t count);
};

/* A step of a chain (chain.c), with addresses. The instruction set defines the type of its
 * function. */
typedef void sp_map_link_fn(void);
struct sp_map_link {
    sp_map_link_fn *fn;
    /* 1: a comes in registers from the previous link, 2: b, 4: c; 0: no operand does */
    uint32_t handed;
    const char *in[3]; /* vectors, or enough copies of a single value for a link */
    size_t moves[3];   /* all ones: the address advances with the elements; 0: it stays */
    char *out;         /* of a link that stores */
};

struct sp_map_table {
    sp_map_fn *fn[SP_MAP_TYPES][SP_MAP_LOWERED_OPS]; /* by type and op; NULL: not available */
    sp_map_fn *convert[SP_MAP_TYPES][SP_MAP_TYPES]; /* [to][from]; NULL: not available */
    /* As fn, with an `out` that goes past the caches: it is not read before the write and evicts no
     * needed line. `out` is aligned to SP_MAP_LINES and a multiple of it. Without `fence` there are
     * none. With `fence` there is at least the copy of each type. */
    sp_map_fn *past[SP_MAP_TYPES][SP_MAP_LOWERED_OPS];
    sp_map_fn *past_copy[SP_MAP_TYPES];
    void (*fence)(void); /* call it after the last of them */
    sp_map_link_fn *link[SP_MAP_TYPES][SP_MAP_LOWERED_OPS]; /* NULL: not available */
    sp_map_link_fn *link_ahead, *link_keep, *link_store, *link_past;
    uint32_t chain_nbytes; /* bytes of each operand that a chain processes at once */
    /* Bytes [at, end) of the arrays, whole multiples of chain_nbytes. */
    void (*chain)(const struct sp_map_link *first, size_t at, size_t end);
    struct sp_map_folds fold[SP_MAP_FOLDS][SP_MAP_TYPES];
};

/* Slots are the 8 inputs, the registers, the constants, in this order. */
struct sp_map_insn {
    sp_map_fn *fn, *past;
    sp_map_link_fn *link; /* NULL: not part of a chain */
    uint32_t out, a, b, c;
    uint32_t type, operands;
    /* in a chain: `handed` of sp_map_link; 1 if an instruction after the next one reads the result
     * too */
    uint32_t handed, kept;
};

struct sp_map_operand {
    char *base; /* NULL: not used */
    int64_t stride[SP_MAP_DIMS];
    uint32_t type;
    uint32_t whole;   /* elements are contiguous and aligned, in the order of the space */
    uint32_t in_rows; /* they are so in each row, which is long; or a single value in each row */
    uint64_t period; /* nonzero: the first `period` elements, which are contiguous, repeat */
};

struct sp_map_job {
    const struct sp_map_table *table;
    struct sp_map_insn *insns;
    uint32_t ninsns, nregs, nconsts;
    const char *consts;
    uint32_t const_nbytes; /* distance of constants */
    uint32_t width;        /* bytes of the widest element */
    uint32_t weight;       /* cost of an element, in simple operations */
    uint32_t group, block; /* elements */
    uint32_t again;        /* elements of a pattern after its period */
    uint32_t rows;         /* 1: some array is neither whole nor a pattern */
    uint32_t chained;      /* 1: the instructions are a chain */
    uint32_t copies;       /* 1: the only instruction copies an input */
    uint64_t most;         /* most elements for sp_map_block; with `rows`, within one row */
    uint32_t stream, ndim;
    uint64_t shape[SP_MAP_DIMS], total;
    struct sp_map_operand x[SP_MAP_INPUTS], y;
    int failed; /* a task ran out of memory */
};

static inline uint32_t sp_map_nbytes(uint32_t type)
{
    static const uint8_t nbytes[SP_MAP_TYPES] = {4, 8, 4, 8, 1, 1, 2, 2};
    return nbytes[type];
}

/* The type of the program's result before a fold: that of the last instruction. */
static inline uint32_t sp_map_result(const struct sp_map_job *job)
{
    return job->insns[job->ninsns - 1].type;
}

static inline uint32_t sp_map_result_nbytes(const struct sp_map_job *job)
{
    return sp_map_nbytes(sp_map_result(job));
}

/* Decodes the postfix program of a map_* kernel into `job->insns` and the rest of the job's code.
 * -EINVAL: an unknown op, an op that the type lacks, an operand out of range, or an x that is NULL.
 * Also a stack overflow or underflow, or not exactly one value at the end. -ENOMEM. */
int sp_map_from_postfix(struct sp_map_job *job, const uint32_t *program, uint32_t nops, uint32_t type);
/* As above, for lowered instructions. */
int sp_map_from_words(struct sp_map_job *job, const uint32_t *words, uint32_t nwords);

/* The index of element `at` in the space, and its offset in an operand. */
void sp_map_indices(const struct sp_map_job *job, uint64_t at, uint64_t index[SP_MAP_DIMS]);
char *sp_map_address(const struct sp_map_job *job, const struct sp_map_operand *x, const uint64_t index[SP_MAP_DIMS]);
/* Copies elements [at, at + count) of the space to the contiguous `to`. */
void sp_map_gather(const struct sp_map_job *job, const struct sp_map_operand *x, char *to, uint64_t at, size_t count);
/* Copies them from the contiguous `from` to y. */
void sp_map_scatter(const struct sp_map_job *job, const char *from, uint64_t at, size_t count);

/* Fills in the members from `group` to `chained`. Call it once insns and operands are set. */
void sp_map_choose_block(struct sp_map_job *job);
/* Fills in `chained` and the instructions' members about chains. */
void sp_map_choose_chain(struct sp_map_job *job);

/* Address of a slot: in the block; for a register, in the present group. */
struct sp_map_slot {
    const char *at;
    /* bytes between elements of the block; 0: the address is in the present group */
    uint32_t by;
    uint32_t scalar; /* a single value */
    char *copies;    /* room for copies of it, for chains */
};
/* An instruction with addresses. */
struct sp_map_step {
    sp_map_fn *fn;
    uint32_t scalars, out_by, by[3];
    char *out;
    const char *in[3];
};
/* A thread's blocks. */
struct sp_map_thread {
    struct sp_map_slot *slot;
    struct sp_map_step *step;
    struct sp_map_link *link;
    char *gathered[SP_MAP_INPUTS];
    char *result;
    void *extra; /* `extra` bytes for the caller */
};
/* 0 or -ENOMEM. Memory comes from the calling thread's scratch, slot A. */
int sp_map_begin(const struct sp_map_job *job, struct sp_map_thread *t, size_t extra);
/* Computes elements [at, at + count) of the space. Returns their address: `direct` if that is not
 * NULL, else a block of the thread. count <= job->block in the latter case, or if an input is
 * gathered. `past`: whole lines go past the caches to `direct`. */
const void *sp_map_block(const struct sp_map_job *job, struct sp_map_thread *t, uint64_t at, size_t count, void *direct,
                         uint32_t past);
/* Bytes of scratch for the links of a chain. */
size_t sp_map_chain_scratch(const struct sp_map_job *job);
/* Fills `to` with as many copies of a value as a link reads. */
void sp_map_copies(const struct sp_map_job *job, char *to, const char *value);
/* Elements [done, end) of the block, as far as a chain computes them; returns that end. `past`: all
 * of them, past the caches; `to` begins a line at `done`. */
size_t sp_map_run_chain(const struct sp_map_job *job, const struct sp_map_thread *t, char *to, size_t done, size_t end,
                        uint32_t past);
/* A good number of elements for a block from `at` on, at most `most`. */
size_t sp_map_step(const struct sp_map_job *job, uint64_t at, uint64_t most);

/* y = the program over the whole space. */
int sp_map_run(struct sp_map_job *job, const struct sp_tile_plan *plan, struct sp_pool *pool);
/* y[outer, inner] = fold over n of the program over [outer, n, inner]. */
int sp_map_fold(struct sp_map_job *job, uint32_t fold, uint64_t outer, uint64_t n, uint64_t inner,
                const struct sp_tile_plan *plan, struct sp_pool *pool);

/* Makes a job over plain arrays of n elements of one type, without its code. */
void sp_map_plain(struct sp_map_job *job, const struct sp_map_table *table, void *y, const void *const *x, uint64_t n,
                  uint32_t type);

/* The kernel fused_map. */
struct sp_args_fused_map;
int sp_map_fused(const struct sp_map_table *table, const struct sp_args_fused_map *args,
                 const struct sp_tile_plan *plan, struct sp_pool *pool);
#endif
