/* Why the emulated GPU stopped a job: filled where it happens, carried up unchanged to INFO GPUVM_FAULT, to the job's error
 * and to sparkle_drv.testing.emulator. A plain leaf: includes nothing of the emulator. */
#ifndef SP_EMU_FAULT_H
#define SP_EMU_FAULT_H
#include <stdint.h>

enum sp_emu_fault_kind {
    SP_FAULT_NONE = 0,
    SP_FAULT_UNMAPPED,    /* no page at va */
    SP_FAULT_RIGHTS,      /* a page without the right that `access` asks for */
    SP_FAULT_UNLISTED,    /* a page of a BO that this job does not list */
    SP_FAULT_PACKET,      /* unknown packet, or one with a wrong length */
    SP_FAULT_RESERVED,    /* a reserved bit is set in a packet, register or instruction */
    SP_FAULT_REGISTER,    /* a register that this generation does not let a user write */
    SP_FAULT_IB,          /* an IB unaligned or not padded */
    SP_FAULT_DISPATCH,    /* registers that describe no launchable dispatch */
    SP_FAULT_OPCODE,      /* an instruction that does not exist, or that the emulator lacks */
    SP_FAULT_OPERAND,     /* an operand that the instruction cannot have */
    SP_FAULT_UNINITIALISED, /* a register or LDS word read before it was written, or before its s_waitcnt */
    SP_FAULT_ALIGNMENT,
    SP_FAULT_LDS,         /* beyond the allocation */
    SP_FAULT_TRAP,        /* s_trap, s_sethalt */
    SP_FAULT_TIMEOUT      /* the job's time limit */
};

struct sp_emu_fault {
    uint32_t kind;
    uint32_t access; /* SP_VM_READ, WRITE or EXECUTE */
    uint64_t va;     /* of the access, the packet or the IB */
    uint64_t pc;     /* of the instruction; 0 outside waves */
    uint32_t group[3];
    uint32_t wave; /* within its group */
    uint32_t lane;
    char text[256]; /* one line that names the thing: instruction, packet, register */
};

/* Writes kind and text (printf) and returns `error`, a -errno; the first fault of a job is the one that stays. */
int sp_emu_fault_set(struct sp_emu_fault *fault, uint32_t kind, int error, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
#endif
