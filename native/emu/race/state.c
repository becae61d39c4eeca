/* Prepares the state of the race check for the next dispatch, group or barrier. */
#include "shadow.h"

#include <stdlib.h>

struct sp_races *sp_races_begin(struct sp_emu_exec *x, uint64_t threads)
{
    struct sp_races *races = x->races;
    if (!races) {
        if (!(x->races = races = calloc(1, sizeof *races))) return NULL;
        pthread_mutex_init(&races->lock, NULL);
    }
    if (races->pages) memset(races->page, 0, sizeof races->page);
    if (races->when) {
        memset(races->release, 0, sizeof races->release);
        memset(races->place, 0, sizeof races->place);
        memset(races->acquire, 0, sizeof races->acquire);
    }
    sp_arena_reset(&races->arena);
    races->threads = (uint32_t)threads;
    races->pages = races->full = 0;
    races->when = 0;
    return races;
}

void sp_races_free(struct sp_races *races)
{
    if (!races) return;
    for (uint32_t n = 0; n < SP_EXEC_THREADS; n++) {
        if (races->groups[n]) free(races->groups[n]->lds);
        free(races->groups[n]);
    }
    sp_arena_free(&races->arena);
    pthread_mutex_destroy(&races->lock);
    free(races);
}

struct sp_race_group *sp_race_group_begin(struct sp_races *races, uint32_t thread, const uint32_t *first, const uint32_t *end,
                                uint32_t wgp_mode, const char *(*name_at)(struct sp_wave *w, uint64_t pc))
{
    struct sp_race_group *r = races->groups[thread];
    if (!r && (r = calloc(1, sizeof *r))) __atomic_store_n(&races->groups[thread], r, __ATOMIC_RELEASE);
    if (!r) return NULL;
    if (!r->lds && !(r->lds = calloc(SP_RACE_LDS_LINES, sizeof *r->lds))) return NULL;
    /* `dword` points to records of the previous dispatch, whose memory is reused */
    for (uint32_t n = 0; n < SP_RACE_LDS_LINES; n++) r->lds[n].dword = NULL;
    r->all = races;
    r->name_at = name_at;
    r->wgp_mode = wgp_mode;
    memcpy(r->first, first, sizeof r->first);
    for (uint32_t n = 0; n < 2; n++) r->count[n] = end[n] - first[n];
    memset(r->near, 0xFF, sizeof r->near);
    memset(r->known_for, 0, sizeof r->known_for);
    return r;
}

void sp_race_group_next(struct sp_race_group *r, uint64_t number)
{
    __atomic_store_n(&r->group, number + 1, __ATOMIC_RELEASE);
    r->barriers = r->stored = r->open = r->arrivals_open = 0;
    r->lds_epoch += 2;
    for (uint32_t n = 0; n < SP_RACE_WAVES; n++) memset(&r->wave[n], 0, offsetof(struct sp_race_wave, seen));
}

void sp_race_arrives(struct sp_wave *w)
{
    struct sp_race_wave *me = &w->race->wave[w->id];
    me->lds = (struct sp_race_open){w->lds_waited, w->lds_issued};
    me->loads = (struct sp_race_open){w->vm_waited, w->vm_issued};
    me->stores = (struct sp_race_open){w->vs_waited, w->vs_issued};
    w->race->arrivals_open |= w->lds_waited != w->lds_issued || w->vm_waited != w->vm_issued || w->vs_waited != w->vs_issued;
}

void sp_race_group_barrier(struct sp_race_group *r)
{
    r->barriers++;
    r->open = r->arrivals_open;
    r->arrivals_open = 0;
    r->lds_epoch++;
    for (uint32_t n = 0; n < SP_RACE_WAVES; n++) r->wave[n].after = r->wave[n].turn = r->wave[n].released = 0;
}
