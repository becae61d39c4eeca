/* Internal to race/: the identity of an access, and the state of a host thread's group. */
#ifndef SP_EMU_RACE_RACER_H
#define SP_EMU_RACE_RACER_H
#include "race.h"

enum { SP_RACE_WAVES = 64, SP_RACE_NEAR = 256, SP_RACE_PENDING = 64, SP_RACE_LDS_LINES = 512 };

/* Identity of an access. From the top: group + 1 in the upper half, barriers passed, stores after a
 * release since then, wave. 0: none. */
enum { SP_WHO_TURN = 6, SP_WHO_TURNS = 63, SP_WHO_BARRIERS = 12, SP_WHO_GROUP = 32 };
static inline uint32_t sp_who_group(uint64_t who) { return (uint32_t)(who >> SP_WHO_GROUP); }
static inline uint32_t sp_who_wave(uint64_t who) { return (uint32_t)who & (SP_RACE_WAVES - 1); }
static inline uint32_t sp_who_turn(uint64_t who) { return (uint32_t)who >> SP_WHO_TURN & SP_WHO_TURNS; }
static inline uint32_t sp_who_barriers(uint64_t who) { return (uint32_t)who >> SP_WHO_BARRIERS; }
/* True for another wave. */
static inline bool sp_who_other(uint64_t a, uint64_t b)
{
    return ((a ^ b) & (UINT64_C(0xFFFFFFFF) << SP_WHO_GROUP | (SP_RACE_WAVES - 1))) != 0;
}

/* The last 20 bits of pc / 4, and back: the other instruction is near. */
static inline uint32_t sp_race_pc(const struct sp_wave *w) { return (uint32_t)(w->pc >> 2) & 0xFFFFF; }
uint64_t sp_race_pc_of(const struct sp_wave *w, uint32_t low);

/* Accesses of a counter without a wait at the wave's last barrier: after `from`, up to `to`, of 8
 * bits. */
struct sp_race_open {
    uint32_t from, to;
};
static inline bool sp_race_is_open(const struct sp_race_open *o, uint32_t seq)
{
    return (uint8_t)(seq - o->from - 1) < (uint8_t)(o->to - o->from);
}

/* An atomic value that was read. `who`: identity of the store that wrote it; 0: not a store. */
struct sp_race_seen {
    uint64_t va, when, who;
};
struct sp_race_wave {
    struct sp_race_open lds, loads, stores; /* at its last barrier */
    uint64_t after; /* waves whose LDS accesses of this epoch precede this one's, by returning atomics */
    uint32_t stored;  /* its last store that others see, as counted by vscnt: not one to scratch */
    uint32_t synced;  /* it has used an atomic, or a load as an atomic */
    uint32_t turn, released; /* turn of its `who`; 1 if it has released since its last store */
    uint32_t lds_synced; /* it has used a returning atomic of LDS */
    uint32_t seen_count;
    struct sp_race_seen seen[SP_RACE_PENDING]; /* since its last invalidation, a ring */
};

struct sp_line;
struct sp_race_page;
struct sp_racer {
    struct sp_races *all;
    const char *(*name_at)(struct sp_wave *w, uint64_t pc);
    uint32_t first[3], count[2], wgp_mode;
    uint32_t barriers;  /* of this group */
    uint64_t group;     /* its number + 1, as in `who`; atomic, as `told` */
    uint64_t told;      /* increases with each access to memory */
    uint32_t lds_epoch; /* increases at barriers, and by two from group to group */
    /* a wave arrived at this, or at the last, barrier with accesses that it had not waited for */
    uint32_t arrivals_open, open;
    uint32_t stored;    /* this group has stored to memory */
    struct sp_line *lds; /* of LDS, 64 KiB */
    struct {
        uint64_t page;
        struct sp_race_page *shadow;
    } near[SP_RACE_NEAR];
    uint64_t known[SP_RACE_NEAR]; /* `who`s known to precede `known_for` */
    uint64_t known_for[SP_RACE_NEAR];
    struct sp_race_wave wave[SP_RACE_WAVES];
};

static inline uint64_t sp_race_who(const struct sp_wave *w)
{
    const struct sp_racer *r = w->race;
    return r->group << SP_WHO_GROUP | (uint32_t)(r->barriers << SP_WHO_BARRIERS) | r->wave[w->id].turn << SP_WHO_TURN | w->id;
}

/* names.c. Data of a lane's store, at most 16 bytes. */
void sp_race_data(const struct sp_race_lanes *a, uint32_t lane, uint8_t *to);
struct sp_race_pair {
    enum sp_race_kind kind;
    const char *space; /* "LDS" or "memory" */
    uint64_t at, pc;   /* pc of the earlier access */
    uint64_t group;    /* its number */
    uint32_t wave, wrote, lane;
    const char *expected; /* the missing order */
};
int sp_race_found(struct sp_wave *w, const struct sp_inst *i, const struct sp_race_pair *pair);
/* 0, or the fault if two lanes of a store write other values to the same bytes. */
int sp_race_clash(struct sp_wave *w, const struct sp_inst *i, const struct sp_race_lanes *a, const char *space);

/* order.c: the order by releases and acquires. */
uint64_t sp_order_now(const struct sp_races *races);
/* `who` releases at `va` all that it has done. */
void sp_order_release(struct sp_races *races, uint64_t va, uint64_t who);
/* The wave acquires what it has seen. */
void sp_order_acquire(struct sp_races *races, uint64_t who, const struct sp_race_seen *seen, uint32_t count);
/* True if all accesses of `before` precede those of `now`. */
bool sp_order_is(struct sp_races *races, uint64_t before, uint64_t now);
#endif
