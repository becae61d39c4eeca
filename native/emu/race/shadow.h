/* What is known of the accesses to a line of 128 bytes, in memory or in LDS, and what a new access meets there. */
#ifndef SP_EMU_RACE_SHADOW_H
#define SP_EMU_RACE_SHADOW_H
#include "races.h"

enum { SP_LINE_BITS = 7, SP_LINE_DWORDS = 32, SP_PAGE_LINES = 8 };
/* A mark's `how`: atomic; a load past the caches or a store that releases, both of which may be atomic; counted with the stores;
 * number in its counter, 8 bits; pc. */
enum { SP_MARK_ATOMIC = 1, SP_MARK_MAYBE = 2, SP_MARK_STORES = 4, SP_MARK_SEQ = 4, SP_MARK_PC = 12 };

struct sp_mark {
    uint64_t who;
    uint32_t how;
    uint32_t mask; /* dwords of the line or, of a dword, bytes; 0: none */
};
struct sp_marks {
    struct sp_mark write, read, other; /* other: the last reader that is not `read`'s wave */
};
/* What a wave accesses of a line at once is one mark. Where marks of several waves meet, each dword has its own. */
struct sp_line {
    struct sp_marks all;
    struct sp_marks *dword; /* SP_LINE_DWORDS of them */
    uint32_t apart;         /* they speak for the line, not `all` */
    uint32_t epoch;         /* LDS: when it was last accessed */
};
struct sp_race_page {
    uint64_t page; /* va >> SP_VM_GRAIN_BITS */
    struct sp_race_page *chain;
    uint32_t lock, pad;
    struct sp_line line[SP_PAGE_LINES];
};

/* An access under way. */
struct sp_look {
    struct sp_wave *w;
    struct sp_racer *r;
    const struct sp_inst *i;
    const struct sp_race_lanes *a;
    enum sp_race_kind kind;
    uint32_t lds;
    struct sp_mark now;
    uint32_t clash; /* lanes may store to the same bytes */
    uint32_t dwords; /* gathered of the line, whole ones */
    uint64_t line;  /* address >> SP_LINE_BITS */
    unsigned __int128 bytes; /* gathered that are no whole dwords */
};
/* All lanes: 0, or the wave's stop. */
int sp_look_at_lanes(struct sp_look *k);

/* memory.c */
struct sp_race_page *sp_race_page_of(struct sp_racer *r, uint64_t va);
void sp_race_lock(const struct sp_racer *r, struct sp_race_page *p);
void sp_race_unlock(const struct sp_racer *r, struct sp_race_page *p);
/* No order between that access and this one? `late`: it was not waited for at the barrier between them. */
bool sp_memory_apart(const struct sp_look *k, const struct sp_mark *m, bool *late);
/* An atomic access comes after that write. */
void sp_memory_saw(struct sp_look *k, const struct sp_mark *write, uint32_t dwords);
/* Another host thread may have told of its store and not made it yet: until it does something else, or 0.1 s. */
void sp_memory_settle(const struct sp_look *k, const struct sp_mark *m);
/* Where a store goes, or NULL where there is nothing; a read: not NULL where there is something. */
const uint8_t *sp_memory_host(const struct sp_look *k, uint64_t va);
/* lds.c */
bool sp_lds_apart(const struct sp_look *k, const struct sp_mark *m, bool *late);
void sp_lds_saw(struct sp_look *k, const struct sp_mark *write);
#endif
