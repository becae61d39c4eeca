/* What the files of the maps share: instructions ready to run (code.c makes them), the engine that runs a block of
 * them (block.c), what calls it (run.c, fold.c), and the table of loops of an instruction set (kernels.inc). */
#ifndef SP_CPU_MAP_H
#define SP_CPU_MAP_H
#include "include/sp_map.h"
#include "cpu/runtime/kernel.h"

#include <stddef.h>

enum {
    SP_MAP_MOST_BLOCK = 512, /* elements of a block */
    SP_MAP_LINES = 128,       /* bytes: what goes past the caches begins at a multiple of it, and is one */
    SP_MAP_LANES = 32,        /* accumulators of a fold along a row */
    SP_MAP_WHOLE_ROW = 256,   /* rows from this length on are not joined into one block */
    SP_MAP_PERIOD = 2048,     /* elements that come again and again, at most */
};

/* One instruction over n elements. Bits of `scalars`: 1: a is one value for all elements, 2: b, 4: c. `out` is an operand
 * or apart from it. */
typedef void sp_map_fn(void *out, const void *a, const void *b, const void *c, uint32_t scalars, size_t n);

/* Accumulators are 8 bytes each at most: double, int64_t for sums, elements for max and min. */
struct sp_map_folds {
    uint32_t nbytes; /* of an accumulator */
    void (*first)(void *acc, size_t n);
    /* lane[i % LANES] with x[i] */
    void (*run)(void *lanes, const void *x, size_t n);
    /* lanes[0] from all of them */
    void (*join)(void *lanes);
    /* acc[i] with x[r * width + i] for each row */
    void (*rows)(void *acc, const void *x, size_t rows, size_t width);
    /* acc[i] with other[i] */
    void (*merge)(void *acc, const void *other, size_t n);
    /* y[i] = acc[i], or acc[i] / count when count is not 0 */
    void (*store)(void *y, const void *acc, size_t n, size_t count);
};

/* A step of a chain (chain.c), with addresses. Its function is of the type that the instruction set gives it. */
typedef void sp_map_link_fn(void);
struct sp_map_link {
    sp_map_link_fn *fn;
    uint32_t handed;   /* 1: a is what the link before left in registers, 2: b, 4: c; 0: none of them */
    const char *in[3]; /* vectors, or as many copies of one value as a link takes */
    size_t moves[3];   /* all ones: it goes along with the elements; 0: it stays */
    char *out;         /* of a link that stores */
};

struct sp_map_table {
    sp_map_fn *fn[SP_MAP_TYPES][SP_MAP_LOWERED_OPS]; /* by type and op; NULL: there is none */
    sp_map_fn *convert[SP_MAP_TYPES][SP_MAP_TYPES]; /* [to][from]; NULL: there is none */
    /* The same with an `out` that goes past the caches: not read before it is written, and nothing that is still wanted
     * makes room for it. `out` is aligned to SP_MAP_LINES and a multiple of it. Without `fence`, and where NULL, there is
     * none; with it, the copy of each type is there. */
    sp_map_fn *past[SP_MAP_TYPES][SP_MAP_LOWERED_OPS];
    sp_map_fn *past_copy[SP_MAP_TYPES];
    void (*fence)(void); /* after the last of them */
    sp_map_link_fn *link[SP_MAP_TYPES][SP_MAP_LOWERED_OPS]; /* NULL: there is none */
    sp_map_link_fn *link_ahead, *link_keep, *link_store, *link_past;
    uint32_t chain_nbytes; /* of each operand that a chain takes at once */
    /* Bytes [at, end) of the arrays, whole multiples of that. */
    void (*chain)(const struct sp_map_link *first, size_t at, size_t end);
    struct sp_map_folds fold[SP_MAP_FOLDS][SP_MAP_TYPES];
};

/* Slots are the 8 inputs, the registers, the constants, in this order. */
struct sp_map_insn {
    sp_map_fn *fn, *past;
    sp_map_link_fn *link; /* NULL: it is no part of a chain */
    uint32_t out, a, b, c;
    uint32_t type, operands;
    uint32_t handed, kept; /* in a chain: sp_map_link's; something else than the next instruction reads the result, too */
};

struct sp_map_operand {
    char *base; /* NULL: not there */
    int64_t stride[SP_MAP_DIMS];
    uint32_t type;
    uint32_t whole;   /* elements lie one after the other, aligned, in the order of the space */
    uint32_t in_rows; /* so they do in each row, which is long; or they are one value there */
    uint64_t period; /* not 0: the first `period` elements, one after the other, come again and again */
};

struct sp_map_job {
    const struct sp_map_table *table;
    struct sp_map_insn *insns;
    uint32_t ninsns, nregs, nconsts;
    const char *consts;
    uint32_t const_nbytes; /* from one constant to the next */
    uint32_t width;        /* bytes of the widest element */
    uint32_t weight;       /* what an element costs, in steps of a simple operation */
    uint32_t group, block; /* elements */
    uint32_t again;        /* elements of a pattern after its period */
    uint32_t rows;         /* an array is neither whole nor a pattern */
    uint32_t chained;      /* the instructions are a chain */
    uint32_t copies;       /* the only instruction copies an input */
    uint64_t most;         /* elements that sp_map_block takes, if they are in one row where `rows` */
    uint32_t stream, ndim;
    uint64_t shape[SP_MAP_DIMS], total;
    struct sp_map_operand x[SP_MAP_INPUTS], y;
    int failed; /* a task found no memory */
};

static inline uint32_t sp_map_nbytes(uint32_t type)
{
    static const uint8_t nbytes[SP_MAP_TYPES] = {4, 8, 4, 8, 1, 1, 2, 2};
    return nbytes[type];
}

/* The type of the program's result, before a fold: that of the last instruction. */
static inline uint32_t sp_map_result(const struct sp_map_job *job)
{
    return job->insns[job->ninsns - 1].type;
}

static inline uint32_t sp_map_result_nbytes(const struct sp_map_job *job)
{
    return sp_map_nbytes(sp_map_result(job));
}

/* The postfix program of a map_* kernel as `job->insns` and the rest of the job's code; -EINVAL: an unknown op, an operand
 * out of range, an x that is NULL, a stack that runs over or dry, more or less than one value at the end, an op that the
 * type lacks. -ENOMEM. */
int sp_map_from_postfix(struct sp_map_job *job, const uint32_t *program, uint32_t nops, uint32_t type);
/* The same of lowered instructions. */
int sp_map_from_words(struct sp_map_job *job, const uint32_t *words, uint32_t nwords);

/* Where in the space element `at` is, and where that is in an operand. */
void sp_map_indices(const struct sp_map_job *job, uint64_t at, uint64_t index[SP_MAP_DIMS]);
char *sp_map_address(const struct sp_map_job *job, const struct sp_map_operand *x, const uint64_t index[SP_MAP_DIMS]);
/* Elements [at, at + count) of the space to `to`, one after the other. */
void sp_map_gather(const struct sp_map_job *job, const struct sp_map_operand *x, char *to, uint64_t at, size_t count);
/* The same from `from` to y. */
void sp_map_scatter(const struct sp_map_job *job, const char *from, uint64_t at, size_t count);

/* Fills in group to chained. Call when insns and operands are there. */
void sp_map_choose_block(struct sp_map_job *job);
/* Of that, `chained` and what instructions know of chains. */
void sp_map_choose_chain(struct sp_map_job *job);

/* Where a slot is: of the block; of the group that is at work for a register. */
struct sp_map_slot {
    const char *at;
    uint32_t by;     /* bytes from one element of the block to the next; 0: this is a group's */
    uint32_t scalar; /* one value */
    char *copies;    /* room for copies of it, where there are chains */
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
/* 0 or -ENOMEM; from the calling thread's scratch, slot A. */
int sp_map_begin(const struct sp_map_job *job, struct sp_map_thread *t, size_t extra);
/* Elements [at, at + count) of the space; returns where they are: `direct`, if that is not NULL, else a block of the
 * thread. count <= job->block if that is where they go, or an input is gathered. `past`: the lines that they fill go past
 * the caches to `direct`. */
const void *sp_map_block(const struct sp_map_job *job, struct sp_map_thread *t, uint64_t at, size_t count, void *direct,
                         uint32_t past);
/* The links of a chain need so many bytes. */
size_t sp_map_chain_scratch(const struct sp_map_job *job);
/* As many copies of a value as a link reads. */
void sp_map_copies(const struct sp_map_job *job, char *to, const char *value);
/* Elements [done, end) of the block, as far as a chain does them; returns how far that is. `past`: all of it, past the
 * caches, `to` and `done` being such that it begins a line. */
size_t sp_map_run_chain(const struct sp_map_job *job, const struct sp_map_thread *t, char *to, size_t done, size_t end,
                        uint32_t past);
/* How many elements from `at` on make a good block, at most `most`. */
size_t sp_map_step(const struct sp_map_job *job, uint64_t at, uint64_t most);

/* y = the program over the whole space. */
int sp_map_run(struct sp_map_job *job, const struct sp_tile_plan *plan, struct sp_pool *pool);
/* y[outer, inner] = fold over n of the program over [outer, n, inner]. */
int sp_map_fold(struct sp_map_job *job, uint32_t fold, uint64_t outer, uint64_t n, uint64_t inner,
                const struct sp_tile_plan *plan, struct sp_pool *pool);

/* A job over plain arrays of n elements of one type, but for its code. */
void sp_map_plain(struct sp_map_job *job, const struct sp_map_table *table, void *y, const void *const *x, uint64_t n,
                  uint32_t type);

/* The kernel fused_map. */
struct sp_args_fused_map;
int sp_map_fused(const struct sp_map_table *table, const struct sp_args_fused_map *args,
                 const struct sp_tile_plan *plan, struct sp_pool *pool);
#endif
