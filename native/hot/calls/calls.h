/* The types for repeated calls. Each function adds its type to the module. Returns 0, or -1 with an
 * exception. */
#ifndef SP_HOT_CALLS_H
#define SP_HOT_CALLS_H
#include "hot/launch/objects.h"

int hot_rows(PyObject *module);
int hot_tables(PyObject *module);
int hot_callables(PyObject *module);
#endif
