/* The only seam to an AMD GPU: four calls to the kernel driver. They have two implementations: the
 * real kernel (native/kmd/linux.c) and the emulated one (native/emu, extension _emu). All code
 * above the seam runs on either unchanged, and on a recorder around either (sp_record.h).
 *
 * Each call makes one attempt and returns the kernel's result, as a raw value or -errno.
 * sp_kmd_ioctl, above the seam, repeats after EINTR and EAGAIN. */
#ifndef SP_KMD_H
#define SP_KMD_H
#include "sp_base.h"

struct sp_kmd_ops {
    void *self; /* state of the implementation, passed as the first argument */
    int (*ioctl)(void *self, int fd, uint32_t request, void *arg);
    /* Returns the mapping's address, or -errno. As in the kernel, a -errno is told from an address
     * by its value: it lies in the last page of the address space. */
    int64_t (*mmap)(void *self, uint64_t nbytes, int prot, int flags, int fd, uint64_t offset);
    int (*munmap)(void *self, void *address, uint64_t nbytes);
    int (*close)(void *self, int fd);
};

/* Returns the implementation that calls the real kernel driver. */
const struct sp_kmd_ops *sp_kmd_linux(void);

/* Repeats ops->ioctl while it returns -EINTR or -EAGAIN, at most until `deadline_ns`
 * (CLOCK_MONOTONIC; 0: no limit). Returns 0 or more, or -errno. */
int sp_kmd_ioctl(const struct sp_kmd_ops *ops, int fd, uint32_t request, void *arg, uint64_t deadline_ns);
#endif
