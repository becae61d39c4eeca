/* What calls are found by: types, shapes and strides as words, and values such as "relu" by comparison. */
#include "key.h"
#include "calls.h"

#include <stddef.h>

PyTypeObject *hot_constant_type;
struct hot_seen hot_constants;

static const uint64_t MIX = 0x9e3779b97f4a7c15u, STEP = 0xc2b2ae3d27d4eb4eu;
enum { SEEN = HOT_ROW_MAJOR | HOT_ALIGNED | HOT_WRITEABLE };

/* Is it certainly no pointer and no constant? To look through its bases costs more than all the rest. */
static inline int is_usual(PyObject *value)
{
    return value == Py_None || PyUnicode_CheckExact(value) || PyLong_CheckExact(value);
}

/* A list may stand for a tuple. */
static inline uint64_t type_of(PyObject *value)
{
    PyTypeObject *const type = Py_TYPE(value);
    return (uint64_t)(uintptr_t)(type == &PyList_Type ? &PyTuple_Type : type);
}

static inline uint64_t form_of(const struct hot_ndarray *a)
{
    return (uint64_t)(a->flags & SEEN) | (uint64_t)a->ndim << 32;
}

int hot_hash_of(PyObject *site, PyObject *const *values, size_t nvalues, uint64_t *hash, PyObject **constant)
{
    uint64_t sum = (uint64_t)(uintptr_t)site, factor = MIX;
    *constant = NULL;
    for (size_t i = 0; i < nvalues; i++, factor += STEP) {
        const struct hot_ndarray *const a = (const void *)values[i];
        if (Py_TYPE(values[i]) == hot_ndarray_type) {
            sum += (uint64_t)(uintptr_t)a->dtype * factor;
            for (int d = 0; d < a->ndim; d++, factor += STEP) /* products that do not wait for one another */
                sum += (uint64_t)a->shape[d] * factor;
        } else if (!is_usual(values[i]) && hot_is_constant(values[i])) {
            if (*constant)
                return 0;
            *constant = values[i];
        }
    }
    *hash = sum ^ sum >> 32;
    return 1;
}

size_t hot_words_of(PyObject *const *values, size_t nvalues, uint64_t *words)
{
    size_t n = 0;
    if (!hot_ndarray_type || nvalues > HOT_MOST_VALUES)
        return 0;
    for (size_t i = 0; i < nvalues; i++) {
        const struct hot_ndarray *const a = (const void *)values[i];
        const struct hot_pointer *const p = (const void *)values[i];
        const int is_array = Py_TYPE(values[i]) == hot_ndarray_type;
        if (n + 3 + 2 * (is_array ? (size_t)a->ndim : 0) > HOT_MOST_WORDS)
            return 0;
        words[n++] = type_of(values[i]);
        if (is_array) {
            words[n++] = (uint64_t)(uintptr_t)a->dtype;
            words[n++] = form_of(a);
            for (int d = 0; d < a->ndim; d++)
                words[n++] = (uint64_t)a->shape[d];
            for (int d = 0; d < a->ndim && !(a->flags & HOT_ROW_MAJOR); d++)
                words[n++] = (uint64_t)a->strides[d];
        } else if (!is_usual(values[i]) && hot_is_pointer(values[i])) {
            words[n++] = p->elements;
            words[n++] = p->nbytes;
        }
    }
    return n;
}

int hot_has_words(PyObject *const *values, size_t nvalues, const uint64_t *w)
{
    for (size_t i = 0; i < nvalues; i++) {
        const struct hot_ndarray *const a = (const void *)values[i];
        const struct hot_pointer *const p = (const void *)values[i];
        if (*w++ != type_of(values[i]))
            return 0;
        if (Py_TYPE(values[i]) == hot_ndarray_type) {
            if (w[0] != (uint64_t)(uintptr_t)a->dtype || w[1] != form_of(a))
                return 0;
            w += 2;
            for (int d = 0; d < a->ndim; d++)
                if (*w++ != (uint64_t)a->shape[d])
                    return 0;
            for (int d = 0; d < a->ndim && !(a->flags & HOT_ROW_MAJOR); d++)
                if (*w++ != (uint64_t)a->strides[d])
                    return 0;
        } else if (!is_usual(values[i]) && hot_is_pointer(values[i])) {
            if (w[0] != p->elements || w[1] != p->nbytes)
                return 0;
            w += 2;
        }
    }
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

static PyMemberDef constant_members[] = {
    {"_calls", T_OBJECT, offsetof(struct hot_constant, calls), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

int hot_keys(PyObject *module)
{
    static const struct hot_frame frame = {
        .name = "sparkle_drv._hot.ConstantBase",
        .doc = "What ops.Constant begins with.",
        .size = sizeof(struct hot_constant),
        .is_base = 1,
        .members = constant_members,
        .traverse = hot_traverse_one,
        .clear = hot_clear_one,
        .dealloc = hot_dealloc_one,
    };
    hot_constant_type = hot_collected(module, &frame);
    return hot_constant_type ? 0 : -1;
}
