/* The base classes of the objects of sparkle_drv/core, with C fields at fixed offsets. */
#include "objects.h"

#include <stddef.h>
#include <string.h>

struct hot_class hot_storages, hot_pointers, hot_kernels, hot_queues, hot_devices, hot_lists;

PyObject *hot_tuple_of(PyObject *const *items, Py_ssize_t n)
{
    PyObject *const made = PyTuple_New(n);
    for (Py_ssize_t i = 0; made && i < n; i++) {
        PyObject *const item = items[i] ? items[i] : Py_None;
        Py_INCREF(item);
        PyTuple_SetItem(made, i, item); /* cannot fail: a new tuple, an index in bounds */
    }
    return made;
}

static PyObject **references_of(PyObject *self)
{
    return (void *)(self + 1);
}

/* Defines the functions for the garbage collector, for objects with `n` references. */
#define COLLECTED(n)                                                                                                   \
    static int traverse_##n(PyObject *self, visitproc visit, void *arg)                                                \
    {                                                                                                                  \
        Py_VISIT(Py_TYPE(self));                                                                                       \
        for (int i = 0; i < n; i++)                                                                                    \
            Py_VISIT(references_of(self)[i]);                                                                          \
        return 0;                                                                                                      \
    }                                                                                                                  \
    static int clear_##n(PyObject *self)                                                                               \
    {                                                                                                                  \
        for (int i = 0; i < n; i++)                                                                                    \
            Py_CLEAR(references_of(self)[i]);                                                                          \
        return 0;                                                                                                      \
    }                                                                                                                  \
    static void dealloc_##n(PyObject *self)                                                                            \
    {                                                                                                                  \
        PyTypeObject *const type = Py_TYPE(self);                                                                      \
        PyObject_GC_UnTrack(self);                                                                                     \
        clear_##n(self);                                                                                               \
        ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);                                                            \
        Py_DECREF(type);                                                                                               \
    }
COLLECTED(1)
COLLECTED(2)
COLLECTED(3)
COLLECTED(7)

#define OF(n) [n] = {traverse_##n, clear_##n, dealloc_##n}
static const struct {
    traverseproc traverse;
    inquiry clear;
    destructor dealloc;
} collected[] = {OF(1), OF(2), OF(3), OF(7)};

PyTypeObject *hot_collected(PyObject *module, const struct hot_frame *frame)
{
    const PyType_Slot all[] = {
        {Py_tp_doc, (void *)(uintptr_t)frame->doc},
        {Py_tp_new, frame->make},
        {Py_tp_call, frame->call},
        {Py_tp_methods, frame->methods},
        {Py_tp_members, frame->members},
        {Py_tp_traverse, collected[frame->references].traverse},
        {Py_tp_clear, frame->is_fixed ? NULL : collected[frame->references].clear},
        {Py_tp_dealloc, frame->dealloc ? frame->dealloc : collected[frame->references].dealloc},
    };
    PyType_Slot slots[sizeof all / sizeof *all + 1];
    size_t used = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].pfunc)
            slots[used++] = all[i];
    slots[used] = (PyType_Slot){0, NULL};
    PyType_Spec spec = {
        .name = frame->name,
        .basicsize = (int)frame->size,
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | (frame->is_base ? Py_TPFLAGS_BASETYPE : 0),
        .slots = slots,
    };
    PyObject *const type = PyType_FromSpec(&spec);
    const int kept = type && PyModule_AddObjectRef(module, strrchr(frame->name, '.') + 1, type) == 0;
    Py_XDECREF(type); /* the module holds a reference */
    return kept ? (PyTypeObject *)type : NULL;
}

static PyMemberDef storage_members[] = {
    {"device", T_OBJECT, offsetof(struct hot_storage, device), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyMemberDef pointer_members[] = {
    {"_storage", T_OBJECT_EX, offsetof(struct hot_pointer, storage), READONLY, NULL},
    {"_elements", T_ULONGLONG, offsetof(struct hot_pointer, elements), READONLY, NULL},
    {"_address", T_ULONGLONG, offsetof(struct hot_pointer, address), READONLY, NULL},
    {"nbytes", T_ULONGLONG, offsetof(struct hot_pointer, nbytes), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

/* The storage object that every closed pointer refers to instead of its own storage, which may be
 * freed. */
static PyObject *closed_storage;

static PyObject *make_pointer(PyTypeObject *type, PyObject *given, PyObject *named)
{
    (void)given;
    (void)named;
    struct hot_pointer *const p = (void *)PyType_GenericAlloc(type, 0);
    if (p) {
        Py_INCREF(closed_storage);
        p->storage = closed_storage;
    }
    return (PyObject *)p;
}

/* _begin(storage, address, nbytes, elements): sets up a pointer, once. */
static PyObject *begin_pointer(PyObject *self, PyObject *given)
{
    struct hot_pointer *const p = (void *)self;
    struct hot_pointer read;
    if (!PyArg_ParseTuple(given, "O!KKK:_begin", hot_storages.type, &read.storage, &read.address, &read.nbytes, &read.elements))
        return NULL;
    if (p->storage != closed_storage)
        return PyErr_Format(PyExc_TypeError, "_begin: expected a pointer that has not begun, got %R", self), NULL;
    p->address = read.address;
    p->nbytes = read.nbytes;
    p->elements = read.elements;
    Py_INCREF(read.storage);
    p->storage = read.storage; /* last, because a launch may use the pointer from now on */
    Py_DECREF(closed_storage);
    Py_RETURN_NONE;
}

/* _end(): closes a pointer and returns its storage. No launch accepts the pointer from then on. */
static PyObject *end_pointer(PyObject *self, PyObject *none)
{
    struct hot_pointer *const p = (void *)self;
    (void)none;
    PyObject *before;
    Py_INCREF(closed_storage);
    Py_BEGIN_CRITICAL_SECTION(self);
    before = p->storage;
    p->storage = closed_storage;
    Py_END_CRITICAL_SECTION();
    return before;
}

static PyMethodDef pointer_methods[] = {
    {"_begin", begin_pointer, METH_VARARGS, "_begin(storage, address, nbytes, elements): once."},
    {"_end", end_pointer, METH_NOARGS, "_end(): the storage until now. No launch takes the pointer any more."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef kernel_members[] = {
    {"_device", T_OBJECT, offsetof(struct hot_kernel, device), 0, NULL},
    {"_packing", T_OBJECT, offsetof(struct hot_kernel, packing), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyMemberDef device_members[] = {
    {"_epoch", T_ULONGLONG, offsetof(struct hot_device, epoch), 0, NULL},
    {"kept", T_OBJECT, offsetof(struct hot_device, kept), 0, NULL},
    {"_calls", T_OBJECT, offsetof(struct hot_device, calls), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyMemberDef commands_members[] = {
    {"_bound", T_OBJECT, offsetof(struct hot_commands, bound), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

#define BASE(which, type_name, its_references, its_make, its_methods, text)                                             \
    static const struct hot_frame which##_frame = {                                                                    \
        .name = "sparkle_drv._hot." type_name,                                                                         \
        .doc = text,                                                                                                   \
        .size = sizeof(struct hot_##which),                                                                            \
        .references = its_references,                                                                                  \
        .is_base = 1,                                                                                                  \
        .make = its_make,                                                                                              \
        .methods = its_methods,                                                                                        \
        .members = which##_members,                                                                                    \
    }
BASE(storage, "StorageBase", 1, NULL, NULL, "What core.Storage begins with.");
BASE(pointer, "PointerBase", 1, make_pointer, pointer_methods, "What core.Buffer and core.Array begin with.");
BASE(kernel, "KernelBase", 2, NULL, NULL, "What core.Kernel begins with.");
BASE(device, "DeviceBase", 2, NULL, NULL, "What core.Device begins with.");
BASE(commands, "CommandsBase", 1, NULL, NULL, "What core.Commands begins with.");

int hot_objects(PyObject *module)
{
    hot_storages.type = hot_collected(module, &storage_frame);
    hot_pointers.type = hot_collected(module, &pointer_frame);
    hot_kernels.type = hot_collected(module, &kernel_frame);
    hot_devices.type = hot_collected(module, &device_frame);
    hot_lists.type = hot_collected(module, &commands_frame);
    closed_storage = hot_storages.type ? PyType_GenericAlloc(hot_storages.type, 0) : NULL;
    if (closed_storage) {
        Py_INCREF(Py_None);
        ((struct hot_storage *)(void *)closed_storage)->device = Py_None;
    }
    return closed_storage && hot_pointers.type && hot_kernels.type && hot_devices.type && hot_lists.type ? 0 : -1;
}
