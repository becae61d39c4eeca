/* Base classes: fields at fixed places; fence.c has what one of them does. */
#include "hot.h"

#include <stddef.h>
#include <string.h>
#include <structmember.h>

PyTypeObject *hot_storage_type, *hot_pointer_type, *hot_kernel_type, *hot_fence_type, *hot_device_type;
struct hot_seen hot_storages, hot_pointers, hot_kernels, hot_devices;

PyTypeObject *hot_type(PyObject *module, PyType_Spec *spec, const char *name)
{
    PyObject *type = PyType_FromSpec(spec);
    if (type && PyModule_AddObjectRef(module, name, type) == 0) {
        Py_DECREF(type); /* the module keeps it */
        return (PyTypeObject *)type;
    }
    Py_XDECREF(type);
    return NULL;
}

PyTypeObject *hot_collected(PyObject *module, const struct hot_frame *frame)
{
    PyType_Slot slots[8] = {
        {Py_tp_doc, (void *)(uintptr_t)frame->doc},
        {Py_tp_methods, frame->methods},
        {Py_tp_traverse, frame->traverse},
        {Py_tp_clear, frame->clear},
        {Py_tp_dealloc, frame->dealloc},
    };
    size_t used = 5;
    if (frame->make)
        slots[used++] = (PyType_Slot){Py_tp_new, frame->make};
    if (frame->members)
        slots[used++] = (PyType_Slot){Py_tp_members, frame->members};
    slots[used] = (PyType_Slot){0, NULL};
    PyType_Spec spec = {
        .name = frame->name,
        .basicsize = (int)frame->size,
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
        .slots = slots,
    };
    return hot_type(module, &spec, strrchr(frame->name, '.') + 1);
}

/* The rest of a dealloc, when the fields have been cleared. */
void hot_free(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

int hot_in_dict(PyObject *dict, PyObject *object)
{
    PyObject *id = PyLong_FromVoidPtr(object);
    int found = id ? PyDict_Contains(dict, id) : -1;
    Py_XDECREF(id);
    return found;
}

/* Objects with one reference in the first field. */
static int traverse_one(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((struct hot_storage *)(void *)self)->device);
    return 0;
}

static int clear_one(PyObject *self)
{
    Py_CLEAR(((struct hot_storage *)(void *)self)->device);
    return 0;
}

static void dealloc_one(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    clear_one(self);
    hot_free(self);
}

_Static_assert(offsetof(struct hot_pointer, storage) == offsetof(struct hot_storage, device) &&
                   offsetof(struct hot_fence, queue) == offsetof(struct hot_storage, device),
               "the first field is the reference");

static PyMemberDef storage_members[] = {
    {"device", T_OBJECT, offsetof(struct hot_storage, device), 0, NULL},
    {"version", T_ULONGLONG, offsetof(struct hot_storage, version), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyMemberDef pointer_members[] = {
    {"_storage", T_OBJECT, offsetof(struct hot_pointer, storage), 0, NULL},
    {"_elements", T_ULONGLONG, offsetof(struct hot_pointer, elements), 0, NULL},
    {"_address", T_ULONGLONG, offsetof(struct hot_pointer, address), 0, NULL},
    {"nbytes", T_ULONGLONG, offsetof(struct hot_pointer, nbytes), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyMemberDef fence_members[] = {
    {"queue", T_OBJECT, offsetof(struct hot_fence, queue), 0, NULL},
    {"value", T_ULONGLONG, offsetof(struct hot_fence, value), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static int traverse_kernel(PyObject *self, visitproc visit, void *arg)
{
    struct hot_kernel *k = (void *)self;
    Py_VISIT(k->heads);
    Py_VISIT(k->shapes);
    Py_VISIT(k->grids);
    return traverse_one(self, visit, arg);
}

static int clear_kernel(PyObject *self)
{
    struct hot_kernel *k = (void *)self;
    Py_CLEAR(k->heads);
    Py_CLEAR(k->shapes);
    Py_CLEAR(k->grids);
    Py_CLEAR(k->sizes);
    Py_CLEAR(k->plan);
    return clear_one(self);
}

static void dealloc_kernel(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    clear_kernel(self);
    hot_free(self);
}

static PyMemberDef kernel_members[] = {
    {"_device", T_OBJECT, offsetof(struct hot_kernel, device), 0, NULL},
    {"_heads", T_OBJECT, offsetof(struct hot_kernel, heads), 0, NULL},
    {"_shapes", T_OBJECT, offsetof(struct hot_kernel, shapes), 0, NULL},
    {"_grids", T_OBJECT, offsetof(struct hot_kernel, grids), 0, NULL},
    {"_sizes", T_OBJECT, offsetof(struct hot_kernel, sizes), 0, NULL},
    {"_plan", T_OBJECT, offsetof(struct hot_kernel, plan), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

/* A device refers to nothing of Python's by its field; what its subclass holds is the subclass's to visit. */
static int traverse_device(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    return 0;
}

static int clear_device(PyObject *self)
{
    (void)self;
    return 0;
}

static void dealloc_device(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    hot_free(self);
}

static PyMemberDef device_members[] = {
    {"_epoch", T_ULONGLONG, offsetof(struct hot_device, epoch), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyMethodDef no_methods[] = {{NULL, NULL, 0, NULL}};

#define SLOTS(which, how, text, methods)                                                                               \
    static PyType_Slot which##_slots[] = {                                                                             \
        {Py_tp_doc, text},                                                                                             \
        {Py_tp_members, which##_members},                                                                              \
        {Py_tp_methods, methods},                                                                                      \
        {Py_tp_traverse, traverse_##how},                                                                              \
        {Py_tp_clear, clear_##how},                                                                                    \
        {Py_tp_dealloc, dealloc_##how},                                                                                \
        {0, NULL},                                                                                                     \
    };                                                                                                                 \
    static PyType_Spec which##_spec = {                                                                                \
        .name = "sparkle_drv._hot." #which,                                                                            \
        .basicsize = sizeof(struct hot_##which),                                                                       \
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,                                        \
        .slots = which##_slots,                                                                                        \
    }
SLOTS(storage, one, "What core.Storage begins with.", no_methods);
SLOTS(pointer, one, "What core.Buffer and core.Array begin with.", no_methods);
SLOTS(fence, one, "What core.Fence begins with.", hot_fence_methods);
SLOTS(kernel, kernel, "What core.Kernel begins with.", no_methods);
SLOTS(device, device, "What core.Device begins with.", no_methods);

int hot_objects(PyObject *module)
{
    hot_storage_type = hot_type(module, &storage_spec, "StorageBase");
    hot_pointer_type = hot_type(module, &pointer_spec, "PointerBase");
    hot_fence_type = hot_type(module, &fence_spec, "FenceBase");
    hot_kernel_type = hot_type(module, &kernel_spec, "KernelBase");
    hot_device_type = hot_type(module, &device_spec, "DeviceBase");
    return hot_storage_type && hot_pointer_type && hot_fence_type && hot_kernel_type && hot_device_type ? 0 : -1;
}
