/* Packs launches into command records, and finds the reasons to refuse a caller's arguments. */
#ifndef SP_HOT_PACK_H
#define SP_HOT_PACK_H
#include "objects.h"
#include "include/sp_pack.h"

/* What a launch is given besides its arguments: groups, group_size, shared. */
enum { HOT_WORDS = 3 };

struct hot_record {
    _Alignas(16) char bytes[sizeof(struct sp_cmd_dispatch) + 16 * SP_MAX_ARGS];
    size_t nbytes;
    /* bitwise or of the member `elements` (core/abi/elements.py) of all pointers in the record */
    unsigned seen;
    /* About a refusal: the index of the argument, axis or launch option (groups, group_size,
     * shared), and the number at fault. */
    uint32_t index;
    uint64_t number;
};

static inline const struct sp_packing *hot_packing_of(PyObject *kernel)
{
    return (const void *)PyBytes_AsString(((const struct hot_kernel *)(const void *)kernel)->packing);
}
/* Packs a launch. Every number must be an int or a float: hot_plain_launch converts other objects.
 * Returns 0, or an enum sp_refusal; sets no exception. */
int hot_pack(const PyObject *device, PyObject *kernel, PyObject *const *args, Py_ssize_t nargs, PyObject *const *words,
             struct hot_record *r);
/* Packs as hot_pack does, from a tuple of arguments. */
int hot_pack_tuple(const PyObject *device, PyObject *kernel, PyObject *args, PyObject *const *words, struct hot_record *r);
/* Returns (args, (groups, group_size, shared)). Objects that stand for numbers are converted to
 * numbers; other objects are unchanged. If `kernel` is no kernel, or the number of arguments is
 * wrong, no argument is converted. Returns NULL if the caller's __index__ or __float__ raised an
 * exception. */
PyObject *hot_plain_launch(PyObject *kernel, PyObject *args, PyObject *const *words);
/* Adds `pack`, `judge`, `plain` and `number` to the module. Returns 0, or -1 with an exception. */
int hot_packing(PyObject *module);
#endif
