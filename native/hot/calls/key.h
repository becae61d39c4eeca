/* What calls are found by. */
#ifndef SP_HOT_KEY_H
#define SP_HOT_KEY_H
#include "hot/numpy/ndarray.h"

enum { HOT_MOST_VALUES = 24, HOT_MOST_WORDS = 192 };

/* Words for what is called, and for each value: of an array dtype, flags, shape and, unless it is row-major, strides; of
 * everything else its type. */
struct hot_key {
    size_t nwords;
    uint64_t hash, words[HOT_MOST_WORDS];
};

/* 0: no table knows such a call. `*constant`: the one constant among the values, borrowed, or NULL. */
int hot_key_of(struct hot_key *key, PyObject *site, PyObject *const *values, size_t nvalues, PyObject **constant);
/* May it be kept for comparisons? */
int hot_is_plain(PyObject *value, int depth);
/* Does `given` mean what `kept`, which is plain, does? True and 1.0 are not 1; a list may stand for a tuple. */
int hot_means(PyObject *kept, PyObject *given);
#endif
