/* The call table: finds the row of an equal earlier call. */
#include "table.h"
#include "calls.h"
#include "row.h"

#include <string.h>

enum { WAYS = 4, MOST_SETS = 4096 };
static const uint64_t MIX = 0x9e3779b97f4a7c15u, STEP = 0xc2b2ae3d27d4eb4eu;

struct hot_table {
    PyObject_HEAD
    /* a Python list, used as a set-associative cache: each set has WAYS places; a free place has
     * None */
    PyObject *rows;
    size_t nsets;   /* number of sets, a power of two */
    unsigned next;
};

PyTypeObject *hot_table_type;

/* Returns the index in `rows` of the first place of a key's set. Only this set can have a row with
 * the key. The table of a prepared call has a single set. */
static Py_ssize_t set_of(const struct hot_table *t, const struct hot_key *key)
{
    uint64_t sum = (uint64_t)(uintptr_t)key->site, factor = MIX;
    if (t->nsets == 1)
        return 0;
    /* no product needs the result of another one, so the CPU can compute several products at a
     * time */
    for (size_t i = 0; i < key->nwords; i++, factor += STEP)
        sum += key->words[i] * factor;
    return (Py_ssize_t)(WAYS * ((sum ^ sum >> 32) & (t->nsets - 1)));
}

static int is_for(const struct hot_row *row, const struct hot_key *key, PyObject *const *values)
{
    if ((PyObject *)(uintptr_t)row == Py_None || row->key.site != key->site || row->key.nwords != key->nwords)
        return 0;
    if (memcmp(row->key.words, key->words, key->nwords * sizeof *key->words))
        return 0;
    for (unsigned long long left = row->compared; left; left &= left - 1) {
        const int i = __builtin_ctzll(left);
        if (!hot_means(PyTuple_GetItem(row->meant, i), values[i]))
            return 0;
    }
    return 1;
}

/* Returns a new reference to the row of a call, or NULL. The reference is new, because another
 * thread may replace the row in the table meanwhile. */
static struct hot_row *row_of(PyObject *table, const struct hot_key *key, PyObject *const *values)
{
    PyObject *found = NULL;
    if (!table || Py_TYPE(table) != hot_table_type)
        return NULL;
    const struct hot_table *const t = (const void *)table;
    Py_BEGIN_CRITICAL_SECTION(table);
    for (Py_ssize_t at = set_of(t, key), end = at + WAYS; at < end && !found; at++) {
        found = PyList_GetItem(t->rows, at);
        if (!is_for((const void *)found, key, values))
            found = NULL;
    }
    Py_XINCREF(found);
    Py_END_CRITICAL_SECTION();
    return (void *)found;
}

PyObject *hot_table_call(PyObject *table, PyObject *site, PyObject *device, const uint64_t *epoch, PyObject *const *values,
                         size_t nvalues, int waits)
{
    uint64_t words[HOT_MOST_WORDS];
    struct hot_key key;
    if (!hot_key_of(site, values, nvalues, words, &key))
        return NULL;
    const struct hot_constant *const constant = (const void *)key.constant;
    PyObject *const own = constant ? hot_taken(key.constant, &constant->calls) : NULL;
    struct hot_row *const row = row_of(constant ? own : table, &key, values);
    PyObject *const made = row ? hot_row_run(row, device, epoch, values, nvalues, waits) : NULL;
    Py_XDECREF(row);
    Py_XDECREF(own);
    return made;
}

/* again(site, device, *values): if the table has a row for this call of `site`, runs the row and
 * returns the result. Returns None if nothing was done. */
static PyObject *again(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    PyObject *const made = nargs >= 2 ? hot_table_call(self, args[0], args[1], NULL, args + 2, (size_t)nargs - 2, 1) : NULL;
    if (made || PyErr_Occurred())
        return made;
    Py_RETURN_NONE;
}

/* submit(site, device, epoch, *values): if the table has a row for this call of `site`, launches
 * the row and returns the launch's fence without waiting. Returns None if nothing was done. */
static PyObject *submit(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    const uint64_t epoch = nargs >= 3 ? PyLong_AsUnsignedLongLong(args[2]) : 0;
    PyObject *made = NULL;
    if (nargs >= 3 && !PyErr_Occurred())
        made = hot_table_call(self, args[0], args[1], &epoch, args + 3, (size_t)nargs - 3, 0);
    if (made || PyErr_Occurred())
        return made;
    Py_RETURN_NONE;
}

/* put(row): adds a row to this call table. It replaces the row of an equal call. If the table has
 * none, the row takes a free place of its set. If the set is full, it replaces another row of the
 * set. */
static PyObject *put(PyObject *self, PyObject *given)
{
    struct hot_table *const t = (void *)self;
    if (Py_TYPE(given) != hot_row_type)
        return PyErr_Format(PyExc_TypeError, "put: expected a Row, got %R", (PyObject *)Py_TYPE(given)), NULL;
    const struct hot_row *const row = (const void *)given;
    PyObject *meant[HOT_MOST_VALUES], *old;
    for (Py_ssize_t i = 0; i < PyTuple_Size(row->meant); i++)
        meant[i] = PyTuple_GetItem(row->meant, i);
    Py_INCREF(given);
    Py_BEGIN_CRITICAL_SECTION(self);
    const Py_ssize_t first = set_of(t, &row->key), end = first + WAYS;
    Py_ssize_t at = first, empty = end;
    for (; at < end && !is_for((const void *)PyList_GetItem(t->rows, at), &row->key, meant); at++)
        if (empty == end && PyList_GetItem(t->rows, at) == Py_None)
            empty = at;
    if (at == end)
        at = empty < end ? empty : first + t->next++ % WAYS;
    old = PyList_GetItem(t->rows, at);
    Py_INCREF(old);
    PyList_SetItem(t->rows, at, given);
    Py_END_CRITICAL_SECTION();
    /* the function's last step, because it may free objects whose destructors run other code */
    Py_DECREF(old);
    Py_RETURN_NONE;
}

/* Table(sets): makes a table of `sets` sets. Each set has room for WAYS rows. */
static PyObject *make(PyTypeObject *type, PyObject *given, PyObject *named)
{
    unsigned int nsets;
    if (named && PyDict_Size(named))
        return PyErr_Format(PyExc_TypeError, "Table: expected no keywords, got %zd", PyDict_Size(named)), NULL;
    if (!PyArg_ParseTuple(given, "I", &nsets))
        return NULL;
    if (nsets < 1 || nsets > MOST_SETS || (nsets & (nsets - 1)))
        return PyErr_Format(PyExc_ValueError, "Table: expected a power of two up to %d, got %u", MOST_SETS, nsets), NULL;
    struct hot_table *const made = (void *)PyType_GenericAlloc(type, 0);
    PyObject *const one = Py_BuildValue("[O]", Py_None);
    PyObject *const rows = one ? PySequence_Repeat(one, (Py_ssize_t)(WAYS * nsets)) : NULL;
    Py_XDECREF(one);
    if (!made || !rows) {
        Py_XDECREF(made);
        Py_XDECREF(rows);
        return NULL;
    }
    made->rows = rows;
    made->nsets = nsets;
    return (PyObject *)made;
}

static PyMethodDef methods[] = {
    {"again", (PyCFunction)(void (*)(void))again, METH_FASTCALL,
     "again(site, device, *values): the result, or None: nothing was done."},
    {"submit", (PyCFunction)(void (*)(void))submit, METH_FASTCALL,
     "submit(site, device, epoch, *values): the fence, which nobody waits for, or None: nothing was done."},
    {"put", put, METH_O, "put(row): the next call by this key takes it."},
    {NULL, NULL, 0, NULL},
};

int hot_tables(PyObject *module)
{
    static const struct hot_frame frame = {
        .name = "sparkle_drv._hot.Table",
        .doc = "Rows of calls that were made before.",
        .size = sizeof(struct hot_table),
        .references = 1,
        .make = make,
        .methods = methods,
    };
    hot_table_type = hot_collected(module, &frame);
    return hot_table_type ? 0 : -1;
}
