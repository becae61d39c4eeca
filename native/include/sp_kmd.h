/* The one seam to an AMD GPU: four calls to the kernel. It has two implementations: the real kernel
 * (native/kmd/linux.c) and the emulated one (native/emu, extension _emu). All code above the seam
 * runs on either unmodified, and through a recorder around it (sp_record.h).
 *
 * Each call returns the kernel's result, as a raw value or -errno, and is made once. sp_kmd_ioctl,
 * above the seam, retries EINTR and EAGAIN. */
#ifndef SP_KMD_H
#define SP_KMD_H
#include "sp_base.h"

struct sp_kmd_ops {
    void *self; /* the implementation's state, passed as the first argument */
    int (*ioctl)(void *self, int fd, uint32_t request, void *arg);
    /* The address, or -errno in the last page of the address space, as the kernel itself returns
     * it. */
    int64_t (*mmap)(void *self, uint64_t nbytes, int prot, int flags, int fd, uint64_t offset);
    int (*munmap)(void *self, void *address, uint64_t nbytes);
    int (*close)(void *self, int fd);
};

/* The real kernel. */
const struct sp_kmd_ops *sp_kmd_linux(void);

/* Repeats ops->ioctl while it returns EINTR or EAGAIN, at most until `deadline_ns`
 * (CLOCK_MONOTONIC; 0: no limit). Returns 0 or more, or -errno. */
int sp_kmd_ioctl(const struct sp_kmd_ops *ops, int fd, uint32_t request, void *arg, uint64_t deadline_ns);
#endif
