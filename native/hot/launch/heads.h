/* Which head a record has. */
#ifndef SP_HOT_HEADS_H
#define SP_HOT_HEADS_H
#include "objects.h"

/* The head of a launch's record, bytes, borrowed; NULL: not known yet, or not a usual launch. An exception may be set. */
PyObject *hot_head(const struct hot_kernel *k, PyObject *const *args, Py_ssize_t nargs, PyObject *groups, PyObject *group_size,
                   PyObject *shared);
#endif
