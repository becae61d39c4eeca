/* Packs launches into command records, and finds the reasons to refuse a caller's arguments. */
#ifndef SP_HOT_PACK_H
#define SP_HOT_PACK_H
#include "objects.h"
#include "include/sp_pack.h"

/* number of keyword arguments of a launch: groups, group_size, shared */
enum { HOT_WORDS = 3 };

struct hot_record {
    _Alignas(16) char bytes[sizeof(struct sp_cmd_dispatch) + 16 * SP_MAX_ARGS];
    size_t nbytes;
    /* all bits that are set in `elements` (core/abi/elements.py) of any pointer argument of the
     * launch */
    unsigned seen;
    /* If the launch was refused. `index`: which argument, axis of the grid or launch option (0
     * groups, 1 group_size, 2 shared) was wrong. `number`: the number that was too large or too
     * small. */
    uint32_t index;
    uint64_t number;
};

static inline const struct sp_packing *hot_packing_of(PyObject *kernel)
{
    return (const void *)PyBytes_AsString(((const struct hot_kernel *)(const void *)kernel)->packing);
}
/* Packs the launch of `kernel` with arguments `args` into a command record. `words` has the values
 * of groups, group_size and shared. Every number must be an int or a float; hot_plain_launch
 * converts other objects. Returns 0, or an enum sp_refusal; sets no exception. */
int hot_pack(const PyObject *device, PyObject *kernel, PyObject *const *args, Py_ssize_t nargs, PyObject *const *words,
             struct hot_record *r);
/* Packs as hot_pack does, from a tuple of arguments. */
int hot_pack_tuple(const PyObject *device, PyObject *kernel, PyObject *args, PyObject *const *words, struct hot_record *r);
/* Returns a tuple (args, (groups, group_size, shared)); `words` has the last three values. Objects
 * with __index__ or __float__ are converted to numbers where a number is expected; other objects
 * are unchanged. If `kernel` is no kernel, or the number of arguments is wrong, no argument is
 * converted. Returns NULL if the caller's __index__ or __float__ raised an exception. */
PyObject *hot_plain_launch(PyObject *kernel, PyObject *args, PyObject *const *words);
int hot_packing(PyObject *module);
#endif
