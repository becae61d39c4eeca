/* Races: two accesses to the same bytes by different waves, at least one a write, without an order
 * between them. README.md says what makes an order. */
#ifndef SP_EMU_RACE_RACE_H
#define SP_EMU_RACE_RACE_H
#include "emu/wave/wave.h"

/* DEVICE: a load past the caches, as atomic loads are. RETURNING: an atomic that returns the old
 * value. */
enum sp_race_kind { SP_RACE_LOAD, SP_RACE_DEVICE, SP_RACE_STORE, SP_RACE_ATOMIC, SP_RACE_RETURNING };

/* The accesses of an instruction's lanes: `nbytes` each, dword k of lane l at va[l] + k * step. */
struct sp_race_lanes {
    const uint64_t *va;
    uint64_t lanes, step;
    uint32_t nbytes;
    uint32_t one_piece; /* 1 if all lanes together access contiguous, aligned dwords */
    /* registers with the data of a store; NULL: the data are unknown */
    const uint32_t *const *from;
    /* a store's data are the values of its registers, shifted right by this many bits */
    uint32_t shift;
};

struct sp_races; /* recorded accesses of the dispatch that a ring runs now */
struct sp_race_group; /* state of the race checks for the group that a host thread runs now */
struct sp_races *sp_races_begin(struct sp_emu_exec *x, uint64_t threads);
void sp_races_free(struct sp_races *races);
/* Prepares a host thread for a dispatch. In each dimension, the ids of the dispatch's groups go
 * from `first` to `end` - 1. `name_at` names the instruction at a pc. Returns NULL if memory is
 * short. */
struct sp_race_group *sp_race_group_begin(struct sp_races *races, uint32_t thread, const uint32_t *first, const uint32_t *end,
                                uint32_t wgp_mode, const char *(*name_at)(struct sp_wave *w, uint64_t pc));
void sp_race_group_next(struct sp_race_group *r, uint64_t number);
/* Call sp_race_arrives when a wave arrives at s_barrier, and sp_race_group_barrier when all waves
 * have arrived and go on. */
void sp_race_arrives(struct sp_wave *w);
void sp_race_group_barrier(struct sp_race_group *r);

/* Checks accesses to memory. Returns 0, or w->stop if the wave must stop. Call it after a load, but
 * before a store or atomic: so the store is known when another host thread reads its value. Do not
 * call it if w->race is NULL. */
int sp_race_memory(struct sp_wave *w, const struct sp_inst *i, enum sp_race_kind kind, const struct sp_race_lanes *a);
/* Checks accesses to LDS; `va` has offsets in LDS. `counted`: lgkmcnt counts the access as a DS
 * instruction. */
int sp_race_lds(struct sp_wave *w, const struct sp_inst *i, enum sp_race_kind kind, const struct sp_race_lanes *a, bool counted);
/* Records that the atomics of the lanes `a` have returned old values. All accesses of the wave
 * after its next invalidation of caches (sp_race_invalidated) then come after earlier releases at
 * the addresses of these atomics. */
void sp_race_acquires(struct sp_wave *w, const struct sp_race_lanes *a);
void sp_race_invalidated(struct sp_wave *w);
#endif
