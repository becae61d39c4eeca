/* The functions of cuda.def as `sp_<name>`, callable once sp_cuda_load has returned 0. */
#ifndef SP_DL_CUDA_H
#define SP_DL_CUDA_H
#include "dl.h"

/* CUDA_KERNEL_NODE_PARAMS_v2. `kernel` and `context` may be NULL: `function` then implies both. */
struct sp_cu_kernel_node {
    void *function;
    unsigned grid[3];
    unsigned block[3];
    unsigned shared_nbytes;
    void **args;
    void **extra;
    void *kernel;
    void *context;
};

/* The source or the destination of a CUDA_MEMCPY3D_v2. `memory` is a CUmemorytype. */
struct sp_cu_end {
    size_t x_nbytes, y, z, lod;
    unsigned memory;
    void *host;
    uint64_t device;
    void *array, *reserved;
    size_t pitch, height;
};

struct sp_cu_copy_node {
    struct sp_cu_end src, dst;
    size_t width_nbytes, height, depth;
};

/* CUDA_MEMSET_NODE_PARAMS_v1. `width` is a number of elements of `element_nbytes` bytes each. */
struct sp_cu_fill_node {
    uint64_t dst;
    size_t pitch;
    unsigned value;
    unsigned element_nbytes;
    size_t width, height;
};

/* CUmemAccessDesc_v1: a CUmemLocation, then CUmemAccess_flags. */
struct sp_cu_access {
    int location_type, location_id;
    int flags;
};

/* CUipcMemHandle_v1 */
struct sp_cu_ipc {
    char bytes[64];
};

/* Result of a wrapper `sp_<name>` if the loaded driver lacks that function. A CUresult is never
 * negative. */
enum { SP_CU_MISSING = -38 };

/* The driver's functions. The table is visible here, so that a launch calls the driver through one
 * pointer. */
struct sp_cu_table {
#define SP_CU(need, version, name, parameters, arguments) int(*name) parameters;
#include "cuda.def"
#undef SP_CU
};
extern struct sp_cu_table sp_cu_table;

int sp_cu_missing(const char *name);

#define SP_CU(need, version, name, parameters, arguments)                                                              \
    static inline int sp_##name parameters                                                                             \
    {                                                                                                                  \
        return __builtin_expect(sp_cu_table.name != NULL, 1) ? sp_cu_table.name arguments : sp_cu_missing(#name);      \
    }
#include "cuda.def"
#undef SP_CU

/* Loads libcuda once. Arguments and results are those of sp_dl_load. */
int sp_cuda_load(const char *paths, struct sp_text *report, char *path, size_t path_nbytes);
/* Returns 1 if the loaded library exports `sparkle_emulated`, else 0. A driver without a GPU
 * exports that name to say that its times mean nothing. */
int sp_cuda_emulated(void);
/* Returns the name of the missing function that this thread called last. `*version` is the oldest
 * CUDA version that has the function (12040: 12.4). */
const char *sp_cu_missed(int *version);
#endif
