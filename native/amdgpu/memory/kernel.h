/* A kernel: a template of one dispatch, and its code. */
#ifndef SP_AMDGPU_KERNEL_H
#define SP_AMDGPU_KERNEL_H
#include "memory.h"
#include "include/sp_cmd.h"

enum { SP_KERNEL_MAGIC_AMD = 0x6b646d61 /* "amdk" */ };
enum { SP_SLOT_NBYTES = 24576 /* bytes for an IB */, SP_ARGS_NBYTES = 16384 /* bytes for its arguments */ };

struct sp_amdgpu_kernel {
    uint32_t magic;
    struct sp_amdgpu *dev;
    struct sp_amdgpu_memory *code;
    struct sp_amdgpu_template t;
    struct sp_signature sig;
    _Atomic uint64_t job_threads; /* most threads in one job: packets/length.c */
};
#endif
