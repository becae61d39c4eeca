/* The command processor and the SDMA engine: each walks an IB and executes its packets. */
#ifndef SP_EMU_CP_H
#define SP_EMU_CP_H
#include "emu/exec/exec.h"

enum { SP_IP_GFX = 0, SP_IP_COMPUTE = 1, SP_IP_DMA = 2 };
/* Alignment of an IB's start, and multiple of its length, in bytes, as INFO HW_IP_INFO reports
 * them. */
enum { SP_IB_START = 32, SP_IB_SIZE = 32, SP_IB_START_DMA = 256, SP_IB_SIZE_DMA = 4 };
/* AMDGPU_IB_FLAG_PREAMBLE: the kernel driver may skip the IB if the last job on the ring came from
 * the same context */
enum { SP_IB_PREAMBLE = 2 };

/* One hardware queue. Its registers keep their values from job to job, even across processes. */
struct sp_emu_hwq {
    uint32_t ip;
    uint32_t sh[0x400];      /* SH registers, by dword offset from 0x2C00 */
    uint32_t uconfig[0x4000]; /* UCONFIG registers, by dword offset from 0xC000 */
    uint32_t context[0x400]; /* context registers, by dword offset from 0xA000; GFX only */
    uint32_t sh_set[0x400 / 32];  /* a bit for each SH register that the job's own IBs have programmed */
    /* a bit for each SH register that preamble IBs of the context `owner` have programmed */
    uint32_t sh_kept[0x400 / 32];
    uint64_t owner;               /* identifies the context of the last job; 0: none */
    uint32_t ce_count, de_count;  /* counters of the constant engine and of the drawing engine */
    uint64_t base;                /* address from the last SET_BASE packet with BASE_INDEX 1 */
};
/* Fills all registers with values other than 0, as if another process had used the queue before. */
void sp_emu_hwq_reset(struct sp_emu_hwq *q, uint32_t ip);
/* Begins a job. `owner` identifies the context (never 0). For a new owner, all registers hold
 * foreign values, as after a reset. For the same owner, values from preamble IBs stay valid,
 * because the kernel driver skips these IBs. All other registers must be programmed again in each
 * job. */
void sp_emu_hwq_begin(struct sp_emu_hwq *q, uint64_t owner);

struct sp_emu_ib {
    uint64_t va;
    uint32_t ndw;
    uint32_t flags; /* AMDGPU_IB_FLAG_* */
};
/* Runs one IB. Returns 0, or -ECANCELED if *x->cancel was set, or -EFAULT or -ETIME with x->fault
 * filled. */
int sp_emu_cp_run(struct sp_emu_hwq *q, const struct sp_emu_ib *ib, struct sp_emu_exec *x);
/* Ends a job after its last IB, whose result is `rc`. Executes the packets that the job has started
 * and that are not executed yet. With `followed`, another job of the queue may begin now. Then
 * these packets count as under way until sp_async_forget is called. */
int sp_emu_cp_end(struct sp_emu_hwq *q, struct sp_emu_exec *x, int rc, int followed);
void sp_async_forget(struct sp_emu_exec *x);
void sp_async_free(struct sp_emu_exec *x);
int sp_emu_sdma_run(struct sp_emu_hwq *q, const struct sp_emu_ib *ib, struct sp_emu_exec *x);
#endif
