/* The recorder: a `struct sp_kmd_ops` that passes each call on to another `struct sp_kmd_ops`, then
 * records the call. The caller notices no difference. The recorder's own calls have no effect on
 * the kernel driver's objects. */
#define _GNU_SOURCE 1
#include "record.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { DRM_TYPE = 'd', ARGUMENT = 1 << 14 }; /* the size field of a request has 14 bits */
static const uint64_t MAX_BO = UINT64_C(64) << 20, WAIT_NS = UINT64_C(10000000000);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
/* Thread that holds the lock, or 0. glibc's pthread_t is an integer, never 0. */
static _Atomic(pthread_t) holder;

/* Returns 1 if this thread holds the lock. Calls of the recorder itself, and of a signal handler
 * that interrupts it, are therefore not recorded. */
static int busy(void)
{
    return atomic_load_explicit(&holder, memory_order_relaxed) == pthread_self();
}

static void enter(void)
{
    pthread_mutex_lock(&lock);
    atomic_store_explicit(&holder, pthread_self(), memory_order_relaxed);
}

static void leave(void)
{
    atomic_store_explicit(&holder, 0, memory_order_relaxed);
    pthread_mutex_unlock(&lock);
}

static void before_fork(void)
{
    if (!busy())
        pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
    if (!busy())
        pthread_mutex_unlock(&lock);
}

static void watch_forks(void)
{
    pthread_atfork(before_fork, after_fork, after_fork);
}

/* ---- effects of an ioctl on the recorder's lists ---- */

static void learn(struct sp_record_node *node, uint32_t request, const void *in, const void *out)
{
    const union drm_amdgpu_gem_create *made = in, *made_out = out;
    const struct drm_amdgpu_gem_userptr *user = out;
    const struct drm_prime_handle *prime = out;
    struct sp_record_bo *bo;
    switch (request & 0xff) {
    case DRM_IOCTL_AMDGPU_GEM_CREATE & 0xff:
        sp_record_bo_add(node, made_out->out.handle, made->in.bo_size);
        break;
    case DRM_IOCTL_AMDGPU_GEM_USERPTR & 0xff:
        bo = sp_record_bo_add(node, user->handle, user->size);
        if (bo)
            bo->user = user->addr;
        break;
    case DRM_IOCTL_PRIME_FD_TO_HANDLE & 0xff:
        bo = sp_record_bo_find(node, prime->handle);
        if (!bo && (bo = sp_record_bo_add(node, prime->handle, 0)))
            bo->foreign = 1;
        break;
    case DRM_IOCTL_AMDGPU_GEM_VA & 0xff: sp_record_va(node, in); break;
    default: break;
    }
}

/* ---- the recording of one call ---- */

struct call {
    struct sp_record *r;
    struct sp_record_node *node;
    int fd;
    uint32_t request;
    void *arg;
    size_t nbytes;
    size_t given; /* bytes of the argument that were readable */
    unsigned char in[ARGUMENT], out[ARGUMENT];
    struct sp_record_span spans[SP_RECORD_SPANS];
    uint32_t nspans;
    /* text that shows, as of before the call, the memory to which the argument points */
    struct sp_record_text was;
};

static void add_span(struct sp_record_text *text, const struct sp_record_span *span, const char *way, uint64_t room)
{
    uint64_t n = span->nbytes < room ? span->nbytes : room;
    unsigned char *copy = malloc(n ? n : 1);
    if (!copy) {
        text->failed = 1;
        return;
    }
    sp_record_say(text, " at %llx %s ", (unsigned long long)span->address, way);
    sp_record_hex(text, copy, sp_record_peek(copy, span->address, n));
    sp_record_say(text, "%s\n", n < span->nbytes ? " cut" : "");
    free(copy);
}

static void before(struct call *c)
{
    c->nspans = 0;
    c->given = sp_record_peek(c->in, (uintptr_t)c->arg, c->nbytes);
    if (c->given == c->nbytes)
        c->nspans = sp_record_spans(c->request, c->in, c->spans);
    for (uint32_t i = 0; i < c->nspans; i++)
        if (c->spans[i].way & SP_RECORD_IN)
            add_span(&c->was, &c->spans[i], "in", c->r->file.max_nbytes / 2);
}

static void after(struct call *c, int rc)
{
    struct sp_record_text *text = &c->r->text;
    int whole = sp_record_peek(c->out, (uintptr_t)c->arg, c->nbytes) == c->nbytes;
    sp_record_say(text, "ioctl %llu node=%d request=%x %s rc=%d\n in ", (unsigned long long)++c->r->calls, c->node->number,
                c->request, sp_record_name(c->request), rc);
    sp_record_hex(text, c->in, c->given);
    if (whole && memcmp(c->in, c->out, c->nbytes) != 0) {
        sp_record_say(text, "\n out ");
        sp_record_hex(text, c->out, c->nbytes);
    }
    sp_record_say(text, "\n");
    sp_record_append(text, &c->was);
    for (uint32_t i = 0; rc >= 0 && i < c->nspans; i++)
        if (c->spans[i].way & SP_RECORD_OUT)
            add_span(text, &c->spans[i], "out", c->r->file.max_nbytes / 2);
    sp_record_file_put(&c->r->file, text);
    if (rc >= 0 && whole)
        learn(c->node, c->request, c->in, c->out);
}

static int make(const struct call *c)
{
    return c->r->next->ioctl(c->r->next->self, c->fd, c->request, c->arg);
}

/* Makes a CS call. With SP_RECORD_MEMORY it waits for the end of the job. So the recorder can tell
 * the job's writes from later writes of the CPU. */
static int submit(struct call *c)
{
    struct drm_amdgpu_cs_chunk_ib entity;
    union drm_amdgpu_cs cs;
    memset(&entity, 0, sizeof entity);
    memcpy(&cs, c->in, sizeof cs);
    int memory = c->r->flags & SP_RECORD_MEMORY;
    if (memory)
        sp_record_pages(c->r, c->node, "cpu");
    sp_record_ibs(c->r, c->node, &cs, &entity);
    /* the recording is written to its file before the submission, because the job may hang the
     * machine */
    sp_record_file_put(&c->r->file, &c->r->text);
    int rc = make(c);
    union drm_amdgpu_cs done;
    if (!memory || rc < 0 || sp_record_peek(&done, (uintptr_t)c->arg, sizeof done) != sizeof done)
        return rc;
    union drm_amdgpu_wait_cs wait;
    memset(&wait, 0, sizeof wait);
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t until = (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec + c->r->wait_ns;
    wait.in = (struct drm_amdgpu_wait_cs_in){.handle = done.out.handle,
                                             .timeout = until,
                                             .ip_type = entity.ip_type,
                                             .ip_instance = entity.ip_instance,
                                             .ring = entity.ring,
                                             .ctx_id = cs.in.ctx_id};
    int ended = sp_kmd_ioctl(c->r->next, c->fd, DRM_IOCTL_AMDGPU_WAIT_CS, &wait, until);
    if (ended < 0 || wait.out.status)
        sp_record_say(&c->r->text, "# job %llu failed: %s\n", (unsigned long long)done.out.handle,
                    ended < 0 ? strerror(-ended) : "it still runs");
    return rc;
}

static int recorded_ioctl(struct call *c)
{
    int rc, blocks = sp_record_blocks(c->request), number = c->node->number;
    before(c);
    if (blocks)
        leave();
    uint32_t nr = c->request & 0xff;
    if (nr == (DRM_IOCTL_AMDGPU_CS & 0xff))
        rc = submit(c);
    else
        rc = make(c);
    if (blocks) {
        enter();
        c->node = sp_record_node_numbered(c->r, number);
        if (!c->node) /* the node was closed, or the recording ended, during the ioctl */
            return rc;
    }
    /* Forgets a closed BO at once. The recorder's mapping would keep the BO alive, and the next BO
     * may get the same handle. */
    if (nr == (DRM_IOCTL_GEM_CLOSE & 0xff) && rc >= 0)
        sp_record_bo_drop(c->r, c->node, ((const struct drm_gem_close *)(const void *)c->in)->handle);
    after(c, rc);
    if (nr == (DRM_IOCTL_AMDGPU_CS & 0xff) && rc >= 0 && c->r->flags & SP_RECORD_MEMORY)
        sp_record_pages(c->r, c->node, "gpu");
    return rc;
}

static int record_ioctl(void *self, int fd, uint32_t request, void *arg)
{
    struct sp_record *r = self;
    size_t nbytes = request >> 16 & (ARGUMENT - 1);
    struct call *c;
    if (busy() || (request >> 8 & 0xff) != DRM_TYPE || r->stopped || r->file.error || !(c = calloc(1, sizeof *c)))
        return r->next->ioctl(r->next->self, fd, request, arg);
    enter();
    if (r->stopped) {
        leave();
        free(c);
        return r->next->ioctl(r->next->self, fd, request, arg);
    }
    *c = (struct call){.r = r, .node = sp_record_node_of(r, fd), .fd = fd, .request = request, .arg = arg, .nbytes = nbytes};
    int rc;
    if (c->node && c->node->amdgpu) {
        rc = recorded_ioctl(c);
        leave();
    } else {
        leave();
        rc = make(c);
    }
    free(c->was.at);
    free(c);
    return rc;
}

static int64_t record_mmap(void *self, uint64_t nbytes, int prot, int flags, int fd, uint64_t offset)
{
    struct sp_record *r = self;
    return r->next->mmap(r->next->self, nbytes, prot, flags, fd, offset);
}

static int record_munmap(void *self, void *address, uint64_t nbytes)
{
    struct sp_record *r = self;
    return r->next->munmap(r->next->self, address, nbytes);
}

static int record_close(void *self, int fd)
{
    struct sp_record *r = self;
    sp_record_forget(r, fd);
    return r->next->close(r->next->self, fd);
}

/* ---- begin and end of a recording ---- */

int sp_record_open(const struct sp_kmd_ops *next, const char *path, const struct sp_record_options *options,
                   struct sp_record **out)
{
    const struct sp_record_options given = options ? *options : (struct sp_record_options){.flags = 0};
    if (!next || !path || !*path || given.flags & ~(uint32_t)(SP_RECORD_MEMORY | SP_RECORD_SHARED))
        return -EINVAL;
    /* read by process_vm_readv, as a test: the recorder needs that call, and a sandbox may forbid
     * it */
    uint32_t flags;
    if (sp_record_peek(&flags, (uintptr_t)&given.flags, sizeof flags) != sizeof flags)
        return -EPERM;
    struct sp_record *r = calloc(1, sizeof *r);
    if (!r)
        return -ENOMEM;
    int rc = sp_record_file_open(&r->file, path, (given.flags & SP_RECORD_SHARED) != 0, given.max_nbytes);
    if (rc) {
        free(r);
        return rc;
    }
    r->next = next;
    r->ops = (struct sp_kmd_ops){r, record_ioctl, record_mmap, record_munmap, record_close};
    r->flags = given.flags;
    r->max_bo = given.max_bo ? given.max_bo : MAX_BO;
    r->wait_ns = given.wait_ns ? given.wait_ns : WAIT_NS;
    pthread_once(&once, watch_forks);
    *out = r;
    return 0;
}

int sp_record_stop(struct sp_record *r, uint32_t *open)
{
    enter();
    if (open)
        *open = 0;
    for (const struct sp_record_node *node = r->nodes; open && node; node = node->next)
        *open += (uint32_t)node->amdgpu;
    while (r->fds)
        sp_record_node_forget(r, r->fds->fd);
    r->stopped = 1;
    int rc = r->file.error;
    sp_record_file_close(&r->file);
    leave();
    return rc;
}

void sp_record_free(struct sp_record *r)
{
    free(r->text.at);
    free(r);
}

const struct sp_kmd_ops *sp_record_ops(struct sp_record *r)
{
    return &r->ops;
}

int sp_record_state(struct sp_record *r)
{
    return r->file.error;
}

void sp_record_forget(struct sp_record *r, int fd)
{
    if (busy())
        return;
    enter();
    sp_record_node_forget(r, fd);
    leave();
}
