/* A kernel of the AMD device: a template of one dispatch, and its code in memory. */
#ifndef SP_AMDGPU_KERNEL_H
#define SP_AMDGPU_KERNEL_H
#include "memory.h"
#include "include/sp_cmd.h"

enum { SP_KERNEL_MAGIC_AMD = 0x6b646d61 /* "amdk" */ };
/* bytes of a slot for an IB, and for the arguments of that IB's kernels */
enum { SP_SLOT_NBYTES = 24576, SP_ARGS_NBYTES = 16384 };

struct sp_amdgpu_kernel {
    uint32_t magic;
    struct sp_amdgpu *dev;
    struct sp_amdgpu_memory *code;
    struct sp_amdgpu_template t;
    struct sp_signature sig;
    _Atomic uint64_t job_threads; /* limit of threads in one job: packets/length.c */
};
#endif
