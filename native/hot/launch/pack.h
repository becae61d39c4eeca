/* Launches, packed: the one place that judges what a caller gave. */
#ifndef SP_HOT_PACK_H
#define SP_HOT_PACK_H
#include "objects.h"
#include "include/sp_pack.h"

/* groups, group_size, shared: what a launch is given beside its arguments. */
enum { HOT_WORDS = 3 };

struct hot_record {
    _Alignas(16) char bytes[sizeof(struct sp_cmd_dispatch) + 16 * SP_MAX_ARGS];
    size_t nbytes;
    unsigned seen; /* bits of its pointers' elements */
    /* Of a refusal: which argument, axis or word, and the number that it is about. */
    uint32_t index;
    uint64_t number;
};

static inline const struct sp_packing *hot_packing_of(PyObject *kernel)
{
    return (const void *)PyBytes_AsString(((const struct hot_kernel *)(const void *)kernel)->packing);
}
/* Packs a launch of numbers as hot_plain makes them. 0, or an enum sp_refusal; no exception is set. */
int hot_pack(const PyObject *device, PyObject *kernel, PyObject *const *args, Py_ssize_t nargs, PyObject *const *words,
             struct hot_record *r);
/* The same of a tuple of arguments. */
int hot_pack_tuple(const PyObject *device, PyObject *kernel, PyObject *args, PyObject *const *words, struct hot_record *r);
/* (args, (groups, group_size, shared)) with what stands for numbers converted; NULL with the exception of the caller's own code.
 * An object that stands for no number stays as it is. Without a kernel, or with a wrong number of arguments, all arguments
 * stay as they are. */
PyObject *hot_plain_launch(PyObject *kernel, PyObject *args, PyObject *const *words);
/* Adds `pack`, `judge`, `plain` and `number` to the module: 0, or -1 with an exception. */
int hot_packing(PyObject *module);
#endif
