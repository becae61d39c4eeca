/* Numbers as the arguments of kernels. */
#ifndef SP_HOT_SCALAR_H
#define SP_HOT_SCALAR_H
#include "objects.h"

/* A number as an int, a new reference; NULL: left to Python. An exception may be set. This and the next take Python's and
 * numpy's own numbers only. Converting another object runs the caller's code: core/plain_numbers.py does that once. */
PyObject *hot_whole(PyObject *given);
/* A number as struct.pack's `code` (f d i I q Q) has it; 0: another object, or it does not fit. An exception may be set. */
int hot_pack_scalar(uint32_t code, PyObject *given, char *at);
#endif
