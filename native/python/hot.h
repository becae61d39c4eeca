/* The objects that a launch looks at, as C structs: Python's classes of core/ derive from them. */
#ifndef SP_PYTHON_HOT_H
#define SP_PYTHON_HOT_H
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030a0000
#include <Python.h>
#include <structmember.h>
#include <stdint.h>

/* Of one allocation: `device` is None once it is closed; `version` counts the writes that were submitted. */
struct hot_storage {
    PyObject_HEAD
    PyObject *device;
    unsigned long long version;
};

/* What stands in a pointer's place; core/elements.py says what the bits are. */
struct hot_pointer {
    PyObject_HEAD
    PyObject *storage;
    unsigned long long elements, address, nbytes;
};

/* Heads of records, bytes, are found in dicts: `heads` by groups; `shapes` by (groups, group_size, shared) where one of the
 * latter two is given; `grids` where the kernel knows its grid, by the arguments that say it: the one, or a tuple. */
struct hot_kernel {
    PyObject_HEAD
    PyObject *device; /* None once it is closed */
    PyObject *heads, *shapes, *grids;
    PyObject *sizes; /* bytes: the arguments that say the grid, by position; none: the kernel does not know it */
    PyObject *plan;  /* bytes: a struct hot_arg for each argument */
};

struct hot_device {
    PyObject_HEAD
    unsigned long long epoch;
};

struct hot_arg {
    uint32_t code; /* 'P' or struct's code of a scalar */
    uint32_t offset;
    uint32_t bits; /* of the elements that a pointer takes */
    uint32_t flags;
};
/* WRITTEN: a read-only pointer is refused. MAY_WRITE: its storage has another version afterwards. */
enum { HOT_WRITTEN = 1, HOT_OPTIONAL = 2, HOT_MAY_WRITE = 4, HOT_READONLY_BIT = 128 };

struct hot_fence {
    PyObject_HEAD
    PyObject *queue;
    unsigned long long value;
};

struct hot_queue {
    PyObject_HEAD
    PyObject *device, *fence; /* core.Device; core.Fence, the class */
    PyObject *pending;        /* a tuple of containers: one that is not empty has something for a wait to do */
    unsigned long long launch, handle, reached, submitted, wait; /* addresses; 0: a backend in Python */
};

/* Launches on an idle queue what a plan holds: a timeline value, by then reached; 0: left to Python; -1: an exception.
 * `*queue` is borrowed. product.c takes (a, b or None, out, bias or None), planned.c (x, out). */
extern PyTypeObject *hot_products_type, *hot_planned_type;
int64_t hot_product(PyObject *products, PyObject *const *args, PyObject **queue);
int64_t hot_planned(PyObject *planned, PyObject *const *args, PyObject **queue);

extern PyTypeObject *hot_storage_type, *hot_pointer_type, *hot_kernel_type, *hot_fence_type, *hot_queue_type,
    *hot_device_type;

/* A type's subclass that was seen last: most often the only one there is. Kept for ever; with the GIL. */
struct hot_seen {
    PyTypeObject *type;
};
static inline int hot_subtype(PyTypeObject *type, PyTypeObject *base, struct hot_seen *seen)
{
    if (type == seen->type)
        return 1;
    if (!PyType_IsSubtype(type, base))
        return 0;
    if (!seen->type) {
        Py_INCREF(type);
        seen->type = type;
    }
    return 1;
}
/* Is it one? */
extern struct hot_seen hot_storages, hot_pointers, hot_kernels, hot_devices;
static inline int hot_is_storage(PyObject *o)
{
    return hot_subtype(Py_TYPE(o), hot_storage_type, &hot_storages);
}
static inline int hot_is_pointer(PyObject *o)
{
    return hot_subtype(Py_TYPE(o), hot_pointer_type, &hot_pointers);
}
static inline int hot_is_kernel(PyObject *o)
{
    return hot_subtype(Py_TYPE(o), hot_kernel_type, &hot_kernels);
}
/* The device's epoch, before anything is looked at: 0 when this is no device. */
static inline int hot_epoch(PyObject *device, uint64_t *epoch)
{
    if (!device || !hot_subtype(Py_TYPE(device), hot_device_type, &hot_devices))
        return 0;
    *epoch = ((const struct hot_device *)(const void *)device)->epoch;
    return 1;
}

/* Makes the types of objects.c, ndarray.c, launch.c, prepared.c, product.c, map.c, conv.c, planned.c, plan.c: 0, or -1 with an exception. */
int hot_objects(PyObject *module);
int hot_arrays(PyObject *module);
int hot_launch(PyObject *module);
int hot_prepared(PyObject *module);
int hot_products(PyObject *module);
int hot_map(PyObject *module);
int hot_conv(PyObject *module);
int hot_planned_convolutions(PyObject *module);
int hot_fences(void);
extern PyMethodDef hot_fence_methods[];
int hot_plan(PyObject *module);
/* The head of a launch's record, bytes, borrowed; NULL: not known yet, or not a usual launch. An exception may be set. */
PyObject *hot_head(const struct hot_kernel *k, PyObject *const *args, Py_ssize_t nargs, PyObject *groups, PyObject *group_size,
                   PyObject *shared);
/* A fence of this value. */
PyObject *hot_fence_of(const struct hot_queue *q, int64_t value);
/* Waits for it as Python's users do: 0, or -1 with an exception. */
int hot_wait_for(const struct hot_queue *q, int64_t value);
/* A type of `spec` as an attribute of the module; NULL with an exception. */
PyTypeObject *hot_type(PyObject *module, PyType_Spec *spec, const char *name);
void hot_free(PyObject *self);
/* A type whose objects the collector looks into. `make` and `members` may be NULL; `name` with its package. */
struct hot_frame {
    const char *name, *doc;
    size_t size;
    newfunc make;
    PyMethodDef *methods;
    PyMemberDef *members;
    traverseproc traverse;
    inquiry clear;
    destructor dealloc;
};
PyTypeObject *hot_collected(PyObject *module, const struct hot_frame *frame);
/* Is the object's id a key of the dict? -1: an exception. */
int hot_in_dict(PyObject *dict, PyObject *object);
#endif
