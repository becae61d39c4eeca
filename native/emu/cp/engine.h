/* What the files of the command processor and SDMA share: the state of the packet being executed,
 * and functions for faults, time, memory and registers. */
#ifndef SP_EMU_CP_ENGINE_H
#define SP_EMU_CP_ENGINE_H
#include "cp.h"
#include "tables.h"

/* Largest number of dwords of a packet: the packet's count field has 14 bits and holds this number
 * minus 2. Only SDMA's WRITE may be longer; it is read in parts. */
enum { SP_CP_PACKET_MAX = 0x4001 };

struct sp_cp {
    struct sp_emu_hwq *q;
    struct sp_emu_exec *x;
    /* executes the packet `desc`, whose dwords are in `p` */
    int (*execute)(struct sp_cp *cp);
    const struct sp_packet *desc; /* declaration of the packet's fields, from a packet table */
    uint64_t va;                  /* address of the packet */
    uint64_t next;                /* address of the next packet; handlers may change it */
    /* address after the IB's last packet; a chained IB changes `next` and `end` */
    uint64_t end;
    uint32_t ndw;                 /* number of dwords of the packet */
    uint32_t depth;               /* nesting depth of the IB; 0 for an IB of the submission */
    uint32_t flags;               /* flags of the IB */
    uint32_t packets;             /* number of packets executed so far */
    uint32_t named;               /* 1 if the fault's text already names its packet */
    uint32_t p[SP_CP_PACKET_MAX];
};

/* Records a fault of the present packet. The fault's text contains the packet's name. Returns
 * -EFAULT, or -ETIME for SP_FAULT_TIMEOUT. */
int sp_cp_fault(struct sp_cp *cp, uint32_t kind, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Adds the packet's name to a fault that a memory access recorded. Returns `rc`. */
int sp_cp_name_fault(struct sp_cp *cp, int rc);
/* Checks the dwords that every packet of this kind has: reserved bits are 0, addresses are aligned
 * and have 48 bits. The bits and addresses are those that the packet's declaration names. */
int sp_cp_check(struct sp_cp *cp);
/* Returns -ECANCELED or -ETIME if the job must stop, else 0. Most calls do not read the clock. A
 * call with `now` set always reads it. */
int sp_cp_tick(struct sp_cp *cp, int now);
/* Waits a little between two polls. Returns what sp_cp_tick returns. */
int sp_cp_pause(struct sp_cp *cp);
/* Writes a formatted line to the trace, if tracing is on. sp_cp_trace_packet writes the name and
 * the dwords of the present packet. */
void sp_cp_trace(struct sp_cp *cp, const char *format, ...) __attribute__((format(printf, 2, 3)));
void sp_cp_trace_packet(struct sp_cp *cp);
static inline int sp_cp_lenient(const struct sp_cp *cp, uint32_t bit)
{
    return (cp->x->lenient & bit) != 0;
}

/* The functions from sp_cp_load to sp_cp_wait access memory. Each returns 0, or -errno after it has
 * filled cp->x->fault. */
/* Loads `nbytes` (4 or 8) at an aligned address, atomically. */
int sp_cp_load(struct sp_cp *cp, uint64_t va, uint32_t nbytes, uint64_t *value);
/* Both load a value that selects a branch or an address, so reading unwritten memory is a fault.
 * Only sp_cp_use reports the read to emu/order, which checks for conflicts. sp_cp_poll is for a
 * value that another packet or job is expected to write at the same time. */
int sp_cp_poll(struct sp_cp *cp, uint64_t va, uint32_t nbytes, uint64_t *value);
int sp_cp_use(struct sp_cp *cp, uint64_t va, uint32_t nbytes, uint64_t *value);
/* Checks that the dwords `got`, which were read at the aligned address `va`, do not come from
 * unwritten memory. */
int sp_cp_written(struct sp_cp *cp, uint64_t va, const void *got, uint32_t nbytes);
int sp_cp_store(struct sp_cp *cp, uint64_t va, uint32_t nbytes, uint64_t value);
int sp_cp_copy(struct sp_cp *cp, uint64_t dst, uint64_t src, uint64_t nbytes);
/* Fills `nbytes` at `dst` with copies of `dword`. `dst` and `nbytes` must be multiples of 4. */
int sp_cp_fill(struct sp_cp *cp, uint64_t dst, uint32_t dword, uint64_t nbytes);
/* Checks that `nbytes` at `va` are readable, without reading them. */
int sp_cp_touch(struct sp_cp *cp, uint64_t va, uint64_t nbytes);
/* Reads the value at `va` until the comparison of `value & mask` with `reference` holds. `function`
 * says which comparison: a code of the enum Function in sparkle_drv/amd/tables/values.py. Any other
 * code is a fault (-EFAULT). */
int sp_cp_wait(struct sp_cp *cp, uint64_t va, uint32_t nbytes, uint32_t function, uint64_t reference, uint64_t mask,
               uint32_t retries);

/* Registers. */
int sp_cp_write_register(struct sp_cp *cp, enum sp_space space, uint32_t offset, uint32_t value);
/* Writes the register with this dword address, in any register space. */
int sp_cp_write_absolute(struct sp_cp *cp, uint64_t dword, uint32_t value);
int sp_cp_read_absolute(struct sp_cp *cp, uint64_t dword, uint32_t *value);
int sp_cp_programmed(const struct sp_cp *cp, uint32_t sh_offset);

/* Each of these functions executes one kind of packet. */
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
void sp_cp_gcr(struct sp_cp *cp, uint32_t gcr_cntl); /* performs the cache actions of a GCR_CNTL */
int sp_cp_release_mem(struct sp_cp *cp);
int sp_cp_event_write(struct sp_cp *cp);
int sp_cp_wait_mem(struct sp_cp *cp);
int sp_cp_wait_mem64(struct sp_cp *cp);
#endif
