/* The C library's calls that take a file name. A name of a card's file is redirected to the tree
 * (tree.h). Opening a render node opens the emulated GPU. The node's status is that of character
 * device 226:128 and up.
 *
 * Programs call these functions by more names than the standard has: the 64-bit variants, the
 * checked ones of fortified programs (__open_2), and the __xstat of programs built before glibc
 * 2.33. All of these names are here. */
#define _GNU_SOURCE 1
#include "preload.h"
#include "tree.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum { DRM_MAJOR = 226, FIRST_RENDER_MINOR = 128 };

static const char *redirected(const char *path, char *inside)
{
    return sp_preload_ready() ? sp_tree_redirect(path, inside) : path;
}

/* Returns the card whose render node `path` names, or -1. */
static int node(const char *path)
{
    char inside[SP_TREE_PATH];
    int card = sp_preload_ready() ? sp_tree_render_node(path) : -1;
    return card >= 0 && !SP_NEXT(access)(redirected(path, inside), F_OK) ? card : -1;
}

/* ---- calls that open a file ---- */

typedef int open_call(const char *, int, ...);
typedef int openat_call(int, const char *, int, ...);

static int needs_mode(int flags)
{
    return (flags & O_CREAT) || (flags & O_TMPFILE) == O_TMPFILE;
}

static int open_redirected(open_call *next, const char *path, int flags, mode_t mode)
{
    char inside[SP_TREE_PATH];
    int card = node(path);
    return card >= 0 ? sp_preload_open(card, flags) : next(redirected(path, inside), flags, mode);
}

static int openat_redirected(openat_call *next, int folder, const char *path, int flags, mode_t mode)
{
    char inside[SP_TREE_PATH];
    int card = node(path);
    return card >= 0 ? sp_preload_open(card, flags) : next(folder, redirected(path, inside), flags, mode);
}

SP_HOOK int open(const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    mode_t mode = needs_mode(flags) ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    return open_redirected(SP_NEXT(open), path, flags, mode);
}

SP_HOOK int open64(const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    mode_t mode = needs_mode(flags) ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    return open_redirected(SP_NEXT(open64), path, flags, mode);
}

SP_HOOK int openat(int folder, const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    mode_t mode = needs_mode(flags) ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    return openat_redirected(SP_NEXT(openat), folder, path, flags, mode);
}

SP_HOOK int openat64(int folder, const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    mode_t mode = needs_mode(flags) ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    return openat_redirected(SP_NEXT(openat64), folder, path, flags, mode);
}

int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int folder, const char *path, int flags);
int __openat64_2(int folder, const char *path, int flags);

SP_HOOK int __open_2(const char *path, int flags)
{
    return open_redirected(SP_NEXT(open), path, flags, 0);
}

SP_HOOK int __open64_2(const char *path, int flags)
{
    return open_redirected(SP_NEXT(open64), path, flags, 0);
}

SP_HOOK int __openat_2(int folder, const char *path, int flags)
{
    return openat_redirected(SP_NEXT(openat), folder, path, flags, 0);
}

SP_HOOK int __openat64_2(int folder, const char *path, int flags)
{
    return openat_redirected(SP_NEXT(openat64), folder, path, flags, 0);
}

SP_HOOK FILE *fopen(const char *path, const char *mode)
{
    char inside[SP_TREE_PATH];
    return SP_NEXT(fopen)(redirected(path, inside), mode);
}

SP_HOOK FILE *fopen64(const char *path, const char *mode)
{
    char inside[SP_TREE_PATH];
    return SP_NEXT(fopen64)(redirected(path, inside), mode);
}

SP_HOOK DIR *opendir(const char *path)
{
    char inside[SP_TREE_PATH];
    return SP_NEXT(opendir)(redirected(path, inside));
}

/* ---- other calls that take a file name ---- */

SP_HOOK int access(const char *path, int mode)
{
    char inside[SP_TREE_PATH];
    return SP_NEXT(access)(redirected(path, inside), mode);
}

SP_HOOK int faccessat(int folder, const char *path, int mode, int flags)
{
    char inside[SP_TREE_PATH];
    return SP_NEXT(faccessat)(folder, redirected(path, inside), mode, flags);
}

SP_HOOK ssize_t readlink(const char *restrict path, char *restrict out, size_t capacity)
{
    char inside[SP_TREE_PATH];
    return SP_NEXT(readlink)(redirected(path, inside), out, capacity);
}

SP_HOOK ssize_t readlinkat(int folder, const char *restrict path, char *restrict out, size_t capacity)
{
    char inside[SP_TREE_PATH];
    return SP_NEXT(readlinkat)(folder, redirected(path, inside), out, capacity);
}

SP_HOOK char *realpath(const char *restrict path, char *restrict out)
{
    char inside[SP_TREE_PATH];
    return SP_NEXT(realpath)(redirected(path, inside), out);
}

char *__realpath_chk(const char *path, char *out, size_t capacity);
ssize_t __readlink_chk(const char *path, char *out, size_t nbytes, size_t capacity);

SP_HOOK char *__realpath_chk(const char *path, char *out, size_t capacity)
{
    char inside[SP_TREE_PATH];
    return SP_NEXT(__realpath_chk)(redirected(path, inside), out, capacity);
}

SP_HOOK ssize_t __readlink_chk(const char *path, char *out, size_t nbytes, size_t capacity)
{
    char inside[SP_TREE_PATH];
    return SP_NEXT(__readlink_chk)(redirected(path, inside), out, nbytes, capacity);
}

/* ---- status of a file ---- */

/* struct stat and struct stat64 are one type on 64-bit Linux. */
_Static_assert(sizeof(struct stat) == sizeof(struct stat64), "a 64-bit system");

static int as_node(int rc, int card, void *status)
{
    struct stat *out = status;
    if (rc == 0 && card >= 0) {
        out->st_mode = S_IFCHR | 0666;
        out->st_rdev = makedev(DRM_MAJOR, (unsigned)(FIRST_RENDER_MINOR + card));
        out->st_size = 0;
    }
    return rc;
}

SP_HOOK int stat(const char *restrict path, struct stat *restrict out)
{
    char inside[SP_TREE_PATH];
    return as_node(SP_NEXT(stat)(redirected(path, inside), out), node(path), out);
}

SP_HOOK int stat64(const char *restrict path, struct stat64 *restrict out)
{
    char inside[SP_TREE_PATH];
    return as_node(SP_NEXT(stat64)(redirected(path, inside), out), node(path), out);
}

SP_HOOK int lstat(const char *restrict path, struct stat *restrict out)
{
    char inside[SP_TREE_PATH];
    return as_node(SP_NEXT(lstat)(redirected(path, inside), out), node(path), out);
}

SP_HOOK int lstat64(const char *restrict path, struct stat64 *restrict out)
{
    char inside[SP_TREE_PATH];
    return as_node(SP_NEXT(lstat64)(redirected(path, inside), out), node(path), out);
}

SP_HOOK int fstat(int fd, struct stat *out)
{
    return as_node(SP_NEXT(fstat)(fd, out), sp_preload_card(fd), out);
}

SP_HOOK int fstat64(int fd, struct stat64 *out)
{
    return as_node(SP_NEXT(fstat64)(fd, out), sp_preload_card(fd), out);
}

/* Returns the card whose render node `path` names, or -1. An empty path (with AT_EMPTY_PATH) stands
 * for the file on which the descriptor `folder` is open. */
static int card_at(int folder, const char *path)
{
    return path && *path ? node(path) : sp_preload_card(folder);
}

SP_HOOK int fstatat(int folder, const char *restrict path, struct stat *restrict out, int flags)
{
    char inside[SP_TREE_PATH];
    return as_node(SP_NEXT(fstatat)(folder, redirected(path, inside), out, flags), card_at(folder, path), out);
}

SP_HOOK int fstatat64(int folder, const char *restrict path, struct stat64 *restrict out, int flags)
{
    char inside[SP_TREE_PATH];
    return as_node(SP_NEXT(fstatat64)(folder, redirected(path, inside), out, flags), card_at(folder, path), out);
}

SP_HOOK int statx(int folder, const char *restrict path, int flags, unsigned mask, struct statx *restrict out)
{
    char inside[SP_TREE_PATH];
    int rc = SP_NEXT(statx)(folder, redirected(path, inside), flags, mask, out);
    int card = card_at(folder, path);
    if (rc == 0 && card >= 0) {
        out->stx_mode = S_IFCHR | 0666;
        out->stx_rdev_major = DRM_MAJOR;
        out->stx_rdev_minor = (unsigned)(FIRST_RENDER_MINOR + card);
        out->stx_size = 0;
    }
    return rc;
}

int __xstat(int version, const char *path, struct stat *out);
int __xstat64(int version, const char *path, struct stat64 *out);
int __lxstat(int version, const char *path, struct stat *out);
int __lxstat64(int version, const char *path, struct stat64 *out);
int __fxstat(int version, int fd, struct stat *out);
int __fxstat64(int version, int fd, struct stat64 *out);

SP_HOOK int __xstat(int version, const char *path, struct stat *out)
{
    (void)version; /* 64-bit Linux has only one version */
    return stat(path, out);
}

SP_HOOK int __xstat64(int version, const char *path, struct stat64 *out)
{
    (void)version;
    return stat64(path, out);
}

SP_HOOK int __lxstat(int version, const char *path, struct stat *out)
{
    (void)version;
    return lstat(path, out);
}

SP_HOOK int __lxstat64(int version, const char *path, struct stat64 *out)
{
    (void)version;
    return lstat64(path, out);
}

SP_HOOK int __fxstat(int version, int fd, struct stat *out)
{
    (void)version;
    return fstat(fd, out);
}

SP_HOOK int __fxstat64(int version, int fd, struct stat64 *out)
{
    (void)version;
    return fstat64(fd, out);
}
