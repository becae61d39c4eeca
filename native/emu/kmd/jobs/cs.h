/* A submission while it is read: cs.c, and cs_sync.c for its chunks about synchronisation. */
#ifndef SP_EMU_KMD_CS_H
#define SP_EMU_KMD_CS_H
#include "emu/kmd/state/state.h"

struct kmd_promise { /* a syncobj that will get the job's fence */
    struct kmd_syncobj *syncobj;
    uint64_t point; /* 0: replaces its fence */
};

struct kmd_cs {
    struct kmd_file *file;
    struct kmd_ctx *ctx;
    struct kmd_job *job;
    struct kmd_bo_list *list;
    struct kmd_fence **wait; /* each with a reference */
    uint32_t waits;
    struct kmd_promise *promise;
    uint32_t promises;
};

int kmd_cs_add_sync(struct kmd_cs *cs, uint32_t chunk_id, const void *data, size_t nbytes);
/* Takes the reference, also on failure; NULL is allowed. */
int kmd_cs_depend(struct kmd_cs *cs, struct kmd_fence *fence);
/* Gives the job's fence to the syncobjs. */
int kmd_cs_promise(struct kmd_cs *cs);
void kmd_cs_clear(struct kmd_cs *cs);
#endif
