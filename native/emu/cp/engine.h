/* State shared by the command processor's files: the present packet, its faults, time, and
 * memory. */
#ifndef SP_EMU_CP_ENGINE_H
#define SP_EMU_CP_ENGINE_H
#include "cp.h"
#include "tables.h"

/* A packet has at most 14 bits of count + 2 dwords. SDMA's WRITE is fetched in pieces of this
 * size. */
enum { SP_CP_PACKET_MAX = 0x4001 };

struct sp_cp {
    struct sp_emu_hwq *q;
    struct sp_emu_exec *x;
    const struct sp_packet *desc; /* declaration of the packet */
    uint64_t va;                  /* address of the packet */
    uint64_t next;                /* address of the next packet; handlers may change it */
    uint64_t end;                 /* end of the IB; a chained IB replaces both */
    uint32_t ndw;                 /* of the packet */
    uint32_t depth;               /* of the IB */
    uint32_t flags;               /* of the IB */
    uint32_t packets;             /* executed so far */
    uint32_t named;               /* the fault's text already names its packet */
    uint32_t p[SP_CP_PACKET_MAX];
};

/* Records a fault of this packet with its name. Returns -EFAULT (-ETIME for SP_FAULT_TIMEOUT). */
int sp_cp_fault(struct sp_cp *cp, uint32_t kind, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Adds the packet's name to a fault that a memory access recorded. Returns `rc`. */
int sp_cp_name_fault(struct sp_cp *cp, int rc);
/* Checks reserved bits, alignment and canonical addresses of the packet's fixed dwords against its
 * declaration. */
int sp_cp_check(struct sp_cp *cp);
/* -ECANCELED or -ETIME if the job must stop. Reads the clock only at every so many calls, or with
 * `now`. */
int sp_cp_tick(struct sp_cp *cp, int now);
/* Waits a little between two polls. Returns as sp_cp_tick. */
int sp_cp_pause(struct sp_cp *cp);
/* Writes a line to the trace, if it is on: "  NAME hdr=... ...", or a text instead of the
 * dwords. */
void sp_cp_trace(struct sp_cp *cp, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sp_cp_trace_packet(struct sp_cp *cp);
static inline int sp_cp_lenient(const struct sp_cp *cp, uint32_t bit)
{
    return (cp->x->lenient & bit) != 0;
}

/* Memory accesses. 0, or -errno with the fault filled. */
int sp_cp_load(struct sp_cp *cp, uint64_t va, uint32_t nbytes, uint64_t *value); /* 4 or 8, aligned, atomic */
/* As sp_cp_load, for values that decide: unwritten memory is a fault. sp_cp_poll: for memory that
 * other agents may be writing. */
int sp_cp_poll(struct sp_cp *cp, uint64_t va, uint32_t nbytes, uint64_t *value);
int sp_cp_use(struct sp_cp *cp, uint64_t va, uint32_t nbytes, uint64_t *value);
/* That check alone, for dwords that were read at an aligned address. */
int sp_cp_written(struct sp_cp *cp, uint64_t va, const void *got, uint32_t nbytes);
int sp_cp_store(struct sp_cp *cp, uint64_t va, uint32_t nbytes, uint64_t value);
int sp_cp_copy(struct sp_cp *cp, uint64_t dst, uint64_t src, uint64_t nbytes);
int sp_cp_fill(struct sp_cp *cp, uint64_t dst, uint32_t dword, uint64_t nbytes); /* dst and nbytes: multiples of 4 */
/* reads no bytes, but checks that they are readable */
int sp_cp_touch(struct sp_cp *cp, uint64_t va, uint64_t nbytes);
/* Waits until `value & mask` compares with reference, as Function of values.py; -EFAULT: no such
 * function. */
int sp_cp_wait(struct sp_cp *cp, uint64_t va, uint32_t nbytes, uint32_t function, uint64_t reference, uint64_t mask,
               uint32_t retries);

/* Registers. */
int sp_cp_write_register(struct sp_cp *cp, enum sp_space space, uint32_t offset, uint32_t value);
/* by dword address, in any space */
int sp_cp_write_absolute(struct sp_cp *cp, uint64_t dword, uint32_t value);
int sp_cp_read_absolute(struct sp_cp *cp, uint64_t dword, uint32_t *value);
int sp_cp_programmed(const struct sp_cp *cp, uint32_t sh_offset);

/* Packets, by file; the first function executes all of them. */
int sp_cp_execute(struct sp_cp *cp);
int sp_cp_set_run(struct sp_cp *cp, enum sp_space space);
int sp_cp_set_pairs(struct sp_cp *cp, enum sp_space space);
int sp_cp_set_packed(struct sp_cp *cp, enum sp_space space);
int sp_cp_dispatch_direct(struct sp_cp *cp);
int sp_cp_dispatch_indirect(struct sp_cp *cp);
int sp_cp_write_data(struct sp_cp *cp);
int sp_cp_copy_data(struct sp_cp *cp);
int sp_cp_dma_data(struct sp_cp *cp);
int sp_cp_atomic_mem(struct sp_cp *cp);
int sp_cp_acquire_mem(struct sp_cp *cp);
void sp_cp_gcr(struct sp_cp *cp, uint32_t gcr_cntl); /* performs the actions of a GCR_CNTL */
int sp_cp_release_mem(struct sp_cp *cp);
int sp_cp_event_write(struct sp_cp *cp);
int sp_cp_wait_mem(struct sp_cp *cp);
int sp_cp_wait_mem64(struct sp_cp *cp);
#endif
