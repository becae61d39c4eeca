/* Atomic operations: their results, and their execution on memory that several host threads
 * share. */
#include "lanes_math.h"
#include "memory.h"

static uint64_t result32(enum sp_atomic op, uint32_t old, uint32_t data, uint32_t other)
{
    float f = sp_f32(old), g = sp_f32(data);
    switch (op) {
    case SP_ATOMIC_CMPSWAP: return old == other ? data : old;
    case SP_ATOMIC_SMIN: return (int32_t)old < (int32_t)data ? old : data;
    case SP_ATOMIC_SMAX: return (int32_t)old > (int32_t)data ? old : data;
    case SP_ATOMIC_FADD: return sp_u32(f + g);
    case SP_ATOMIC_FMIN: return sp_u32(sp_min32(f, g, true));
    case SP_ATOMIC_FMAX: return sp_u32(sp_max32(f, g, true));
    case SP_ATOMIC_FCMPSWAP: return f == sp_f32(other) ? data : old;
    default: return 0;
    }
}

static uint64_t result64(enum sp_atomic op, uint64_t old, uint64_t data, uint64_t other)
{
    double f = sp_f64(old), g = sp_f64(data);
    switch (op) {
    case SP_ATOMIC_CMPSWAP: return old == other ? data : old;
    case SP_ATOMIC_SMIN: return (int64_t)old < (int64_t)data ? old : data;
    case SP_ATOMIC_SMAX: return (int64_t)old > (int64_t)data ? old : data;
    case SP_ATOMIC_FADD: return sp_u64(f + g);
    case SP_ATOMIC_FMIN: return sp_u64(sp_min64(f, g, true));
    case SP_ATOMIC_FMAX: return sp_u64(sp_max64(f, g, true));
    case SP_ATOMIC_FCMPSWAP: return f == sp_f64(other) ? data : old;
    default: return 0;
    }
}

/* Returns the result of an atomic. `nbytes` is 4 or 8. Bits above that size are 0 in the inputs and
 * cut off in the result. */
uint64_t sp_atomic_result(enum sp_atomic op, uint32_t nbytes, uint64_t old, uint64_t data, uint64_t other)
{
    uint64_t mask = nbytes == 8 ? UINT64_MAX : UINT32_MAX;
    switch (op) {
    case SP_ATOMIC_SWAP: return data;
    case SP_ATOMIC_ADD: return (old + data) & mask;
    case SP_ATOMIC_SUB: return (old - data) & mask;
    case SP_ATOMIC_RSUB: return (data - old) & mask;
    case SP_ATOMIC_CSUB: return old < data ? 0 : old - data;
    case SP_ATOMIC_UMIN: return old < data ? old : data;
    case SP_ATOMIC_UMAX: return old > data ? old : data;
    case SP_ATOMIC_AND: return old & data;
    case SP_ATOMIC_OR: return old | data;
    case SP_ATOMIC_XOR: return old ^ data;
    case SP_ATOMIC_INC: return old >= data ? 0 : old + 1;
    case SP_ATOMIC_DEC: return old == 0 || old > data ? data : old - 1;
    case SP_ATOMIC_MSKOR: return (old & ~data) | other;
    case SP_ATOMIC_WRAP: return old >= data ? old - data : (old + other) & mask;
    default: break;
    }
    return nbytes == 8 ? result64(op, old, data, other) : result32(op, (uint32_t)old, (uint32_t)data, (uint32_t)other);
}

uint64_t sp_atomic_cached(struct sp_wave *w, uint64_t va, enum sp_atomic op, uint32_t nbytes, uint8_t *host,
                          const uint64_t data[2])
{
    sp_emu_writes_as(w->tlb, va, nbytes, SP_ATOMIC);
    uint64_t old = sp_atomic_memory(op, nbytes, host, data[0], data[1]);
    sp_emu_wrote(w->tlb, va, nbytes);
    return old;
}

uint64_t sp_atomic_memory(enum sp_atomic op, uint32_t nbytes, uint8_t *host, uint64_t data, uint64_t other)
{
    if (nbytes == 8) {
        uint64_t *at = (uint64_t *)(void *)host, old = __atomic_load_n(at, __ATOMIC_RELAXED);
        while (!__atomic_compare_exchange_n(at, &old, sp_atomic_result(op, 8, old, data, other), true, __ATOMIC_SEQ_CST,
                                            __ATOMIC_RELAXED)) {
        }
        return old;
    }
    uint32_t *at = (uint32_t *)(void *)host, old = __atomic_load_n(at, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(at, &old, (uint32_t)sp_atomic_result(op, 4, old, data, other), true,
                                        __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
    }
    return old;
}

int sp_atomic_place(struct sp_wave *w, const struct sp_inst *i, uint32_t lane, uint64_t va, uint32_t nbytes, const uint8_t *host)
{
    if (SP_LIKELY(sp_emu_poison_of(w->tlb, va, host, nbytes) == SP_NO_POISON)) return 0;
    sp_wave_fault(w, SP_FAULT_UNINITIALISED, "%s works on memory at 0x%llx, which was never written", sp_wave_op_name(i->op),
                  (unsigned long long)va);
    return sp_wave_fault_at(w, lane);
}
