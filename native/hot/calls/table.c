/* The call table: finds the row of a call that was made before. */
#include "table.h"
#include "calls.h"
#include "row.h"

#include <string.h>

enum { WAYS = 4, MOST_SETS = 4096 };

struct hot_table {
    PyObject_HEAD
    struct hot_row **rows; /* of WAYS each, NULL: a free place */
    size_t nsets;          /* a power of two */
    unsigned next;
};

PyTypeObject *hot_table_type;

/* ---- finding ---- */

static struct hot_row **set_of(const struct hot_table *t, uint64_t hash)
{
    return &t->rows[WAYS * (hash & (t->nsets - 1))];
}

static int is_for(const struct hot_row *row, PyObject *site, PyObject *const *values, size_t nvalues)
{
    if (row->site != site || row->nvalues != nvalues || !hot_has_words(values, nvalues, row->words))
        return 0;
    for (unsigned long long left = row->compared; left; left &= left - 1) {
        const int i = __builtin_ctzll(left);
        if (!hot_means(PyTuple_GetItem(row->meant, i), values[i]))
            return 0;
    }
    return 1;
}

/* A new reference: another thread may put another row in its place meanwhile. */
static struct hot_row *row_of(PyObject *table, uint64_t hash, PyObject *site, PyObject *const *values, size_t nvalues)
{
    struct hot_row *found = NULL;
    if (!table || Py_TYPE(table) != hot_table_type)
        return NULL;
    Py_BEGIN_CRITICAL_SECTION(table);
    struct hot_row *const *const set = set_of((const void *)table, hash);
    for (int i = 0; i < WAYS && !found; i++)
        if (set[i] && is_for(set[i], site, values, nvalues))
            found = set[i];
    Py_XINCREF(found);
    Py_END_CRITICAL_SECTION();
    return found;
}

PyObject *hot_table_call(PyObject *table, PyObject *site, PyObject *device, PyObject *const *values, size_t nvalues, int waits)
{
    uint64_t hash = 0;
    PyObject *constant = NULL;
    if (waits && !hot_hash_of(site, values, nvalues, &hash, &constant)) /* a plan's has one set, and no constant in a key */
        return NULL;
    PyObject *const own = constant ? hot_taken(constant, &((const struct hot_constant *)(const void *)constant)->calls) : NULL;
    struct hot_row *const row = row_of(constant ? own : table, hash, site, values, nvalues);
    PyObject *const made = row ? hot_row_run(row, device, values, nvalues, waits) : NULL;
    Py_XDECREF(row);
    Py_XDECREF(own);
    return made;
}

/* again(site, device, *values): what the row of such a call makes; None: nothing was done. */
static PyObject *again(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    PyObject *const made = nargs >= 2 ? hot_table_call(self, args[0], args[1], args + 2, (size_t)nargs - 2, 1) : NULL;
    if (made || PyErr_Occurred())
        return made;
    Py_RETURN_NONE;
}

/* ---- filling ---- */

/* Is it the place of a call that is found by the same? */
static int is_place_of(const struct hot_row *old, const struct hot_row *row)
{
    int same = old->site == row->site && old->nvalues == row->nvalues && old->nwords == row->nwords && !memcmp(old->words, row->words, row->nwords * sizeof *row->words) &&
               old->compared == row->compared;
    for (unsigned long long left = row->compared; same && left; left &= left - 1) {
        const int i = __builtin_ctzll(left);
        same = hot_means(PyTuple_GetItem(old->meant, i), PyTuple_GetItem(row->meant, i));
    }
    return same;
}

/* put(row): over the row that it replaces, else in a free place, else in the next. */
static PyObject *put(PyObject *self, PyObject *given)
{
    struct hot_table *const t = (void *)self;
    if (Py_TYPE(given) != hot_row_type)
        return PyErr_Format(PyExc_TypeError, "put: expected a Row, got %R", (PyObject *)Py_TYPE(given)), NULL;
    struct hot_row *const row = (void *)given, *old;
    struct hot_row **const set = set_of(t, row->hash), **place = NULL;
    Py_INCREF(given);
    Py_BEGIN_CRITICAL_SECTION(self);
    for (int i = 0; i < WAYS && !place; i++)
        if (set[i] && is_place_of(set[i], row))
            place = &set[i];
    for (int i = 0; i < WAYS && !place; i++)
        if (!set[i])
            place = &set[i];
    if (!place)
        place = &set[t->next++ % WAYS];
    old = *place;
    *place = row;
    Py_END_CRITICAL_SECTION();
    Py_XDECREF(old); /* last: with it much may go */
    Py_RETURN_NONE;
}

/* ---- the types ---- */

static int traverse(PyObject *self, visitproc visit, void *arg)
{
    const struct hot_table *const t = (void *)self;
    Py_VISIT(Py_TYPE(self));
    for (size_t i = 0; i < WAYS * t->nsets; i++)
        Py_VISIT(t->rows[i]);
    return 0;
}

static int clear(PyObject *self)
{
    struct hot_table *const t = (void *)self;
    for (size_t i = 0; i < WAYS * t->nsets; i++)
        Py_CLEAR(t->rows[i]);
    return 0;
}

static void dealloc(PyObject *self)
{
    struct hot_row **const rows = ((struct hot_table *)(void *)self)->rows;
    hot_dealloc(self, clear);
    PyMem_Free(rows);
}

/* Table(sets): of WAYS rows each. */
static PyObject *make(PyTypeObject *type, PyObject *given, PyObject *named)
{
    unsigned int nsets;
    if (named && PyDict_Size(named))
        return PyErr_Format(PyExc_TypeError, "Table: expected no keywords, got %zd", PyDict_Size(named)), NULL;
    if (!PyArg_ParseTuple(given, "I", &nsets))
        return NULL;
    if (nsets < 1 || nsets > MOST_SETS || (nsets & (nsets - 1)))
        return PyErr_Format(PyExc_ValueError, "Table: expected a power of two up to %d, got %u", MOST_SETS, nsets), NULL;
    struct hot_row **const rows = PyMem_Calloc((size_t)WAYS * nsets, sizeof *rows);
    struct hot_table *const made = rows ? (void *)PyType_GenericAlloc(type, 0) : NULL;
    if (!made) {
        PyMem_Free(rows);
        return rows ? NULL : PyErr_NoMemory();
    }
    made->rows = rows;
    made->nsets = nsets;
    return (PyObject *)made;
}

static PyMethodDef methods[] = {
    {"again", (PyCFunction)(void (*)(void))again, METH_FASTCALL, "again(site, device, *values): the result, or None: nothing was done."},
    {"put", put, METH_O, "put(row): the next call by this key takes it."},
    {NULL, NULL, 0, NULL},
};

int hot_tables(PyObject *module)
{
    static const struct hot_frame frame = {
        .name = "sparkle_drv._hot.Table",
        .doc = "Rows of calls that were made before.",
        .size = sizeof(struct hot_table),
        .make = make,
        .methods = methods,
        .traverse = traverse,
        .clear = clear,
        .dealloc = dealloc,
    };
    hot_table_type = hot_collected(module, &frame);
    return hot_table_type ? 0 : -1;
}
