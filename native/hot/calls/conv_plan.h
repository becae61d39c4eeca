/* Planned convolutions of numpy arrays. */
#ifndef SP_HOT_CONV_PLAN_H
#define SP_HOT_CONV_PLAN_H
#include "hot/launch/objects.h"

/* Launches on an idle queue what a plan holds: (x, out). A timeline value; 0: left to Python. Should others have been before us,
 * the operands are held until it is reached. `*queue` is borrowed. */
int64_t hot_planned(PyObject *planned, PyObject *const *args, PyObject **queue);
extern PyTypeObject *hot_planned_type;
/* Makes the type: 0, or -1 with an exception. */
int hot_planned_convolutions(PyObject *module);
#endif
