/* Numbers as the arguments of kernels. Inline: a launch packs each scalar by them. */
#ifndef SP_PYTHON_SCALAR_H
#define SP_PYTHON_SCALAR_H
#include "objects.h"

#include <math.h>
#include <string.h>

/* A bool, or one of numpy's own numbers, whose conversion is C? A class made in Python may have an __index__ of its own. */
int hot_is_builtin(PyObject *given);

static inline int hot_pack_float(uint32_t code, PyObject *given, char *at)
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

static inline int hot_pack_integer(uint32_t code, PyObject *given, char *at)
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

/* A number as an int, a new reference; NULL: left to Python. An exception may be set. This and the next take Python's and
 * numpy's own numbers only. Converting another object runs the caller's code: core/plain.py does that once. */
static inline PyObject *hot_whole(PyObject *given)
{
    if (PyLong_CheckExact(given)) {
        Py_INCREF(given);
        return given;
    }
    return hot_is_builtin(given) ? PyNumber_Index(given) : NULL;
}

/* A number as struct.pack's `code` (f d i I q Q) has it; 0: another object, or it does not fit. An exception may be set. */
static inline int hot_pack_scalar(uint32_t code, PyObject *given, char *at)
{
    if (code == 'f' || code == 'd')
        return (PyFloat_CheckExact(given) || PyLong_CheckExact(given) || hot_is_builtin(given)) && hot_pack_float(code, given, at);
    PyObject *const index = hot_whole(given);
    const int well = index && hot_pack_integer(code, index, at);
    Py_XDECREF(index);
    return well;
}
#endif
