/* The objects that a launch looks at, as C structs: Python's classes of core/ derive from them. */
#ifndef SP_HOT_OBJECTS_H
#define SP_HOT_OBJECTS_H
#define PY_SSIZE_T_CLEAN
#include <pyconfig.h>
#ifndef Py_GIL_DISABLED /* free-threaded Python has no stable ABI */
#define Py_LIMITED_API 0x030a0000
#endif
#include <Python.h>
#include <structmember.h>
#include <stdint.h>

#include "include/sp_queue.h"

/* References that another thread may change are taken inside of this. It is the object's lock on free-threaded Python; elsewhere
 * the GIL is. */
#ifndef Py_BEGIN_CRITICAL_SECTION
#define Py_BEGIN_CRITICAL_SECTION(object) { (void)(object);
#define Py_END_CRITICAL_SECTION() }
#endif
static inline PyObject *hot_itself(PyObject *given)
{
    Py_INCREF(given);
    return given;
}
/* A new reference to what stands in a field of `owner`, or NULL. */
static inline PyObject *hot_taken(PyObject *owner, PyObject *const *field)
{
    PyObject *found;
    Py_BEGIN_CRITICAL_SECTION(owner);
    found = *field;
    Py_XINCREF(found);
    Py_END_CRITICAL_SECTION();
    return found;
}

/* Of one allocation: `device` is None once it is closed. That change, in one step, is all that ever happens to it. */
struct hot_storage {
    PyObject_HEAD
    PyObject *device;
};

/* What stands in a pointer's place; core/abi/elements.py says what the bits are. */
struct hot_pointer {
    PyObject_HEAD
    PyObject *storage; /* a storage: one that is closed before `_begin` and after `_end`; the rest never changes */
    unsigned long long elements, address, nbytes;
};

struct hot_kernel {
    PyObject_HEAD
    PyObject *device;  /* None once it is closed */
    PyObject *packing; /* bytes: a struct sp_packing */
};

struct hot_device {
    PyObject_HEAD
    PyObject *kept;  /* a dict: what layers above keep with it */
    PyObject *calls; /* the call table of its operations; None or NULL: there is none yet */
    unsigned long long epoch;
};

/* Bits of a pointer's elements: core/abi/elements.py. */
enum { HOT_READONLY_BIT = 128, HOT_BORROWED_BIT = 256 };

/* A list of work: `bound` is a struct hot_prepared while nothing in the list has changed, else None. */
struct hot_commands {
    PyObject_HEAD
    PyObject *bound;
};

/* Never changes once it is made: threads share fences without a lock. */
struct hot_fence {
    PyObject_HEAD
    PyObject *queue;
    unsigned long long value;
};

_Static_assert(sizeof(void *) == sizeof(unsigned long long), "T_ULONGLONG, a member of Python's, holds an address");

/* The backend's functions are called through `handle`, and without the GIL unless they are brief: sp_queue.h. */
/* Never changes once it is made. */
struct hot_queue {
    PyObject_HEAD
    PyObject *device;
    PyObject *keeping[3];     /* append, backend, handle: with what hold.c holds objects; core/retire.py */
    PyObject *pending[3];     /* containers: one that is not empty has something for a wait to do */
    struct sp_handle *handle; /* NULL: a backend in Python, or one whose methods Python has changed */
};

/* A base class, and its subclass that was seen first: most often the only one there is. Both are kept for ever. */
struct hot_class {
    PyTypeObject *type, *seen;
};
/* launch.c makes the class of queues, which has its method; objects.c the others. */
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
/* Of which device it is; None: it is closed. */
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
/* The device's epoch, before anything is looked at: 0 when this is no device. */
static inline int hot_epoch(PyObject *device, uint64_t *epoch)
{
    if (!device || !hot_is(device, &hot_devices))
        return 0;
    *epoch = __atomic_load_n(&((const struct hot_device *)(const void *)device)->epoch, __ATOMIC_ACQUIRE);
    return 1;
}

/* What the queue has had before, once more: its value, or 0 and nothing was done. It waits for nobody, so the GIL is kept: to give
 * it up and take it again costs 100 ns beside an ioctl (amdgpu_submit.py). */
static inline int64_t hot_resend(const struct sp_submission *s)
{
    const struct sp_functions *const f = ((const struct sp_handle *)s->queue)->functions;
    return f->resend ? f->resend(s->queue, s->records, s->nbytes, s->epoch) : 0;
}

/* A new tuple of these; NULL stands for None. */
PyObject *hot_tuple_of(PyObject *const *items, Py_ssize_t n);

/* A type whose objects the collector looks into, as an attribute of the module. What is not there is NULL; `name` is with the
 * package. NULL with an exception. */
struct hot_frame {
    const char *name, *doc;
    size_t size;
    int references; /* side by side behind the head: 1, 2, 3 or HOT_QUEUE_REFERENCES */
    int is_base;    /* others derive from it */
    int is_fixed;   /* nothing clears its references: the collector breaks circles elsewhere, as with tuples */
    newfunc make;
    ternaryfunc call;
    PyMethodDef *methods;
    PyMemberDef *members;
    destructor dealloc; /* NULL: the usual one */
};
#define HOT_QUEUE_REFERENCES 7
PyTypeObject *hot_collected(PyObject *module, const struct hot_frame *frame);

/* Makes the types of objects.c: 0, or -1 with an exception. */
int hot_objects(PyObject *module);
#endif
