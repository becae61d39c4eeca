/* A row of the call table: what one earlier call did. A row is immutable. */
#ifndef SP_HOT_ROW_H
#define SP_HOT_ROW_H
#include "key.h"

/* A pointer argument of the record. */
struct hot_patch {
    /* index of the call's argument whose memory the pointer names, or an enum hot_source */
    int32_t source;
    uint32_t flags;
    /* offsets in the record of the pointer's address, and of the number of bytes that it covers */
    uint32_t address_at, covered_at;
    /* bytes from the first element of the memory that `source` names to the address that the
     * kernel gets */
    int64_t offset;
};
/* Sources of an address other than the call's arguments. HOT_RESULT: the result. HOT_BLOCK: the
 * block of constants. HOT_FIXED: the record already has the address. ops/calls/table.py has the
 * same numbers. */
enum hot_source { HOT_RESULT = -1, HOT_BLOCK = -2, HOT_FIXED = -3 };
/* HOT_SAME_PLACE: the argument may lie exactly where the result does. HOT_POINTER: the argument is
 * a core.Array or Buffer. */
enum hot_patch_flags { HOT_IS_WRITTEN = 1, HOT_SAME_PLACE = 2, HOT_POINTER = 4 };

/* A number among the arguments of the call. The kernel reads it from a block of constants. */
struct hot_number {
    uint32_t value; /* index of the number among the call's arguments */
    uint32_t code;  /* format character as in Python's struct module */
    uint32_t at;    /* byte offset of this number in the constants that the kernel reads */
    uint32_t pad;
};

enum { HOT_CHUNK = 32 };

struct hot_row {
    PyObject_HEAD
    PyObject *fixed, *copy; /* own what the members below point to */
    struct hot_key key;
    /* tuple with one item per argument of the call: the dtype of an array, the type of a number, or
     * the very value that the argument must equal */
    PyObject *meant;
    /* one bit for each argument of the call; 1: the argument must equal its item of `meant`, 0: the
     * item is the type that the argument must have */
    unsigned long long compared;
    struct hot_queue *queue;
    PyObject *kernel, *kept; /* kept: tuple of pointers whose addresses are in the record */
    /* the Python call empty(shape, dtype) makes a new result */
    PyObject *empty, *shape, *dtype;
    Py_ssize_t result_nbytes;
    /* 1: an unfinished launch needs memory of numpy's that only the call keeps alive */
    int holds;
    /* out: index of the argument that is the result's destination, -1: none. brief: 1 if the call
     * is so short that it keeps the GIL */
    int out, brief;
    const char *record, *block; /* zeros follow the record up to a multiple of HOT_CHUNK bytes */
    Py_ssize_t record_nbytes, block_nbytes;
    const struct hot_patch *patches;
    const struct hot_number *numbers;
    size_t npatches, nnumbers;
};

extern PyTypeObject *hot_row_type;

/* Runs the call of a row. With `waits` it returns the result, otherwise the launch's fence. Returns
 * NULL without an exception if nothing was launched, or NULL with the exception of the wait. If
 * `device` is NULL, the device is the row's. If `epoch` is NULL, the epoch is the device's own. */
PyObject *hot_row_run(struct hot_row *row, PyObject *device, const uint64_t *epoch, PyObject *const *values, size_t nvalues,
                      int waits);
#endif
