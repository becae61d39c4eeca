/* The objects that a launch reads, as C structs. The Python classes of core/ derive from them. */
#ifndef SP_HOT_OBJECTS_H
#define SP_HOT_OBJECTS_H
#define PY_SSIZE_T_CLEAN
#include <pyconfig.h>
/* the stable ABI does not exist for free-threaded Python, which must use the full API */
#ifndef Py_GIL_DISABLED
#define Py_LIMITED_API 0x030a0000
#endif
#include <Python.h>
#include <structmember.h>
#include <stdint.h>

#include "include/sp_queue.h"

/* References that another thread may change are read inside a critical section. In free-threaded
 * Python that is the object's lock; elsewhere the GIL suffices. */
#ifndef Py_BEGIN_CRITICAL_SECTION
#define Py_BEGIN_CRITICAL_SECTION(object) { (void)(object);
#define Py_END_CRITICAL_SECTION() }
#endif
static inline PyObject *hot_itself(PyObject *given)
{
    Py_INCREF(given);
    return given;
}
/* Returns a new reference to the object in a field of `owner`, or NULL if the field is NULL. */
static inline PyObject *hot_taken(PyObject *owner, PyObject *const *field)
{
    PyObject *found;
    Py_BEGIN_CRITICAL_SECTION(owner);
    found = *field;
    Py_XINCREF(found);
    Py_END_CRITICAL_SECTION();
    return found;
}

/* A Python object that stands for one allocation of device memory. Closing it sets `device` to
 * None, in one step; nothing else in it ever changes. */
struct hot_storage {
    PyObject_HEAD
    PyObject *device;
};

/* A pointer to device memory: the base class of arrays and buffers. The bits of `elements` say
 * which element types the memory can have, and whether it is read-only or borrowed.
 * core/abi/elements.py defines these bits. */
struct hot_pointer {
    PyObject_HEAD
    /* The storage that owns the memory. Before the Python method `_begin` sets up the pointer, and
     * after `_end`, this is a dummy storage that counts as closed. `_begin` also sets `elements`,
     * `address` and `nbytes`, which then never change. */
    PyObject *storage;
    unsigned long long elements, address, nbytes;
};

struct hot_kernel {
    PyObject_HEAD
    PyObject *device;  /* None once the kernel is closed */
    PyObject *packing; /* bytes object with a struct sp_packing */
};

struct hot_device {
    PyObject_HEAD
    PyObject *kept; /* a dict in which the operations keep data about this device, such as plans */
    /* the call table of the operations on the device; None or NULL: no table was made yet */
    PyObject *calls;
    unsigned long long epoch;
};

/* Bits of hot_pointer.elements, as in core/abi/elements.py. */
enum { HOT_READONLY_BIT = 128, HOT_BORROWED_BIT = 256 };

/* A list of commands. `bound` is the struct hot_prepared that submits the list again. None: the
 * list was not submitted since its last change, or C code cannot submit it. */
struct hot_commands {
    PyObject_HEAD
    PyObject *bound;
};

/* A fence. It is immutable, so threads share fences without a lock. */
struct hot_fence {
    PyObject_HEAD
    PyObject *queue;
    unsigned long long value;
};

_Static_assert(sizeof(void *) == sizeof(unsigned long long), "T_ULONGLONG, a member of Python's, holds an address");

/* A queue. It is immutable. `handle` has the backend's functions. Callers release the GIL during
 * these, unless sp_functions.brief is 1. */
struct hot_queue {
    PyObject_HEAD
    PyObject *device;
    /* What keep_alive.c needs to add entries to the retire list: the method `__setitem__` of the
     * list's dict (core/retire.py), the backend, and the backend's handle of this queue. */
    PyObject *keeping[3];
    /* If one of these three containers has items, a wait for a fence must also free memory or raise
     * failures. They hold the entries of the device's retire list, the retire lists of devices that
     * are gone, and this queue's waits for other queues. */
    PyObject *pending[3];
    /* the backend's C handle of this queue; NULL: the backend is in Python, or Python code has
     * replaced methods of the queue */
    struct sp_handle *handle;
};

/* A base class (`type`) for the function hot_is, which tests whether an object belongs to it.
 * `seen` is the class of the first object that passed the test. hot_is compares with `seen` first,
 * because it is most often the only class that passes. References to both are never dropped. */
struct hot_class {
    PyTypeObject *type, *seen;
};
/* launch.c makes hot_queues, because that class has a method of launch.c. objects.c makes the other
 * classes. */
extern struct hot_class hot_storages, hot_pointers, hot_kernels, hot_devices, hot_queues, hot_lists;
static inline int hot_is(PyObject *o, struct hot_class *class)
{
    PyTypeObject *const type = Py_TYPE(o), *none = NULL;
    if (type == __atomic_load_n(&class->seen, __ATOMIC_RELAXED))
        return 1;
    if (!PyType_IsSubtype(type, class->type))
        return 0;
    if (__atomic_compare_exchange_n(&class->seen, &none, type, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        Py_INCREF(type);
    return 1;
}
/* Returns a borrowed reference to the device whose memory a pointer names, or None if the pointer
 * is closed. */
static inline PyObject *hot_device_of(const struct hot_pointer *p)
{
    PyObject *device;
    Py_BEGIN_CRITICAL_SECTION((PyObject *)(uintptr_t)p);
    device = p->storage ? ((const struct hot_storage *)(const void *)p->storage)->device : Py_None;
    Py_END_CRITICAL_SECTION();
    return device;
}
static inline int hot_memory_is_of(const struct hot_pointer *p, const PyObject *device)
{
    return hot_device_of(p) == device;
}
static inline int hot_kernel_is_of(const PyObject *kernel, const PyObject *device)
{
    return ((const struct hot_kernel *)(const void *)kernel)->device == device;
}
/* Reads the device's epoch. Call it before you check any object that the launch uses: if an object
 * is closed after its check, the queue then refuses the launch. Returns 0 if `device` is no
 * device. */
static inline int hot_epoch(PyObject *device, uint64_t *epoch)
{
    if (!device || !hot_is(device, &hot_devices))
        return 0;
    *epoch = __atomic_load_n(&((const struct hot_device *)(const void *)device)->epoch, __ATOMIC_ACQUIRE);
    return 1;
}

/* Submits `s` again. `s` was submitted to its queue before. Returns the new timeline value, or 0 if
 * nothing was submitted. The function waits for no other thread, so it keeps the GIL. Releasing and
 * taking the GIL around an ioctl would cost 100 ns (measured by benchmarks/amdgpu_submit.py). */
static inline int64_t hot_resend(const struct sp_submission *s)
{
    const struct sp_functions *const f = ((const struct sp_handle *)s->queue)->functions;
    return f->resend ? f->resend(s->queue, s->records, s->nbytes, s->epoch) : 0;
}

/* Returns a new tuple of these items, or NULL with an exception. An item of NULL becomes None. */
PyObject *hot_tuple_of(PyObject *const *items, Py_ssize_t n);

/* Describes a type with garbage collection for hot_collected. That function adds the type to the
 * module and returns it, or NULL with an exception. Members that a type does not need are NULL.
 * `name` includes the package. */
struct hot_frame {
    const char *name, *doc;
    size_t size;
    /* number of object references (PyObject *) that directly follow PyObject_HEAD in the type's
     * struct: 1, 2, 3 or HOT_QUEUE_REFERENCES */
    int references;
    int is_base; /* 1: other classes derive from this type */
    /* 1: the type has no tp_clear, as Python's tuples have none. If such an object is in a cycle of
     * references, the garbage collector breaks the cycle at another object. */
    int is_fixed;
    newfunc make;
    ternaryfunc call;
    PyMethodDef *methods;
    PyMemberDef *members;
    /* the type's tp_dealloc; NULL: the one that drops the object's references */
    destructor dealloc;
};
#define HOT_QUEUE_REFERENCES 7
PyTypeObject *hot_collected(PyObject *module, const struct hot_frame *frame);

/* Makes the types of objects.c. Returns 0, or -1 with an exception. */
int hot_objects(PyObject *module);
#endif
