/* The launch of a healthy queue without a line of Python: packs a record and calls the backend's C
 * function.
 *
 * Anything else (host arrays, a backend in Python, a refused argument) is left to core/queue.py,
 * which repeats the whole launch in Python. Nothing has been submitted by then. */
#include "launch.h"
#include "fence.h"
#include "keep_alive.h"
#include "pack.h"

#include <errno.h>
#include <stddef.h>

/* names of launch's keyword arguments: "groups", "group_size", "shared" */
static PyObject *names_of_words[HOT_WORDS];
static PyObject *nothing;

/* Writes the values of launch's keyword arguments to `words`, in the order groups, group_size,
 * shared. Returns 0 with an exception for an unknown keyword. */
static int read_keywords(PyObject *const *values, PyObject *names, PyObject **words)
{
    const Py_ssize_t count = names ? PyTuple_Size(names) : 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *const name = PyTuple_GetItem(names, i);
        int w = 0;
        while (w < HOT_WORDS && name != names_of_words[w] && PyUnicode_Compare(name, names_of_words[w]))
            w++;
        if (w == HOT_WORDS)
            return PyErr_Format(PyExc_TypeError, "Queue.launch() got an unexpected keyword argument '%U'", name), 0;
        words[w] = values[i];
    }
    return 1;
}

/* Keeps the arguments of a launch alive until the launch has ended, because they may own memory
 * that the kernel uses. `launch` calls this before any Python code can run: Ctrl-C in that code
 * could drop the last reference to an argument. */
__attribute__((noinline)) static void keep(const struct hot_queue *q, int64_t value, PyObject *const *args, Py_ssize_t nargs)
{
    int ended = value <= 0;
    if (!ended) {
        Py_BEGIN_ALLOW_THREADS
        ended = q->handle->functions->reached(q->handle) >= (uint64_t)value;
        Py_END_ALLOW_THREADS
    }
    if (!ended)
        hot_keep_alive(q, value, args, nargs);
}

/* Calls hot_plain_launch with args[0] as the kernel and the other items of `args` as its
 * arguments. */
__attribute__((noinline, cold)) static PyObject *plain_of(PyObject *const *args, Py_ssize_t nargs, PyObject *const *words)
{
    PyObject *const rest = hot_tuple_of(args + 1, nargs - 1);
    PyObject *const plain = rest ? hot_plain_launch(args[0], rest, words) : NULL;
    Py_XDECREF(rest);
    return plain;
}

static int pack_plain(const PyObject *device, PyObject *kernel, PyObject *plain, struct hot_record *r)
{
    PyObject *const shape = PyTuple_GetItem(plain, 1), *words[HOT_WORDS];
    for (int w = 0; w < HOT_WORDS; w++)
        words[w] = PyTuple_GetItem(shape, w);
    return hot_pack_tuple(device, kernel, PyTuple_GetItem(plain, 0), words, r);
}

/* Without the attribute `hot`, gcc assumes that the code after the early returns rarely runs. It
 * then copies memory there by slow, short instructions. */
__attribute__((hot)) static PyObject *launch(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *names)
{
    struct hot_queue *const q = (void *)self;
    struct hot_record r;
    PyObject *words[HOT_WORDS] = {Py_None, Py_None, nothing}, *plain = NULL, *made;
    /* read before any object is checked: if an object is closed after its check, the device's epoch
     * has changed, and the queue refuses the launch */
    uint64_t epoch = 0;
    int64_t value = 0;
    if (nargs < 1)
        return PyErr_Format(PyExc_TypeError, "Queue.launch() missing 1 required positional argument: 'kernel'"), NULL;
    if (!read_keywords(args + nargs, names, words))
        return NULL;
    const int able = q->handle && hot_epoch(q->device, &epoch);
    int packed = able && hot_pack(q->device, args[0], args + 1, nargs - 1, words, &r) == 0;
    if (!packed) {
        plain = plain_of(args, nargs, words);
        if (!plain)
            return NULL;
        packed = able && pack_plain(q->device, args[0], plain, &r) == 0;
    }
    if (packed) {
        /* tests `resend` here too, because making a struct sp_submission in vain would cost 10 ns
         * (measured by benchmarks/against.py) */
        if (q->handle->functions->resend)
            value = hot_resend(&(struct sp_submission){q->handle, r.bytes, r.nbytes, epoch});
        if (value == 0) {
            Py_BEGIN_ALLOW_THREADS
            value = q->handle->functions->launch(q->handle, r.bytes, r.nbytes, epoch);
            Py_END_ALLOW_THREADS
        }
        if (r.seen & HOT_BORROWED_BIT)
            keep(q, value, args + 1, nargs - 1);
    }
    if (value > 0) {
        made = hot_fence_of(q, value);
    } else {
        plain = plain ? plain : plain_of(args, nargs, words);
        made = NULL;
        if (plain)
            made = PyObject_CallMethod(self, "_launch_slowly", "OLOO", args[0], (long long)value,
                                       PyTuple_GetItem(plain, 0), PyTuple_GetItem(plain, 1));
    }
    Py_XDECREF(plain);
    return made;
}

/* Submits a list of commands that was submitted to this queue before, without running Python code.
 * core/queue.py submits all other lists. The fence is made before the driver runs, because the
 * driver's code evicts Python's data from the CPU's caches. This order saves 35 ns (measured by
 * benchmarks/amdgpu_submit.py). */
static PyObject *submit(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *names)
{
    struct hot_queue *const q = (void *)self;
    const Py_ssize_t nnames = names ? PyTuple_Size(names) : 0;
    PyObject *fence = NULL;
    for (Py_ssize_t i = 0; i < nnames; i++)
        if (PyUnicode_CompareWithASCIIString(PyTuple_GetItem(names, i), "commands"))
            return PyErr_Format(PyExc_TypeError, "Queue.submit() got an unexpected keyword argument '%U'", PyTuple_GetItem(names, i)), NULL;
    if (nargs + nnames != 1)
        return PyErr_Format(PyExc_TypeError, "Queue.submit() takes one argument, commands, got %zd", nargs + nnames), NULL;
    PyObject *const commands = args[0];
    struct hot_commands *const list = (void *)commands;
    PyObject *const bound = hot_is(commands, &hot_lists) ? hot_taken(commands, &list->bound) : NULL;
    int64_t value = -ESTALE;
    if (bound && Py_TYPE(bound) == hot_prepared_type) {
        const struct sp_submission *const s = ((struct hot_prepared *)(void *)bound)->prepared;
        if (!(fence = hot_fence_of(q, 0))) {
            Py_DECREF(bound);
            return NULL;
        }
        if (s && s->queue == q->handle && (value = hot_resend(s)) == 0) {
            Py_BEGIN_ALLOW_THREADS
            value = q->handle->functions->submit(s->queue, s->records, s->nbytes, s->epoch);
            Py_END_ALLOW_THREADS
        }
    }
    Py_XDECREF(bound);
    if (value > 0) {
        ((struct hot_fence *)(void *)fence)->value = (unsigned long long)value;
        return fence;
    }
    Py_XDECREF(fence);
    return PyObject_CallMethod(self, "_submit_slowly", "OL", commands, (long long)value);
}

/* QueueBase(device, handle, pending, keeping): makes a struct hot_queue, the C part of a queue. */
static PyObject *make_queue(PyTypeObject *type, PyObject *given, PyObject *named)
{
    PyObject *of[HOT_QUEUE_REFERENCES];
    unsigned long long handle;
    (void)named;
    if (!PyArg_ParseTuple(given, "O!K(OOO)(OOO):QueueBase", hot_devices.type, &of[0], &handle,
                          &of[4], &of[5], &of[6], &of[1], &of[2], &of[3]))
        return NULL;
    struct hot_queue *const made = (void *)PyType_GenericAlloc(type, 0);
    if (made) {
        made->handle = (struct sp_handle *)(uintptr_t)handle;
        memcpy(&made->device, of, sizeof of);
        for (size_t i = 0; i < HOT_QUEUE_REFERENCES; i++)
            Py_INCREF(of[i]);
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

PyDoc_STRVAR(submit_text, "submit($self, /, commands)\n--\n\n"
                          "Replay a command list in order; one native call once it is encoded.\n\n"
                          "Raises TypeError, and ValueError when something in the list is closed or of another device.");

static PyMethodDef queue_methods[] = {
    {"launch", (PyCFunction)(void (*)(void))launch, METH_FASTCALL | METH_KEYWORDS, launch_text},
    {"submit", (PyCFunction)(void (*)(void))submit, METH_FASTCALL | METH_KEYWORDS, submit_text},
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
    .references = HOT_QUEUE_REFERENCES,
    .is_base = 1,
    .is_fixed = 1,
    .make = make_queue,
    .methods = queue_methods,
    .members = queue_members,
};

int hot_launch(PyObject *module)
{
    static const char *const names[HOT_WORDS] = {"groups", "group_size", "shared"};
    for (int w = 0; w < HOT_WORDS; w++)
        if (!(names_of_words[w] = PyUnicode_InternFromString(names[w])))
            return -1;
    nothing = PyLong_FromLong(0);
    hot_queues.type = hot_collected(module, &queue_frame);
    return nothing && hot_queues.type ? 0 : -1;
}
