/* System calls by number, because wheels are linked for glibc 2.17. glibc has a wrapper of
 * getrandom since 2.25, and one of memfd_create since 2.27. */
#ifndef SP_CORE_SYSCALLS_H
#define SP_CORE_SYSCALLS_H
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MFD_CLOEXEC
#include <linux/memfd.h>
#endif

/* Makes an anonymous file. Returns its descriptor, or -1 and errno. */
static inline int sp_memfd_create(const char *name, unsigned flags)
{
    return (int)syscall(SYS_memfd_create, name, flags);
}

/* Fills `to` with random bytes. Returns their number, or -1 and errno. */
static inline ssize_t sp_getrandom(void *to, size_t nbytes)
{
    return syscall(SYS_getrandom, to, nbytes, 0);
}
#endif
