/* Records of the earlier accesses to a line of 128 bytes, in memory or LDS. A new access is checked
 * against them. */
#ifndef SP_EMU_RACE_SHADOW_H
#define SP_EMU_RACE_SHADOW_H
#include "dispatch_state.h"

enum { SP_LINE_BITS = 7, SP_LINE_DWORDS = 32, SP_PAGE_LINES = 8 };
/* Bits of `how` in a mark, which stands for an earlier access. ATOMIC: the access is atomic. MAYBE:
 * it may be atomic (a load past the caches, or a store that releases). STORES: the wave's counter
 * of stores counts it, not the counter of loads. Eight bits from SEQ on hold the access's number in
 * that counter (for LDS, in the counter of LDS accesses). The bits from PC on hold the
 * instruction's pc, as sp_race_pc shortens it. */
enum { SP_MARK_ATOMIC = 1, SP_MARK_MAYBE = 2, SP_MARK_STORES = 4, SP_MARK_SEQ = 4, SP_MARK_PC = 12 };

struct sp_mark {
    uint64_t who;
    uint32_t how;
    /* in a mark of a whole line: mask of the accessed dwords; in a mark of a dword: mask of its
     * accessed bytes; 0: the mark records no access */
    uint32_t mask;
};
struct sp_marks {
    /* `read` is the last read; `other` is the last read by another wave than that of `read` */
    struct sp_mark write, read, other;
};
/* Marks of a line: the records of earlier accesses. One mark holds all accesses of one instruction
 * to the line. If one mark cannot stand for accesses of several waves, each dword has marks of its
 * own. */
struct sp_line {
    struct sp_marks all;
    struct sp_marks *dword; /* SP_LINE_DWORDS elements */
    /* 1: each dword of this memory line has marks (records of accesses) of its own, in `dword`; 0:
     * `all` has the marks of the whole line */
    uint32_t apart;
    uint32_t epoch;         /* for LDS: the value of lds_epoch at the last access */
};
struct sp_race_page {
    uint64_t page; /* va >> SP_VM_GRAIN_BITS */
    struct sp_race_page *chain;
    uint32_t lock, pad;
    struct sp_line line[SP_PAGE_LINES];
};

/* An access that is being checked for races. */
struct sp_look {
    struct sp_wave *w;
    struct sp_race_group *r;
    const struct sp_inst *i;
    const struct sp_race_lanes *a;
    enum sp_race_kind kind;
    uint32_t lds;
    struct sp_mark now;
    uint32_t clash; /* 1 if lanes may store to the same bytes */
    /* mask of whole dwords of `line` that lanes touch and that are not yet checked */
    uint32_t dwords;
    uint64_t line;  /* the memory line (128 bytes) that is being checked: address >> SP_LINE_BITS */
    /* mask of bytes of `line` that lanes touch without touching the whole dword */
    unsigned __int128 bytes;
};
/* Checks the accesses of all lanes. Returns 0, or w->stop if the wave must stop. */
int sp_look_at_lanes(struct sp_look *k);

/* memory.c */
struct sp_race_page *sp_race_page_of(struct sp_race_group *r, uint64_t va);
void sp_race_lock(const struct sp_race_group *r, struct sp_race_page *p);
void sp_race_unlock(const struct sp_race_group *r, struct sp_race_page *p);
/* Returns true if the access being checked and the earlier access of mark `m` have no order. Sets
 * `*late` to true if a barrier is between the two, but the earlier wave arrived there without
 * having waited for its access. */
bool sp_memory_unordered(const struct sp_look *k, const struct sp_mark *m, bool *late);
/* Records that an access which is or may be atomic comes after the write whose value it has
 * read. */
void sp_memory_saw(struct sp_look *k, const struct sp_mark *write, uint32_t dwords);
/* Another host thread may have recorded the store of mark `m`, but not yet written its data to
 * memory. Waits until that thread reports another access or leaves the group of `m`, at most 0.1 s
 * for each thread. */
void sp_memory_settle(const struct sp_look *k, const struct sp_mark *m);
/* Returns the host address that a store will change, or NULL. For a load the result only says
 * whether there is memory. */
const uint8_t *sp_memory_host(const struct sp_look *k, uint64_t va);
/* lds.c */
bool sp_lds_unordered(const struct sp_look *k, const struct sp_mark *m, bool *late);
void sp_lds_saw(struct sp_look *k, const struct sp_mark *write);
#endif
