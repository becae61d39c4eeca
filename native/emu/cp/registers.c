/* The registers of a queue: which of them may be written, which this job has written, and the
 * values that a foreign process has left. */
#include "engine.h"
#include "gen/pm4_packets.h"
#include "gen/regs.h"
#include <errno.h>

enum { SH_COUNT = 0x400, CONTEXT_COUNT = 0x400, UCONFIG_COUNT = 0x4000, TRIPLE = 3 };

static const char *const space_names[] = {"SH", "CONTEXT", "UCONFIG"};
static const uint32_t space_base[] = {SPACE_SH, SPACE_CONTEXT, SPACE_UCONFIG};
static const uint32_t space_count[] = {SH_COUNT, CONTEXT_COUNT, UCONFIG_COUNT};

/* Returns the value that a foreign process has left in a register. The value is odd and differs
 * from register to register, so that a dispatch that uses the register fails in a recognisable
 * way. */
static uint32_t poison(uint32_t space, uint32_t offset)
{
    return 0xA5000001u ^ (offset * 0x9E3779B1u & 0x00FFFFFEu) ^ space << 28;
}

static uint32_t *file_of(struct sp_emu_hwq *q, enum sp_space space)
{
    return space == SP_SPACE_SH ? q->sh : space == SP_SPACE_CONTEXT ? q->context : q->uconfig;
}

void sp_emu_hwq_reset(struct sp_emu_hwq *q, uint32_t ip)
{
    memset(q, 0, sizeof *q);
    q->ip = ip;
    for (uint32_t space = SP_SPACE_SH; space <= SP_SPACE_UCONFIG; space++)
        for (uint32_t i = 0; i < space_count[space]; i++)
            file_of(q, (enum sp_space)space)[i] = poison(space, i);
}

void sp_emu_hwq_begin(struct sp_emu_hwq *q, uint64_t owner)
{
    if (q->owner != owner)
        sp_emu_hwq_reset(q, q->ip);
    q->owner = owner;
    memset(q->sh_set, 0, sizeof q->sh_set);
}

int sp_cp_programmed(const struct sp_cp *cp, uint32_t offset)
{
    return (cp->q->sh_set[offset / 32] | cp->q->sh_kept[offset / 32]) >> offset % 32 & 1;
}

/* Returns 1 if every register of `space` may be written. This holds for graphics context registers:
 * they are meant for user space, and compute does not depend on them. */
static int is_free(const struct sp_cp *cp, enum sp_space space)
{
    return space == SP_SPACE_CONTEXT || sp_cp_lenient(cp, SP_LENIENT_REGISTER);
}

int sp_cp_write_register(struct sp_cp *cp, enum sp_space space, uint32_t offset, uint32_t value)
{
    struct sp_emu_hwq *q = cp->q;
    uint32_t generation = cp->x->chip->generation;
    const struct sp_register *reg = sp_emu_register(generation, space, offset);
    if (offset >= space_count[space] || (reg == NULL && !is_free(cp, space)))
        return sp_cp_fault(cp, SP_FAULT_REGISTER, "gfx%u has no register for users at %s+%#x (byte %#x)", generation,
                           space_names[space], offset, (space_base[space] + offset) * 4);
    if (reg != NULL && !reg->user)
        return sp_cp_fault(cp, SP_FAULT_REGISTER, "%s (byte %#x) may not be written by a user on gfx%u", reg->name,
                           (space_base[space] + offset) * 4, generation);
    if (reg != NULL && (value & ~reg->allowed) != 0 && !sp_cp_lenient(cp, SP_LENIENT_RESERVED))
        return sp_cp_fault(cp, SP_FAULT_RESERVED, "%s = %#x: bits %#x are reserved on gfx%u", reg->name, value,
                           value & ~reg->allowed, generation);
    if (reg != NULL)
        sp_cp_trace(cp, "  %-18s %s = 0x%08x", cp->desc->name, reg->name, value);
    else
        sp_cp_trace(cp, "  %-18s %s+%#x = 0x%08x", cp->desc->name, space_names[space], offset, value);
    file_of(q, space)[offset] = value;
    if (space == SP_SPACE_SH) {
        uint32_t *set = cp->flags & SP_IB_PREAMBLE ? q->sh_kept : q->sh_set;
        set[offset / 32] |= 1u << offset % 32;
    }
    return 0;
}

/* Splits a dword address into a register space and an offset. Returns -EFAULT if the address is in
 * no space. */
static int split(struct sp_cp *cp, uint64_t dword, enum sp_space *space, uint32_t *offset)
{
    for (uint32_t s = SP_SPACE_SH; s <= SP_SPACE_UCONFIG; s++)
        if (dword >= space_base[s] && dword - space_base[s] < space_count[s]) {
            *space = (enum sp_space)s;
            *offset = (uint32_t)dword - space_base[s];
            return 0;
        }
    return sp_cp_fault(cp, SP_FAULT_REGISTER, "dword address %#llx is in no register space for users",
                       (unsigned long long)dword);
}

int sp_cp_write_absolute(struct sp_cp *cp, uint64_t dword, uint32_t value)
{
    enum sp_space space = SP_SPACE_SH;
    uint32_t offset = 0;
    int rc = split(cp, dword, &space, &offset);
    return rc != 0 ? rc : sp_cp_write_register(cp, space, offset, value);
}

int sp_cp_read_absolute(struct sp_cp *cp, uint64_t dword, uint32_t *value)
{
    enum sp_space space = SP_SPACE_SH;
    uint32_t offset = 0;
    int rc = split(cp, dword, &space, &offset);
    if (rc == 0 && sp_emu_register(cp->x->chip->generation, space, offset) == NULL && !is_free(cp, space))
        rc = sp_cp_fault(cp, SP_FAULT_REGISTER, "gfx%u has no register for users at %s+%#x", cp->x->chip->generation,
                         space_names[space], offset);
    if (rc == 0)
        *value = file_of(cp->q, space)[offset];
    return rc;
}

int sp_cp_set_run(struct sp_cp *cp, enum sp_space space)
{
    uint32_t offset = sp_get(cp->p, PM4_SET_SH_REG_REG_OFFSET), index = sp_get(cp->p, PM4_SET_SH_REG_REG_INDEX);
    int indexed = cp->desc->code == PM4_SET_SH_REG_INDEX || cp->desc->code == PM4_SET_UCONFIG_REG_INDEX;
    if (sp_get(cp->p, PM4_SET_SH_REG_REG_VMID_SHIFT) != 0 || (index != 0 && !indexed))
        return sp_cp_fault(cp, SP_FAULT_RESERVED, "index %u, vmid shift %u: both are 0 in a user's IB", index,
                           sp_get(cp->p, PM4_SET_SH_REG_REG_VMID_SHIFT));
    for (uint32_t i = PM4_SET_SH_REG_NDW; i < cp->ndw; i++) {
        int rc = sp_cp_write_register(cp, space, offset++, cp->p[i]);
        if (rc != 0)
            return rc;
    }
    return 0;
}

int sp_cp_set_pairs(struct sp_cp *cp, enum sp_space space)
{
    int rc = 0;
    for (uint32_t i = PM4_SET_SH_REG_PAIRS_NDW; rc == 0 && i + 1 < cp->ndw; i += 2)
        rc = sp_cp_write_register(cp, space, cp->p[i], cp->p[i + 1]);
    return rc;
}

int sp_cp_set_packed(struct sp_cp *cp, enum sp_space space)
{
    uint32_t start = PM4_SET_SH_REG_PAIRS_PACKED_NDW, count = sp_get(cp->p, PM4_SET_SH_REG_PAIRS_PACKED_COUNT);
    int rc = 0;
    if (count != (cp->ndw - start) / TRIPLE * 2)
        return sp_cp_fault(cp, SP_FAULT_PACKET, "count is %u, but %u registers follow", count,
                           (cp->ndw - start) / TRIPLE * 2);
    for (uint32_t i = start; rc == 0 && i + 2 < cp->ndw; i += TRIPLE) {
        rc = sp_cp_write_register(cp, space, sp_bits(cp->p[i], PM4_PACKED_OFFSET0), cp->p[i + 1]);
        if (rc == 0)
            rc = sp_cp_write_register(cp, space, sp_bits(cp->p[i], PM4_PACKED_OFFSET1), cp->p[i + 2]);
    }
    return rc;
}
