/* Converts and packs numbers that a caller passes as arguments of a kernel. */
#ifndef SP_HOT_SCALAR_H
#define SP_HOT_SCALAR_H
#include "objects.h"

static inline int hot_is_real(uint32_t code)
{
    return code == 'f' || code == 'd' || code == 'e';
}
/* Converts an object that is given as a number. `code` is the argument's format letter in Python's
 * struct module (e f d b B h H i I q Q). Returns an int or a float, or the object itself if it is
 * not such a number; a new reference. Returns NULL with an exception that the caller's own code
 * raised. */
PyObject *hot_plain(uint32_t code, PyObject *given);
/* Converts `groups` or `group_size` as hot_plain does: None, an int, or a tuple. At most four items
 * are converted, one more than allowed, so that the excess is noticed. */
PyObject *hot_plain_word(PyObject *given);
/* Packs a number as struct.pack does. Returns 0 if it does not fit; sets no exception. */
int hot_pack_scalar(uint32_t code, PyObject *number, char *at);
int hot_scalars(void);
#endif
