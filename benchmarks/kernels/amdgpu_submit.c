/* One recorded dispatch submitted again and again: what that takes outside the emulated kernel, called from C or as the
 * interpreter calls a Python function. amdgpu_submit.py compiles this and hands in the functions of both extensions;
 * tests/radv/vk_compute.c does the same with vkQueueSubmit. */
#include <stddef.h>
#include <stdint.h>
#include <time.h>

struct seam { /* as native/include/sp_emu.h has it */
    uint64_t ioctls, submissions, ns;
};
struct functions {
    int64_t (*resend)(void *queue, const void *records, size_t nbytes, uint64_t epoch);
    int64_t (*submit)(void *queue, const void *records, size_t nbytes, uint64_t epoch);
    int (*wait)(void *queue, uint64_t value, uint64_t timeout_ns);
    void (*seam)(struct seam *out);
};
struct taken {
    uint64_t ns, inside_ns, ioctls;
};
static const uint64_t WAIT_NS = UINT64_C(30) * 1000000000;

static uint64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static struct taken taken(uint64_t began, uint64_t ended, const struct seam *before, const struct seam *after)
{
    return (struct taken){ended - began, after->ns - before->ns, after->ioctls - before->ioctls};
}

/* The calls that `queue.submit(commands)` makes. */
int64_t submit_again(const struct functions *f, void *queue, const void *records, size_t nbytes, uint64_t epoch,
                     size_t count, struct taken *out)
{
    for (size_t i = 0; i < count; i++) {
        struct seam before, after;
        f->seam(&before);
        uint64_t began = clock_ns();
        int64_t value = f->resend(queue, records, nbytes, epoch);
        if (value == 0)
            value = f->submit(queue, records, nbytes, epoch);
        uint64_t ended = clock_ns();
        f->seam(&after);
        if (value < 0)
            return value;
        int rc = f->wait(queue, (uint64_t)value, WAIT_NS);
        if (rc)
            return rc;
        out[i] = taken(began, ended, &before, &after);
    }
    return 0;
}

/* The interpreter's, which has loaded this: its headers need not be here. */
typedef struct _object PyObject;
extern PyObject *PyObject_Vectorcall(PyObject *callable, PyObject *const *args, size_t nargs, PyObject *names);
extern void Py_DecRef(PyObject *object);

/* `call(*args)`, and then `wait` with what that returned; -1: an exception is set. */
int call_again(const struct functions *f, PyObject *call, PyObject *const *args, size_t nargs, PyObject *wait, size_t count,
               struct taken *out)
{
    for (size_t i = 0; i < count; i++) {
        struct seam before, after;
        f->seam(&before);
        uint64_t began = clock_ns();
        PyObject *made = PyObject_Vectorcall(call, args, nargs, NULL);
        uint64_t ended = clock_ns();
        f->seam(&after);
        PyObject *waited = made ? PyObject_Vectorcall(wait, &made, 1, NULL) : NULL;
        if (made)
            Py_DecRef(made);
        if (!waited)
            return -1;
        Py_DecRef(waited);
        out[i] = taken(began, ended, &before, &after);
    }
    return 0;
}
