/* Inter-process communication of "Memory Management": a handle names the memfd of the process that made the memory. */
#define _GNU_SOURCE
#include "../include/fake.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct handle {
    char magic[8];
    int64_t pid;
    int32_t fd, ordinal;
    uint64_t offset, nbytes;
};
_Static_assert(sizeof(struct handle) <= sizeof(CUipcMemHandle), "a handle has 64 bytes");
static const char MAGIC[8] = "fakeipc";

/* Not for memory of pools, as the reference has it. */
CUresult cuIpcGetMemHandle(CUipcMemHandle *out, CUdeviceptr address)
{
    struct fk_block block;
    struct handle h = {.pid = getpid()};
    FK_ENTER_CONTEXT(cuIpcGetMemHandle);
    (void)ctx;
    if (!out || !fk_heap_find(address, &block) || fk_heap_export(address, &h.fd, &h.offset) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(h.magic, MAGIC, sizeof MAGIC);
    h.ordinal = block.ordinal;
    h.nbytes = block.nbytes;
    memset(out, 0, sizeof *out);
    memcpy(out, &h, sizeof h);
    return 0;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *address, CUipcMemHandle given, unsigned flags)
{
    struct handle h;
    char path[64];
    uint64_t at;
    FK_ENTER_CONTEXT(cuIpcOpenMemHandle_v2);
    memcpy(&h, &given, sizeof h);
    if (!address || flags != 1 || memcmp(h.magic, MAGIC, sizeof MAGIC) != 0) /* LAZY_ENABLE_PEER_ACCESS */
        return CUDA_ERROR_INVALID_VALUE;
    if (h.pid == getpid()) /* a process cannot open its own */
        return CUDA_ERROR_INVALID_CONTEXT;
    snprintf(path, sizeof path, "/proc/%lld/fd/%d", (long long)h.pid, h.fd);
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return CUDA_ERROR_INVALID_HANDLE;
    const int rc = fk_heap_import(ctx, fd, h.offset, h.nbytes, &at);
    close(fd);
    if (rc == 0)
        *address = at;
    return rc;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr address)
{
    FK_ENTER_CONTEXT(cuIpcCloseMemHandle);
    const int rc = fk_context_wait(ctx);
    return rc ? rc : fk_heap_free(address, FK_IMPORTED);
}
