/* A call of gemm by the table of decisions (gemm_table.c): what its arguments mean, and where the result goes. */
#include "constant.h"
#include "matrix.h"
#include "op.h"
#include "gemm_table.h"
#include "hot/numpy/result.h"

#include <limits.h>

/* Is it the algorithm that the table's kernels were chosen for? */
static int is_auto(PyObject *algo)
{
    static PyObject *usual; /* as Python's source has it: the object itself tells in less time than its letters */
    if (!usual && !(usual = PyUnicode_InternFromString("auto")))
        PyErr_Clear();
    return algo == usual || (PyUnicode_CheckExact(algo) && !PyUnicode_CompareWithASCIIString(algo, "auto"));
}

/* Of an activation's name; -1: none that is known. */
static long number_of(PyObject *activation, PyObject *numbers)
{
    if (activation == Py_None)
        return 0;
    PyObject *const found = PyUnicode_CheckExact(activation) && PyDict_CheckExact(numbers) ? PyDict_GetItemWithError(numbers, activation) : NULL;
    return found ? PyLong_AsLong(found) : -1;
}

/* A new array for the result; NULL, perhaps with an exception: the operands have another way, or there is no room for it. */
static PyObject *new_result(PyObject *a, PyObject *b, PyObject *empty)
{
    struct hot_matrix left, right;
    const struct hot_constant *const constant = hot_constant_of(b);
    if (!hot_look(a, &left))
        return NULL;
    if (constant) { /* of another type it has no entry for this call */
        right.rows = constant->rows;
        right.columns = constant->columns;
    } else if (!hot_look(b, &right) || left.type != right.type) {
        return NULL;
    }
    if (left.columns != right.rows || right.columns < 1 || right.columns > UINT32_MAX)
        return NULL;
    const size_t row = (left.type ? 8 : 4) * right.columns; /* neither has more than 32 bits */
    if (left.rows > PTRDIFF_MAX / row)
        return NULL;
    PyObject *const rows = PyLong_FromSize_t(left.rows), *const columns = PyLong_FromSize_t(right.columns);
    PyObject *const shape = rows && columns ? PyTuple_Pack(2, rows, columns) : NULL;
    PyObject *const made = shape ? hot_result(empty, shape, hot_float_dtypes[left.type], left.rows * row) : NULL;
    Py_XDECREF(rows);
    Py_XDECREF(columns);
    Py_XDECREF(shape);
    return made;
}

PyObject *hot_gemm(PyObject *table, PyObject *const *values, const struct hot_op_more *more)
{
    enum { A, B, OUT, BIAS, ACTIVATION, ALGO };
    const long act = number_of(values[ACTIVATION], more->numbers);
    if (Py_TYPE(table) != hot_products_type || act < 0 || act > INT_MAX || !is_auto(values[ALGO]))
        return NULL;
    PyObject *const given = values[OUT] == Py_None ? NULL : values[OUT];
    PyObject *const out = given ? (Py_INCREF(given), given) : new_result(values[A], values[B], more->empty);
    if (!out) {
        PyErr_Clear(); /* Python comes upon it again, and says it better */
        return NULL;
    }
    PyObject *const args[] = {values[A], values[B], out, values[BIAS]};
    if (hot_product_now(table, args, (int)act) > 0)
        return out;
    Py_DECREF(out);
    return NULL;
}
