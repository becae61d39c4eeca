/* A row of the call table: the packed record of an earlier call, and which of its addresses come
 * from the arguments of a call.
 *
 * ops/calls/table.py makes rows. The key of a row has dtype, shape and strides of each array, so
 * nothing else in the record can differ. A row does nothing if some memory is closed, or if the
 * result would overlap what the kernel reads. Then the Python function checks the arguments itself,
 * and makes the call or raises the error. Nothing has been submitted by then. */
#include "row.h"
#include "calls.h"
#include "hot/launch/fence.h"
#include "hot/launch/keep_alive.h"
#include "hot/launch/launch.h"
#include "hot/launch/pack.h"
#include "hot/launch/scalar.h"
#include "hot/numpy/result.h"

#include "include/sp_cmd.h"

#include <string.h>

enum { MOST_NBYTES = sizeof(struct sp_cmd_dispatch) + 16 * SP_MAX_ARGS, MOMENT_NS = 50000000 };

PyTypeObject *hot_row_type;

/* The memory of one repeated call while it runs: a copy of the row's record, the result and the
 * block of constants. */
struct call {
    _Alignas(16) char record[MOST_NBYTES + HOT_CHUNK];
    PyObject *result, *block; /* this struct owns one reference to each, unless it is NULL */
};

static uint64_t word(const char *record, uint32_t at)
{
    uint64_t found;
    memcpy(&found, record + at, sizeof found);
    return found;
}

/* Returns 1 if the kernel and all memory that the row keeps belong to `device` and are open. */
static int is_open(const struct hot_row *row, PyObject *device)
{
    if (row->queue->device != device || !hot_kernel_is_of(row->kernel, device))
        return 0;
    const Py_ssize_t n = PyTuple_Size(row->kept);
    for (Py_ssize_t i = 0; i < n; i++)
        if (!hot_memory_is_of((const void *)PyTuple_GetItem(row->kept, i), device))
            return 0;
    return 1;
}

/* Returns 1 if the result shares memory with any other pointer argument of the record. */
static int overlaps(const struct hot_row *row, const char *record)
{
    const struct hot_patch *const p = row->patches;
    for (size_t i = 0; i < row->npatches; i++) {
        if (!(p[i].flags & HOT_IS_WRITTEN))
            continue;
        const uint64_t begin = word(record, p[i].address_at);
        const uint64_t end = begin + word(record, p[i].covered_at);
        for (size_t j = 0; j < row->npatches; j++) {
            const uint64_t other = word(record, p[j].address_at);
            const uint64_t other_end = other + word(record, p[j].covered_at);
            const int same_place = p[j].flags & HOT_SAME_PLACE && begin == other;
            if (i != j && !same_place && begin < other_end && other < end)
                return 1;
        }
    }
    return 0;
}

/* Returns a new bytes object with the block of constants for this call, or NULL. A Python object,
 * because `hold` can keep it alive until the launch has ended, even if the call ends earlier. */
static PyObject *block_of(const struct hot_row *row, PyObject *const *values)
{
    PyObject *const made = PyBytes_FromStringAndSize(row->block, row->block_nbytes);
    for (size_t i = 0; made && i < row->nnumbers; i++) {
        const struct hot_number *const number = &row->numbers[i];
        if (!hot_pack_scalar(number->code, values[number->value], PyBytes_AsString(made) + number->at)) {
            Py_DECREF(made);
            return NULL;
        }
    }
    return made;
}

static int is_array(PyObject *value)
{
    return Py_TYPE(value) == hot_ndarray_type;
}

/* Writes the address of a pointer argument's memory to `at` and returns 1, or returns 0 if the
 * memory is closed. */
static int memory_of(const struct hot_row *row, const struct call *c, PyObject *const *values,
                     const struct hot_patch *p, uint64_t *at)
{
    if (p->flags & HOT_POINTER) {
        const struct hot_pointer *const pointer = (const void *)values[p->source];
        *at = pointer->address;
        return hot_memory_is_of(pointer, row->queue->device);
    }
    PyObject *const array = p->source >= 0 ? values[p->source] : c->result;
    const struct hot_ndarray *const a = (const void *)array;
    const char *const data = p->source == HOT_BLOCK ? PyBytes_AsString(c->block) : a->data;
    *at = (uint64_t)(uintptr_t)data;
    return 1;
}

/* Fills in `c` before the launch: the result, the block of constants and the command record.
 * Returns 1, or 0 if this row cannot make the call, with or without an exception. The operation's
 * Python code then makes the call. */
static int fill(const struct hot_row *row, PyObject *const *values, struct call *c)
{
    PyObject *const given = row->out < 0 || values[row->out] == Py_None ? NULL : values[row->out];
    if (given)
        c->result = hot_itself(given);
    else
        c->result = hot_result(row->empty, row->shape, row->dtype, (size_t)row->result_nbytes);
    if (!c->result || (!given && !is_array(c->result)))
        return 0;
    if (row->nnumbers && !(c->block = block_of(row, values)))
        return 0;
    /* in pieces of a fixed size, which the compiler copies inline: one call of memcpy for the whole
     * record would take as long as the rest of this function */
    for (Py_ssize_t i = 0; i < row->record_nbytes; i += HOT_CHUNK)
        memcpy(c->record + i, row->record + i, HOT_CHUNK);
    for (size_t i = 0; i < row->npatches; i++) {
        const struct hot_patch *const p = &row->patches[i];
        if (p->source == HOT_FIXED)
            continue;
        uint64_t address;
        if (!memory_of(row, c, values, p, &address))
            return 0;
        address += (uint64_t)p->offset;
        memcpy(c->record + p->address_at, &address, sizeof address);
    }
    return !given || !overlaps(row, c->record);
}

/* Keeps the objects of an unfinished launch until the launch has ended. With `waits`, also waits
 * for the launch. Returns 0, or -1 with the exception of the wait. */
static int hold(const struct hot_row *row, const struct call *c, PyObject *const *values, size_t nvalues,
                int64_t value, int waits)
{
    PyObject *used[HOT_MOST_VALUES + 3] = {(PyObject *)(uintptr_t)row, c->result, c->block};
    const Py_ssize_t n = (Py_ssize_t)nvalues + 3;
    memcpy(used + 3, values, nvalues * sizeof *values);
    if (waits)
        return hot_wait_for(row->queue, value, used, n);
    hot_keep_alive(row->queue, value, used, n);
    return 0;
}

/* Launches the command record of `c`. Returns the launch's timeline value, or a number <= 0 if the
 * queue refused the record. Sets *unfinished to 1 unless the launch has already ended without
 * error. */
static int64_t launch(const struct hot_row *row, const struct call *c, uint64_t epoch, int waits, int *unfinished)
{
    struct sp_handle *const queue = row->queue->handle;
    const struct sp_functions *const call = queue->functions;
    /* A row's call is brief if it takes little time. It keeps the GIL, because releasing the GIL
     * would take a tenth of the call's time. */
    const int brief = row->brief && call->brief;
    const size_t nbytes = (size_t)row->record_nbytes;
    int64_t value;
    PyThreadState *const others = brief ? NULL : PyEval_SaveThread();
    value = (call->again ? call->again : call->launch)(queue, c->record, nbytes, epoch);
    if (value > 0 && waits)
        *unfinished = call->wait(queue, (uint64_t)value, brief ? 0 : MOMENT_NS) != 0;
    else if (value > 0)
        *unfinished = call->reached(queue) < (uint64_t)value;
    if (others)
        PyEval_RestoreThread(others);
    return value;
}

PyObject *hot_row_run(struct hot_row *row, PyObject *device, const uint64_t *given, PyObject *const *values, size_t nvalues,
                      int waits)
{
    struct call c;
    /* read before any object is checked: if an object is closed after its check, the device's epoch
     * has changed, and the queue refuses the launch */
    uint64_t epoch;
    c.result = c.block = NULL;
    if (!device)
        device = row->queue->device;
    if (!hot_epoch(device, &epoch) || !is_open(row, device))
        return NULL;
    if (given)
        epoch = *given;
    int unfinished = 0;
    const int64_t value = fill(row, values, &c) ? launch(row, &c, epoch, waits, &unfinished) : 0;
    PyObject *made = NULL;
    if (value <= 0)
        /* the operation's Python code now makes the call, and raises an error with more details */
        PyErr_Clear();
    else if (!unfinished || (!waits && !row->holds) || hold(row, &c, values, nvalues, value, waits) == 0)
        made = waits ? (Py_INCREF(c.result), c.result) : hot_fence_of(row->queue, value);
    Py_XDECREF(c.result);
    Py_XDECREF(c.block);
    return made;
}

/* Returns 1 if the row's command record names the row's kernel, and the queue's check accepts the
 * record. */
static int is_taken(const struct hot_row *row)
{
    struct sp_cmd_dispatch head;
    memcpy(&head, row->record, sizeof head);
    struct sp_handle *const queue = row->queue->handle;
    return queue && hot_kernel_is_of(row->kernel, row->queue->device) &&
           head.kernel == hot_packing_of(row->kernel)->head.kernel &&
           queue->functions->check(queue, row->record, (size_t)row->record_nbytes) >= 0;
}

/* Returns 1 if the row has as many hot_patch structs as its command record has pointers that are
 * not null. In the record, the kernel's arguments are followed by one number per pointer: the bytes
 * of its memory, 0 for a null pointer. */
static int is_patched(const struct hot_row *row)
{
    struct sp_cmd_dispatch head;
    memcpy(&head, row->record, sizeof head);
    size_t npointers = 0;
    for (uint32_t at = sizeof head + head.args_nbytes; at < (uint32_t)row->record_nbytes; at += 8)
        npointers += word(row->record, at) != 0;
    return npointers == row->npatches;
}

/* Returns 1 if the source of a pointer argument exists and is what the flags of `p` say: an object
 * of core/ that points to memory, or a numpy array. */
static int has_source(const struct hot_row *row, const struct hot_patch *p, PyObject *const *values, size_t nvalues)
{
    if (p->source < HOT_FIXED || p->source >= (int32_t)nvalues)
        return 0;
    if (p->source < 0)
        return p->source != HOT_BLOCK || row->nnumbers;
    PyObject *const value = values[p->source];
    return p->flags & HOT_POINTER ? hot_is(value, &hot_pointers) : is_array(value);
}

/* Returns 1 if the row is consistent. Each offset in it must lie inside the record or the block of
 * constants. Each index must be that of an argument of the call. */
static int is_sound(const struct hot_row *row, PyObject *const *values, size_t nvalues)
{
    const uint64_t last = (uint64_t)row->record_nbytes - 8;
    int sound = row->record_nbytes >= (Py_ssize_t)sizeof(struct sp_cmd_dispatch) &&
                row->record_nbytes <= MOST_NBYTES &&
                row->record_nbytes % 8 == 0 &&
                row->out < (int)nvalues &&
                (size_t)PyTuple_Size(row->meant) == nvalues &&
                !(row->compared >> nvalues) &&
                is_taken(row) &&
                is_patched(row);
    for (size_t i = 0; sound && i < row->npatches; i++) {
        const struct hot_patch *const p = &row->patches[i];
        sound = p->address_at <= last && p->covered_at <= last && has_source(row, p, values, nvalues);
    }
    for (size_t i = 0; sound && i < row->nnumbers; i++)
        sound = row->numbers[i].value < nvalues && (Py_ssize_t)row->numbers[i].at + 8 <= row->block_nbytes;
    for (Py_ssize_t i = 0; sound && i < PyTuple_Size(row->kept); i++)
        sound = hot_is(PyTuple_GetItem(row->kept, i), &hot_pointers);
    for (size_t i = 0; sound && i < nvalues; i++)
        sound = !(row->compared >> i & 1) || hot_is_plain(PyTuple_GetItem(row->meant, (Py_ssize_t)i), 2);
    return sound;
}

/* Row(values, fixed): makes a row. `values` is the tuple of the call's arguments. `fixed` is a
 * tuple with the contents of the row, which the row keeps alive. Returns None if the key of the
 * call would be too long. */
static PyObject *make(PyTypeObject *type, PyObject *given, PyObject *named)
{
    PyObject *values, *fixed, *site, *all[HOT_MOST_VALUES];
    struct hot_row read;
    uint64_t words[HOT_MOST_WORDS];
    Py_ssize_t patches_nbytes, numbers_nbytes;
    (void)named;
    if (!PyArg_ParseTuple(given, "O!O!", &PyTuple_Type, &values, &PyTuple_Type, &fixed) ||
        !PyArg_ParseTuple(fixed, "OO!KO!O!y#y#O!OOOnipy#y#", &site, &PyTuple_Type, &read.meant, &read.compared,
                          hot_queues.type, &read.queue, hot_kernels.type, &read.kernel,
                          &read.record, &read.record_nbytes, &read.patches, &patches_nbytes,
                          &PyTuple_Type, &read.kept,
                          &read.empty, &read.shape, &read.dtype, &read.result_nbytes,
                          &read.out, &read.brief,
                          &read.block, &read.block_nbytes, &read.numbers, &numbers_nbytes))
        return NULL;
    read.npatches = (size_t)patches_nbytes / sizeof *read.patches;
    read.nnumbers = (size_t)numbers_nbytes / sizeof *read.numbers;
    const size_t nvalues = (size_t)PyTuple_Size(values);
    for (size_t i = 0; i < nvalues && i < HOT_MOST_VALUES; i++)
        all[i] = PyTuple_GetItem(values, (Py_ssize_t)i);
    if (!hot_key_of(site, all, nvalues, words, &read.key))
        Py_RETURN_NONE;
    if (!is_sound(&read, all, nvalues))
        return PyErr_Format(PyExc_ValueError, "Row: expected a record with its places in bounds, got %zd bytes",
                            read.record_nbytes),
               NULL;
    const Py_ssize_t words_nbytes = (Py_ssize_t)(read.key.nwords * sizeof *words);
    const Py_ssize_t padded = (read.record_nbytes + HOT_CHUNK - 1) & -HOT_CHUNK;
    PyObject *const bytes = PyBytes_FromStringAndSize(NULL, words_nbytes + padded);
    struct hot_row *const made = bytes ? (void *)PyType_GenericAlloc(type, 0) : NULL;
    if (!made) {
        Py_XDECREF(bytes);
        return NULL;
    }
    const size_t head = offsetof(struct hot_row, key);
    memcpy((char *)made + head, (const char *)&read + head, sizeof read - head);
    char *const copy = memset(PyBytes_AsString(bytes), 0, (size_t)(words_nbytes + padded));
    made->copy = bytes;
    made->key.words = memcpy(copy, words, (size_t)words_nbytes);
    made->record = memcpy(copy + words_nbytes, read.record, (size_t)read.record_nbytes);
    made->holds = 0;
    for (size_t i = 0; i < made->npatches; i++)
        made->holds |= made->patches[i].source != HOT_FIXED && !(made->patches[i].flags & HOT_POINTER);
    /* A pointer object in `kept` may refer to memory of a numpy array (HOT_BORROWED_BIT). Only the
     * row keeps this array alive, so an unfinished launch must keep the row. */
    for (Py_ssize_t i = 0; i < PyTuple_Size(made->kept); i++) {
        const struct hot_pointer *const kept = (const void *)PyTuple_GetItem(made->kept, i);
        made->holds |= (kept->elements & HOT_BORROWED_BIT) != 0;
    }
    made->fixed = fixed;
    Py_INCREF(fixed);
    return (PyObject *)made;
}

int hot_rows(PyObject *module)
{
    static const struct hot_frame frame = {
        .name = "sparkle_drv._hot.Row",
        .doc = "What one call amounted to.",
        .size = sizeof(struct hot_row),
        .references = 2,
        .is_fixed = 1,
        .make = make,
    };
    hot_row_type = hot_collected(module, &frame);
    return hot_row_type ? 0 : -1;
}
