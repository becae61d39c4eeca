/* A healthy launch without a line of Python: what core/abi/packing.py's function does, then the backend's C function.
 *
 * Whatever is not as usual (a shape not seen before, host arrays, anything wrong) is left to the Python of core/queue.py, which
 * begins again from the arguments: nothing has been submitted by then. */
#include "launch.h"
#include "again.h"
#include "fence.h"
#include "heads.h"
#include "hold.h"
#include "scalar.h"

#include "include/sp_cmd.h"

#include <stddef.h>
#include <string.h>

enum { MOST_NBYTES = sizeof(struct sp_cmd_dispatch) + 16 * SP_MAX_ARGS };

struct hot_launch {
    _Alignas(16) char record[MOST_NBYTES];
    size_t nbytes;
    unsigned seen; /* bits of its pointers' elements */
};

static PyObject *words[3]; /* groups, group_size, shared */
static PyObject *nothing, *python_word, *slowly_word;

/* The bits of its elements; 0: not a usual one. */
static unsigned pack_pointer(const struct hot_arg *arg, PyObject *given, PyObject *device, char *at, char *covered)
{
    unsigned long long none[2] = {0, 0};
    if (given == Py_None && arg->flags & HOT_OPTIONAL) {
        memcpy(at, &none[0], 8);
        memcpy(covered, &none[1], 8);
        return 1;
    }
    if (!hot_is_pointer(given))
        return 0;
    const struct hot_pointer *p = (const void *)given;
    if (!hot_memory_is_of(p, device))
        return 0;
    if (!(p->elements & arg->bits) || (arg->flags & HOT_WRITTEN && p->elements & HOT_READONLY_BIT))
        return 0;
    memcpy(at, &p->address, 8);
    memcpy(covered, &p->nbytes, 8);
    return (unsigned)p->elements;
}

/* 0: not a usual launch. An exception may be set. */
static int pack(const struct hot_queue *q, const struct hot_kernel *k, PyObject *found, PyObject *const *args,
                Py_ssize_t nargs, struct hot_launch *l)
{
    Py_ssize_t head_nbytes, plan_nbytes;
    char *head, *plan;
    struct sp_cmd_dispatch d;
    if (PyBytes_AsStringAndSize(found, &head, &head_nbytes) || PyBytes_AsStringAndSize(k->plan, &plan, &plan_nbytes))
        return 0;
    if (head_nbytes != sizeof d || nargs > SP_MAX_ARGS || plan_nbytes != nargs * (Py_ssize_t)sizeof(struct hot_arg))
        return 0;
    memcpy(&d, head, sizeof d);
    if (d.nbytes > MOST_NBYTES || d.nbytes < sizeof d + d.args_nbytes)
        return 0;
    memcpy(l->record, &d, sizeof d);
    memset(l->record + sizeof d, 0, d.nbytes - sizeof d);
    unsigned seen = 0;
    char *values = l->record + sizeof d, *covered = values + d.args_nbytes;
    for (Py_ssize_t i = 0; i < nargs; i++) {
        struct hot_arg arg;
        memcpy(&arg, plan + i * (Py_ssize_t)sizeof arg, sizeof arg);
        if (arg.code != 'P') {
            if (!hot_pack_scalar(arg.code, args[i], values + arg.offset))
                return 0;
            continue;
        }
        const unsigned bits = pack_pointer(&arg, args[i], q->device, values + arg.offset, covered);
        if (!bits)
            return 0;
        seen |= bits;
        covered += 8;
    }
    l->seen = seen;
    l->nbytes = d.nbytes;
    return 1;
}

/* The values of launch's keywords, in the order of `words`. 0: there are others, or they are spelt as nobody spells them. */
static int read_keywords(PyObject *const *values, PyObject *names, PyObject **found)
{
    const Py_ssize_t count = names ? PyTuple_Size(names) : 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *const name = PyTuple_GetItem(names, i);
        const int which = name == words[0] ? 0 : name == words[1] ? 1 : name == words[2] ? 2 : 3;
        if (which == 3)
            return 0;
        found[which] = values[i];
    }
    return 1;
}

/* All of it again, by the Python method. */
static PyObject *by_python(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *names)
{
    return hot_call_again(self, python_word, NULL, args, nargs, names);
}

/* What was borrowed for a launch that has not ended; before anything of Python's, where an interrupt would let it go. */
__attribute__((noinline)) static void keep(const struct hot_queue *q, int64_t value, PyObject *const *args, Py_ssize_t nargs)
{
    int ended = value <= 0;
    if (!ended) {
        Py_BEGIN_ALLOW_THREADS
        ended = q->handle->functions->reached(q->handle) >= (uint64_t)value;
        Py_END_ALLOW_THREADS
    }
    if (!ended)
        hot_hold(q, value, args, nargs);
}

/* hot: gcc takes what follows the refusals for rare, and copies there by slow short instructions. */
__attribute__((hot)) static PyObject *launch(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *names)
{
    struct hot_queue *q = (void *)self;
    struct hot_launch l;
    PyObject *shape[3] = {Py_None, Py_None, nothing};
    uint64_t epoch = 0; /* read before anything is looked at */
    if (!q->handle || nargs < 1 || !hot_is_kernel(args[0]) || !read_keywords(args + nargs, names, shape) ||
        !hot_epoch(q->device, &epoch))
        return by_python(self, args, nargs, names);
    const struct hot_kernel *k = (const void *)args[0];
    PyObject *const head = k->device == q->device && k->plan ? hot_head(k, args + 1, nargs - 1, shape[0], shape[1], shape[2]) : NULL;
    if (!head || !pack(q, k, head, args + 1, nargs - 1, &l)) {
        PyErr_Clear(); /* Python comes upon it again, and says it better */
        return by_python(self, args, nargs, names);
    }
    int64_t value;
    Py_BEGIN_ALLOW_THREADS
    value = q->handle->functions->launch(q->handle, l.record, l.nbytes, epoch);
    Py_END_ALLOW_THREADS
    if (l.seen & HOT_BORROWED_BIT)
        keep(q, value, args + 1, nargs - 1);
    if (value > 0)
        return hot_fence_of(q, value);
    PyObject *rest = hot_tuple_of(args + 1, nargs - 1), *made = NULL;
    PyObject *method = PyObject_GetAttr(self, slowly_word);
    if (rest && method)
        made = PyObject_CallFunction(method, "OOOOOL", args[0], rest, shape[0], shape[1], shape[2], (long long)value);
    Py_XDECREF(method);
    Py_XDECREF(rest);
    return made;
}

/* The references of a queue stand side by side, from `device` on. */
enum { REFERENCES = (sizeof(struct hot_queue) - offsetof(struct hot_queue, device)) / sizeof(PyObject *) };

static int traverse_queue(PyObject *self, visitproc visit, void *arg)
{
    PyObject **const all = &((struct hot_queue *)(void *)self)->device;
    Py_VISIT(Py_TYPE(self));
    for (size_t i = 0; i < REFERENCES; i++)
        Py_VISIT(all[i]);
    return 0;
}

static int let_go(PyObject *self)
{
    PyObject **const all = &((struct hot_queue *)(void *)self)->device;
    for (size_t i = 0; i < REFERENCES; i++)
        Py_CLEAR(all[i]);
    return 0;
}

static void dealloc_queue(PyObject *self)
{
    hot_dealloc(self, let_go);
}

/* QueueBase(device, fence class, handle, pending, keeping). */
static PyObject *make_queue(PyTypeObject *type, PyObject *given, PyObject *named)
{
    struct hot_queue q;
    unsigned long long handle;
    (void)named;
    if (!PyArg_ParseTuple(given, "O!O!K(OOO)(OOO):QueueBase", hot_device_type, &q.device, &PyType_Type, &q.fence, &handle,
                          &q.pending[0], &q.pending[1], &q.pending[2], &q.keeping[0], &q.keeping[1],
                          &q.keeping[2]))
        return NULL;
    if (!PyType_IsSubtype((PyTypeObject *)(void *)q.fence, hot_fence_type))
        return PyErr_Format(PyExc_TypeError, "QueueBase: expected a class of fences, got %R", q.fence), NULL;
    struct hot_queue *const made = (void *)PyType_GenericAlloc(type, 0);
    if (made) {
        made->handle = (struct sp_handle *)(uintptr_t)handle;
        memcpy(&made->device, &q.device, REFERENCES * sizeof(PyObject *));
        for (size_t i = 0; i < REFERENCES; i++)
            Py_INCREF((&made->device)[i]);
    }
    return (PyObject *)made;
}

PyDoc_STRVAR(launch_text,
             "launch($self, kernel, /, *args, groups=None, group_size=None, shared=0)\n--\n\n"
             "Run `kernel` once over `groups` workgroups of `group_size` threads; returns its fence.\n\n"
             "Pointers are Buffers or Arrays of this device (numpy arrays too where memory is unified,\n"
             "arrays of other libraries in its memory on CUDA; None where the argument is optional),\n"
             "scalars are numbers. `groups` and `group_size` are an int or up to three; groups=None is\n"
             "for kernels that know their grid, group_size=None takes the kernel's. `shared` is in bytes\n"
             "per workgroup.\n\n"
             "Raises TypeError or ValueError before anything is submitted.");

static PyMethodDef queue_methods[] = {
    {"launch", (PyCFunction)(void (*)(void))launch, METH_FASTCALL | METH_KEYWORDS, launch_text},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef queue_members[] = {
    {"_device", T_OBJECT, offsetof(struct hot_queue, device), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static const struct hot_frame queue_frame = {
    .name = "sparkle_drv._hot.QueueBase",
    .doc = "What core.Queue begins with.",
    .size = sizeof(struct hot_queue),
    .is_base = 1,
    .make = make_queue,
    .methods = queue_methods,
    .members = queue_members,
    .traverse = traverse_queue,
    .dealloc = dealloc_queue,
};

int hot_launch(PyObject *module)
{
    words[0] = PyUnicode_InternFromString("groups");
    words[1] = PyUnicode_InternFromString("group_size");
    words[2] = PyUnicode_InternFromString("shared");
    nothing = PyLong_FromLong(0);
    python_word = PyUnicode_InternFromString("_launch_by_python");
    slowly_word = PyUnicode_InternFromString("_launch_slowly");
    hot_queue_type = hot_collected(module, &queue_frame);
    return words[0] && words[1] && words[2] && nothing && python_word && slowly_word && hot_queue_type ? 0 : -1;
}
