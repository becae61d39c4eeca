/* Packed weights: a blob that a pack_* kernel makes of a weight operand. The consuming kernel reads
 * the blob in place of the operand if its plan says `pack`. A blob is a header of 64 bytes, then
 * the payload, both 64-byte aligned.
 *
 * The header has everything that the payload's layout depends on, and its own address. So the
 * consuming kernel refuses a blob for another kernel, instruction set, geometry or blocking. It
 * also refuses a copy of a blob, which may be cut short, and a blob whose memory was too small. */
#ifndef SP_CPU_PACKED_H
#define SP_CPU_PACKED_H
#include <errno.h>
#include <stdint.h>
#include <string.h>

enum { SP_PACKED_MAGIC = 0x4b434150, SP_PACKED_ALIGN = 64, SP_PACKED_WORDS = 10 };
enum sp_packed_kind { SP_PACKED_GEMM_F32 = 1, SP_PACKED_GEMM_F64 = 2, SP_PACKED_CONV2D_F32 = 3 };

struct sp_packed {
    uint32_t magic;
    uint8_t kind; /* enum sp_packed_kind */
    uint8_t isa;  /* enum sp_isa */
    uint8_t algo; /* enum sp_algo */
    uint8_t zero;
    uint64_t nbytes;              /* bytes of header and payload */
    uint64_t self;                /* address of the header; 0: the payload was not written */
    /* sizes of the packed operand and of its blocks; their order depends on `kind` */
    uint32_t of[SP_PACKED_WORDS];
};
_Static_assert(sizeof(struct sp_packed) == SP_PACKED_ALIGN, "the payload is aligned as the header is");

/* For pack_* kernels: writes `header` to `out`, with magic and self filled in. Returns the address
 * of the payload. Returns NULL with *rc 0 if `capacity` has room for the header only, whose nbytes
 * tells the caller how much is needed. Returns NULL with *rc -EINVAL if there is no room for the
 * header, or `out` is not aligned. */
static inline void *sp_packed_begin(void *out, uint64_t capacity, const struct sp_packed *header, int *rc)
{
    struct sp_packed made = *header;
    *rc = -EINVAL;
    if (capacity < sizeof made || (uintptr_t)out % SP_PACKED_ALIGN)
        return NULL;
    *rc = 0;
    made.magic = SP_PACKED_MAGIC;
    made.self = capacity < made.nbytes ? 0 : (uint64_t)(uintptr_t)out;
    memcpy(out, &made, sizeof made);
    return made.self ? (char *)out + sizeof made : NULL;
}

/* For consuming kernels: returns the payload of a blob whose header equals `wanted` and that lies
 * within the `covered` bytes from its address. Returns NULL for any other blob. The size in the
 * header is not trusted alone, because any writer of the memory may have forged it. */
static inline const void *sp_packed_payload(const void *blob, uint64_t covered, const struct sp_packed *wanted)
{
    struct sp_packed same = *wanted;
    if ((uintptr_t)blob % SP_PACKED_ALIGN || !blob || covered < wanted->nbytes)
        return NULL;
    same.magic = SP_PACKED_MAGIC;
    same.self = (uint64_t)(uintptr_t)blob;
    return memcmp(blob, &same, sizeof same) == 0 ? (const char *)blob + sizeof same : NULL;
}
#endif
