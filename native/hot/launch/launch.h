/* Launches. */
#ifndef SP_HOT_LAUNCH_H
#define SP_HOT_LAUNCH_H
#include "objects.h"

/* A submission that Python has prepared. */
struct hot_prepared {
    PyObject_HEAD
    PyObject *kept, *again; /* whose `prepared` is; called with this object and what was no value */
    struct sp_submission *prepared; /* changes with `kept`, in one step: another thread is in `go` */
    int64_t last; /* what `go` returned */
};
extern PyTypeObject *hot_prepared_type;

/* Make the types of launch.c and prepared.c: 0, or -1 with an exception. */
int hot_launch(PyObject *module);
int hot_prepared(PyObject *module);
#endif
