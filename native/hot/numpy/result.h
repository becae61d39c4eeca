/* numpy arrays for results. */
#ifndef SP_HOT_RESULT_H
#define SP_HOT_RESULT_H
#include "ndarray.h"

/* empty(shape, dtype), which takes `nbytes`, for a result: from HOT_RECYCLED_FROM on in memory that is used again (result.c). A
 * new reference; NULL with an exception. From there on the C library maps what it gives (mallopt(3), M_MMAP_THRESHOLD). */
enum { HOT_RECYCLED_FROM = 128 << 10 };
PyObject *hot_result(PyObject *empty, PyObject *shape, PyObject *dtype, size_t nbytes);
/* Makes what core/numpy_layout.py and ops/memory/recycled.py call: 0, or -1 with an exception. */
int hot_numpy(PyObject *module);
#endif
