/* The calls of `struct sp_kmd_ops` on a machine. The caller may outlive the machine: a device that
 * was not closed gets -ENODEV from later calls. */
#define _GNU_SOURCE
#include "ops.h"
#include "dispatch.h"
#include "emu/kmd/files/files.h"
#include "emu/kmd/memory/memory.h"
#include "seam_time.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* The table of functions (struct sp_kmd_ops) through which devices call one machine. The struct is
 * small and never freed, because nobody knows when the last device that uses it ends. */
struct kmd_ops {
    struct sp_kmd_ops table;
    struct kmd_machine *machine; /* atomic; NULL after the end of the machine */
    uint32_t inside;             /* atomic: number of calls that are using `machine` */
    /* next struct in the list `all`; the list lets a leak checker find every struct */
    struct kmd_ops *next;
};
static struct kmd_ops *all;

static struct kmd_machine *hold(struct kmd_ops *ops)
{
    __atomic_fetch_add(&ops->inside, 1, __ATOMIC_SEQ_CST);
    return __atomic_load_n(&ops->machine, __ATOMIC_SEQ_CST);
}

static void let_go(struct kmd_ops *ops)
{
    __atomic_fetch_sub(&ops->inside, 1, __ATOMIC_RELEASE);
}

static int call_ioctl(void *self, int fd, uint32_t request, void *arg)
{
    /* starts the measurement first, because all time in this call is the emulator's, not the
     * driver's */
    uint64_t began = sp_seam_enter();
    struct kmd_machine *machine = hold(self);
    int rc = machine ? kmd_ioctl(machine, fd, request, arg) : -ENODEV;
    let_go(self);
    sp_seam_leave(began, request, machine != NULL);
    return rc;
}

static int call_munmap(void *self, void *address, uint64_t nbytes)
{
    (void)self;
    return munmap(address, nbytes) < 0 ? -errno : 0;
}

static int call_close(void *self, int fd)
{
    int rc = close(fd) < 0 ? -errno : 0;
    struct kmd_machine *machine = hold(self);
    if (machine && machine->generation == kmd_generation()) {
        kmd_enter(machine);
        kmd_sweep(machine);
        kmd_leave(machine);
    }
    let_go(self);
    return rc;
}

/* Checks what the kernel driver checks before a BO is mapped: the file has a handle of the BO, and
 * the range is inside the BO. */
static int check_bo_range(const struct kmd_file *file, uint64_t offset, uint64_t nbytes, const struct kmd_bo **out)
{
    for (uint32_t i = 0; i < file->bos.capacity; i++) {
        const struct kmd_bo *bo = file->bos.slot[i];
        if (bo && !bo->userptr && offset >= bo->offset && offset < bo->offset + bo->nbytes) {
            *out = bo;
            if (bo->flags & AMDGPU_GEM_CREATE_NO_CPU_ACCESS)
                return -EPERM;
            return nbytes <= bo->offset + bo->nbytes - offset ? 0 : -EINVAL;
        }
    }
    return -EACCES;
}

static int64_t map(struct kmd_machine *machine, uint64_t nbytes, int prot, int flags, int fd, uint64_t offset)
{
    int error = 0;
    if (machine->generation != kmd_generation())
        return -ENODEV;
    kmd_enter(machine);
    struct kmd_file *file = kmd_file_of(machine, fd);
    struct kmd_token *token = file ? NULL : kmd_token_of(machine, fd);
    const struct kmd_bo *bo = NULL;
    if (file) {
        error = file->card->unplugged ? -ENODEV : check_bo_range(file, offset, nbytes, &bo);
    } else if (token && token->kind == KMD_DMABUF) {
        fd = machine->memfd;
        bo = token->bo;
        error = offset > token->bo->nbytes || nbytes > token->bo->nbytes - offset ? -EINVAL : 0;
        offset += token->bo->offset;
    }
    void *address = error ? MAP_FAILED : mmap(NULL, nbytes, prot, flags, fd, (off_t)offset);
    if (!error && address == MAP_FAILED)
        error = -errno;
    if (!error && bo)
        kmd_alias(bo, address, offset, nbytes);
    kmd_leave(machine);
    return error ? error : (int64_t)(intptr_t)address;
}

static int64_t call_mmap(void *self, uint64_t nbytes, int prot, int flags, int fd, uint64_t offset)
{
    struct kmd_machine *machine = hold(self);
    int64_t address = machine ? map(machine, nbytes, prot, flags, fd, offset) : -ENODEV;
    let_go(self);
    return address;
}

struct kmd_ops *kmd_ops_new(struct kmd_machine *machine)
{
    struct kmd_ops *ops = calloc(1, sizeof(*ops));
    if (!ops)
        return NULL;
    ops->table = (struct sp_kmd_ops){ops, call_ioctl, call_mmap, call_munmap, call_close};
    ops->machine = machine;
    ops->next = __atomic_load_n(&all, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&all, &ops->next, ops, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ;
    return ops;
}

bool kmd_ops_end(struct kmd_ops *ops)
{
    if (!ops)
        return false;
    __atomic_store_n(&ops->machine, NULL, __ATOMIC_SEQ_CST);
    return __atomic_load_n(&ops->inside, __ATOMIC_SEQ_CST) > 0;
}

const struct sp_kmd_ops *kmd_ops_table(const struct kmd_ops *ops)
{
    return &ops->table;
}
