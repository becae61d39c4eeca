/* Base classes: fields at fixed places. */
#include "objects.h"

#include <stddef.h>
#include <string.h>

PyTypeObject *hot_storage_type, *hot_pointer_type, *hot_kernel_type, *hot_queue_type, *hot_device_type, *hot_commands_type;
struct hot_seen hot_pointers, hot_kernels, hot_queues, hot_devices, hot_lists;

PyTypeObject *hot_collected(PyObject *module, const struct hot_frame *frame)
{
    const PyType_Slot all[] = {
        {Py_tp_doc, (void *)(uintptr_t)frame->doc},
        {Py_tp_new, frame->make},
        {Py_tp_call, frame->call},
        {Py_tp_methods, frame->methods},
        {Py_tp_members, frame->members},
        {Py_tp_traverse, frame->traverse},
        {Py_tp_clear, frame->clear},
        {Py_tp_dealloc, frame->dealloc},
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
    Py_XDECREF(type); /* the module keeps it */
    return kept ? (PyTypeObject *)type : NULL;
}

/* Objects with one reference in the first field. */
int hot_traverse_one(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((struct hot_storage *)(void *)self)->device);
    return 0;
}

int hot_clear_one(PyObject *self)
{
    Py_CLEAR(((struct hot_storage *)(void *)self)->device);
    return 0;
}

void hot_dealloc_one(PyObject *self)
{
    hot_dealloc(self, hot_clear_one);
}

_Static_assert(offsetof(struct hot_pointer, storage) == offsetof(struct hot_storage, device),
               "the first field is the reference");

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

/* What closed pointers are of: their own storage may have gone. */
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

/* _begin(storage, address, nbytes, elements): once. */
static PyObject *begin_pointer(PyObject *self, PyObject *given)
{
    struct hot_pointer *const p = (void *)self;
    struct hot_pointer read;
    if (!PyArg_ParseTuple(given, "O!KKK:_begin", hot_storage_type, &read.storage, &read.address, &read.nbytes, &read.elements))
        return NULL;
    if (p->storage != closed_storage)
        return PyErr_Format(PyExc_TypeError, "_begin: expected a pointer that has not begun, got %R", self), NULL;
    p->address = read.address;
    p->nbytes = read.nbytes;
    p->elements = read.elements;
    Py_INCREF(read.storage);
    p->storage = read.storage; /* last: from now on a launch may take it */
    Py_DECREF(closed_storage);
    Py_RETURN_NONE;
}

/* _end(): the storage until now. No launch takes the pointer any more. */
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

static int hot_traverse_kernel(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(((struct hot_kernel *)(void *)self)->packing);
    return hot_traverse_one(self, visit, arg);
}

static int hot_clear_kernel(PyObject *self)
{
    Py_CLEAR(((struct hot_kernel *)(void *)self)->packing);
    return hot_clear_one(self);
}

static void hot_dealloc_kernel(PyObject *self)
{
    hot_dealloc(self, hot_clear_kernel);
}

static PyMemberDef kernel_members[] = {
    {"_device", T_OBJECT, offsetof(struct hot_kernel, device), 0, NULL},
    {"_packing", T_OBJECT, offsetof(struct hot_kernel, packing), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

/* What else its subclass holds is the subclass's to visit. */
static int hot_traverse_device(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((struct hot_device *)(void *)self)->kept);
    Py_VISIT(((struct hot_device *)(void *)self)->calls);
    return 0;
}

static int hot_clear_device(PyObject *self)
{
    Py_CLEAR(((struct hot_device *)(void *)self)->kept);
    Py_CLEAR(((struct hot_device *)(void *)self)->calls);
    return 0;
}

static void hot_dealloc_device(PyObject *self)
{
    hot_dealloc(self, hot_clear_device);
}

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

/* `how`: which of the functions above. */
#define BASE(which, type_name, how, its_make, its_methods, text)                                                           \
    static const struct hot_frame which##_frame = {                                                                    \
        .name = "sparkle_drv._hot." type_name,                                                                         \
        .doc = text,                                                                                                   \
        .size = sizeof(struct hot_##which),                                                                            \
        .is_base = 1,                                                                                                  \
        .make = its_make,                                                                                              \
        .methods = its_methods,                                                                                        \
        .members = which##_members,                                                                                    \
        .traverse = hot_traverse_##how,                                                                                \
        .clear = hot_clear_##how,                                                                                      \
        .dealloc = hot_dealloc_##how,                                                                                  \
    }
BASE(storage, "StorageBase", one, NULL, NULL, "What core.Storage begins with.");
BASE(pointer, "PointerBase", one, make_pointer, pointer_methods, "What core.Buffer and core.Array begin with.");
BASE(kernel, "KernelBase", kernel, NULL, NULL, "What core.Kernel begins with.");
BASE(device, "DeviceBase", device, NULL, NULL, "What core.Device begins with.");
BASE(commands, "CommandsBase", one, NULL, NULL, "What core.Commands begins with.");

int hot_objects(PyObject *module)
{
    hot_storage_type = hot_collected(module, &storage_frame);
    hot_pointer_type = hot_collected(module, &pointer_frame);
    hot_kernel_type = hot_collected(module, &kernel_frame);
    hot_device_type = hot_collected(module, &device_frame);
    hot_commands_type = hot_collected(module, &commands_frame);
    closed_storage = hot_storage_type ? PyType_GenericAlloc(hot_storage_type, 0) : NULL;
    if (closed_storage) {
        Py_INCREF(Py_None);
        ((struct hot_storage *)(void *)closed_storage)->device = Py_None;
    }
    return closed_storage && hot_pointer_type && hot_kernel_type && hot_device_type && hot_commands_type ? 0 : -1;
}
