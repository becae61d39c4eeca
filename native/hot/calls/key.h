/* The keys by which the call table finds the row of an earlier call. */
#ifndef SP_HOT_KEY_H
#define SP_HOT_KEY_H
#include "hot/numpy/ndarray.h"

/* The base class of ops.Constant. A constant owns the rows of calls that use it, so they are freed
 * with it. */
struct hot_constant {
    PyObject_HEAD
    PyObject *calls; /* a call table; None or NULL: none was made yet */
};
extern struct hot_class hot_constants;

enum { HOT_MOST_VALUES = 24, HOT_MOST_WORDS = 192 };

/* The key of a call. `words` has, for each argument of the call: its type; for a numpy array also
 * dtype, flags, shape and, unless the array is row-major, strides; for a pointer of core/ also its
 * `elements` and `nbytes`. */
struct hot_key {
    PyObject *site; /* the function that is called */
    const uint64_t *words;
    size_t nwords;
    /* the only ops.Constant among the call's arguments, a borrowed reference; NULL: none */
    PyObject *constant;
};

/* Computes the key of a call, with HOT_MOST_WORDS words of room in `words`. Returns 0 if no call
 * table can have the call: it has more than HOT_MOST_VALUES arguments or several ops.Constants, or
 * numpy's array layout is unknown. */
int hot_key_of(PyObject *site, PyObject *const *values, size_t nvalues, uint64_t *words, struct hot_key *key);
/* Adds the function `call_key` and the base class of ops.Constant to the module. Returns 0, or -1
 * with an exception. */
int hot_keys(PyObject *module);
/* Returns 1 if a row may store a value, to compare it with the arguments of later calls: None, a
 * bool, int or str, or a tuple of such values. */
int hot_is_plain(PyObject *value, int depth);
/* Returns 1 if `given` has the same type and value as `kept`, which hot_is_plain has accepted. True
 * and 1.0 are not the same as 1. A list may stand for a tuple. */
int hot_means(PyObject *kept, PyObject *given);
#endif
