/* The place of a bit field, and functions that read and write the field. The headers
 * native/gen/{pm4_packets,sdma_packets,regs}.h declare the places. No other C code shifts bits of
 * packets or registers. */
#ifndef SP_CORE_PLACE_H
#define SP_CORE_PLACE_H
#include <stdint.h>

/* Encodes a place: dword, lowest bit, width and bias. Width 64 means the dword and the next dword.
 * The bias is the field's value minus the stored value. */
#define SP_PLACE(dw, lo, width, bias) ((dw) | (lo) << 8 | (width) << 16 | (bias) << 24)

static inline uint32_t sp_place_dw(uint32_t place)
{
    return place & 0xff;
}

/* Returns the mask of the field's bits inside its dword. */
static inline uint32_t sp_place_mask(uint32_t place)
{
    uint32_t width = place >> 16 & 0xff;
    return (width >= 32 ? UINT32_MAX : (1u << width) - 1) << (place >> 8 & 0xff);
}

static inline uint32_t sp_bits(uint32_t dword, uint32_t place)
{
    return ((dword & sp_place_mask(place)) >> (place >> 8 & 0xff)) + (place >> 24);
}

static inline uint32_t sp_get(const uint32_t *packet, uint32_t place)
{
    return sp_bits(packet[sp_place_dw(place)], place);
}

static inline uint64_t sp_get64(const uint32_t *packet, uint32_t place)
{
    const uint32_t *low = packet + sp_place_dw(place);
    return (uint64_t)low[1] << 32 | low[0];
}

static inline void sp_put(uint32_t *packet, uint32_t place, uint32_t value)
{
    uint32_t *dword = packet + sp_place_dw(place), mask = sp_place_mask(place);
    *dword = (*dword & ~mask) | ((value - (place >> 24)) << (place >> 8 & 0xff) & mask);
}

static inline void sp_put64(uint32_t *packet, uint32_t place, uint64_t value)
{
    uint32_t *low = packet + sp_place_dw(place);
    low[0] = (uint32_t)value;
    low[1] = (uint32_t)(value >> 32);
}
#endif
