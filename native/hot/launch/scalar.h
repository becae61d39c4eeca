/* Numbers as the arguments of kernels. */
#ifndef SP_HOT_SCALAR_H
#define SP_HOT_SCALAR_H
#include "objects.h"

static inline int hot_is_real(uint32_t code)
{
    return code == 'f' || code == 'd' || code == 'e';
}
/* Converts an object that is given as a number, for an argument of struct's `code` (e f d b B h H i I q Q). Returns an int or a
 * float, or the object itself if it is not such a number; a new reference. Returns NULL with the exception that the caller's
 * own code raised. */
PyObject *hot_plain(uint32_t code, PyObject *given);
/* The same of `groups` or `group_size`: None, an int, or up to four in a tuple, one more than there may be. */
PyObject *hot_plain_word(PyObject *given);
/* A number as struct.pack has it; 0: it does not fit. No exception is set. */
int hot_pack_scalar(uint32_t code, PyObject *number, char *at);
int hot_scalars(void);
#endif
