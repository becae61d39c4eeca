/* Internal to race/: the identity of an access, and the state of a host thread's group. */
#ifndef SP_EMU_RACE_GROUP_STATE_H
#define SP_EMU_RACE_GROUP_STATE_H
#include "race.h"

enum { SP_RACE_WAVES = 64, SP_RACE_NEAR = 256, SP_RACE_PENDING = 64, SP_RACE_LDS_LINES = 512 };

/* An access is identified by one 64-bit number, `who`; 0 is no access. Its fields, from the highest
 * bits: the number of the group + 1 (the upper half), the number of barriers that the wave has
 * passed, `turn`, and the number of the wave. `turn` increases at the wave's first store after a
 * release, and becomes 0 at a barrier. */
enum { SP_WHO_TURN = 6, SP_WHO_TURNS = 63, SP_WHO_BARRIERS = 12, SP_WHO_GROUP = 32 };
static inline uint32_t sp_who_group(uint64_t who) { return (uint32_t)(who >> SP_WHO_GROUP); }
static inline uint32_t sp_who_wave(uint64_t who) { return (uint32_t)who & (SP_RACE_WAVES - 1); }
static inline uint32_t sp_who_turn(uint64_t who) { return (uint32_t)who >> SP_WHO_TURN & SP_WHO_TURNS; }
static inline uint32_t sp_who_barriers(uint64_t who) { return (uint32_t)who >> SP_WHO_BARRIERS; }
/* Returns true if `a` and `b` (values of sp_race_who) stand for different waves. */
static inline bool sp_who_other(uint64_t a, uint64_t b)
{
    return ((a ^ b) & (UINT64_C(0xFFFFFFFF) << SP_WHO_GROUP | (SP_RACE_WAVES - 1))) != 0;
}

/* Returns the last 20 bits of pc / 4. sp_race_pc_of computes the whole address from them: the two
 * instructions of a race are near each other in the code. */
static inline uint32_t sp_race_pc(const struct sp_wave *w) { return (uint32_t)(w->pc >> 2) & 0xFFFFF; }
uint64_t sp_race_pc_of(const struct sp_wave *w, uint32_t low);

/* The accesses of one counter (such as VSCNT) that a wave had not waited for when it arrived at its
 * last barrier. The counter numbers accesses modulo 256; these have the numbers from + 1 to
 * `to`. */
struct sp_race_open {
    uint32_t from, to;
};
static inline bool sp_race_is_open(const struct sp_race_open *o, uint32_t seq)
{
    return (uint8_t)(seq - o->from - 1) < (uint8_t)(o->to - o->from);
}

/* An atomic value that a wave has read. `who` is the identity (sp_race_who) of the store that wrote
 * it, or 0 if no store did. */
struct sp_race_seen {
    uint64_t va, when, who;
};
struct sp_race_wave {
    /* accesses that the wave had not waited for when it arrived at its last barrier */
    struct sp_race_open lds, loads, stores;
    /* mask of the group's waves that come before this one: all that they did in LDS since the
     * group's last barrier precedes this wave's next access. Returning atomics make this order. */
    uint64_t after;
    /* number of the wave's last store that other waves can see (not to scratch), as VSCNT counts
     * the wave's stores */
    uint32_t stored;
    uint32_t synced;  /* 1 if the wave has used an atomic, or a load that may be atomic */
    /* `turn`: number of releases of the wave since its last barrier that a later store of the wave
     * has followed; a part of sp_race_who(). `released`: 1 if the wave has released and not stored
     * since. */
    uint32_t turn, released;
    uint32_t lds_synced; /* 1 if the wave has used a returning atomic of LDS */
    uint32_t seen_count;
    /* ring of the atomic values that the wave has read since it last invalidated its caches */
    struct sp_race_seen seen[SP_RACE_PENDING];
};

struct sp_line;
struct sp_race_page;
struct sp_race_group {
    struct sp_races *all;
    const char *(*name_at)(struct sp_wave *w, uint64_t pc);
    uint32_t first[3], count[2], wgp_mode;
    uint32_t barriers;  /* number of barriers that the present group has passed */
    /* Number of the group that this thread runs now, + 1: the upper half of sp_race_who(). Threads
     * access this member atomically. */
    uint64_t group;
    /* number of memory accesses that this thread has reported; threads access it atomically */
    uint64_t told;
    uint32_t lds_epoch; /* increases by one at a barrier, and by two from group to group */
    /* 1 if a wave of the group arrived at a barrier before it had waited for all its accesses.
     * `open` is for the last barrier that the group has passed. `arrivals_open` is for the barrier
     * at which waves of the group arrive next. */
    uint32_t arrivals_open, open;
    uint32_t stored;    /* 1 if the present group has stored to memory */
    struct sp_line *lds; /* records of the accesses to 64 KiB of LDS, line by line */
    struct {
        uint64_t page;
        struct sp_race_page *shadow;
    } near[SP_RACE_NEAR];
    /* earlier accesses (values of sp_race_who) that are known to precede the accesses in
     * `known_for` */
    uint64_t known[SP_RACE_NEAR];
    uint64_t known_for[SP_RACE_NEAR];
    struct sp_race_wave wave[SP_RACE_WAVES];
};

static inline uint64_t sp_race_who(const struct sp_wave *w)
{
    const struct sp_race_group *r = w->race;
    return r->group << SP_WHO_GROUP | (uint32_t)(r->barriers << SP_WHO_BARRIERS) | r->wave[w->id].turn << SP_WHO_TURN | w->id;
}

/* Copies the data that a lane stores to `to`: a->nbytes bytes, at most 16. Defined in names.c. */
void sp_race_data(const struct sp_race_lanes *a, uint32_t lane, uint8_t *to);
struct sp_race_pair {
    enum sp_race_kind kind;
    const char *space; /* "LDS" or "memory" */
    uint64_t at, pc;   /* address of the bytes that both accesses touch; pc of the earlier access */
    uint64_t group;    /* number of the group of the earlier access */
    uint32_t wave, wrote, lane;
    /* what would have put the two accesses in order, as text: for example "release and acquire" */
    const char *expected;
};
int sp_race_found(struct sp_wave *w, const struct sp_inst *i, const struct sp_race_pair *pair);
/* Returns 0, or a fault if two lanes of a store write different values to the same bytes. */
int sp_race_clash(struct sp_wave *w, const struct sp_inst *i, const struct sp_race_lanes *a, const char *space);

/* sp_order_now returns the number of releases that the dispatch has recorded so far. This function
 * and the next ones are in order.c. */
uint64_t sp_order_now(const struct sp_races *races);
/* Records a release by the wave of `who`: a write at `va` after all accesses of the wave so far. */
void sp_order_release(struct sp_races *races, uint64_t va, uint64_t who);
/* Records acquires by one wave, whose identity (sp_race_who) is `who`. `seen` lists the `count`
 * atomic values that the wave has read. The wave acquires at the address of each of them. */
void sp_order_acquire(struct sp_races *races, uint64_t who, const struct sp_race_seen *seen, uint32_t count);
/* `before` and `now` are identities of accesses, as sp_race_who() returns them. Returns true if the
 * accesses of `before` precede those of `now`. */
bool sp_order_is(struct sp_races *races, uint64_t before, uint64_t now);
#endif
