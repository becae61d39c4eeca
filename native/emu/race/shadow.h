/* The known accesses to a line of 128 bytes, in memory or LDS, and the check of a new access
 * against them. */
#ifndef SP_EMU_RACE_SHADOW_H
#define SP_EMU_RACE_SHADOW_H
#include "races.h"

enum { SP_LINE_BITS = 7, SP_LINE_DWORDS = 32, SP_PAGE_LINES = 8 };
/* A mark's `how`: atomic; maybe atomic (a load past the caches or a store that releases); counted
 * with the stores; number in its counter, 8 bits; pc. */
enum { SP_MARK_ATOMIC = 1, SP_MARK_MAYBE = 2, SP_MARK_STORES = 4, SP_MARK_SEQ = 4, SP_MARK_PC = 12 };

struct sp_mark {
    uint64_t who;
    uint32_t how;
    uint32_t mask; /* dwords of the line or, in a dword, bytes; 0: none */
};
struct sp_marks {
    struct sp_mark write, read, other; /* other: the last reader from another wave than `read` */
};
/* A wave's accesses to a line at once are one mark. If marks of several waves meet, each dword has
 * its own. */
struct sp_line {
    struct sp_marks all;
    struct sp_marks *dword; /* SP_LINE_DWORDS of them */
    uint32_t apart;         /* 1: the dwords' marks are valid, not `all` */
    uint32_t epoch;         /* LDS: time of its last access */
};
struct sp_race_page {
    uint64_t page; /* va >> SP_VM_GRAIN_BITS */
    struct sp_race_page *chain;
    uint32_t lock, pad;
    struct sp_line line[SP_PAGE_LINES];
};

/* An access in progress. */
struct sp_look {
    struct sp_wave *w;
    struct sp_racer *r;
    const struct sp_inst *i;
    const struct sp_race_lanes *a;
    enum sp_race_kind kind;
    uint32_t lds;
    struct sp_mark now;
    uint32_t clash; /* lanes may store to the same bytes */
    uint32_t dwords; /* whole dwords gathered in the line */
    uint64_t line;  /* address >> SP_LINE_BITS */
    unsigned __int128 bytes; /* other bytes gathered */
};
/* Checks all lanes. 0, or the wave's stop. */
int sp_look_at_lanes(struct sp_look *k);

/* memory.c */
struct sp_race_page *sp_race_page_of(struct sp_racer *r, uint64_t va);
void sp_race_lock(const struct sp_racer *r, struct sp_race_page *p);
void sp_race_unlock(const struct sp_racer *r, struct sp_race_page *p);
/* True if that access and this one are unordered. `late`: it was not waited for at the barrier
 * between them. */
bool sp_memory_apart(const struct sp_look *k, const struct sp_mark *m, bool *late);
/* An atomic access comes after that write. */
void sp_memory_saw(struct sp_look *k, const struct sp_mark *write, uint32_t dwords);
/* Waits while another host thread has reported its store but not made it: until its next action, or
 * 0.1 s. */
void sp_memory_settle(const struct sp_look *k, const struct sp_mark *m);
/* Target of a store, or NULL; for a read not NULL if there is memory. */
const uint8_t *sp_memory_host(const struct sp_look *k, uint64_t va);
/* lds.c */
bool sp_lds_apart(const struct sp_look *k, const struct sp_mark *m, bool *late);
void sp_lds_saw(struct sp_look *k, const struct sp_mark *write);
#endif
