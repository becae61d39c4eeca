/* The objects that a launch looks at, as C structs: Python's classes of core/ derive from them. */
#ifndef SP_PYTHON_HOT_H
#define SP_PYTHON_HOT_H
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030a0000
#include <Python.h>
#include <stdint.h>

/* Of one allocation: `device` is None once it is closed. */
struct hot_storage {
    PyObject_HEAD
    PyObject *device;
};

/* What stands in a pointer's place; core/elements.py says what the bits are. */
struct hot_pointer {
    PyObject_HEAD
    PyObject *storage;
    unsigned long long elements, address, nbytes;
};

struct hot_kernel {
    PyObject_HEAD
    PyObject *device; /* None once it is closed */
    PyObject *heads;  /* dict: groups -> the head of a record, bytes */
    PyObject *plan;   /* bytes: a struct hot_arg for each argument */
};

struct hot_arg {
    uint32_t code; /* 'P' or struct's code of a scalar */
    uint32_t offset;
    uint32_t bits; /* of the elements that a pointer takes */
    uint32_t flags;
};
enum { HOT_WRITTEN = 1, HOT_OPTIONAL = 2, HOT_READONLY_BIT = 128 };

struct hot_fence {
    PyObject_HEAD
    PyObject *queue;
    unsigned long long value;
};

extern PyTypeObject *hot_storage_type, *hot_pointer_type, *hot_kernel_type, *hot_fence_type;

/* Makes the types of objects.c, launch.c: 0, or -1 with an exception. */
int hot_objects(PyObject *module);
int hot_launch(PyObject *module);
/* A type of `spec` as an attribute of the module; NULL with an exception. */
PyTypeObject *hot_type(PyObject *module, PyType_Spec *spec, const char *name);
void hot_free(PyObject *self);
#endif
