/* A healthy launch without a line of Python: what core/packing.py's function does, then the backend's C function.
 *
 * Whatever is not as usual (other keywords, numpy scalars, anything wrong) is left to the Python of core/queue.py, which
 * begins again from the arguments: nothing has been submitted by then. */
#include "hot.h"

#include "../include/sp_cmd.h"

#include <math.h>
#include <stddef.h>
#include <string.h>
#include <structmember.h>

typedef int64_t launch_function(void *queue, const void *record, size_t nbytes, uint64_t epoch);
typedef int64_t run_function(void *prepared);

enum { MOST_NBYTES = sizeof(struct sp_cmd_dispatch) + 16 * SP_MAX_ARGS };

struct hot_prepared {
    PyObject_HEAD
    PyObject *kept, *again; /* whose `prepared` is; called with this object and what was no value */
    unsigned long long run, prepared;
};

PyTypeObject *hot_queue_type;
static PyObject *groups_word, *epoch_word, *python_word, *slowly_word;

static int pack_pointer(const struct hot_arg *arg, PyObject *given, PyObject *device, char *at, char *covered)
{
    unsigned long long none[2] = {0, 0};
    if (given == Py_None && arg->flags & HOT_OPTIONAL) {
        memcpy(at, &none[0], 8);
        memcpy(covered, &none[1], 8);
        return 1;
    }
    if (!PyObject_TypeCheck(given, hot_pointer_type))
        return 0;
    const struct hot_pointer *p = (const void *)given;
    if (!p->storage || !PyObject_TypeCheck(p->storage, hot_storage_type) ||
        ((const struct hot_storage *)(const void *)p->storage)->device != device)
        return 0;
    if (!(p->elements & arg->bits) || (arg->flags & HOT_WRITTEN && p->elements & HOT_READONLY_BIT))
        return 0;
    memcpy(at, &p->address, 8);
    memcpy(covered, &p->nbytes, 8);
    return 1;
}

static int pack_float(uint32_t code, PyObject *given, char *at)
{
    double value = PyFloat_AsDouble(given);
    if (value == -1.0 && PyErr_Occurred())
        return 0;
    if (code == 'd') {
        memcpy(at, &value, 8);
        return 1;
    }
    float narrow = (float)value;
    memcpy(at, &narrow, 4);
    return !isinf(narrow) || isinf(value);
}

static int pack_integer(uint32_t code, PyObject *given, char *at)
{
    if (code == 'Q') {
        unsigned long long value = PyLong_AsUnsignedLongLong(given);
        memcpy(at, &value, 8);
        return !(value == (unsigned long long)-1 && PyErr_Occurred());
    }
    long long value = PyLong_AsLongLong(given);
    if (value == -1 && PyErr_Occurred())
        return 0;
    memcpy(at, &value, code == 'q' ? 8 : 4); /* the low half comes first on every machine that there is a wheel for */
    return code == 'q' || (code == 'I' ? value >= 0 && value <= UINT32_MAX : value >= INT32_MIN && value <= INT32_MAX);
}

static int pack_scalar(uint32_t code, PyObject *given, char *at)
{
    int is_float = PyFloat_CheckExact(given), is_int = PyLong_CheckExact(given);
    if (code == 'f' || code == 'd')
        return (is_float || is_int) && pack_float(code, given, at);
    return is_int && pack_integer(code, given, at);
}

/* The record's size; 0: not a usual launch. An exception may be set. */
static size_t pack(const struct hot_queue *q, const struct hot_kernel *k, PyObject *groups, PyObject *const *args,
                   Py_ssize_t nargs, char *record)
{
    Py_ssize_t head_nbytes, plan_nbytes;
    char *head, *plan;
    struct sp_cmd_dispatch d;
    if (k->device != q->device || !k->heads || !k->plan || !PyDict_Check(k->heads))
        return 0;
    PyObject *found = PyDict_GetItemWithError(k->heads, groups);
    if (!found || PyBytes_AsStringAndSize(found, &head, &head_nbytes) ||
        PyBytes_AsStringAndSize(k->plan, &plan, &plan_nbytes))
        return 0;
    if (head_nbytes != sizeof d || plan_nbytes != nargs * (Py_ssize_t)sizeof(struct hot_arg))
        return 0;
    memcpy(&d, head, sizeof d);
    if (d.nbytes > MOST_NBYTES || d.nbytes < sizeof d + d.args_nbytes)
        return 0;
    memcpy(record, head, sizeof d);
    memset(record + sizeof d, 0, d.nbytes - sizeof d);
    char *values = record + sizeof d, *covered = values + d.args_nbytes;
    for (Py_ssize_t i = 0; i < nargs; i++) {
        struct hot_arg arg;
        memcpy(&arg, plan + i * (Py_ssize_t)sizeof arg, sizeof arg);
        if (arg.code != 'P') {
            if (!pack_scalar(arg.code, args[i], values + arg.offset))
                return 0;
            continue;
        }
        if (!pack_pointer(&arg, args[i], q->device, values + arg.offset, covered))
            return 0;
        covered += 8;
    }
    return d.nbytes;
}

/* After a launch, so that who looks at a version and then reads the memory has the later contents at worst. */
static void note_writes(const struct hot_kernel *k, PyObject *const *args, Py_ssize_t nargs)
{
    Py_ssize_t plan_nbytes;
    char *plan;
    if (!k->plan || PyBytes_AsStringAndSize(k->plan, &plan, &plan_nbytes)) {
        PyErr_Clear();
        return;
    }
    nargs = plan_nbytes == nargs * (Py_ssize_t)sizeof(struct hot_arg) ? nargs : 0;
    for (Py_ssize_t i = 0; i < nargs; i++) {
        struct hot_arg arg;
        memcpy(&arg, plan + i * (Py_ssize_t)sizeof arg, sizeof arg);
        if (!(arg.flags & HOT_MAY_WRITE) || !PyObject_TypeCheck(args[i], hot_pointer_type))
            continue;
        PyObject *storage = ((const struct hot_pointer *)(const void *)args[i])->storage;
        if (storage && PyObject_TypeCheck(storage, hot_storage_type))
            ((struct hot_storage *)(void *)storage)->version++;
    }
}

static int makes_fences(PyObject *type)
{
    return type && PyType_Check(type) && PyType_IsSubtype((PyTypeObject *)type, hot_fence_type);
}

PyObject *hot_fence_of(const struct hot_queue *q, int64_t value)
{
    PyObject *made = PyType_GenericAlloc((PyTypeObject *)q->fence, 0);
    if (made) {
        struct hot_fence *f = (void *)made;
        f->queue = (PyObject *)(uintptr_t)q;
        Py_INCREF(f->queue);
        f->value = (unsigned long long)value;
    }
    return made;
}

/* All of it again, by the Python method. */
static PyObject *by_python(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *names)
{
    PyObject *method = PyObject_GetAttr(self, python_word), *given = PyTuple_New(nargs), *named = PyDict_New(), *made = NULL;
    Py_ssize_t nnames = names ? PyTuple_Size(names) : 0;
    int well = method && given && named;
    for (Py_ssize_t i = 0; well && i < nargs; i++) {
        Py_INCREF(args[i]);
        well = PyTuple_SetItem(given, i, args[i]) == 0;
    }
    for (Py_ssize_t i = 0; well && i < nnames; i++)
        well = PyDict_SetItem(named, PyTuple_GetItem(names, i), args[nargs + i]) == 0;
    if (well)
        made = PyObject_Call(method, given, named);
    Py_XDECREF(method);
    Py_XDECREF(given);
    Py_XDECREF(named);
    return made;
}

static PyObject *launch(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *names)
{
    struct hot_queue *q = (void *)self;
    _Alignas(16) char record[MOST_NBYTES];
    Py_ssize_t nnames = names ? PyTuple_Size(names) : 0;
    if (!q->launch || !q->device || !makes_fences(q->fence) || nargs < 1 || nnames > 1 || !PyObject_TypeCheck(args[0], hot_kernel_type) ||
        (nnames == 1 && PyTuple_GetItem(names, 0) != groups_word))
        return by_python(self, args, nargs, names);
    PyObject *groups = nnames ? args[nargs] : Py_None;
    PyObject *epoch_object = PyObject_GetAttr(q->device, epoch_word); /* before anything is looked at */
    uint64_t epoch = epoch_object ? PyLong_AsUnsignedLongLong(epoch_object) : 0;
    Py_XDECREF(epoch_object);
    size_t nbytes = PyErr_Occurred() ? 0 : pack(q, (void *)args[0], groups, args + 1, nargs - 1, record);
    if (!nbytes) {
        PyErr_Clear(); /* Python comes upon it again, and says it better */
        return by_python(self, args, nargs, names);
    }
    launch_function *call = (launch_function *)(uintptr_t)q->launch;
    void *handle = (void *)(uintptr_t)q->handle;
    int64_t value;
    Py_BEGIN_ALLOW_THREADS
    value = call(handle, record, nbytes, epoch);
    Py_END_ALLOW_THREADS
    note_writes((void *)args[0], args + 1, nargs - 1);
    if (value > 0)
        return hot_fence_of(q, value);
    PyObject *rest = PyTuple_New(nargs - 1), *made = NULL;
    for (Py_ssize_t i = 1; rest && i < nargs; i++) {
        Py_INCREF(args[i]);
        PyTuple_SetItem(rest, i - 1, args[i]);
    }
    PyObject *method = PyObject_GetAttr(self, slowly_word);
    if (rest && method)
        made = PyObject_CallFunction(method, "OOOOiL", args[0], rest, groups, Py_None, 0, (long long)value);
    Py_XDECREF(method);
    Py_XDECREF(rest);
    return made;
}

static PyObject *go(PyObject *self, PyObject *unused)
{
    struct hot_prepared *p = (void *)self;
    (void)unused;
    run_function *call = (run_function *)(uintptr_t)p->run;
    void *prepared = (void *)(uintptr_t)p->prepared;
    PyObject *kept = p->kept; /* another thread may prepare anew meanwhile */
    int64_t value;
    if (!call || !prepared || !p->again)
        return PyErr_Format(PyExc_RuntimeError, "go: nothing is prepared"), NULL;
    Py_XINCREF(kept);
    Py_BEGIN_ALLOW_THREADS
    value = call(prepared);
    Py_END_ALLOW_THREADS
    Py_XDECREF(kept);
    return value > 0 ? PyLong_FromLongLong(value) : PyObject_CallFunction(p->again, "OL", self, (long long)value);
}

static int traverse_prepared(PyObject *self, visitproc visit, void *arg)
{
    struct hot_queue *q = (void *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(q->device);
    Py_VISIT(q->fence);
    return 0;
}

static int clear_prepared(PyObject *self)
{
    struct hot_queue *q = (void *)self;
    Py_CLEAR(q->device);
    Py_CLEAR(q->fence);
    return 0;
}

static int traverse_queue(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(((struct hot_queue *)(void *)self)->pending);
    return traverse_prepared(self, visit, arg);
}

static int clear_queue(PyObject *self)
{
    Py_CLEAR(((struct hot_queue *)(void *)self)->pending);
    return clear_prepared(self);
}

static void dealloc_queue(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    clear_queue(self);
    hot_free(self);
}

static void dealloc_prepared(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    clear_prepared(self);
    hot_free(self);
}

_Static_assert(offsetof(struct hot_prepared, kept) == offsetof(struct hot_queue, device) &&
                   offsetof(struct hot_prepared, again) == offsetof(struct hot_queue, fence),
               "two references at the same places");

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
    {"_device", T_OBJECT, offsetof(struct hot_queue, device), 0, NULL},
    {"_fence_type", T_OBJECT, offsetof(struct hot_queue, fence), 0, NULL},
    {"_launch_at", T_ULONGLONG, offsetof(struct hot_queue, launch), 0, NULL},
    {"_handle_at", T_ULONGLONG, offsetof(struct hot_queue, handle), 0, NULL},
    {"_pending", T_OBJECT, offsetof(struct hot_queue, pending), 0, NULL},
    {"_reached_at", T_ULONGLONG, offsetof(struct hot_queue, reached), 0, NULL},
    {"_submitted_at", T_ULONGLONG, offsetof(struct hot_queue, submitted), 0, NULL},
    {"_wait_at", T_ULONGLONG, offsetof(struct hot_queue, wait), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyMethodDef prepared_methods[] = {
    {"go", go, METH_NOARGS, "Launches; returns the timeline value."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef prepared_members[] = {
    {"kept", T_OBJECT, offsetof(struct hot_prepared, kept), 0, NULL},
    {"again", T_OBJECT, offsetof(struct hot_prepared, again), 0, NULL},
    {"run", T_ULONGLONG, offsetof(struct hot_prepared, run), 0, NULL},
    {"prepared", T_ULONGLONG, offsetof(struct hot_prepared, prepared), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

#define SLOTS(which, text)                                                                                             \
    static PyType_Slot which##_slots[] = {                                                                             \
        {Py_tp_doc, text},                                                                                             \
        {Py_tp_members, which##_members},                                                                              \
        {Py_tp_methods, which##_methods},                                                                              \
        {Py_tp_traverse, traverse_##which},                                                                                \
        {Py_tp_clear, clear_##which},                                                                                      \
        {Py_tp_dealloc, dealloc_##which},                                                                                  \
        {0, NULL},                                                                                                     \
    };                                                                                                                 \
    static PyType_Spec which##_spec = {                                                                                \
        .name = "sparkle_drv._hot." #which,                                                                            \
        .basicsize = sizeof(struct hot_##which),                                                                       \
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,                                        \
        .slots = which##_slots,                                                                                        \
    }
SLOTS(queue, "What core.Queue begins with.");
SLOTS(prepared, "A prepared launch; its bound method `go` is what Queue.prepare returns.");

int hot_launch(PyObject *module)
{
    groups_word = PyUnicode_InternFromString("groups");
    epoch_word = PyUnicode_InternFromString("_epoch");
    python_word = PyUnicode_InternFromString("_launch_by_python");
    slowly_word = PyUnicode_InternFromString("_launch_slowly");
    hot_queue_type = hot_type(module, &queue_spec, "QueueBase");
    return groups_word && epoch_word && python_word && slowly_word && hot_queue_type &&
                   hot_type(module, &prepared_spec, "Prepared")
               ? 0
               : -1;
}
