/* Runs the records of a job on the current GL context. Every record was checked before it was
 * queued. */
#include "replay.h"
#include "core/base.h"
#include "dl/gl.h"
#include "egl/context/clock.h"
#include "egl/context/fence.h"
#include "egl/context/names.h"
#include "egl/memory/buffer.h"
#include "egl/memory/shadow.h"
#include "kernel.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ZEROS_NBYTES = 4096 };

static void barrier(struct sp_egl *dev, uint32_t bits)
{
    uint32_t owed = dev->dirty & bits;
    if (owed) {
        sp_glMemoryBarrier(owed);
        dev->dirty &= ~owed;
        dev->barriers += (owed & GL_SHADER_STORAGE_BARRIER_BIT) != 0;
    }
}

/* Returns the buffer of zeros that replaces a null pointer. */
static uint32_t zeros(struct sp_egl *dev)
{
    if (!dev->zeros) {
        static const unsigned char nothing[ZEROS_NBYTES];
        sp_glGenBuffers(1, &dev->zeros);
        sp_glBindBuffer(GL_COPY_WRITE_BUFFER, dev->zeros);
        sp_glBufferData(GL_COPY_WRITE_BUFFER, ZEROS_NBYTES, nothing, GL_DYNAMIC_COPY);
    }
    return dev->zeros;
}

static void bind(struct sp_egl *dev, uint32_t index, uint32_t name, uint64_t offset, uint64_t nbytes)
{
    struct sp_egl_binding *b = &dev->bound[index];
    if (b->name == name && b->offset == offset && b->nbytes == nbytes)
        return;
    sp_glBindBufferRange(GL_SHADER_STORAGE_BUFFER, index, name, (intptr_t)offset, (intptr_t)nbytes);
    *b = (struct sp_egl_binding){.name = name, .offset = offset, .nbytes = nbytes};
}

/* Issues a barrier before a dispatch if the dispatch needs one. A dispatch must see earlier writes,
 * and must not overwrite what earlier dispatches still read. GL does not tell which blocks a shader
 * only reads. So a dispatch needs a barrier if any dispatch since the last barrier used one of its
 * buffers. */
static void order(struct sp_egl *dev, struct sp_egl_buffer *const *used, uint32_t count)
{
    int again = 0;
    for (uint32_t i = 0; i < count; i++)
        again |= used[i]->used_since == dev->barriers;
    if (again)
        barrier(dev, GL_SHADER_STORAGE_BARRIER_BIT);
    for (uint32_t i = 0; i < count; i++)
        used[i]->used_since = dev->barriers;
}

/* Binds the buffers of the pointer arguments, and issues a barrier if they need one. Returns the
 * mask of the null pointers. */
static uint32_t bind_pointers(struct sp_egl *dev, const struct sp_egl_kernel *k, const unsigned char *args)
{
    const unsigned char *extents = args + k->sig.args_nbytes;
    struct sp_egl_buffer *used[SP_MAX_ARGS];
    uint32_t count = 0, null = 0;
    for (uint32_t i = 0; i < k->sig.npointers; i++) {
        uint64_t address, covered, offset;
        int rc;
        memcpy(&address, args + k->pointer_at[i], 8);
        memcpy(&covered, extents + 8 * i, 8);
        struct sp_egl_buffer *b = sp_egl_find(dev, address, 0, &offset, &rc);
        if (!b) {
            null |= i < 32 ? 1u << i : 0;
            if (k->used[i])
                bind(dev, i, zeros(dev), 0, ZEROS_NBYTES);
            continue;
        }
        if (!k->used[i])
            continue;
        uint64_t have = atomic_load_explicit(&b->nbytes, memory_order_relaxed) - offset;
        uint64_t bytes = covered < have ? covered : have;
        sp_egl_touch(dev, b);
        used[count++] = b;
        /* rounds the bound size up to a multiple of 4, because shaders access whole 32-bit words */
        bind(dev, i, b->name, offset, bytes ? (bytes + 3) & ~(uint64_t)3 : 4);
    }
    order(dev, used, count);
    return null;
}

static void set_scalar(const struct sp_egl_scalar *s, uint64_t bits)
{
    uint32_t low = (uint32_t)bits;
    float f;
    double d;
    switch (s->type) {
    case GL_FLOAT:
        memcpy(&f, &low, sizeof f);
        sp_glUniform1f(s->location, f);
        break;
    case GL_INT:
    case GL_BOOL:
        sp_glUniform1i(s->location, (int32_t)low);
        break;
    case GL_UNSIGNED_INT:
        sp_glUniform1ui(s->location, low);
        break;
    case GL_DOUBLE:
        memcpy(&d, &bits, sizeof d);
        sp_glUniform1d(s->location, d);
        break;
    case GL_INT64_ARB:
        sp_glUniform1i64ARB(s->location, (int64_t)bits);
        break;
    case GL_UNSIGNED_INT64_ARB:
        sp_glUniform1ui64ARB(s->location, bits);
        break;
    default: /* uvec2, the other GL type of a 64-bit argument */
        sp_glUniform2ui(s->location, low, (uint32_t)(bits >> 32));
    }
}

static void set_scalars(struct sp_egl_kernel *k, const unsigned char *args, uint32_t null)
{
    for (uint32_t i = 0; i < k->nscalars; i++) {
        struct sp_egl_scalar *s = &k->scalars[i];
        uint64_t bits = 0;
        memcpy(&bits, args + s->offset, s->nbytes); /* little-endian */
        if (s->type && (!k->is_set || bits != s->value)) {
            set_scalar(s, bits);
            s->value = bits;
        }
    }
    if (k->at_null >= 0 && (!k->is_set || null != k->null)) {
        sp_glUniform1ui(k->at_null, null);
        k->null = null;
    }
    k->is_set = 1;
}

static void set_offset(struct sp_egl_kernel *k, const uint32_t at[3])
{
    if (k->at_offset < 0 || memcmp(k->offset, at, sizeof k->offset) == 0)
        return;
    sp_glUniform3ui(k->at_offset, at[0], at[1], at[2]);
    memcpy(k->offset, at, sizeof k->offset);
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static void dispatch(struct sp_egl *dev, const struct sp_cmd_dispatch *d)
{
    struct sp_egl_kernel *k = (struct sp_egl_kernel *)(uintptr_t)d->kernel;
    const uint32_t *most = dev->info.max_groups;
    const uint32_t *n = d->groups;
    uint64_t groups = (uint64_t)n[0] * n[1] * n[2];
    sp_running_groups(&dev->running, groups);
    if (n[0] == 0 || n[1] == 0 || n[2] == 0)
        return;
    if (dev->program != k->program) {
        sp_glUseProgram(k->program);
        dev->program = k->program;
    }
    uint32_t null = bind_pointers(dev, k, (const unsigned char *)(d + 1));
    set_scalars(k, (const unsigned char *)(d + 1), null);
    uint64_t done = 0;
    uint32_t at[3];
    for (at[2] = 0; at[2] < n[2]; at[2] += least(most[2], n[2] - at[2]))
        for (at[1] = 0; at[1] < n[1]; at[1] += least(most[1], n[1] - at[1]))
            for (at[0] = 0; at[0] < n[0]; at[0] += least(most[0], n[0] - at[0])) {
                uint32_t x = least(most[0], n[0] - at[0]);
                uint32_t y = least(most[1], n[1] - at[1]);
                uint32_t z = least(most[2], n[2] - at[2]);
                if (atomic_load_explicit(&dev->common.lost, memory_order_relaxed))
                    return;
                set_offset(k, at);
                sp_glDispatchCompute(x, y, z);
                done += (uint64_t)x * y * z;
                atomic_store_explicit(&dev->running.groups_done, done, memory_order_relaxed);
            }
    dev->dirty = GL_SHADER_STORAGE_BARRIER_BIT | GL_BUFFER_UPDATE_BARRIER_BIT | GL_CLIENT_MAPPED_BUFFER_BARRIER_BIT;
}

/* Copies between overlapping ranges of one buffer through host memory, because GL refuses
 * overlap. */
static int move(struct sp_egl *dev, struct sp_egl_buffer *b, uint64_t dst, uint64_t src, uint64_t nbytes)
{
    void *between = malloc(nbytes);
    if (!between)
        return -ENOMEM;
    sp_egl_drain(dev);
    sp_egl_read(dev, b, src, between, nbytes);
    sp_egl_write(dev, b, dst, between, nbytes);
    free(between);
    return 0;
}

static int copy(struct sp_egl *dev, const struct sp_cmd_copy *c)
{
    uint64_t dst = 0, src = 0;
    int rc;
    if (c->count == 0)
        return 0;
    struct sp_egl_buffer *to = sp_egl_is_ours(c->dst) ? sp_egl_find(dev, c->dst, c->count, &dst, &rc) : NULL;
    struct sp_egl_buffer *from = sp_egl_is_ours(c->src) ? sp_egl_find(dev, c->src, c->count, &src, &rc) : NULL;
    if ((sp_egl_is_ours(c->dst) && !to) || (sp_egl_is_ours(c->src) && !from))
        return -EFAULT;
    barrier(dev, GL_BUFFER_UPDATE_BARRIER_BIT);
    if (to)
        sp_egl_touch(dev, to);
    if (from)
        sp_egl_touch(dev, from);
    if (!from) {
        sp_egl_write(dev, to, dst, (const void *)(uintptr_t)c->src, c->count);
    } else if (!to) {
        barrier(dev, GL_CLIENT_MAPPED_BUFFER_BARRIER_BIT);
        sp_egl_drain(dev);
        sp_egl_read(dev, from, src, (void *)(uintptr_t)c->dst, c->count);
    } else if (to == from) {
        uint64_t apart = dst > src ? dst - src : src - dst;
        if (apart < c->count)
            return apart ? move(dev, to, dst, src, c->count) : 0;
    }
    if (to && from) {
        sp_glBindBuffer(GL_COPY_READ_BUFFER, from->name);
        sp_glBindBuffer(GL_COPY_WRITE_BUFFER, to->name);
        sp_glCopyBufferSubData(GL_COPY_READ_BUFFER, GL_COPY_WRITE_BUFFER, (intptr_t)src, (intptr_t)dst,
                               (intptr_t)c->count);
    }
    return 0;
}

static int fill_by_hand(struct sp_egl *dev, struct sp_egl_buffer *b, uint64_t at, const struct sp_cmd_fill *f)
{
    enum { PIECE = 65536 };
    unsigned char *piece = malloc(PIECE);
    if (!piece)
        return -ENOMEM;
    for (uint32_t i = 0; i < PIECE; i += f->pattern_nbytes)
        memcpy(piece + i, &f->pattern, f->pattern_nbytes);
    for (uint64_t done = 0; done < f->count; done += PIECE)
        sp_egl_write(dev, b, at + done, piece, f->count - done < PIECE ? f->count - done : PIECE);
    free(piece);
    return 0;
}

static int fill(struct sp_egl *dev, const struct sp_cmd_fill *f)
{
    uint64_t at;
    int rc;
    struct sp_egl_buffer *b = sp_egl_find(dev, f->dst, f->count, &at, &rc);
    if (!b || f->count == 0)
        return rc;
    barrier(dev, GL_BUFFER_UPDATE_BARRIER_BIT);
    sp_egl_touch(dev, b);
    if (sp_egl_is(dev, SP_EGL_ES) || at % f->pattern_nbytes)
        return fill_by_hand(dev, b, at, f);
    static const uint32_t formats[5] = {0, GL_R8UI, GL_R16UI, 0, GL_R32UI};
    static const uint32_t types[5] = {0, GL_UNSIGNED_BYTE, GL_UNSIGNED_SHORT, 0, GL_UNSIGNED_INT};
    sp_glBindBuffer(GL_COPY_WRITE_BUFFER, b->name);
    sp_glClearBufferSubData(GL_COPY_WRITE_BUFFER, formats[f->pattern_nbytes], (intptr_t)at, (intptr_t)f->count,
                            GL_RED_INTEGER, types[f->pattern_nbytes], &f->pattern);
    return 0;
}

static int stamp(struct sp_egl *dev, uint64_t slot)
{
    struct sp_egl_stamp *s = malloc(sizeof *s);
    if (!s)
        return -ENOMEM;
    *s = (struct sp_egl_stamp){.next = dev->stamps, .query = sp_egl_query(dev), .slot = slot};
    dev->stamps = s;
    return 0;
}

static int run_one(struct sp_egl *dev, const struct sp_cmd *head)
{
    const void *record = head;
    switch (head->kind) {
    case SP_CMD_DISPATCH:
        dispatch(dev, record);
        return 0;
    case SP_CMD_COPY:
        return copy(dev, record);
    case SP_CMD_FILL:
        return fill(dev, record);
    case SP_CMD_TIMESTAMP:
        return stamp(dev, ((const struct sp_cmd_timestamp *)record)->slot);
    /* the commands WAIT and BARRIER need no GL call: the context runs all jobs in the order of
     * submission */
    default:
        return 0;
    }
}

void sp_egl_run_job(struct sp_egl *dev, struct sp_egl_job *job, uint64_t now_ns)
{
    dev->runs++;
    dev->error[0] = '\0';
    atomic_store_explicit(&dev->issued, job, memory_order_relaxed);
    sp_running_begin(&dev->running, job->nbytes, now_ns);
    if (job->timed)
        job->start = sp_egl_query(dev);
    if (job->timed && !job->start)
        job->start_ns = sp_clock_ns();
    for (size_t at = 0; job->rc == 0 && at < job->nbytes;) {
        const struct sp_cmd *head = (const void *)(job->records + at);
        atomic_store_explicit(&dev->running.at, at, memory_order_relaxed);
        job->rc = run_one(dev, head);
        at += head->nbytes;
    }
    sp_egl_untouch(dev);
    if (job->timed) {
        if (!job->start)
            sp_egl_drain(dev);
        job->end = sp_egl_query(dev);
    }
}
