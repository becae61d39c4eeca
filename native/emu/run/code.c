/* Decoded instructions. A page of code becomes an array of slots, one for each dword, which are
 * filled on first use. Each thread has a cache of its own for each dispatch. So code that the CPU
 * or an earlier dispatch has changed is decoded again. */
#include "code.h"
#include "emu/memory/unit.h"
#include "emu/ops/poison/op_kind.h"
#include "emu/ops/table.h"
#include <stdlib.h>

enum { BUCKETS = 64, MOST_WORDS = 5 };

struct sp_code {
    uint32_t generation;
    struct sp_code_page *bucket[BUCKETS];
};

struct sp_code *sp_code_new(uint32_t generation)
{
    struct sp_code *code = calloc(1, sizeof *code);
    if (code) code->generation = generation;
    return code;
}

void sp_code_free(struct sp_code *code)
{
    if (!code) return;
    for (unsigned b = 0; b < BUCKETS; b++) {
        struct sp_code_page *page = code->bucket[b];
        while (page) {
            struct sp_code_page *chain = page->chain;
            free(page);
            page = chain;
        }
    }
    free(code);
}

struct sp_code_page *sp_code_page(struct sp_code *code, uint64_t va)
{
    struct sp_code_page **bucket = &code->bucket[va / SP_VM_PAGE % BUCKETS];
    va &= ~(uint64_t)(SP_VM_PAGE - 1);
    for (struct sp_code_page *page = *bucket; page; page = page->chain)
        if (page->va == va) return page;
    struct sp_code_page *page = calloc(1, sizeof *page);
    if (!page) return NULL;
    page->va = va;
    page->chain = *bucket;
    *bucket = page;
    return page;
}

static bool runs_old(const struct sp_wave *w)
{
    const struct sp_emu_flaw_of *flaw = sp_emu_flaw(w->x->chip, SP_FLAW_GCR);
    return flaw && flaw->a & SP_GCR_GLI_INV;
}

/* Checks that the decoded words are not stale. Returns a fault if they are. */
static int check_fresh(struct sp_wave *w, uint32_t count)
{
    struct sp_stale stale;
    if (runs_old(w)) return 0;
    for (uint64_t va = w->pc; va < w->pc + 4u * count; va += 4) {
        if (!sp_emu_at(w->tlb, va, SP_VM_EXECUTE) || !sp_cache_code(w->tlb, va, &stale)) continue;
        w->fault->va = va;
        w->fault->access = SP_VM_EXECUTE;
        return sp_wave_fault(w, SP_FAULT_STALE, "code at 0x%llx: %s holds 0x%08x, memory 0x%08x: expected %s between the two",
                             (unsigned long long)va, stale.cache, stale.held, stale.now, stale.lacks);
    }
    return 0;
}

static bool fetch_word(struct sp_wave *w, uint64_t va, uint32_t *word)
{
    const uint8_t *host = sp_emu_at(w->tlb, va, SP_VM_EXECUTE);
    struct sp_stale stale;
    if (!host) return false;
    memcpy(word, host, 4);
    if (runs_old(w) && sp_cache_code(w->tlb, va, &stale)) *word = stale.held;
    return true;
}

/* Reads the words at `va` up to the end of the page, at most as many as an instruction can have.
 * Returns their number, or 0 after a fault. */
static uint32_t fetch(struct sp_wave *w, uint64_t va, uint32_t words[MOST_WORDS])
{
    uint32_t count = 0;
    for (; count < MOST_WORDS; count++) {
        uint64_t at = va + 4u * count;
        /* The next page is read only for an instruction that reaches into it. */
        if (count && at % SP_VM_PAGE == 0) break;
        if (!fetch_word(w, at, &words[count])) return 0;
    }
    return count;
}

static int decode(struct sp_wave *w, const uint32_t *words, uint32_t count, struct sp_inst *inst, uint32_t *reserved,
                  char *why, uint32_t why_nbytes)
{
    return w->generation == 11 ? sp_inst_decode_gfx11(words, count, inst, reserved, why, why_nbytes)
                               : sp_inst_decode_gfx10(words, count, inst, reserved, why, why_nbytes);
}

/* Checks that VGPRs are within the wave's allocation. Beyond it, hardware silently uses v0. */
static int check_registers(struct sp_wave *w, const struct sp_inst *inst)
{
    const uint16_t codes[] = {inst->dst, inst->src[0], inst->src[1], inst->src[2]};
    const uint8_t counts[] = {inst->dst_ndw, inst->src_ndw[0], inst->src_ndw[1], inst->src_ndw[2]};
    /* in a wave64 the operands C and D of a WMMA have half as many VGPRs as in a wave32 */
    bool matrix = inst->format == SP_FORMAT_VOP3P && inst->dst_ndw == 8;
    for (unsigned k = 0; k < 4; k++) {
        uint32_t halved = matrix && w->lanes == 64 && (k == 0 || k == 3);
        uint32_t last = codes[k] - SP_SRC_VGPR + (counts[k] != SP_NDW_MASK ? (counts[k] >> halved) - 1u : 0);
        if (counts[k] && codes[k] >= SP_SRC_VGPR && last >= w->vgpr_count)
            return sp_wave_fault(w, SP_FAULT_OPERAND, "%s uses v%u, the wave has %u VGPRs", sp_wave_op_name(inst->op), last,
                                 w->vgpr_count);
    }
    return 0;
}

/* Checks that code for a chip other than gfx11.5 has no additions of gfx11.5: new instructions, and
 * a scalar as src1 with DPP. */
static int check_version(struct sp_wave *w, const struct sp_inst *inst)
{
    uint32_t minor = w->x->chip->minor;
    bool dpp = inst->lane_mode == SP_LANE_DPP16 || inst->lane_mode == SP_LANE_DPP8;
    if (inst->minor > minor)
        return sp_wave_fault(w, SP_FAULT_OPCODE, "gfx%u.%u has no %s", w->generation, minor, sp_wave_op_name(inst->op));
    if (dpp && minor < 5 && inst->src_ndw[1] && inst->src[1] < SP_SRC_VGPR && !(w->x->lenient & SP_LENIENT_RESERVED))
        return sp_wave_fault(w, SP_FAULT_OPERAND, "%s with DPP has a scalar as src1: gfx%u.%u expects a VGPR",
                             sp_wave_op_name(inst->op), w->generation, minor);
    return 0;
}

int sp_code_fill(struct sp_wave *w, struct sp_slot *slot)
{
    uint32_t words[MOST_WORDS] = {0}, reserved = 0, count = fetch(w, w->pc, words);
    char why[128] = "";
    if (!count) return sp_wave_fault_at(w, 0);
    int rc = decode(w, words, count, &slot->inst, &reserved, why, sizeof why);
    if (rc == -ENODATA) {
        for (; count < MOST_WORDS; count++) /* the instruction reaches into the next page */
            if (!fetch_word(w, w->pc + 4u * count, &words[count])) return sp_wave_fault_at(w, 0);
        rc = decode(w, words, count, &slot->inst, &reserved, why, sizeof why);
    }
    if (check_fresh(w, rc ? 1 : slot->inst.ndw)) return SP_WAVE_FAULT;
    if (sp_emu_poison_of(w->tlb, w->pc, words, 4) != SP_NO_POISON)
        return sp_wave_fault(w, SP_FAULT_UNINITIALISED, "code at 0x%llx, which was never written", (unsigned long long)w->pc);
    if (rc) return sp_wave_fault(w, SP_FAULT_OPCODE, "%s (0x%08x)", why, words[0]);
    if (reserved && !(w->x->lenient & SP_LENIENT_RESERVED))
        return sp_wave_fault(w, SP_FAULT_RESERVED, "%s has reserved bits set (0x%08x 0x%08x)",
                             sp_wave_op_name(slot->inst.op), words[0], words[1]);
    if (check_version(w, &slot->inst) || check_registers(w, &slot->inst)) return SP_WAVE_FAULT;
    if (slot->inst.bus > slot->inst.bus_most && !(w->x->lenient & SP_LENIENT_RESERVED))
        return sp_wave_fault(w, SP_FAULT_OPERAND, "%s reads %u scalars, expected at most %u",
                             sp_wave_op_name(slot->inst.op), slot->inst.bus, slot->inst.bus_most);
    bool two = slot->inst.format == SP_FORMAT_VOPD;
    sp_wave_fn fn = two ? sp_wave_vopd : sp_wave_function(slot->inst.op);
    if (!fn || (two && sp_vopd_split(slot)))
        return sp_wave_fault(w, SP_FAULT_OPCODE, "the emulator lacks %s%s%s", sp_wave_op_name(slot->inst.op),
                             two ? " :: " : "", two ? sp_wave_op_name(slot->inst.opy) : "");
    slot->vector = (uint32_t)sp_wave_op_is_vector(slot->inst.op) << two;
    slot->fn = fn;
    return 0;
}

const char *sp_code_name(struct sp_wave *w, uint64_t pc)
{
    struct sp_code_page *page = sp_code_page(w->code, pc);
    struct sp_slot *slot = page ? &page->slot[pc % SP_VM_PAGE / 4] : NULL;
    uint64_t now = w->pc;
    /* If only another thread has run the instruction at `pc`, this thread has not decoded it yet.
     * Then sp_code_fill, which takes the address from w->pc, decodes it now. */
    w->pc = pc;
    int rc = slot && !slot->fn ? sp_code_fill(w, slot) : 0;
    w->pc = now;
    return slot && !rc ? sp_wave_op_name(slot->inst.op) : "?";
}
