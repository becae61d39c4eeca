/* Command processor and SDMA engine: they walk an IB and do what its packets say. */
#ifndef SP_EMU_CP_H
#define SP_EMU_CP_H
#include "../exec.h"

enum { SP_IP_GFX = 0, SP_IP_COMPUTE = 1, SP_IP_DMA = 2 };

/* One hardware queue. Its registers persist from job to job, of whatever process. */
struct sp_emu_hwq {
    uint32_t ip;
    uint32_t sh[0x400];      /* SH space: dword offset from 0x2C00 */
    uint32_t uconfig[0x4000]; /* dword offset from 0xC000 */
    uint32_t context[0x400]; /* dword offset from 0xA000; GFX only */
};
/* Registers as a foreign process may have left them: not 0. */
void sp_emu_hwq_reset(struct sp_emu_hwq *q, uint32_t ip);

struct sp_emu_ib {
    uint64_t va;
    uint32_t ndw;
    uint32_t flags; /* AMDGPU_IB_FLAG_* */
};
/* 0, or -EFAULT, -ETIME, -ECANCELED with x->fault filled. */
int sp_emu_cp_run(struct sp_emu_hwq *q, const struct sp_emu_ib *ib, struct sp_emu_exec *x);
int sp_emu_sdma_run(struct sp_emu_hwq *q, const struct sp_emu_ib *ib, struct sp_emu_exec *x);
#endif
