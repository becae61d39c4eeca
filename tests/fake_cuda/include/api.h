/* Every function that the library exports, by section of the "CUDA Driver API" reference. */
#ifndef FAKE_CUDA_API_H
#define FAKE_CUDA_API_H
#include "abi.h"

#define FK_API __attribute__((visibility("default")))


/* Initialization, version, errors, entry points */
FK_API CUresult cuInit(unsigned flags);
FK_API CUresult cuDriverGetVersion(int *version);
FK_API CUresult cuGetErrorName(CUresult error, const char **name);
FK_API CUresult cuGetErrorString(CUresult error, const char **text);
FK_API CUresult cuGetProcAddress(const char *symbol, void **pfn, int version, uint64_t flags);
FK_API CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int version, uint64_t flags, int *status);

/* Device management, peer access */
FK_API CUresult cuDeviceGet(CUdevice *device, int ordinal);
FK_API CUresult cuDeviceGetCount(int *count);
FK_API CUresult cuDeviceGetName(char *name, int nbytes, CUdevice device);
FK_API CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device);
FK_API CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device);
FK_API CUresult cuDeviceTotalMem_v2(size_t *nbytes, CUdevice device);
FK_API CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device);
FK_API CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device);
FK_API CUresult cuDeviceGetPCIBusId(char *text, int nbytes, CUdevice device);
FK_API CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *text);
FK_API CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer);
FK_API CUresult cuDeviceGetP2PAttribute(int *value, int attribute, CUdevice device, CUdevice peer);

/* Primary context management */
FK_API CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
FK_API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device);
FK_API CUresult cuDevicePrimaryCtxReset_v2(CUdevice device);
FK_API CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags);
FK_API CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active);

/* Context management */
FK_API CUresult cuCtxCreate_v2(CUcontext *context, unsigned flags, CUdevice device);
FK_API CUresult cuCtxCreate_v4(CUcontext *context, CUctxCreateParams *params, unsigned flags, CUdevice device);
FK_API CUresult cuCtxDestroy_v2(CUcontext context);
FK_API CUresult cuCtxPushCurrent_v2(CUcontext context);
FK_API CUresult cuCtxPopCurrent_v2(CUcontext *context);
FK_API CUresult cuCtxSetCurrent(CUcontext context);
FK_API CUresult cuCtxGetCurrent(CUcontext *context);
FK_API CUresult cuCtxGetDevice(CUdevice *device);
FK_API CUresult cuCtxGetFlags(unsigned *flags);
FK_API CUresult cuCtxGetApiVersion(CUcontext context, unsigned *version);
FK_API CUresult cuCtxGetId(CUcontext context, unsigned long long *id);
FK_API CUresult cuCtxSynchronize(void);
FK_API CUresult cuCtxGetLimit(size_t *value, int limit);
FK_API CUresult cuCtxSetLimit(int limit, size_t value);
FK_API CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest);
FK_API CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags);
FK_API CUresult cuCtxDisablePeerAccess(CUcontext peer);

/* Memory management */
FK_API CUresult cuMemGetInfo_v2(size_t *unused, size_t *total);
FK_API CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t nbytes);
FK_API CUresult cuMemFree_v2(CUdeviceptr address);
FK_API CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *nbytes, CUdeviceptr address);
FK_API CUresult cuMemAllocHost_v2(void **out, size_t nbytes);
FK_API CUresult cuMemHostAlloc(void **out, size_t nbytes, unsigned flags);
FK_API CUresult cuMemFreeHost(void *at);
FK_API CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *address, void *at, unsigned flags);
FK_API CUresult cuMemHostGetFlags(unsigned *flags, void *at);
FK_API CUresult cuMemHostRegister_v2(void *at, size_t nbytes, unsigned flags);
FK_API CUresult cuMemHostUnregister(void *at);
FK_API CUresult cuPointerGetAttribute(void *value, int attribute, CUdeviceptr address);
FK_API CUresult cuPointerGetAttributes(unsigned count, int *attributes, void **values, CUdeviceptr address);
FK_API CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address);
FK_API CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *address, CUipcMemHandle handle, unsigned flags);
FK_API CUresult cuIpcCloseMemHandle(CUdeviceptr address);

/* Stream ordered memory allocator */
FK_API CUresult cuMemAllocAsync(CUdeviceptr *address, size_t nbytes, CUstream stream);
FK_API CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream);
FK_API CUresult cuMemAllocFromPoolAsync(CUdeviceptr *address, size_t nbytes, CUmemoryPool pool, CUstream stream);
FK_API CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device);
FK_API CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device);
FK_API CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool);
FK_API CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props);
FK_API CUresult cuMemPoolDestroy(CUmemoryPool pool);
FK_API CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep);
FK_API CUresult cuMemPoolSetAttribute(CUmemoryPool pool, int attribute, void *value);
FK_API CUresult cuMemPoolGetAttribute(CUmemoryPool pool, int attribute, void *value);
FK_API CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count);
FK_API CUresult cuMemPoolGetAccess(int *flags, CUmemoryPool pool, CUmemLocation *location);

/* Copies and fills */
FK_API CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t nbytes);
FK_API CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t nbytes, CUstream stream);
FK_API CUresult cuMemcpyHtoD_v2(CUdeviceptr dst, const void *src, size_t nbytes);
FK_API CUresult cuMemcpyDtoH_v2(void *dst, CUdeviceptr src, size_t nbytes);
FK_API CUresult cuMemcpyDtoD_v2(CUdeviceptr dst, CUdeviceptr src, size_t nbytes);
FK_API CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t nbytes, CUstream stream);
FK_API CUresult cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t nbytes, CUstream stream);
FK_API CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t nbytes, CUstream stream);
FK_API CUresult cuMemcpyPeer(CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src, CUcontext src_context,
                             size_t nbytes);
FK_API CUresult cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src, CUcontext src_context,
                                  size_t nbytes, CUstream stream);
FK_API CUresult cuMemsetD8_v2(CUdeviceptr dst, unsigned char value, size_t n);
FK_API CUresult cuMemsetD16_v2(CUdeviceptr dst, unsigned short value, size_t n);
FK_API CUresult cuMemsetD32_v2(CUdeviceptr dst, unsigned value, size_t n);
FK_API CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t n, CUstream stream);
FK_API CUresult cuMemsetD16Async(CUdeviceptr dst, unsigned short value, size_t n, CUstream stream);
FK_API CUresult cuMemsetD32Async(CUdeviceptr dst, unsigned value, size_t n, CUstream stream);

/* Stream management */
FK_API CUresult cuStreamCreate(CUstream *stream, unsigned flags);
FK_API CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority);
FK_API CUresult cuStreamDestroy_v2(CUstream stream);
FK_API CUresult cuStreamQuery(CUstream stream);
FK_API CUresult cuStreamSynchronize(CUstream stream);
FK_API CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags);
FK_API CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback callback, void *data, unsigned flags);
FK_API CUresult cuLaunchHostFunc(CUstream stream, CUhostFn fn, void *data);
FK_API CUresult cuStreamGetCtx(CUstream stream, CUcontext *context);
FK_API CUresult cuStreamGetFlags(CUstream stream, unsigned *flags);
FK_API CUresult cuStreamGetPriority(CUstream stream, int *priority);
FK_API CUresult cuStreamGetId(CUstream stream, unsigned long long *id);
FK_API CUresult cuStreamBeginCapture_v2(CUstream stream, int mode);
FK_API CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph);
FK_API CUresult cuStreamIsCapturing(CUstream stream, int *status);
FK_API CUresult cuThreadExchangeStreamCaptureMode(int *mode);

/* Stream memory operations */
FK_API CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, uint32_t value, unsigned flags);
FK_API CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address, uint64_t value, unsigned flags);
FK_API CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, uint32_t value, unsigned flags);
FK_API CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr address, uint64_t value, unsigned flags);

/* Event management */
FK_API CUresult cuEventCreate(CUevent *event, unsigned flags);
FK_API CUresult cuEventDestroy_v2(CUevent event);
FK_API CUresult cuEventRecord(CUevent event, CUstream stream);
FK_API CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags);
FK_API CUresult cuEventQuery(CUevent event);
FK_API CUresult cuEventSynchronize(CUevent event);
FK_API CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end);
FK_API CUresult cuEventElapsedTime_v2(float *ms, CUevent start, CUevent end);

/* Module management, library management */
FK_API CUresult cuModuleLoadData(CUmodule *module, const void *image);
FK_API CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned count, int *options, void **values);
FK_API CUresult cuModuleUnload(CUmodule module);
FK_API CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name);
FK_API CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *nbytes, CUmodule module, const char *name);
FK_API CUresult cuModuleGetFunctionCount(unsigned *count, CUmodule module);
FK_API CUresult cuModuleGetLoadingMode(int *mode);

/* Execution control, occupancy */
FK_API CUresult cuFuncGetAttribute(int *value, int attribute, CUfunction function);
FK_API CUresult cuFuncSetAttribute(CUfunction function, int attribute, int value);
FK_API CUresult cuFuncSetCacheConfig(CUfunction function, int config);
FK_API CUresult cuFuncGetModule(CUmodule *module, CUfunction function);
FK_API CUresult cuFuncGetName(const char **name, CUfunction function);
FK_API CUresult cuFuncGetParamInfo(CUfunction function, size_t index, size_t *offset, size_t *nbytes);
FK_API CUresult cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                               unsigned bz, unsigned shared, CUstream stream, void **params, void **extra);
FK_API CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **params, void **extra);
FK_API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int block_size,
                                                            size_t shared);
FK_API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction function,
                                                                     int block_size, size_t shared, unsigned flags);

/* Graph management */
FK_API CUresult cuGraphCreate(CUgraph *graph, unsigned flags);
FK_API CUresult cuGraphDestroy(CUgraph graph);
FK_API CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count);
FK_API CUresult cuGraphNodeGetType(CUgraphNode node, int *type);
FK_API CUresult cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                                         const CUDA_KERNEL_NODE_PARAMS_v2 *params);
FK_API CUresult cuGraphAddEmptyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count);
FK_API CUresult cuGraphAddHostNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                                    const CUDA_HOST_NODE_PARAMS *params);
FK_API CUresult cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                                      const CUDA_MEMCPY3D *params, CUcontext context);
FK_API CUresult cuGraphAddMemsetNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
                                      const CUDA_MEMSET_NODE_PARAMS *params, CUcontext context);
FK_API CUresult cuGraphInstantiateWithFlags(CUgraphExec *exec, CUgraph graph, unsigned long long flags);
FK_API CUresult cuGraphInstantiateWithParams(CUgraphExec *exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *params);
FK_API CUresult cuGraphExecDestroy(CUgraphExec exec);
FK_API CUresult cuGraphUpload(CUgraphExec exec, CUstream stream);
FK_API CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream);
FK_API CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                                   const CUDA_KERNEL_NODE_PARAMS_v2 *params);
FK_API CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2 *params);

/* The fixture's own: README.md. */
FK_API int64_t fake_cuda_control(const char *command);
FK_API int sparkle_emulated(void); /* what native/dl/cuda.c looks for */
#endif
