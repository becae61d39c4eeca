#include "fake.h"
int fk_cubin_read(const unsigned char *bytes, const struct fk_device *device, struct fk_image *out)
{
    (void)bytes; (void)device; (void)out;
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
}
CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address){(void)handle;(void)address;return 801;}
CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *address, CUipcMemHandle handle, unsigned flags){(void)handle;(void)address;(void)flags;return 801;}
CUresult cuIpcCloseMemHandle(CUdeviceptr address){(void)address;return 801;}
CUresult cuIpcGetEventHandle(CUipcEventHandle *handle, CUevent event){(void)handle;(void)event;return 801;}
CUresult cuIpcOpenEventHandle(CUevent *event, CUipcEventHandle handle){(void)handle;(void)event;return 801;}
CUresult cuStreamBeginCapture_v2(CUstream stream, int mode){(void)stream;(void)mode;return 801;}
CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph){(void)stream;(void)graph;return 801;}
CUresult cuStreamIsCapturing(CUstream stream, int *status){(void)stream;*status=0;return 0;}
CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, uint32_t value, unsigned flags){(void)stream;(void)address;(void)value;(void)flags;return 801;}
CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address, uint64_t value, unsigned flags){(void)stream;(void)address;(void)value;(void)flags;return 801;}
CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, uint32_t value, unsigned flags){(void)stream;(void)address;(void)value;(void)flags;return 801;}
CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr address, uint64_t value, unsigned flags){(void)stream;(void)address;(void)value;(void)flags;return 801;}
