/* Launches. */
#ifndef SP_HOT_LAUNCH_H
#define SP_HOT_LAUNCH_H
#include "objects.h"

/* Make the types of launch.c and prepared.c: 0, or -1 with an exception. */
int hot_launch(PyObject *module);
int hot_prepared(PyObject *module);
#endif
