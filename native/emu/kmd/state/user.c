/* copy_from_user and copy_to_user. The host's kernel makes the copy (process_vm_readv), so a bad
 * pointer gives -EFAULT and not a signal. */
#include "state.h"

#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { LARGEST_ARRAY = 16 * 1024 * 1024, MOST_PAGES = 1024 /* UIO_MAXIOV */ };

static int copy(long number, void *here, uint64_t there, size_t nbytes)
{
    struct iovec local = {here, nbytes}, remote = {(void *)(uintptr_t)there, nbytes};
    if (nbytes == 0)
        return 0;
    /* Makes the system call without the C library's wrapper. Sanitizers check the wrapper, and
     * would report a bad address of the caller as an error of the emulator. */
    long n = syscall(number, (long)getpid(), &local, 1L, &remote, 1L, 0L);
    return n == (long)nbytes ? 0 : -EFAULT;
}

int kmd_user_is_reachable(void)
{
    uint32_t here = 0, there = 1;
    struct iovec local = {&here, sizeof(here)}, remote = {&there, sizeof(there)};
    const long call[2] = {SYS_process_vm_readv, SYS_process_vm_writev};
    for (int i = 0; i < 2; i++)
        if (syscall(call[i], (long)getpid(), &local, 1L, &remote, 1L, 0L) < 0)
            return -errno;
    return 0;
}

int kmd_copy_from_user(void *to, uint64_t from, size_t nbytes)
{
    return copy(SYS_process_vm_readv, to, from, nbytes);
}

int kmd_copy_to_user(uint64_t to, const void *from, size_t nbytes)
{
    return copy(SYS_process_vm_writev, (void *)(uintptr_t)from, to, nbytes);
}

int kmd_probe_user(uint64_t from, uint64_t nbytes)
{
    uint8_t byte[MOST_PAGES];
    struct iovec local = {byte, sizeof(byte)}, remote[MOST_PAGES];
    for (uint64_t at = 0; at < nbytes;) {
        long n = 0;
        for (; n < MOST_PAGES && at < nbytes; n++, at += KMD_PAGE)
            remote[n] = (struct iovec){(void *)(uintptr_t)(from + at), 1};
        if (syscall(SYS_process_vm_readv, (long)getpid(), &local, 1L, remote, n, 0L) != n)
            return -EFAULT;
    }
    return 0;
}

void *kmd_copy_array(uint64_t from, uint64_t count, size_t size, int *error)
{
    *error = 0;
    if (count == 0)
        return NULL;
    if (count > LARGEST_ARRAY / size) {
        *error = -EINVAL;
        return NULL;
    }
    void *array = malloc(count * size);
    *error = array ? kmd_copy_from_user(array, from, count * size) : -ENOMEM;
    if (*error) {
        free(array);
        return NULL;
    }
    return array;
}
