/* Constants of the CUDA driver, and the conversion of its results to -errno. */
#ifndef SP_CUDA_DRIVER_H
#define SP_CUDA_DRIVER_H
#include "dl/cuda.h"

/* CUresult */
enum {
    CU_OK = 0,
    CU_INVALID_VALUE = 1,
    CU_OUT_OF_MEMORY = 2,
    CU_NOT_INITIALIZED = 3,
    CU_DEINITIALIZED = 4,
    CU_NO_DEVICE = 100,
    CU_INVALID_DEVICE = 101,
    CU_INVALID_IMAGE = 200,
    CU_INVALID_CONTEXT = 201,
    CU_NO_BINARY_FOR_GPU = 209,
    CU_ECC_UNCORRECTABLE = 214,
    CU_INVALID_PTX = 218,
    CU_NVLINK_UNCORRECTABLE = 220,
    CU_JIT_COMPILER_NOT_FOUND = 221,
    CU_UNSUPPORTED_PTX_VERSION = 222,
    CU_JIT_COMPILATION_DISABLED = 223,
    CU_CONTAINED = 226,
    CU_INVALID_SOURCE = 300,
    CU_INVALID_HANDLE = 400,
    CU_NOT_FOUND = 500,
    CU_NOT_READY = 600,
    CU_ILLEGAL_ADDRESS = 700,
    CU_LAUNCH_OUT_OF_RESOURCES = 701,
    CU_LAUNCH_TIMEOUT = 702,
    CU_PEER_ACCESS_ALREADY_ENABLED = 704,
    CU_CONTEXT_IS_DESTROYED = 709,
    CU_ASSERT = 710,
    CU_HOST_MEMORY_ALREADY_REGISTERED = 712,
    CU_HARDWARE_STACK_ERROR = 714,
    CU_LAUNCH_FAILED = 719,
    CU_TENSOR_MEMORY_LEAK = 721,
    CU_NOT_SUPPORTED = 801,
    CU_MPS_CLIENT_TERMINATED = 810,
    /* The results from this one to CU_CAPTURED_EVENT mean that an active stream capture forbids the
     * call. */
    CU_STREAM_CAPTURE_UNSUPPORTED = 900,
    CU_CAPTURED_EVENT = 907,
    CU_EXTERNAL_DEVICE = 911
};

/* CUdevice_attribute */
enum {
    CU_MAX_THREADS = 1,
    CU_MAX_BLOCK_X = 2,
    CU_MAX_GRID_X = 5,
    CU_SHARED = 8,
    CU_CLOCK_KHZ = 13,
    CU_UNITS = 16,
    CU_INTEGRATED = 18,
    CU_L2 = 38,
    CU_MAJOR = 75,
    CU_MINOR = 76,
    CU_SHARED_OPTIN = 97,
    CU_POOLS = 115
};

/* CUfunction_attribute */
enum {
    CU_FN_MAX_THREADS = 0,
    CU_FN_SHARED = 1,
    CU_FN_LOCAL = 3,
    CU_FN_REGISTERS = 4,
    CU_FN_BINARY_VERSION = 6,
    CU_FN_MAX_DYNAMIC_SHARED = 8
};

enum {
    CU_STREAM_NON_BLOCKING = 1,
    CU_EVENT_DISABLE_TIMING = 2,
    CU_CAPTURE_RELAXED = 2, /* CUstreamCaptureMode */
    CU_HOST_PORTABLE = 1,  /* flag of cuMemHostAlloc and cuMemHostRegister */
    CU_HOST_DEVICEMAP = 2,
    CU_HOST_READ_ONLY = 8, /* flag of cuMemHostRegister */
    CU_POOL_RELEASE_THRESHOLD = 4,
    CU_LOCATION_DEVICE = 1,
    CU_ACCESS_READWRITE = 3,
    CU_JIT_INFO_LOG = 3,
    CU_JIT_INFO_LOG_NBYTES = 4,
    CU_JIT_ERROR_LOG = 5,
    CU_JIT_ERROR_LOG_NBYTES = 6,
    CU_POINTER_DEVICE_ORDINAL = 9, /* CUpointer_attribute */
    CU_MEMORY_UNIFIED = 4 /* a CUmemorytype: the driver finds the type of memory by the address */
};

/* Loads and initialises the driver, once per process. Returns 0 or the same errors as
 * sp_cuda_describe. */
int sp_cuda_start(const char *paths);

/* Converts a CUresult to 0 or -errno, and records a text for sp_cuda_why. `call` is the name of the
 * driver's function. */
int sp_cu_rc(const char *call, int result);
#define SP_CU_RC(name, ...) sp_cu_rc(#name, sp_##name(__VA_ARGS__))
/* Clears this thread's error text. To be called before a failure that does not come from the
 * driver, so that no old text is reported for it. */
void sp_cu_say_nothing(void);
void sp_cu_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Returns 1 if the context is unusable after this result. */
int sp_cu_is_sticky(int result);

/* The context that was last seen as current in this thread. Another library may have changed the
 * current context since. */
extern _Thread_local void *sp_cuda_current __attribute__((tls_model("initial-exec")));
/* The context of another library that our context replaced as current; NULL if none was current. */
extern _Thread_local void *sp_cuda_theirs __attribute__((tls_model("initial-exec")));
/* This thread's capture mode before sp_cuda_relax; -1 if sp_cuda_relax did not change it. */
extern _Thread_local int sp_cuda_their_mode __attribute__((tls_model("initial-exec")));
/* Sets this thread's capture mode to relaxed. While another thread captures a stream in global mode
 * (torch's default), a query or an allocation in this thread would fail and invalidate that
 * capture. In relaxed mode neither happens (cuThreadExchangeStreamCaptureMode in the driver API
 * reference). Launches, copies and event records on our own streams are safe in every mode. */
void sp_cuda_relax(void);
void sp_cuda_restore(void);
/* Restores this thread's capture mode. If our context replaced that of another library as current,
 * makes the other one current again. Every function that Python calls ends with this. If no context
 * was current before, the context of our device stays current for the next call. The CUDA runtime
 * API does the same. */
static inline void sp_cuda_leave(void)
{
    if (__builtin_expect(sp_cuda_theirs != NULL || sp_cuda_their_mode >= 0, 0))
        sp_cuda_restore();
}
/* Returns 1 if a query's result means that the work has not ended, or that a stream capture forbids
 * the query. */
static inline int sp_cuda_not_ready(int result)
{
    return result == CU_NOT_READY || (result >= CU_STREAM_CAPTURE_UNSUPPORTED && result <= CU_CAPTURED_EVENT);
}
/* Returns 1 if the cause of the result may be that sp_cuda_current is no longer the current
 * context, or that the current context was destroyed. */
static inline int sp_cuda_elsewhere(int result)
{
    return result == CU_INVALID_CONTEXT || result == CU_INVALID_HANDLE || result == CU_CONTEXT_IS_DESTROYED;
}
#endif
