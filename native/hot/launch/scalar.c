/* Which objects are numbers of Python's or numpy's own, and what they are as arguments. */
#include "scalar.h"

#include <math.h>
#include <string.h>

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

/* Apart and cold: inlined into the launch, it made q.launch of four arguments 10 ns slower (benchmarks/against.py). */
__attribute__((noinline, cold)) static int is_builtin(PyObject *given)
{
    static PyTypeObject *kinds[2]; /* numpy.integer and numpy.floating, for ever; a complex number is no scalar of a kernel */
    static const char *const names[2] = {"integer", "floating"};
    PyTypeObject *const type = Py_TYPE(given);
    if (PyBool_Check(given))
        return 1;
    if (PyType_GetFlags(type) & Py_TPFLAGS_HEAPTYPE)
        return 0;
    for (int i = 0; i < 2; i++) {
        if (!kinds[i]) {
            PyObject *const name = PyUnicode_InternFromString("numpy");
            PyObject *const numpy = name ? PyImport_GetModule(name) : NULL; /* NULL: it was not imported */
            PyObject *const found = numpy ? PyObject_GetAttrString(numpy, names[i]) : NULL;
            Py_XDECREF(name);
            Py_XDECREF(numpy);
            if (!found || !PyType_Check(found)) {
                Py_XDECREF(found);
                return 0;
            }
            kinds[i] = (PyTypeObject *)(void *)found;
        }
        if (PyType_IsSubtype(type, kinds[i]))
            return 1;
    }
    return 0;
}

PyObject *hot_whole(PyObject *given)
{
    if (PyLong_CheckExact(given)) {
        Py_INCREF(given);
        return given;
    }
    return is_builtin(given) ? PyNumber_Index(given) : NULL;
}

int hot_pack_scalar(uint32_t code, PyObject *given, char *at)
{
    if (code == 'f' || code == 'd')
        return (PyFloat_CheckExact(given) || PyLong_CheckExact(given) || is_builtin(given)) && pack_float(code, given, at);
    PyObject *const index = hot_whole(given);
    const int well = index && pack_integer(code, index, at);
    Py_XDECREF(index);
    return well;
}
