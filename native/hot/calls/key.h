/* What calls are found by. */
#ifndef SP_HOT_KEY_H
#define SP_HOT_KEY_H
#include "hot/numpy/ndarray.h"

/* What ops.Constant begins with: the rows of calls with it go when it goes. */
struct hot_constant {
    PyObject_HEAD
    PyObject *calls; /* a Table; None or NULL: there is none yet */
};
extern struct hot_class hot_constants;

enum { HOT_MOST_VALUES = 24, HOT_MOST_WORDS = 192 };

/* Words for each value: its type. Of an array dtype, flags, shape and, unless it is row-major, strides; of a pointer of core its
 * elements and bytes. */
struct hot_key {
    PyObject *site; /* what is called */
    const uint64_t *words;
    size_t nwords;
    PyObject *constant; /* the one constant among the values, borrowed, or NULL */
};

/* The key of a call, with its words in `words`, HOT_MOST_WORDS of them. 0: too many, several constants, or numpy's arrays are not
 * known: no table knows such a call. */
int hot_key_of(PyObject *site, PyObject *const *values, size_t nvalues, uint64_t *words, struct hot_key *key);
/* Makes the base class of constants, and `call_key`: 0, or -1 with an exception. */
int hot_keys(PyObject *module);
/* May it be kept for comparisons? */
int hot_is_plain(PyObject *value, int depth);
/* Does `given` mean what `kept`, which is plain, does? True and 1.0 are not 1; a list may stand for a tuple. */
int hot_means(PyObject *kept, PyObject *given);
#endif
