/* A row of the call table: what C needs to repeat one earlier call of an operation with other
 * arrays of the same types and shapes. A row is immutable. */
#ifndef SP_HOT_ROW_H
#define SP_HOT_ROW_H
#include "key.h"

/* Describes one pointer argument of the kernel in the row's command record, and where a repeated
 * call takes its address from. */
struct hot_patch {
    /* If 0 or more: the address comes from the call's argument with this index. Else an enum
     * hot_source. */
    int32_t source;
    uint32_t flags;
    /* offsets in the row's command record: of the pointer's address, and of the number of bytes
     * from that address to the end of the memory */
    uint32_t address_at, covered_at;
    /* The kernel gets the address of the first element of `source`'s memory, plus this number of
     * bytes. */
    int64_t offset;
};
/* Values of hot_patch.source for addresses that come from none of the call's arguments. HOT_RESULT:
 * the address of the result. HOT_BLOCK: of the block of constants. HOT_FIXED: the row's command
 * record already has the address. ops/calls/table.py has the same numbers. */
enum hot_source { HOT_RESULT = -1, HOT_BLOCK = -2, HOT_FIXED = -3 };
/* Bits of hot_patch.flags. HOT_IS_WRITTEN: the kernel writes through this pointer. HOT_SAME_PLACE:
 * this operand may begin at the same address as the result. HOT_POINTER: the call's argument is a
 * core.Array or Buffer, not a numpy array. */
enum hot_patch_flags { HOT_IS_WRITTEN = 1, HOT_SAME_PLACE = 2, HOT_POINTER = 4 };

/* A number among the arguments of the call. The kernel reads it from a block of constants. */
struct hot_number {
    uint32_t value; /* index of the number among the call's arguments */
    uint32_t code;  /* type of the number, as a format letter of Python's struct module */
    uint32_t at;    /* byte offset of this number in the block of constants */
    uint32_t pad;
};

enum { HOT_CHUNK = 32 };

struct hot_row {
    PyObject_HEAD
    /* fixed: the tuple that Row() got, which owns the row's objects and arrays. copy: a bytes
     * object that owns the key's words and the command record. */
    PyObject *fixed, *copy;
    struct hot_key key;
    /* A tuple with one item per argument of the call. The item is the dtype of an array, the type
     * of a number, or a value that the argument must equal. */
    PyObject *meant;
    /* Bit i is 1 if argument i of a call must be equal to item i of `meant`. The key checks the
     * types of all other arguments. */
    unsigned long long compared;
    struct hot_queue *queue;
    /* kept: a tuple of the pointer objects (core.Array, Buffer) that own the fixed addresses in the
     * command record */
    PyObject *kernel, *kept;
    /* `empty` is a Python function: empty(shape, dtype) makes the array for a new result. */
    PyObject *empty, *shape, *dtype;
    Py_ssize_t result_nbytes;
    /* 1: the kernel uses memory of a numpy array or of the block of constants. If such a launch is
     * unfinished when the call ends, its objects must be kept alive until it ends. */
    int holds;
    /* out: index of the call's argument into which the result goes; -1: the call has none. brief: 1
     * if the call takes so little time that it keeps the GIL. */
    int out, brief;
    /* `record` is the command record, padded with zeros to a multiple of HOT_CHUNK bytes. `block`
     * is the block of constants that the kernel reads. */
    const char *record, *block;
    Py_ssize_t record_nbytes, block_nbytes;
    const struct hot_patch *patches;
    const struct hot_number *numbers;
    size_t npatches, nnumbers;
};

extern PyTypeObject *hot_row_type;

/* Repeats the call of a row with the arguments `values`. With `waits`, waits for the launch and
 * returns the result, otherwise returns the launch's fence. Returns NULL without an exception if
 * nothing was launched, and NULL with an exception if the wait failed. A `device` of NULL stands
 * for the device of the row's queue; an `epoch` of NULL stands for the device's present epoch. */
PyObject *hot_row_run(struct hot_row *row, PyObject *device, const uint64_t *epoch, PyObject *const *values, size_t nvalues,
                      int waits);
#endif
