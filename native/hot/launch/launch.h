/* The types for launches and prepared launches. */
#ifndef SP_HOT_LAUNCH_H
#define SP_HOT_LAUNCH_H
#include "objects.h"

/* A submission that Python has prepared. */
struct hot_prepared {
    PyObject_HEAD
    /* kept: owner of the memory of `prepared`. again: a Python function. If the backend returns no
     * timeline value but 0 or a negative number, the method `go` calls `again` with the prepared
     * launch and that number. */
    PyObject *kept, *again;
    /* the submission that the method `go` launches. It is replaced together with `kept`, which owns
     * its memory, because another thread may be in `go`. */
    struct sp_submission *prepared;
    int64_t last; /* the last timeline value that `go` returned */
};
extern PyTypeObject *hot_prepared_type;

/* Make the types of launch.c and prepared.c. Return 0, or -1 with an exception. */
int hot_launch(PyObject *module);
int hot_prepared(PyObject *module);
#endif
