/* Shares GPU memory with other processes. An export is a file that holds the driver's handle of the
 * memory, not the memory itself. The owner marks the file when it frees the memory. The mark is
 * needed because the driver does not define what a use of freed memory does.
 *
 * The driver shares whole blocks, and several small allocations may be in one block ("Interprocess
 * Communication" of the CUDA C++ Programming Guide). So memory for export is allocated in blocks of
 * its own. */
#define _GNU_SOURCE
#include "ipc.h"
#include "core/syscalls.h"
#include "core/timeline.h"
#include "cuda/device/context.h"
#include "cuda/device/lost.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* the only flag of CUipcMem_flags, which cuIpcOpenMemHandle requires */
enum { LAZY_ENABLE_PEER_ACCESS = 1 };
static const char MAGIC[16] = "sparkle cuda 1";
static const uint64_t MOST_NS = UINT64_C(5000000000);

struct passport {
    char magic[16];
    unsigned char process[16]; /* random number that identifies the owner process */
    char pci[32];
    uint64_t nbytes;
    int64_t pid;
    uint32_t closed;
    uint32_t unused;
    struct sp_cu_ipc handle;
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static unsigned char this_process[16];

static void draw_process_id(void)
{
    size_t got = 0;
    while (got < sizeof this_process) {
        ssize_t n = sp_getrandom(this_process + got, sizeof this_process - got);
        if (n > 0)
            got += (size_t)n;
        else if (errno != EINTR)
            break;
    }
}

/* Waits until the device's memory stream has zeroed all new memory. Another process that imports
 * the memory cannot wait for that stream. */
static int wait_zeroed(struct sp_cuda *dev)
{
    uint64_t until = sp_clock_ns() + MOST_NS;
    int result;
    while (sp_cuda_not_ready(result = sp_cuStreamQuery(dev->memory_stream)) && sp_clock_ns() < until)
        sp_cpu_relax();
    return sp_cuda_not_ready(result) ? -ETIMEDOUT : sp_cuda_rc(dev, "cuStreamQuery", result);
}

static int write_file(const struct passport *p)
{
    int fd = sp_memfd_create("sparkle-cuda-memory", MFD_CLOEXEC);
    if (fd < 0)
        return -errno;
    ssize_t n = pwrite(fd, p, sizeof *p, 0);
    if (n == (ssize_t)sizeof *p)
        return fd;
    int rc = n < 0 ? -errno : -EIO;
    close(fd);
    return rc;
}

int sp_cuda_ipc_export(struct sp_cuda *dev, uint64_t address, uint64_t nbytes)
{
    struct passport p = {.nbytes = nbytes, .pid = getpid()};
    pthread_once(&once, draw_process_id);
    memcpy(p.magic, MAGIC, sizeof MAGIC);
    memcpy(p.process, this_process, sizeof p.process);
    memcpy(p.pci, dev->info.pci, sizeof p.pci);
    int rc = sp_cuda_gone(dev);
    if (rc == 0)
        rc = sp_cuda_enter(dev);
    if (rc == 0)
        rc = wait_zeroed(dev);
    if (rc == 0)
        rc = SP_CUDA_RC(dev, cuIpcGetMemHandle, &p.handle, address);
    return rc ? rc : write_file(&p);
}

void sp_cuda_ipc_end(int fd)
{
    uint32_t closed = 1;
    /* Marks the memory as freed in its file. If the mark cannot be written, another process may
     * still import the memory. Only the driver may then report that the memory is freed. */
    if (fd >= 0 && pwrite(fd, &closed, sizeof closed, offsetof(struct passport, closed)) < 0)
        return;
}

/* Reads the file of an export into `p`. Returns 1, or 0 if the file is not an export. */
static int read_file(int fd, struct passport *p)
{
    return pread(fd, p, sizeof *p, 0) == (ssize_t)sizeof *p && memcmp(p->magic, MAGIC, sizeof MAGIC) == 0;
}

int sp_cuda_ipc_is(int fd)
{
    struct passport p;
    return read_file(fd, &p);
}

/* Returns 0 if this device can open the exported memory. Otherwise records the reason as text
 * (sp_cu_say) and returns -ENXIO. */
static int check(const struct sp_cuda *dev, const struct passport *p, uint64_t nbytes)
{
    pthread_once(&once, draw_process_id);
    if (memcmp(p->process, this_process, sizeof p->process) == 0)
        sp_cu_say("it is memory of this process: the driver opens only that of other processes");
    else if (p->closed)
        sp_cu_say("process %lld, which owned the memory, has freed it", (long long)p->pid);
    else if (strncmp(p->pci, dev->info.pci, sizeof p->pci) != 0)
        sp_cu_say("it is memory of the GPU at %.31s, expected the GPU at %s", p->pci, dev->info.pci);
    else if (p->nbytes < nbytes)
        sp_cu_say("%llu bytes asked for, the memory has %llu", (unsigned long long)nbytes, (unsigned long long)p->nbytes);
    else
        return 0;
    return -ENXIO;
}

int sp_cuda_ipc_open(struct sp_cuda *dev, int fd, uint64_t nbytes, uint64_t *address)
{
    struct passport p;
    char said[300] = "";
    if (!read_file(fd, &p))
        return -EINVAL;
    int rc = check(dev, &p, nbytes);
    if (rc)
        return rc;
    int result = sp_cuIpcOpenMemHandle_v2(address, p.handle, LAZY_ENABLE_PEER_ACCESS);
    rc = sp_cuda_rc(dev, "cuIpcOpenMemHandle", result);
    if (rc == 0 || rc == -ENODEV || rc == -ENOMEM || rc == -EOPNOTSUPP)
        return rc;
    sp_cuda_why(said, sizeof said - 1);
    sp_cu_say("%s; process %lld, which owns the memory, may have ended", said, (long long)p.pid);
    return -ENXIO;
}
