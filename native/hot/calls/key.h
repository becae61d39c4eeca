/* What calls are found by. */
#ifndef SP_HOT_KEY_H
#define SP_HOT_KEY_H
#include "hot/numpy/ndarray.h"

/* What ops.Constant begins with: the rows of calls with it go when it goes. */
struct hot_constant {
    PyObject_HEAD
    PyObject *calls; /* a Table; None or NULL: there is none yet */
};
extern PyTypeObject *hot_constant_type;
extern struct hot_seen hot_constants;
static inline int hot_is_constant(PyObject *o)
{
    return hot_subtype(Py_TYPE(o), hot_constant_type, &hot_constants);
}

enum { HOT_MOST_VALUES = 24, HOT_MOST_WORDS = 192 };

/* A number for what is called, `site`, and the shapes of arrays. `*constant`: the one constant among the values, borrowed, or
 * NULL. 0: there are several, and no table knows such a call. */
int hot_hash_of(PyObject *site, PyObject *const *values, size_t nvalues, uint64_t *hash, PyObject **constant);
/* Words for each value: its type. Of an array dtype, flags, shape and, unless it is row-major, strides; of a pointer of core its
 * elements and bytes. How many; 0: too many, or numpy's arrays are not known. */
size_t hot_words_of(PyObject *const *values, size_t nvalues, uint64_t *words);
/* Are these their words? */
int hot_has_words(PyObject *const *values, size_t nvalues, const uint64_t *words);
/* May it be kept for comparisons? */
int hot_is_plain(PyObject *value, int depth);
/* Does `given` mean what `kept`, which is plain, does? True and 1.0 are not 1; a list may stand for a tuple. */
int hot_means(PyObject *kept, PyObject *given);
#endif
