/* A row of the call table: what one call amounted to. It never changes once it is made. */
#ifndef SP_HOT_ROW_H
#define SP_HOT_ROW_H
#include "key.h"

/* A pointer argument of the record. */
struct hot_patch {
    int32_t source; /* which value of the call has the memory, or an enum hot_source */
    uint32_t flags;
    uint32_t address_at, covered_at; /* in the record */
    int64_t offset;                  /* in bytes, from the first element of the source */
};
/* FIXED: the address stands in the record. ops/calls/table.py has the same numbers. */
enum hot_source { HOT_RESULT = -1, HOT_BLOCK = -2, HOT_FIXED = -3 };
/* SAME_PLACE: it may lie exactly where the result does. POINTER: the value is a core.Array or Buffer. */
enum hot_patch_flags { HOT_IS_WRITTEN = 1, HOT_SAME_PLACE = 2, HOT_POINTER = 4 };

/* A number of the call that the kernel reads from a block of constants. */
struct hot_number {
    uint32_t value; /* which value of the call */
    uint32_t code;  /* struct's */
    uint32_t at;    /* in the block */
    uint32_t pad;
};

enum { HOT_CHUNK = 32 };

struct hot_row {
    PyObject_HEAD
    PyObject *fixed, *copy; /* own everything that follows */
    struct hot_key key;
    PyObject *meant;         /* a tuple: for each value the dtype of an array, the type of a number, or what is compared */
    unsigned long long compared; /* a bit for each value that is compared, and not its type alone */
    struct hot_queue *queue;
    PyObject *kernel, *kept; /* kept: a tuple of pointers whose addresses stand in the record */
    PyObject *empty, *shape, *dtype; /* a new result is empty(shape, dtype) */
    Py_ssize_t result_nbytes;
    int holds;      /* a launch that has not ended needs what only the call keeps: numpy's memory */
    int out, brief; /* out: which value says where the result goes; -1: none does. brief: over before others would have had the GIL */
    const char *record, *block; /* the record is followed by zeros up to a whole HOT_CHUNK */
    Py_ssize_t record_nbytes, block_nbytes;
    const struct hot_patch *patches;
    const struct hot_number *numbers;
    size_t npatches, nnumbers;
};

extern PyTypeObject *hot_row_type;

/* The call of a row: the result, or, where nobody waits, its fence; NULL: nothing was done, or with an exception.
 * `device` NULL: that of the row. `epoch` NULL: what the device has for launches. */
PyObject *hot_row_run(struct hot_row *row, PyObject *device, const uint64_t *epoch, PyObject *const *values, size_t nvalues,
                      int waits);
#endif
