/* The caches that the waves of one host thread use. */
#ifndef SP_EMU_MEMORY_CACHES_H
#define SP_EMU_MEMORY_CACHES_H
#include "unit.h"

enum { SP_WGPS = 2, SP_CUS = 4 };

/* The caches for the groups of one host thread. */
struct sp_caches {
    /* seen[kind]: value of sp_l2_generation(kind) at the last check; a higher value now means that
     * the caches of this kind must be invalidated */
    uint32_t seen[SP_CACHES_ABOVE];
    struct sp_wgp wgp[SP_WGPS];
    struct sp_cu cu[SP_CUS];
};

/* Prepares the caches of a host thread at the beginning of a dispatch, whose job uses `tlb`. Makes
 * them if *caches is NULL. Returns NULL if memory is short. */
struct sp_caches *sp_caches_begin(struct sp_caches **caches, const struct sp_emu_tlb *tlb);
void sp_caches_free(struct sp_caches *caches);
/* Returns the TLB of the CU that runs a wave. Groups rotate over the WGPs, and in CU mode over the
 * CUs of a WGP. In WGP mode the waves of a group rotate over both CUs. */
struct sp_emu_tlb *sp_caches_tlb(struct sp_caches *caches, uint64_t group, uint32_t wave, uint32_t wgp_mode,
                                 const struct sp_emu_view *view, struct sp_emu_fault *fault);
#endif
