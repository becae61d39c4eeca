/* The part of the CUDA driver API's ABI that the fake speaks: types, struct layouts, numbers. Names and values are those
 * of NVIDIA's public "CUDA Driver API" reference, sections "Data types used by CUDA driver" and those of each call.
 * CUresult, CUdevice and all enums are int here; every handle is an opaque pointer. */
#ifndef FAKE_CUDA_ABI_H
#define FAKE_CUDA_ABI_H
#include <stddef.h>
#include <stdint.h>

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef void *CUcontext;
typedef void *CUstream;
typedef void *CUevent;
typedef void *CUmodule;
typedef void *CUlibrary;
typedef void *CUkernel;
typedef void *CUfunction;
typedef void *CUmemoryPool;
typedef void *CUgraph;
typedef void *CUgraphNode;
typedef void *CUgraphExec;
typedef void (*CUhostFn)(void *data);
typedef void (*CUstreamCallback)(CUstream stream, CUresult status, void *data);

/* CUresult: number, name, what it means in our words */
#define FK_RESULTS(X)                                                                                                  \
    X(0, CUDA_SUCCESS, "no error")                                                                                     \
    X(1, CUDA_ERROR_INVALID_VALUE, "an argument is out of its range")                                                  \
    X(2, CUDA_ERROR_OUT_OF_MEMORY, "not enough memory")                                                                \
    X(3, CUDA_ERROR_NOT_INITIALIZED, "cuInit has not been called in this process")                                     \
    X(4, CUDA_ERROR_DEINITIALIZED, "the driver is shutting down")                                                      \
    X(34, CUDA_ERROR_STUB_LIBRARY, "the library is a stub")                                                            \
    X(46, CUDA_ERROR_DEVICE_UNAVAILABLE, "the device is not available now")                                            \
    X(100, CUDA_ERROR_NO_DEVICE, "no device was found")                                                                \
    X(101, CUDA_ERROR_INVALID_DEVICE, "no such device")                                                                \
    X(200, CUDA_ERROR_INVALID_IMAGE, "the image is damaged or no image")                                               \
    X(201, CUDA_ERROR_INVALID_CONTEXT, "no context is current, or it does not fit the call")                           \
    X(209, CUDA_ERROR_NO_BINARY_FOR_GPU, "the image has no code for this device")                                      \
    X(214, CUDA_ERROR_ECC_UNCORRECTABLE, "an uncorrectable memory error")                                              \
    X(217, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "the devices cannot reach each other's memory")                         \
    X(218, CUDA_ERROR_INVALID_PTX, "the PTX does not compile")                                                         \
    X(222, CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "the PTX is newer than this driver")                                    \
    X(300, CUDA_ERROR_INVALID_SOURCE, "the source is not valid")                                                       \
    X(301, CUDA_ERROR_FILE_NOT_FOUND, "no such file")                                                                  \
    X(304, CUDA_ERROR_OPERATING_SYSTEM, "a system call failed")                                                        \
    X(400, CUDA_ERROR_INVALID_HANDLE, "no such object")                                                                \
    X(401, CUDA_ERROR_ILLEGAL_STATE, "the object is not in the state for that")                                        \
    X(500, CUDA_ERROR_NOT_FOUND, "no such symbol")                                                                     \
    X(600, CUDA_ERROR_NOT_READY, "not finished yet")                                                                   \
    X(700, CUDA_ERROR_ILLEGAL_ADDRESS, "an access to memory that is not there")                                        \
    X(701, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "not enough registers or other resources")                              \
    X(702, CUDA_ERROR_LAUNCH_TIMEOUT, "a kernel ran too long")                                                         \
    X(704, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "peer access is on already")                                        \
    X(705, CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "peer access is not on")                                                \
    X(708, CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, "the primary context is in use")                                         \
    X(709, CUDA_ERROR_CONTEXT_IS_DESTROYED, "the current context was destroyed")                                       \
    X(710, CUDA_ERROR_ASSERT, "an assertion failed in a kernel")                                                       \
    X(712, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "the host memory is registered already")                         \
    X(713, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "the host memory is not registered")                                 \
    X(714, CUDA_ERROR_HARDWARE_STACK_ERROR, "a kernel's stack is damaged")                                             \
    X(715, CUDA_ERROR_ILLEGAL_INSTRUCTION, "a kernel met an illegal instruction")                                      \
    X(716, CUDA_ERROR_MISALIGNED_ADDRESS, "a kernel used a misaligned address")                                        \
    X(719, CUDA_ERROR_LAUNCH_FAILED, "a kernel failed")                                                                \
    X(800, CUDA_ERROR_NOT_PERMITTED, "the operation is not permitted")                                                 \
    X(801, CUDA_ERROR_NOT_SUPPORTED, "the operation is not supported")                                                 \
    X(802, CUDA_ERROR_SYSTEM_NOT_READY, "the system is not ready")                                                     \
    X(803, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "library and kernel driver have different versions")                     \
    X(900, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "not permitted while a stream captures")                             \
    X(901, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "the capture was invalidated")                                       \
    X(902, CUDA_ERROR_STREAM_CAPTURE_MERGE, "two captures would become one")                                           \
    X(903, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "the capture did not begin in this stream")                            \
    X(904, CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "a forked stream was not joined")                                       \
    X(905, CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "a capture would depend on work outside of it")                        \
    X(906, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "an implicit dependency on the legacy stream")                          \
    X(907, CUDA_ERROR_CAPTURED_EVENT, "the event was last recorded in a capture")                                      \
    X(908, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "the capture belongs to another thread")                            \
    X(909, CUDA_ERROR_TIMEOUT, "a wait timed out")                                                                     \
    X(910, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, "the graph cannot be updated like that")                              \
    X(999, CUDA_ERROR_UNKNOWN, "an unknown error")
#define FK_RESULT_ENUM(number, name, text) name = number,
enum fk_result { FK_RESULTS(FK_RESULT_ENUM) };

typedef struct {
    char bytes[16];
} CUuuid;
typedef struct {
    char reserved[64];
} CUipcMemHandle;
typedef struct {
    char reserved[64];
} CUipcEventHandle;

typedef struct {
    int type; /* CU_MEM_LOCATION_TYPE_DEVICE is 1 */
    int id;
} CUmemLocation;
typedef struct {
    CUmemLocation location;
    int flags; /* 0 none, 1 read, 3 read and write */
} CUmemAccessDesc;
typedef struct {
    int allocType;
    int handleTypes;
    CUmemLocation location;
    void *win32SecurityAttributes;
    size_t maxSize;
    unsigned short usage;
    unsigned char reserved[54];
} CUmemPoolProps;

/* CUlaunchAttribute: an id, then a 64-byte union. */
typedef struct {
    int id;
    char pad[4];
    union {
        char bytes[64];
        int cooperative;
        int priority;
        struct {
            unsigned x, y, z;
        } clusterDim;
    } value;
} CUlaunchAttribute;
typedef struct {
    unsigned gridDimX, gridDimY, gridDimZ;
    unsigned blockDimX, blockDimY, blockDimZ;
    unsigned sharedMemBytes;
    CUstream hStream;
    CUlaunchAttribute *attrs;
    unsigned numAttrs;
} CUlaunchConfig;

/* The first form has no `kern` and `ctx`; the unsuffixed graph calls take it. */
typedef struct {
    CUfunction func;
    unsigned gridDimX, gridDimY, gridDimZ;
    unsigned blockDimX, blockDimY, blockDimZ;
    unsigned sharedMemBytes;
    void **kernelParams;
    void **extra;
} CUDA_KERNEL_NODE_PARAMS_v1;
typedef struct {
    CUfunction func;
    unsigned gridDimX, gridDimY, gridDimZ;
    unsigned blockDimX, blockDimY, blockDimZ;
    unsigned sharedMemBytes;
    void **kernelParams;
    void **extra;
    CUkernel kern;
    CUcontext ctx;
} CUDA_KERNEL_NODE_PARAMS_v2;

typedef struct {
    size_t srcXInBytes, srcY, srcZ, srcLOD;
    int srcMemoryType; /* 1 host, 2 device, 3 array, 4 unified */
    const void *srcHost;
    CUdeviceptr srcDevice;
    void *srcArray;
    void *reserved0;
    size_t srcPitch, srcHeight;
    size_t dstXInBytes, dstY, dstZ, dstLOD;
    int dstMemoryType;
    void *dstHost;
    CUdeviceptr dstDevice;
    void *dstArray;
    void *reserved1;
    size_t dstPitch, dstHeight;
    size_t WidthInBytes, Height, Depth;
} CUDA_MEMCPY3D;
typedef struct {
    CUdeviceptr dst;
    size_t pitch;
    unsigned value;
    unsigned elementSize;
    size_t width;
    size_t height;
} CUDA_MEMSET_NODE_PARAMS;
typedef struct {
    CUhostFn fn;
    void *userData;
} CUDA_HOST_NODE_PARAMS;
typedef struct {
    unsigned long long flags;
    CUstream hUploadStream;
    CUgraphNode hErrNode_out;
    int result_out;
} CUDA_GRAPH_INSTANTIATE_PARAMS;
typedef struct {
    int result;
    CUgraphNode errorNode;
    CUgraphNode errorFromNode;
} CUgraphExecUpdateResultInfo;
typedef struct {
    void *execAffinityParams;
    int numExecAffinityParams;
    void *cigParams;
} CUctxCreateParams;
typedef struct {
    unsigned char from_port, to_port, type;
    unsigned char reserved[5];
} CUgraphEdgeData;

enum { CU_MEMORYTYPE_HOST = 1, CU_MEMORYTYPE_DEVICE = 2, CU_MEMORYTYPE_ARRAY = 3, CU_MEMORYTYPE_UNIFIED = 4 };
enum { CU_STREAM_NON_BLOCKING = 1 };
enum { CU_EVENT_BLOCKING_SYNC = 1, CU_EVENT_DISABLE_TIMING = 2, CU_EVENT_INTERPROCESS = 4 };
enum { CU_LAUNCH_PARAM_END = 0, CU_LAUNCH_PARAM_BUFFER_POINTER = 1, CU_LAUNCH_PARAM_BUFFER_SIZE = 2 };
enum { CU_JIT_INFO_LOG_BUFFER = 3, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES = 4, CU_JIT_ERROR_LOG_BUFFER = 5,
       CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6 };
/* The streams that need not be created: 0 means the legacy one too. */
#define CU_STREAM_LEGACY ((CUstream)(uintptr_t)1)
#define CU_STREAM_PER_THREAD ((CUstream)(uintptr_t)2)
#endif
