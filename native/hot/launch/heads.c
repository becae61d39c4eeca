/* Which head a launch's record has: the shapes that a kernel was launched in are in its dicts. */
#include "heads.h"
#include "scalar.h"

/* None, an int, or a tuple of up to three, not of classes of their own: 3.0 is equal to 3, and no number of groups. */
static int is_plain(PyObject *shape)
{
    if (shape == Py_None || PyLong_CheckExact(shape))
        return 1;
    const Py_ssize_t n = PyTuple_CheckExact(shape) ? PyTuple_Size(shape) : 4;
    for (Py_ssize_t i = 0; i < n && n <= 3; i++)
        if (!PyLong_CheckExact(PyTuple_GetItem(shape, i)))
            return 0;
    return n <= 3;
}

static int is_zero(PyObject *shared)
{
    const long value = PyLong_AsLong(shared);
    if (value == -1 && PyErr_Occurred())
        PyErr_Clear();
    return value == 0;
}

static PyObject *of_shape(const struct hot_kernel *k, PyObject *groups, PyObject *group_size, PyObject *shared)
{
    PyObject *const key = PyTuple_Pack(3, groups, group_size, shared);
    PyObject *const found = key && k->shapes && PyDict_Check(k->shapes) ? PyDict_GetItemWithError(k->shapes, key) : NULL;
    Py_XDECREF(key);
    return found;
}

/* The arguments that say the grid, as plain integers: the one, or a tuple. */
static PyObject *key_of(PyObject *const *args, Py_ssize_t nargs, const char *sizes, Py_ssize_t nsizes)
{
    if ((unsigned char)sizes[nsizes - 1] >= nargs) /* they ascend */
        return NULL;
    if (nsizes == 1)
        return hot_whole(args[(unsigned char)sizes[0]]);
    PyObject *const key = PyTuple_New(nsizes);
    for (Py_ssize_t i = 0; key && i < nsizes; i++) {
        PyObject *const one = hot_whole(args[(unsigned char)sizes[i]]);
        if (!one || PyTuple_SetItem(key, i, one)) {
            Py_DECREF(key);
            return NULL;
        }
    }
    return key;
}

PyObject *hot_head(const struct hot_kernel *k, PyObject *const *args, Py_ssize_t nargs, PyObject *groups, PyObject *group_size,
                   PyObject *shared)
{
    char *sizes;
    Py_ssize_t nsizes;
    if (!k->heads || !PyDict_Check(k->heads) || !is_plain(groups) || !is_plain(group_size) || !PyLong_CheckExact(shared))
        return NULL;
    if (group_size != Py_None || !is_zero(shared))
        return of_shape(k, groups, group_size, shared);
    if (groups != Py_None || !k->sizes || !k->grids || !PyDict_Check(k->grids))
        return PyDict_GetItemWithError(k->heads, groups);
    if (PyBytes_AsStringAndSize(k->sizes, &sizes, &nsizes))
        return NULL;
    if (!nsizes)
        return PyDict_GetItemWithError(k->heads, groups);
    PyObject *const key = key_of(args, nargs, sizes, nsizes);
    PyObject *const found = key ? PyDict_GetItemWithError(k->grids, key) : NULL;
    Py_XDECREF(key);
    return found;
}
