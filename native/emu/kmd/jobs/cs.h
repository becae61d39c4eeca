/* A submission while it is read. cs.c reads it; cs_sync.c reads its chunks about
 * synchronisation. */
#ifndef SP_EMU_KMD_CS_H
#define SP_EMU_KMD_CS_H
#include "emu/kmd/state/state.h"

struct kmd_promise { /* a syncobj that will get the job's fence */
    struct kmd_syncobj *syncobj;
    uint64_t point; /* point of a timeline; 0: the job's fence replaces the syncobj's fence */
};

struct kmd_cs {
    struct kmd_file *file;
    struct kmd_ctx *ctx;
    struct kmd_job *job;
    struct kmd_bo_list *list;
    /* fences that the job waits for; the array holds a reference to each */
    struct kmd_fence **wait;
    uint32_t waits;
    struct kmd_promise *promise;
    uint32_t promises;
};

int kmd_cs_add_sync(struct kmd_cs *cs, uint32_t chunk_id, const void *data, size_t nbytes);
/* Makes the job wait for `fence`. Takes over the caller's reference, even on failure. NULL is
 * allowed. */
int kmd_cs_depend(struct kmd_cs *cs, struct kmd_fence *fence);
/* Gives the job's fence to the syncobjs that the submission signals. */
int kmd_cs_promise(struct kmd_cs *cs);
void kmd_cs_clear(struct kmd_cs *cs);
#endif
