/* The call table: rows by the values of a call. */
#ifndef SP_HOT_TABLE_H
#define SP_HOT_TABLE_H
#include "hot/launch/objects.h"

extern PyTypeObject *hot_table_type;
/* The same call again, as hot_row_run. `table` is the device's or a plan's, or NULL; a constant among the values has its own. */
PyObject *hot_table_call(PyObject *table, PyObject *site, PyObject *device, const uint64_t *epoch, PyObject *const *values,
                         size_t nvalues, int waits);
#endif
