/* Real descriptors for the emulated objects. A render node is a file description of the machine's
 * memfd; its file position is the number of its struct kmd_file. A dma-buf is a sealed memfd of the
 * BO's size. syncobjs and sync_files are ends of socket pairs. A sync_file gets a byte when it
 * signals, so poll(POLLIN) works. All descriptors except render nodes are identified by inode,
 * which duplicates share.
 *
 * A plain close() is not visible here. So a render node and a dma-buf carry an OFD lock, which
 * Linux releases when the last duplicate of the descriptor is closed. For a closed socket, poll on
 * the other end reports POLLHUP. kmd_sweep checks both. */
#define _GNU_SOURCE /* for OFD locks and fallocate */
#include "files.h"
#include "core/syscalls.h"
#include "emu/kmd/memory/memory.h"
#include "emu/kmd/sync/sync.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static int reopen(int fd, int flags)
{
    char path[40];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    int again = open(path, flags | O_CLOEXEC);
    return again < 0 ? -errno : again;
}

/* Returns true if a file description other than that of `fd` holds a lock on byte `byte` of the
 * file. */
static bool is_locked(int fd, int64_t byte)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    return fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

static int hold_lock(int fd, int64_t byte)
{
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    return fcntl(fd, F_OFD_SETLK, &lock) < 0 ? -errno : 0;
}

/* Returns true if `fd` is a render node of the machine. The function needs no lock. */
static bool is_node(const struct kmd_machine *machine, int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && st.st_ino == machine->inode && st.st_dev == machine->device && fd != machine->memfd;
}

struct kmd_file *kmd_file_of(struct kmd_machine *machine, int fd)
{
    if (!is_node(machine, fd))
        return NULL;
    off_t position = lseek(fd, 0, SEEK_CUR);
    return position > 0 && position <= UINT32_MAX ? kmd_idr_get(&machine->files, (uint32_t)position) : NULL;
}

struct kmd_token *kmd_token_of(struct kmd_machine *machine, int fd)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return NULL;
    for (struct kmd_token *token = machine->tokens; token; token = token->next)
        if (token->inode == st.st_ino && token->device == st.st_dev)
            return token;
    return NULL;
}

int sp_emu_fd_card(struct sp_emu_machine *handle, int fd)
{
    struct kmd_machine *machine = (struct kmd_machine *)handle;
    if (machine->generation != kmd_generation())
        return -ENODEV;
    kmd_enter(machine);
    struct kmd_file *file = kmd_file_of(machine, fd);
    int card = file ? (int)file->card->index : -EBADF;
    kmd_leave(machine);
    return card;
}

int sp_emu_fd_is_ours(struct sp_emu_machine *handle, int fd)
{
    struct kmd_machine *machine = (struct kmd_machine *)handle;
    if (machine->generation != kmd_generation())
        /* a forked child checks only whether `fd` is a render node, because the lists that
         * kmd_file_of and kmd_token_of search may be inconsistent there */
        return is_node(machine, fd);
    kmd_enter(machine);
    int ours = kmd_file_of(machine, fd) || kmd_token_of(machine, fd);
    kmd_leave(machine);
    return ours;
}

int sp_emu_open(struct sp_emu_machine *handle, uint32_t index)
{
    struct kmd_machine *machine = (struct kmd_machine *)handle;
    struct kmd_file *file = NULL;
    if (machine->generation != kmd_generation())
        return -ENODEV;
    kmd_enter(machine);
    kmd_sweep(machine);
    int fd = index < machine->cards && !machine->card[index].unplugged ? reopen(machine->memfd, O_RDWR) : -ENODEV;
    const struct sp_emu_flaw_of *flaw = fd < 0 ? NULL : sp_emu_flaw(&machine->card[index].chip.core, SP_FLAW_OPEN);
    if (flaw) {
        close(fd);
        fd = -(int)flaw->a;
    }
    int rc = fd < 0 ? fd : kmd_file_open(&machine->card[index], &file);
    if (rc == 0 && lseek(fd, file->id, SEEK_SET) < 0)
        rc = -errno;
    if (rc == 0)
        rc = hold_lock(fd, file->id);
    if (rc < 0) {
        if (file)
            kmd_file_close(machine, file);
        if (fd >= 0)
            close(fd);
    }
    kmd_leave(machine);
    return rc < 0 ? rc : fd;
}

/* Adds a token: the record of a descriptor that an ioctl returns. `theirs` is the descriptor that
 * the caller gets; its inode identifies the token. `ours` is the emulator's end, which the token
 * keeps. */
static struct kmd_token *add_token(struct kmd_machine *machine, uint32_t kind, int ours, int theirs)
{
    struct stat st;
    struct kmd_token *token = calloc(1, sizeof(*token));
    if (!token || fstat(theirs, &st) < 0) {
        free(token);
        return NULL;
    }
    token->kind = kind;
    token->inode = st.st_ino;
    token->device = st.st_dev;
    token->ours = ours;
    token->next = machine->tokens;
    machine->tokens = token;
    machine->live.fds++;
    return token;
}

static int new_dmabuf(struct kmd_machine *machine, struct kmd_bo *bo)
{
    int fd = sp_memfd_create("dmabuf", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -errno;
    if (ftruncate(fd, (off_t)bo->nbytes) < 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0) {
        int rc = -errno;
        close(fd);
        return rc;
    }
    struct kmd_token *token = add_token(machine, KMD_DMABUF, fd, fd);
    if (!token) {
        close(fd);
        return -ENOMEM;
    }
    kmd_bo_get(bo);
    token->bo = bo;
    bo->dmabuf = token;
    return 0;
}

int kmd_token_dmabuf(struct kmd_machine *machine, struct kmd_bo *bo, uint32_t flags)
{
    int rc = bo->dmabuf ? 0 : new_dmabuf(machine, bo);
    if (rc < 0)
        return rc;
    int fd = reopen(bo->dmabuf->ours, flags & DRM_RDWR ? O_RDWR : O_RDONLY);
    if (fd < 0)
        return fd;
    rc = hold_lock(fd, 0);
    if (rc == 0 && !(flags & DRM_CLOEXEC) && fcntl(fd, F_SETFD, 0) < 0)
        rc = -errno;
    if (rc < 0)
        close(fd);
    return rc < 0 ? rc : fd;
}

static int new_pair(struct kmd_machine *machine, uint32_t kind, struct kmd_token **token)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
        return -errno;
    *token = add_token(machine, kind, ends[1], ends[0]);
    if (*token)
        return ends[0];
    close(ends[0]);
    close(ends[1]);
    return -ENOMEM;
}

int kmd_token_syncobj(struct kmd_machine *machine, struct kmd_syncobj *syncobj)
{
    struct kmd_token *token;
    int fd = new_pair(machine, KMD_SYNCOBJ_FD, &token);
    if (fd >= 0) {
        syncobj->refs++;
        token->syncobj = syncobj;
    }
    return fd;
}

int kmd_token_sync_file(struct kmd_machine *machine, struct kmd_fence *fence)
{
    struct kmd_token *token;
    int fd = new_pair(machine, KMD_SYNC_FILE, &token);
    if (fd >= 0) {
        token->fence = kmd_fence_get(fence);
        kmd_tell_sync_files(machine);
    }
    return fd;
}

static void free_token(struct kmd_machine *machine, struct kmd_token *token)
{
    close(token->ours);
    if (token->bo) {
        token->bo->dmabuf = NULL;
        kmd_bo_put(token->bo);
    }
    if (token->syncobj)
        kmd_syncobj_put(token->syncobj);
    kmd_fence_put(token->fence);
    free(token);
    machine->live.fds--;
}

static bool is_open(const struct kmd_token *token)
{
    struct pollfd end = {.fd = token->ours, .events = 0};
    if (token->kind == KMD_DMABUF)
        return is_locked(token->ours, 0);
    return !(poll(&end, 1, 0) == 1 && end.revents & POLLHUP);
}

void kmd_sweep(struct kmd_machine *machine)
{
    for (uint32_t id = 1; id <= machine->files.capacity; id++) {
        struct kmd_file *file = kmd_idr_get(&machine->files, id);
        if (file && !is_locked(machine->memfd, id))
            kmd_file_close(machine, file);
    }
    for (struct kmd_token **link = &machine->tokens; *link;) {
        struct kmd_token *token = *link;
        if (is_open(token)) {
            link = &token->next;
        } else {
            *link = token->next;
            free_token(machine, token);
        }
    }
}

void kmd_drop_tokens(struct kmd_machine *machine)
{
    while (machine->tokens) {
        struct kmd_token *token = machine->tokens;
        machine->tokens = token->next;
        free_token(machine, token);
    }
}
