/* Packets that move data: WRITE_DATA, COPY_DATA, DMA_DATA, ATOMIC_MEM. */
#include "engine.h"
#include "gen/pm4_packets.h"
#include <errno.h>

enum { DMA_ADDRESS = 0, DMA_SRC_DATA = 2, DMA_DST_NOWHERE = 2, DMA_L2 = 3 };

static int check_address(struct sp_cp *cp, uint64_t va)
{
    return sp_emu_is_address(va) ? 0
                                : sp_cp_fault(cp, SP_FAULT_RESERVED, "expected a 48-bit address, got %#llx", (unsigned long long)va);
}

static int unmodelled(struct sp_cp *cp, const char *what, uint32_t value)
{
    return sp_cp_fault(cp, SP_FAULT_PACKET, "%s %u is not modelled", what, value);
}

static int check_engine(struct sp_cp *cp, uint32_t engine)
{
    if (engine != 0 && cp->q->ip == SP_IP_COMPUTE && !sp_cp_lenient(cp, SP_LENIENT_RESERVED))
        return sp_cp_fault(cp, SP_FAULT_RESERVED, "engine %u: a compute queue has one", engine);
    return 0;
}

int sp_cp_write_data(struct sp_cp *cp)
{
    uint64_t to = sp_get64(cp->p, PM4_WRITE_DATA_ADDR);
    uint32_t dst = sp_get(cp->p, PM4_WRITE_DATA_CONTROL_DST_SEL);
    uint32_t one = sp_get(cp->p, PM4_WRITE_DATA_CONTROL_ADDR_INCR);
    const struct sp_emu_flaw_of *flaw = sp_emu_flaw(cp->x->chip, SP_FLAW_WRITE_DATA);
    int is_memory = dst == PM4_COPY_SEL_TC_L2 || dst == PM4_COPY_SEL_IMMEDIATE_OR_MEMORY;
    int rc = check_engine(cp, sp_get(cp->p, PM4_WRITE_DATA_CONTROL_ENGINE));
    if (rc == 0 && !is_memory && dst != PM4_COPY_SEL_REGISTER)
        return unmodelled(cp, "dst_sel", dst);
    if (rc == 0 && is_memory)
        rc = check_address(cp, to);
    for (uint32_t i = PM4_WRITE_DATA_NDW; rc == 0 && i < cp->ndw; i++) {
        uint64_t step = one ? 0 : i - PM4_WRITE_DATA_NDW;
        rc = is_memory ? sp_cp_store(cp, to + 4 * step, 4, cp->p[i] ^ (flaw ? (uint32_t)flaw->a : 0)) : sp_cp_write_absolute(cp, to + step, cp->p[i]);
    }
    return rc;
}

static int copy_source(struct sp_cp *cp, uint32_t nbytes, uint64_t *value)
{
    uint64_t from = sp_get64(cp->p, PM4_COPY_DATA_SRC);
    uint32_t sel = sp_get(cp->p, PM4_COPY_DATA_CONTROL_SRC_SEL), word = 0;
    int rc;
    switch (sel) {
    case PM4_COPY_SEL_REGISTER:
        rc = sp_cp_read_absolute(cp, from, &word);
        *value = word;
        if (rc == 0 && nbytes == 8) {
            rc = sp_cp_read_absolute(cp, from + 1, &word);
            *value |= (uint64_t)word << 32;
        }
        return rc;
    case PM4_COPY_SEL_SRC_MEMORY:
    case PM4_COPY_SEL_TC_L2:
        rc = check_address(cp, from);
        return rc != 0 ? rc : sp_cp_load(cp, from, nbytes, value);
    case PM4_COPY_SEL_IMMEDIATE_OR_MEMORY: *value = from; return 0;
    case PM4_COPY_SEL_GPU_CLOCK: *value = sp_emu_gpu_clock(cp->x->chip); return 0;
    default: return unmodelled(cp, "src_sel", sel);
    }
}

int sp_cp_copy_data(struct sp_cp *cp)
{
    uint64_t to = sp_get64(cp->p, PM4_COPY_DATA_DST), value = 0;
    uint32_t sel = sp_get(cp->p, PM4_COPY_DATA_CONTROL_DST_SEL);
    uint32_t nbytes = sp_get(cp->p, PM4_COPY_DATA_CONTROL_COUNT_SEL) ? 8 : 4;
    int rc = check_engine(cp, sp_get(cp->p, PM4_COPY_DATA_CONTROL_ENGINE));
    if (rc == 0)
        rc = copy_source(cp, nbytes, &value);
    if (rc != 0)
        return rc;
    if (sel == PM4_COPY_SEL_REGISTER) {
        rc = sp_cp_write_absolute(cp, to, (uint32_t)value);
        return rc != 0 || nbytes == 4 ? rc : sp_cp_write_absolute(cp, to + 1, (uint32_t)(value >> 32));
    }
    if (sel != PM4_COPY_SEL_TC_L2 && sel != PM4_COPY_SEL_IMMEDIATE_OR_MEMORY)
        return unmodelled(cp, "dst_sel", sel);
    const struct sp_emu_flaw_of *flaw = sp_emu_flaw(cp->x->chip, SP_FLAW_COPY_DATA);
    rc = check_address(cp, to);
    if (rc == 0)
        rc = sp_cp_store(cp, to, nbytes, value ^ (flaw ? flaw->a : 0));
    uint32_t source = sp_get(cp->p, PM4_COPY_DATA_CONTROL_SRC_SEL);
    if (rc == 0 && (source == PM4_COPY_SEL_SRC_MEMORY || source == PM4_COPY_SEL_TC_L2))
        sp_emu_poison_copied(&cp->x->tlb, to, sp_get64(cp->p, PM4_COPY_DATA_SRC));
    return rc;
}

static int check_dma(struct sp_cp *cp)
{
    const uint32_t *p = cp->p;
    uint32_t src = sp_get(p, PM4_DMA_DATA_CONTROL_SRC_SEL), dst = sp_get(p, PM4_DMA_DATA_CONTROL_DST_SEL);
    uint32_t spaces[] = {PM4_DMA_DATA_COMMAND_SAS, PM4_DMA_DATA_COMMAND_DAS, PM4_DMA_DATA_COMMAND_SAIC,
                         PM4_DMA_DATA_COMMAND_DAIC};
    if (src != DMA_ADDRESS && src != DMA_SRC_DATA && src != DMA_L2)
        return unmodelled(cp, "src_sel", src);
    if (dst != DMA_ADDRESS && dst != DMA_DST_NOWHERE && dst != DMA_L2)
        return unmodelled(cp, "dst_sel", dst);
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++)
        if (sp_get(p, spaces[i]) != 0)
            return unmodelled(cp, "register space or a fixed address in the command: bit", spaces[i] >> 8 & 0xff);
    if (src != DMA_SRC_DATA && !sp_emu_is_address(sp_get64(p, PM4_DMA_DATA_SRC)))
        return sp_cp_fault(cp, SP_FAULT_RESERVED, "the source: expected a 48-bit address, got %#llx",
                           (unsigned long long)sp_get64(p, PM4_DMA_DATA_SRC));
    return check_engine(cp, sp_get(p, PM4_DMA_DATA_CONTROL_ENGINE));
}

int sp_cp_dma_data(struct sp_cp *cp)
{
    uint64_t src = sp_get64(cp->p, PM4_DMA_DATA_SRC), dst = sp_get64(cp->p, PM4_DMA_DATA_DST);
    uint32_t nbytes = sp_get(cp->p, PM4_DMA_DATA_COMMAND_BYTE_COUNT);
    int is_data = sp_get(cp->p, PM4_DMA_DATA_CONTROL_SRC_SEL) == DMA_SRC_DATA;
    int rc = check_dma(cp);
    if (rc != 0 || nbytes == 0)
        return rc; /* a packet without bytes only waits for earlier copies, and these have ended */
    if (sp_get(cp->p, PM4_DMA_DATA_CONTROL_DST_SEL) == DMA_DST_NOWHERE)
        return is_data ? unmodelled(cp, "data to nowhere: dst_sel", DMA_DST_NOWHERE) : sp_cp_touch(cp, src, nbytes);
    if (!is_data)
        return sp_cp_copy(cp, dst, src, nbytes);
    if (dst % 4 != 0 || nbytes % 4 != 0)
        return sp_cp_fault(cp, SP_FAULT_ALIGNMENT, "a fill of %u bytes at %#llx: expected whole dwords", nbytes,
                           (unsigned long long)dst);
    return sp_cp_fill(cp, dst, (uint32_t)src, nbytes);
}

/* TC_OP (P, M): bits [4:0] are the operation, bit 5 means 64 bits, bit 6 means that no value is
 * returned. */
enum { OP_SWAP = 7, OP_CMPSWAP = 8, OP_ADD = 15, OP_SUB, OP_SMIN, OP_UMIN, OP_SMAX, OP_UMAX, OP_AND, OP_OR, OP_XOR,
       OP_INC, OP_DEC, OP_WIDE = 1 << 5, OP_MASK = (1 << 5) - 1 };

static int64_t as_signed(uint64_t value, uint32_t nbytes)
{
    return nbytes == 8 ? (int64_t)value : (int64_t)(int32_t)(uint32_t)value;
}

static int combine(uint32_t op, uint32_t nbytes, uint64_t old, uint64_t src, uint64_t compare, uint64_t *value)
{
    int less = as_signed(old, nbytes) < as_signed(src, nbytes);
    switch (op & OP_MASK) {
    case OP_SWAP: *value = src; return 0;
    case OP_CMPSWAP: *value = old == compare ? src : old; return 0;
    case OP_ADD: *value = old + src; return 0;
    case OP_SUB: *value = old - src; return 0;
    case OP_SMIN: *value = less ? old : src; return 0;
    case OP_SMAX: *value = less ? src : old; return 0;
    case OP_UMIN: *value = old < src ? old : src; return 0;
    case OP_UMAX: *value = old < src ? src : old; return 0;
    case OP_AND: *value = old & src; return 0;
    case OP_OR: *value = old | src; return 0;
    case OP_XOR: *value = old ^ src; return 0;
    case OP_INC: *value = old >= src ? 0 : old + 1; return 0;
    case OP_DEC: *value = old == 0 || old > src ? src : old - 1; return 0;
    default: return -1;
    }
}

/* Performs the atomic operation once. `*old` receives the old value. */
static int atomic_step(struct sp_cp *cp, uint32_t op, uint32_t nbytes, uint64_t *old)
{
    uint64_t va = sp_get64(cp->p, PM4_ATOMIC_MEM_ADDR), value;
    uint64_t mask = nbytes == 8 ? UINT64_MAX : UINT32_MAX;
    uint64_t src = sp_get64(cp->p, PM4_ATOMIC_MEM_SOURCE) & mask, compare = sp_get64(cp->p, PM4_ATOMIC_MEM_COMPARE) & mask;
    for (int swapped = 0; !swapped;) {
        int rc = sp_cp_poll(cp, va, nbytes, old);
        if (rc != 0)
            return rc;
        if (combine(op, nbytes, *old, src, compare, &value) != 0)
            return unmodelled(cp, "atomic", op);
        uint8_t *at = sp_emu_at(&cp->x->tlb, va, SP_VM_READ | SP_VM_WRITE);
        if (at == NULL)
            return -EFAULT;
        uint32_t old32 = (uint32_t)*old;
        sp_emu_writes_as(&cp->x->tlb, va, nbytes, SP_ATOMIC);
        swapped = nbytes == 8 ? __atomic_compare_exchange_n((uint64_t *)(void *)at, old, value, 0, __ATOMIC_ACQ_REL,
                                                            __ATOMIC_ACQUIRE)
                              : __atomic_compare_exchange_n((uint32_t *)(void *)at, &old32, (uint32_t)value, 0,
                                                            __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
        sp_emu_wrote(&cp->x->tlb, va, nbytes);
    }
    return 0;
}

int sp_cp_atomic_mem(struct sp_cp *cp)
{
    uint32_t op = sp_get(cp->p, PM4_ATOMIC_MEM_CONTROL_OP), command = sp_get(cp->p, PM4_ATOMIC_MEM_CONTROL_COMMAND);
    uint32_t nbytes = op & OP_WIDE ? 8 : 4;
    uint64_t compare = sp_get64(cp->p, PM4_ATOMIC_MEM_COMPARE), old = 0;
    if (command > 1)
        return unmodelled(cp, "command", command);
    for (;;) {
        int rc = atomic_step(cp, op, nbytes, &old);
        /* returns after one try, unless this is a CMPSWAP with COMMAND 1: it repeats until old ==
         * compare */
        if (rc != 0 || command == 0 || (op & OP_MASK) != OP_CMPSWAP || old == (nbytes == 8 ? compare : (uint32_t)compare))
            return rc;
        rc = sp_cp_pause(cp);
        if (rc != 0)
            return rc;
    }
}
