/* The call table: rows by the values of a call. */
#ifndef SP_HOT_TABLE_H
#define SP_HOT_TABLE_H
#include "hot/launch/objects.h"

/* What ops.Constant begins with: the rows of calls with it go when it goes. */
struct hot_constant {
    PyObject_HEAD
    PyObject *calls; /* a Table; None or NULL: there is none yet */
};
extern PyTypeObject *hot_table_type, *hot_constant_type;
extern struct hot_seen hot_constants;
static inline int hot_is_constant(PyObject *o)
{
    return hot_subtype(Py_TYPE(o), hot_constant_type, &hot_constants);
}

/* The same call again, as hot_row_run. `table` is the device's or a plan's, or NULL; a constant among the values has its own. */
PyObject *hot_table_call(PyObject *table, PyObject *site, PyObject *device, PyObject *const *values, size_t nvalues, int waits);
#endif
