/* A kernel of the egl device: a GL program with the signature of its arguments. */
#ifndef SP_EGL_KERNEL_H
#define SP_EGL_KERNEL_H
#include "egl/device/device.h"
#include "include/sp_cmd.h"

enum { SP_EGL_KERNEL_MAGIC = 0x47637073 }; /* "spcG" */

struct sp_egl_scalar {
    uint32_t offset;
    uint32_t nbytes;
    uint32_t type; /* GL type of the uniform; 0 if the shader does not use it */
    int32_t location;
    uint64_t value; /* the value that the uniform was last set to; only the owner thread uses it */
};

struct sp_egl_kernel {
    uint32_t magic;
    struct sp_egl *dev;
    struct sp_signature sig;
    uint32_t program;
    uint32_t blocks;
    uint32_t group_size[3];
    int32_t at_offset; /* location of the uniform sp_group_offset; -1 if the shader has none */
    int32_t at_null;   /* location of the uniform sp_null; -1 if the shader has none */
    uint32_t nscalars;
    uint32_t pointer_at[SP_MAX_ARGS]; /* byte offset of the k-th pointer in the arguments */
    uint8_t used[SP_MAX_ARGS];        /* 1 if the shader has a storage block at binding k */
    char apart[SP_EGL_APART];
    struct sp_egl_scalar scalars[SP_MAX_ARGS];
    /* 1 once the GL uniforms hold the values that `scalars` and `null` record. Only the owner
     * thread uses `is_set`, `null` and `offset`. */
    uint32_t is_set;
    uint32_t null;      /* the value that sp_null was last set to */
    uint32_t offset[3]; /* the value that sp_group_offset was last set to */
};
#endif
