/* Which objects are numbers of Python's or numpy's own. */
#include "scalar.h"

/* Apart and cold: inlined into the launch, it made q.launch of four arguments 10 ns slower (benchmarks/against.py). */
__attribute__((cold)) int hot_is_builtin(PyObject *given)
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
