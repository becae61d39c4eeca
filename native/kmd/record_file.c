/* The recorder's file. The text of each call is written as soon as it is complete, so that the file
 * of a crashed program has all calls until the crash. */
#define _GNU_SOURCE 1
#include "record.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

static const uint64_t MAX_NBYTES = UINT64_C(1) << 30;

static int room(struct sp_record_text *text, size_t more)
{
    if (text->n + more <= text->capacity)
        return 1;
    size_t capacity = (text->n + more) * 2;
    char *grown = realloc(text->at, capacity);
    if (!grown) {
        text->failed = 1;
        return 0;
    }
    text->at = grown;
    text->capacity = capacity;
    return 1;
}

void sp_record_say(struct sp_record_text *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (n < 0 || !room(text, (size_t)n + 1))
        return;
    va_start(arguments, format);
    vsnprintf(text->at + text->n, (size_t)n + 1, format, arguments);
    va_end(arguments);
    text->n += (size_t)n;
}

void sp_record_hex(struct sp_record_text *text, const void *data, size_t nbytes)
{
    static const char digit[] = "0123456789abcdef";
    const unsigned char *from = data;
    if (!room(text, nbytes * 2))
        return;
    for (size_t i = 0; i < nbytes; i++) {
        text->at[text->n++] = digit[from[i] >> 4];
        text->at[text->n++] = digit[from[i] & 15];
    }
}

void sp_record_append(struct sp_record_text *text, const struct sp_record_text *more)
{
    text->failed |= more->failed;
    if (!more->n || !room(text, more->n))
        return;
    memcpy(text->at + text->n, more->at, more->n);
    text->n += more->n;
}

static int open_one(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    return fd < 0 ? -errno : fd;
}

static int begin(struct sp_record_file *file, const char *path)
{
    char other[sizeof file->path + 32];
    int fd = open_one(path);
    /* If the file is locked, a living process writes to it, such as the parent of this process. */
    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK && file->shared) {
        close(fd);
        snprintf(other, sizeof other, "%s.%d", path, (int)getpid());
        fd = open_one(other);
        if (fd >= 0)
            flock(fd, LOCK_EX | LOCK_NB);
    }
    if (fd < 0)
        return fd;
    if (ftruncate(fd, 0) && errno != EINVAL) { /* a pipe cannot be truncated */
        int rc = -errno;
        close(fd);
        return rc;
    }
    file->fd = fd;
    file->pid = getpid();
    file->nbytes = 0;
    return 0;
}

static void say(const struct sp_record_file *file, const char *why)
{
    dprintf(STDERR_FILENO, "sparkle: recording %s: %s; the recording stopped\n", file->path, why);
}

static void put(struct sp_record_file *file, const char *at, size_t n)
{
    while (n > 0 && !file->error) {
        ssize_t written = write(file->fd, at, n);
        if (written < 0 && errno != EINTR) {
            file->error = -errno;
            say(file, strerror(errno));
        } else if (written > 0) {
            at += written;
            n -= (size_t)written;
            file->nbytes += (uint64_t)written;
        }
    }
}

static void head(struct sp_record_file *file, pid_t parent)
{
    struct sp_record_text text = {0};
    char program[256] = "";
    int comm = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);
    ssize_t n = comm < 0 ? 0 : read(comm, program, sizeof program - 1);
    if (comm >= 0)
        close(comm);
    program[n > 0 ? n : 0] = 0;
    program[strcspn(program, "\n")] = 0;
    sp_record_say(&text, "# sparkle recording 1, docs/recording.md\nprocess %d", (int)getpid());
    if (parent)
        sp_record_say(&text, " parent=%d", (int)parent);
    sp_record_say(&text, " %s\n", program);
    put(file, text.at, text.n);
    free(text.at);
}

int sp_record_file_open(struct sp_record_file *file, const char *path, int shared, uint64_t max_nbytes)
{
    *file = (struct sp_record_file){.fd = -1, .shared = shared, .max_nbytes = max_nbytes ? max_nbytes : MAX_NBYTES};
    if (snprintf(file->path, sizeof file->path, "%s", path) >= (int)sizeof file->path)
        return -ENAMETOOLONG;
    /* Opens the file once, to find an unwritable path now. An existing file is truncated only when
     * there is text to write. */
    int existed = access(path, F_OK) == 0, fd = open_one(path);
    if (fd < 0)
        return fd;
    close(fd);
    if (!existed)
        unlink(path);
    return 0;
}

void sp_record_file_put(struct sp_record_file *file, struct sp_record_text *text)
{
    int fresh = file->fd < 0 || file->pid != getpid();
    pid_t parent = file->fd >= 0 && fresh ? file->pid : 0;
    if (text->failed && !file->error) {
        file->error = -ENOMEM;
        say(file, "no memory");
    }
    if (!file->error && fresh) {
        char path[sizeof file->path + 16];
        snprintf(path, sizeof path, parent ? "%s.%d" : "%s", file->path, (int)getpid());
        if (file->fd >= 0)
            close(file->fd);
        int rc = begin(file, path);
        if (rc) {
            file->error = rc;
            file->fd = -1;
            say(file, strerror(-rc));
        } else {
            head(file, parent);
        }
    }
    if (!file->error && file->nbytes + text->n > file->max_nbytes) {
        static const char full[] = "# full: the rest is missing\n";
        put(file, full, sizeof full - 1);
        file->error = -EFBIG;
        say(file, "the file reached its size limit");
    }
    put(file, text->at, text->n);
    text->n = 0;
}

void sp_record_file_close(struct sp_record_file *file)
{
    if (file->fd >= 0)
        close(file->fd);
    file->fd = -1;
}
