/* Writes packets that store the GPU's clock. An IB with such packets serves one submission only,
 * because each submission has its own address for the clock. */
#include "clock.h"
#include "gen/pm4_packets.h"

void sp_encode_start(struct sp_job *job, uint64_t va)
{
    job->clocks = 1;
    uint32_t *p = sp_job_put(job, PM4_COPY_DATA_NDW);
    sp_put(p, PM4_HEADER_TYPE, 3);
    sp_put(p, PM4_HEADER_OPCODE, PM4_COPY_DATA);
    sp_put(p, PM4_HEADER_COUNT, PM4_COPY_DATA_NDW - 2);
    sp_put(p, PM4_COPY_DATA_CONTROL_SRC_SEL, PM4_COPY_SEL_GPU_CLOCK);
    sp_put(p, PM4_COPY_DATA_CONTROL_DST_SEL, PM4_COPY_SEL_TC_L2);
    sp_put(p, PM4_COPY_DATA_CONTROL_COUNT_SEL, 1);
    sp_put(p, PM4_COPY_DATA_CONTROL_WR_CONFIRM, 1);
    sp_put64(p, PM4_COPY_DATA_DST, va);
}

void sp_encode_clock(struct sp_job *job, uint64_t va)
{
    job->clocks = 1;
    uint32_t *p = sp_job_put(job, PM4_RELEASE_MEM_NDW);
    sp_put(p, PM4_HEADER_TYPE, 3);
    sp_put(p, PM4_HEADER_OPCODE, PM4_RELEASE_MEM);
    sp_put(p, PM4_HEADER_COUNT, PM4_RELEASE_MEM_NDW - 2);
    sp_put(p, PM4_RELEASE_MEM_EVENT_TYPE, PM4_EVENT_BOTTOM_OF_PIPE_TS);
    sp_put(p, PM4_RELEASE_MEM_EVENT_INDEX, 5);
    sp_put(p, PM4_RELEASE_MEM_SELECT_DST, 1);
    sp_put(p, PM4_RELEASE_MEM_SELECT_INTR, PM4_INT_SEL_DATA_AFTER_CONFIRM);
    sp_put(p, PM4_RELEASE_MEM_SELECT_DATA, PM4_DATA_SEL_GPU_CLOCK);
    sp_put64(p, PM4_RELEASE_MEM_ADDR, va);
}
