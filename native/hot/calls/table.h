/* The call table: finds rows by the arguments of a call. */
#ifndef SP_HOT_TABLE_H
#define SP_HOT_TABLE_H
#include "hot/launch/objects.h"

extern PyTypeObject *hot_table_type;
/* Runs a call by its row in a call table, and returns what hot_row_run returns, or NULL if there is
 * no row. `table` is that of the device or of a prepared call, or NULL. If an ops.Constant is among
 * the arguments, the constant's own table is used instead. */
PyObject *hot_table_call(PyObject *table, PyObject *site, PyObject *device, const uint64_t *epoch, PyObject *const *values,
                         size_t nvalues, int waits);
#endif
