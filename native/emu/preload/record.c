/* Records what a foreign program exchanges with a kernel driver (native/kmd/record.c). The driver
 * is that of a real card, to which the calls are passed on, or the emulated one. Environment
 * variables choose what is recorded:
 *
 *   SPARKLE_EMU=record           amdgpu render nodes of this machine
 *   SPARKLE_EMU=record:gfx1100   emulated cards
 *   SPARKLE_RECORD=FILE          default: sparkle-PID.rec in the working directory;
 *                                FILE.PID if another process writes FILE
 *   SPARKLE_RECORD_MAX=MIB       size limit; default 1024
 *   SPARKLE_RECORD_MEMORY=1      also writes of CPU and jobs, which a replay needs: the recorder
 *                                waits for every job */
#define _GNU_SOURCE 1
#include "preload.h"
#include "include/sp_record.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

static const char word[] = "record";
static struct sp_record *record;
static int wanted_one;

const char *sp_preload_recorded(const char *wanted)
{
    size_t n = sizeof word - 1;
    if (strncmp(wanted, word, n) || (wanted[n] && wanted[n] != ':'))
        return wanted;
    wanted_one = 1;
    return wanted[n] ? wanted + n + 1 : NULL;
}

const char *sp_preload_record_path(void)
{
    static char made[64];
    const char *path = getenv("SPARKLE_RECORD");
    if (path && *path)
        return path;
    if (!*made)
        snprintf(made, sizeof made, "sparkle-%d.rec", (int)getpid());
    return made;
}

static int real_ioctl(void *self, int fd, uint32_t request, void *arg)
{
    (void)self;
    int rc = SP_NEXT(ioctl)(fd, request, arg);
    return rc < 0 ? -errno : rc;
}

static int64_t real_mmap(void *self, uint64_t nbytes, int prot, int flags, int fd, uint64_t offset)
{
    (void)self;
    void *at = mmap(NULL, nbytes, prot, flags, fd, (off_t)offset);
    return at == MAP_FAILED ? -errno : (int64_t)(intptr_t)at;
}

static int real_munmap(void *self, void *address, uint64_t nbytes)
{
    (void)self;
    return munmap(address, nbytes) < 0 ? -errno : 0;
}

static int real_close(void *self, int fd)
{
    (void)self;
    return SP_NEXT(close)(fd) < 0 ? -errno : 0;
}

int sp_preload_record(const struct sp_kmd_ops *machine)
{
    static const struct sp_kmd_ops real = {NULL, real_ioctl, real_mmap, real_munmap, real_close};
    const char *most = getenv("SPARKLE_RECORD_MAX");
    char *end = NULL;
    unsigned long long mib = most && *most ? strtoull(most, &end, 10) : 0;
    if (!wanted_one)
        return 0;
    if (end && (*end || !mib || mib > UINT64_MAX >> 20))
        return -EINVAL;
    const char *memory = getenv("SPARKLE_RECORD_MEMORY");
    struct sp_record_options options = {.flags = SP_RECORD_SHARED, .max_nbytes = mib << 20};
    if (memory && *memory && strcmp(memory, "0") != 0)
        options.flags |= SP_RECORD_MEMORY;
    return sp_record_open(machine ? machine : &real, sp_preload_record_path(), &options, &record);
}

const struct sp_kmd_ops *sp_preload_record_ops(void)
{
    return record ? sp_record_ops(record) : NULL;
}

void sp_preload_record_forget(int fd)
{
    int kept = errno;
    if (record && fd >= 0)
        sp_record_forget(record, fd);
    errno = kept;
}

/* Makes the recorder forget the descriptor before it is closed: once it is closed, its number may
 * stand for another file. */
SP_HOOK int close(int fd)
{
    sp_preload_record_forget(fd);
    return SP_NEXT(close)(fd);
}
