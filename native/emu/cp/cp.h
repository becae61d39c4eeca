/* Command processor and SDMA engine: they walk an IB and do what its packets say. */
#ifndef SP_EMU_CP_H
#define SP_EMU_CP_H
#include "emu/exec.h"

enum { SP_IP_GFX = 0, SP_IP_COMPUTE = 1, SP_IP_DMA = 2 };
/* What an IB is held to, and INFO HW_IP_INFO tells: where it starts and how long it is, in bytes. */
enum { SP_IB_START = 32, SP_IB_SIZE = 32, SP_IB_START_DMA = 256, SP_IB_SIZE_DMA = 4 };
enum { SP_IB_PREAMBLE = 2 }; /* AMDGPU_IB_FLAG_PREAMBLE: the kernel may skip it while the context stays the same */

/* One hardware queue. Its registers persist from job to job, of whatever process. */
struct sp_emu_hwq {
    uint32_t ip;
    uint32_t sh[0x400];      /* SH space: dword offset from 0x2C00 */
    uint32_t uconfig[0x4000]; /* dword offset from 0xC000 */
    uint32_t context[0x400]; /* dword offset from 0xA000; GFX only */
    uint32_t sh_set[0x400 / 32];  /* a bit for each SH register that the job's own IBs have programmed */
    uint32_t sh_kept[0x400 / 32]; /* ... that preamble IBs of the same owner have */
    uint64_t owner;               /* of the last job */
    uint64_t base;                /* SET_BASE index 1 */
};
/* Registers as a foreign process may have left them: not 0. */
void sp_emu_hwq_reset(struct sp_emu_hwq *q, uint32_t ip);
/* A job begins. `owner` tells contexts apart (never 0): when it is another than before, registers are as foreign as after a
 * reset. What preamble IBs programmed holds until then, for the kernel skips them; everything else is to be programmed anew. */
void sp_emu_hwq_begin(struct sp_emu_hwq *q, uint64_t owner);

struct sp_emu_ib {
    uint64_t va;
    uint32_t ndw;
    uint32_t flags; /* AMDGPU_IB_FLAG_* */
};
/* 0, or -EFAULT, -ETIME with x->fault filled, or -ECANCELED. */
int sp_emu_cp_run(struct sp_emu_hwq *q, const struct sp_emu_ib *ib, struct sp_emu_exec *x);
/* Behind the last IB of a job that came to `rc`: what was started is executed. Where the job is followed by another one it may
 * still be under way then, until sp_late_forget. */
int sp_emu_cp_end(struct sp_emu_hwq *q, struct sp_emu_exec *x, int rc, int followed);
void sp_late_forget(struct sp_emu_exec *x);
void sp_late_free(struct sp_emu_exec *x);
int sp_emu_sdma_run(struct sp_emu_hwq *q, const struct sp_emu_ib *ib, struct sp_emu_exec *x);
#endif
