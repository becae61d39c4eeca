/* Make the types of these calls: 0, or -1 with an exception. */
#ifndef SP_HOT_CALLS_H
#define SP_HOT_CALLS_H
#include "hot/launch/objects.h"

int hot_map(PyObject *module);
int hot_conv(PyObject *module);
int hot_plan(PyObject *module);
int hot_ops(PyObject *module);
#endif
