/* Internal to race/: state shared by all host threads of a dispatch. */
#ifndef SP_EMU_RACE_DISPATCH_STATE_H
#define SP_EMU_RACE_DISPATCH_STATE_H
#include "arena.h"
#include "group_state.h"

#include <pthread.h>

enum { SP_ORDER_BUCKETS = 4096, SP_PAGE_BUCKETS = 16384 };

struct sp_races {
    pthread_mutex_t lock; /* guards the members of this struct, but not the contents of the pages */
    struct sp_arena arena;
    uint32_t threads, pages;
    /* 1 if memory was too short to record a release or acquire: from then on all accesses count as
     * ordered */
    uint32_t full;
    uint64_t when;        /* number of releases recorded so far; threads access it atomically */
    struct sp_release *release[SP_ORDER_BUCKETS];
    struct sp_place_of_releases *place[SP_ORDER_BUCKETS];
    struct sp_acquire *acquire[SP_ORDER_BUCKETS];
    struct sp_race_page *page[SP_PAGE_BUCKETS]; /* threads access it atomically */
    struct sp_race_group *groups[SP_EXEC_THREADS];
};
#endif
