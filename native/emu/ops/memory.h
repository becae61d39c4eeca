/* Vector memory: from the lanes' addresses to bytes, and from bytes to registers. flat.c, buffer.c
 * and ds.c compute the addresses. */
#ifndef SP_EMU_OPS_MEMORY_H
#define SP_EMU_OPS_MEMORY_H
#include "emu/ops/poison/poison.h"
#include "emu/race/race.h"
#include "emu/wave/operand.h"
#include "reach.h"

/* How loaded bytes become a register. D16 fills half of the register; HI fills the upper half. */
enum sp_load { SP_LOAD_U8, SP_LOAD_I8, SP_LOAD_U16, SP_LOAD_I16, SP_LOAD_DWORDS, SP_LOAD_D16_U8, SP_LOAD_D16_I8,
               SP_LOAD_D16_B16, SP_LOAD_D16_HI_U8, SP_LOAD_D16_HI_I8, SP_LOAD_D16_HI_B16 };

SP_INLINE uint32_t sp_loaded(enum sp_load kind, uint32_t bytes, uint32_t old)
{
    uint32_t low = old & 0xFFFF0000, high = old & 0xFFFF;
    switch (kind) {
    case SP_LOAD_U8: return bytes & 0xFF;
    case SP_LOAD_I8: return (uint32_t)(int8_t)bytes;
    case SP_LOAD_U16: return bytes & 0xFFFF;
    case SP_LOAD_I16: return (uint32_t)(int16_t)bytes;
    case SP_LOAD_D16_U8: return low | (bytes & 0xFF);
    case SP_LOAD_D16_I8: return low | (uint16_t)(int8_t)bytes;
    case SP_LOAD_D16_B16: return low | (bytes & 0xFFFF);
    case SP_LOAD_D16_HI_U8: return high | (bytes & 0xFF) << 16;
    case SP_LOAD_D16_HI_I8: return high | (uint32_t)(uint16_t)(int8_t)bytes << 16;
    case SP_LOAD_D16_HI_B16: return high | bytes << 16;
    default: return bytes;
    }
}

/* Writes loaded registers, which are ready only after the s_waitcnt for the load. Another load
 * under way for the same register is no fault, because each may load one half. */
SP_INLINE void sp_put_loaded(struct sp_wave *w, uint32_t code, const uint32_t *value)
{
    uint32_t r = code & 255;
    w->vgpr_ready[r] |= w->exec;
    for (uint32_t l = 0; l < w->lanes; l++)
        if (w->exec >> l & 1) w->v[r][l] = value[l];
}

/* Marks the function of a rare case, which must not be inlined. Only the most frequent loads and
 * stores, of one dword, have inlined code of their own. All other widths share such a function,
 * which gets the width as an argument. */
#define SP_RARE static __attribute__((noinline))

/* X(suffix, bytes, kind) of the loads and stores that every family has. HI stores take the upper
 * half of the data register. DS spells the names of half registers differently. */
#define SP_LOADS_WHOLE(X)                                                                                             \
    X(U8, 1, SP_LOAD_U8)                                                                                              \
    X(I8, 1, SP_LOAD_I8)                                                                                              \
    X(U16, 2, SP_LOAD_U16)                                                                                            \
    X(I16, 2, SP_LOAD_I16)                                                                                            \
    X(B32, 4, SP_LOAD_DWORDS)                                                                                         \
    X(B64, 8, SP_LOAD_DWORDS)                                                                                         \
    X(B96, 12, SP_LOAD_DWORDS)                                                                                        \
    X(B128, 16, SP_LOAD_DWORDS)
#define SP_LOADS(X)                                                                                                   \
    SP_LOADS_WHOLE(X)                                                                                                 \
    X(D16_U8, 1, SP_LOAD_D16_U8)                                                                                      \
    X(D16_I8, 1, SP_LOAD_D16_I8)                                                                                      \
    X(D16_B16, 2, SP_LOAD_D16_B16)                                                                                    \
    X(D16_HI_U8, 1, SP_LOAD_D16_HI_U8)                                                                                \
    X(D16_HI_I8, 1, SP_LOAD_D16_HI_I8)                                                                                \
    X(D16_HI_B16, 2, SP_LOAD_D16_HI_B16)
#define SP_STORES_WHOLE(X)                                                                                            \
    X(B8, 1, 0)                                                                                                       \
    X(B16, 2, 0)                                                                                                      \
    X(B32, 4, 0)                                                                                                      \
    X(B64, 8, 0)                                                                                                      \
    X(B96, 12, 0)                                                                                                     \
    X(B128, 16, 0)
#define SP_STORES(X)                                                                                                  \
    SP_STORES_WHOLE(X)                                                                                                \
    X(D16_HI_B8, 1, 16)                                                                                               \
    X(D16_HI_B16, 2, 16)

/* Returns the data of a store. Undefined data are stored as poison. */
SP_INLINE const uint32_t *sp_vgpr_stored(struct sp_wave *w, const struct sp_inst *i, uint32_t code)
{
    if (SP_UNLIKELY(w->exec & ~w->vgpr_ready[code & 255])) sp_vgpr_undefined(w, i, code, true);
    return w->v[code & 255];
}

/* Returns the kind under which a load is reported to race/. */
SP_INLINE enum sp_race_kind sp_race_load(uint32_t access) { return access & SP_VM_DEVICE ? SP_RACE_DEVICE : SP_RACE_LOAD; }
SP_INLINE enum sp_race_kind sp_race_atomic(const struct sp_inst *i) { return i->glc ? SP_RACE_RETURNING : SP_RACE_ATOMIC; }

/* --- functions of atomics.c --- */
enum sp_atomic { SP_ATOMIC_SWAP, SP_ATOMIC_CMPSWAP, SP_ATOMIC_ADD, SP_ATOMIC_SUB, SP_ATOMIC_RSUB, SP_ATOMIC_CSUB,
                 SP_ATOMIC_SMIN, SP_ATOMIC_UMIN, SP_ATOMIC_SMAX, SP_ATOMIC_UMAX, SP_ATOMIC_AND, SP_ATOMIC_OR,
                 SP_ATOMIC_XOR, SP_ATOMIC_INC, SP_ATOMIC_DEC, SP_ATOMIC_FADD, SP_ATOMIC_FMIN, SP_ATOMIC_FMAX,
                 SP_ATOMIC_FCMPSWAP, SP_ATOMIC_MSKOR, SP_ATOMIC_WRAP };

/* Returns `old` combined with `data`. `other` is the comparison value, or the second operand of
 * MSKOR and WRAP. */
uint64_t sp_atomic_result(enum sp_atomic op, uint32_t nbytes, uint64_t old, uint64_t data, uint64_t other);
/* Executes an atomic on naturally aligned host memory. Returns the old value. */
uint64_t sp_atomic_memory(enum sp_atomic op, uint32_t nbytes, uint8_t *host, uint64_t data, uint64_t other);
/* Executes an atomic of a wave on `va` in GL2, and updates the copies in the caches that the wave
 * reads through. Returns the old value. */
uint64_t sp_atomic_cached(struct sp_wave *w, uint64_t va, enum sp_atomic op, uint32_t nbytes, uint8_t *host,
                          const uint64_t data[2]);

/* Checks an atomic on `va`, whose host address is `host`. Returns 0, or a fault if the memory is
 * unwritten. */
int sp_atomic_place(struct sp_wave *w, const struct sp_inst *i, uint32_t lane, uint64_t va, uint32_t nbytes, const uint8_t *host);

/* Operands and results of an atomic's lanes, in FLAT and buffer instructions. `from` has the
 * registers of the data first, then those of the comparison value. */
struct sp_atomic_lanes {
    const uint32_t *from[4];
    uint32_t each, dwords; /* dwords of one operand; dwords of all operands together */
    uint32_t old[2][SP_LANES];
};

SP_INLINE void sp_atomic_gather(struct sp_wave *w, const struct sp_inst *i, enum sp_atomic op, uint32_t nbytes,
                                struct sp_atomic_lanes *a)
{
    a->each = nbytes / 4;
    a->dwords = op == SP_ATOMIC_CMPSWAP || op == SP_ATOMIC_FCMPSWAP ? 2 * a->each : a->each;
    for (uint32_t k = 0; k < a->dwords; k++) a->from[k] = sp_vgpr(w, i, SP_SRC_VGPR + ((i->src[1] + k) & 255));
}

SP_INLINE void sp_atomic_data(const struct sp_atomic_lanes *a, uint32_t lane, uint64_t data[2])
{
    data[0] = data[1] = 0;
    for (uint32_t k = 0; k < a->dwords; k++) data[k / a->each] |= (uint64_t)a->from[k][lane] << 32 * (k % a->each);
}

SP_INLINE void sp_atomic_keep(struct sp_atomic_lanes *a, uint32_t lane, uint64_t old)
{
    a->old[0][lane] = (uint32_t)old;
    a->old[1][lane] = (uint32_t)(old >> 32);
}

/* Writes the old values to registers, if the instruction asks for them (GLC). */
SP_INLINE void sp_atomic_return(struct sp_wave *w, const struct sp_inst *i, const struct sp_atomic_lanes *a, uint32_t dst,
                                enum sp_pending_kind kind)
{
    if (!i->glc) return;
    for (uint32_t k = 0; k < a->each; k++) sp_put_loaded(w, dst + k, a->old[k]);
    sp_wave_load_begins(w, kind, dst, a->each);
}

/* X(suffix, operation, bytes) of FLAT, GLOBAL and buffer atomics, as RDNA3 names them. */
#define SP_ATOMICS(X)                                                                                                 \
    X(SWAP_B32, SWAP, 4)                                                                                              \
    X(CMPSWAP_B32, CMPSWAP, 4)                                                                                        \
    X(ADD_U32, ADD, 4)                                                                                                \
    X(SUB_U32, SUB, 4)                                                                                                \
    X(MIN_I32, SMIN, 4)                                                                                               \
    X(MIN_U32, UMIN, 4)                                                                                               \
    X(MAX_I32, SMAX, 4)                                                                                               \
    X(MAX_U32, UMAX, 4)                                                                                               \
    X(AND_B32, AND, 4)                                                                                                \
    X(OR_B32, OR, 4)                                                                                                  \
    X(XOR_B32, XOR, 4)                                                                                                \
    X(INC_U32, INC, 4)                                                                                                \
    X(DEC_U32, DEC, 4)                                                                                                \
    X(ADD_F32, FADD, 4)                                                                                               \
    X(MIN_F32, FMIN, 4)                                                                                               \
    X(MAX_F32, FMAX, 4)                                                                                               \
    X(CMPSWAP_F32, FCMPSWAP, 4)                                                                                       \
    X(SWAP_B64, SWAP, 8)                                                                                              \
    X(CMPSWAP_B64, CMPSWAP, 8)                                                                                        \
    X(ADD_U64, ADD, 8)                                                                                                \
    X(SUB_U64, SUB, 8)                                                                                                \
    X(MIN_I64, SMIN, 8)                                                                                               \
    X(MIN_U64, UMIN, 8)                                                                                               \
    X(MAX_I64, SMAX, 8)                                                                                               \
    X(MAX_U64, UMAX, 8)                                                                                               \
    X(AND_B64, AND, 8)                                                                                                \
    X(OR_B64, OR, 8)                                                                                                  \
    X(XOR_B64, XOR, 8)                                                                                                \
    X(INC_U64, INC, 8)                                                                                                \
    X(DEC_U64, DEC, 8)                                                                                                \
    X(FMIN_X2, FMIN, 8)                                                                                               \
    X(FMAX_X2, FMAX, 8)                                                                                               \
    X(FCMPSWAP_X2, FCMPSWAP, 8)
#endif
