/* The C part of the Python classes for queues and prepared launches. */
#ifndef SP_HOT_LAUNCH_H
#define SP_HOT_LAUNCH_H
#include "objects.h"

/* A prepared launch or list of commands: a submission that Python code has checked, and that the
 * method `go` can send any number of times. */
struct hot_prepared {
    PyObject_HEAD
    /* kept: the object that owns the memory of `prepared`. again: a Python function. If the backend
     * refuses the submission, it returns 0 or a negative number. The method `go` then calls `again`
     * with the prepared launch and that number. */
    PyObject *kept, *again;
    /* The submission that the method `go` launches. The method `take` replaces it and its owner
     * `kept` together, so that another thread in `go` never reads one without the other. */
    struct sp_submission *prepared;
    int64_t last; /* the last timeline value that `go` returned */
};
extern PyTypeObject *hot_prepared_type;

/* Make the Python classes of launch.c and prepared.c. Return 0, or -1 with an exception. */
int hot_launch(PyObject *module);
int hot_prepared(PyObject *module);
#endif
