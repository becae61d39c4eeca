/* What calls are found by: types, shapes and strides as words, and values such as "relu" by comparison. */
#include "key.h"
#include "table.h"

static const uint64_t MIX = 0x9e3779b97f4a7c15u, STEP = 0xc2b2ae3d27d4eb4eu;

/* The words of an array from `at` on: where they end; 0: there are too many. */
static size_t describe(const struct hot_ndarray *a, uint64_t *words, size_t at)
{
    enum { SEEN = HOT_ROW_MAJOR | HOT_ALIGNED | HOT_WRITEABLE };
    const size_t n = (size_t)a->ndim;
    if (at + 2 + 2 * n > HOT_MOST_WORDS)
        return 0;
    words[at++] = (uint64_t)(uintptr_t)a->dtype;
    words[at++] = (uint64_t)(a->flags & SEEN) | (uint64_t)n << 32;
    for (size_t i = 0; i < n; i++)
        words[at++] = (uint64_t)a->shape[i];
    for (size_t i = 0; i < n && !(a->flags & HOT_ROW_MAJOR); i++)
        words[at++] = (uint64_t)a->strides[i];
    return at;
}

int hot_key_of(struct hot_key *key, PyObject *site, PyObject *const *values, size_t nvalues, PyObject **constant)
{
    uint64_t *const words = key->words, hash = 0, factor = MIX;
    size_t n = 0;
    *constant = NULL;
    if (!hot_ndarray_type || nvalues > HOT_MOST_VALUES)
        return 0;
    words[n++] = (uint64_t)(uintptr_t)site;
    for (size_t i = 0; i < nvalues; i++) {
        PyTypeObject *const type = Py_TYPE(values[i]);
        if (type == hot_ndarray_type) {
            if (!(n = describe((const void *)values[i], words, n)))
                return 0;
            continue;
        }
        if (hot_is_constant(values[i])) {
            if (*constant)
                return 0;
            *constant = values[i];
        }
        if (n == HOT_MOST_WORDS)
            return 0;
        words[n++] = (uint64_t)(uintptr_t)(type == &PyList_Type ? &PyTuple_Type : type);
    }
    for (size_t i = 0; i < n; i++, factor += STEP) /* products that do not wait for one another */
        hash += words[i] * factor;
    key->nwords = n;
    key->hash = hash ^ hash >> 32;
    return 1;
}

int hot_is_plain(PyObject *value, int depth)
{
    if (PyLong_CheckExact(value) || PyUnicode_CheckExact(value) || PyBool_Check(value) || value == Py_None)
        return 1;
    if (!PyTuple_CheckExact(value) || depth == 0)
        return 0;
    for (Py_ssize_t i = 0; i < PyTuple_Size(value); i++)
        if (!hot_is_plain(PyTuple_GetItem(value, i), depth - 1))
            return 0;
    return 1;
}

int hot_means(PyObject *kept, PyObject *given)
{
    if (kept == given)
        return 1;
    if (!PyTuple_CheckExact(kept))
        return Py_TYPE(kept) == Py_TYPE(given) && PyObject_RichCompareBool(kept, given, Py_EQ) == 1;
    const int list = PyList_CheckExact(given);
    if (!list && !PyTuple_CheckExact(given))
        return 0;
    const Py_ssize_t n = PyTuple_Size(kept);
    if (n != (list ? PyList_Size(given) : PyTuple_Size(given)))
        return 0;
    for (Py_ssize_t i = 0; i < n; i++)
        if (!hot_means(PyTuple_GetItem(kept, i), list ? PyList_GetItem(given, i) : PyTuple_GetItem(given, i)))
            return 0;
    return 1;
}
