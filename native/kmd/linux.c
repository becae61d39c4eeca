/* The real kernel driver's side of the seam: plain system calls, with results as -errno. */
#include "include/sp_kmd.h"

#include <errno.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

static int linux_ioctl(void *self, int fd, uint32_t request, void *arg)
{
    (void)self;
    int rc = ioctl(fd, request, arg);
    return rc < 0 ? -errno : rc;
}

static int64_t linux_mmap(void *self, uint64_t nbytes, int prot, int flags, int fd, uint64_t offset)
{
    (void)self;
    void *address = mmap(NULL, nbytes, prot, flags, fd, (off_t)offset);
    return address == MAP_FAILED ? -errno : (int64_t)(intptr_t)address;
}

static int linux_munmap(void *self, void *address, uint64_t nbytes)
{
    (void)self;
    return munmap(address, nbytes) < 0 ? -errno : 0;
}

static int linux_close(void *self, int fd)
{
    (void)self;
    return close(fd) < 0 ? -errno : 0;
}

const struct sp_kmd_ops *sp_kmd_linux(void)
{
    static const struct sp_kmd_ops ops = {NULL, linux_ioctl, linux_mmap, linux_munmap, linux_close};
    return &ops;
}
