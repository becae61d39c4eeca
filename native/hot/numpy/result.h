/* Makes numpy arrays for results. */
#ifndef SP_HOT_RESULT_H
#define SP_HOT_RESULT_H
#include "ndarray.h"

/* hot_result returns empty(shape, dtype), an array of `nbytes` bytes, for a result: a new
 * reference, or NULL with an exception. Arrays of HOT_RECYCLED_FROM bytes or more get memory that
 * an earlier result freed, if there is any (result.c). For these sizes the C library would map new
 * memory (mallopt(3), M_MMAP_THRESHOLD). */
enum { HOT_RECYCLED_FROM = 128 << 10 };
PyObject *hot_result(PyObject *empty, PyObject *shape, PyObject *dtype, size_t nbytes);
/* Adds the functions that core/numpy_layout.py and ops/memory/recycled.py call to the extension
 * `module`. Returns 0, or -1 with an exception. */
int hot_numpy(PyObject *module);
#endif
