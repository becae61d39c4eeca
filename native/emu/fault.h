/* The reason why the emulated GPU stopped a job. It is filled where the fault happens, then passed
 * unchanged to INFO GPUVM_FAULT, the job's error and sparkle_drv.testing.emulator. */
#ifndef SP_EMU_FAULT_H
#define SP_EMU_FAULT_H
#include "include/sp_emu.h"

struct sp_emu_fault {
    uint32_t kind;   /* enum sp_emu_fault_kind */
    uint32_t access; /* SP_VM_READ, WRITE or EXECUTE */
    uint64_t va;     /* address of the access, the packet or the IB */
    uint64_t pc;     /* address of the instruction; 0 outside waves */
    uint32_t group[3];
    uint32_t wave; /* number of the wave in its group */
    uint32_t lane;
    char text[256]; /* one line that names the instruction, packet or register */
};

/* Writes kind and text (as printf does) and returns `error`, a -errno. Only the first fault of a
 * job is kept. */
int sp_emu_fault_set(struct sp_emu_fault *fault, uint32_t kind, int error, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
#endif
