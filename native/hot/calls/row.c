/* What one call amounted to: a packed record, and which of its addresses come from the values of a call.
 *
 * ops/calls/table.py makes rows. The key of a row has dtype, shape and strides of each array, so nothing else of the record can
 * differ. A row does nothing where something is closed, or where the result would overlap what the kernel reads: Python then
 * begins again from the arguments, does the call or raises the error. Nothing has been submitted by then. */
#include "row.h"
#include "calls.h"
#include "hot/launch/fence.h"
#include "hot/launch/hold.h"
#include "hot/launch/launch.h"
#include "hot/launch/scalar.h"
#include "hot/numpy/result.h"

#include "include/sp_cmd.h"

#include <string.h>

enum { MOST_NBYTES = sizeof(struct sp_cmd_dispatch) + 16 * SP_MAX_ARGS, MOMENT_NS = 50000000 };

PyTypeObject *hot_row_type;

/* One call on its way. */
struct call {
    _Alignas(16) char record[MOST_NBYTES + HOT_CHUNK];
    PyObject *result, *block; /* new references, or NULL */
};

static uint64_t word(const char *record, uint32_t at)
{
    uint64_t found;
    memcpy(&found, record + at, sizeof found);
    return found;
}

/* Is everything open whose address stands in the record? */
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

/* Does the result share memory with anything else that the record names? */
static int overlaps(const struct hot_row *row, const char *record)
{
    const struct hot_patch *const p = row->patches;
    for (size_t i = 0; i < row->npatches; i++) {
        if (!(p[i].flags & HOT_IS_WRITTEN))
            continue;
        const uint64_t begin = word(record, p[i].address_at), nbytes = word(record, p[i].covered_at);
        for (size_t j = 0; j < row->npatches; j++) {
            const uint64_t other = word(record, p[j].address_at), covered = word(record, p[j].covered_at);
            const int same_place = p[j].flags & HOT_SAME_PLACE && begin == other;
            if (i != j && !same_place && begin < other + covered && other < begin + nbytes)
                return 1;
        }
    }
    return 0;
}

/* The constants of this call in an object: should the launch wait for others, they may have to outlive the call. */
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

/* Where the memory of a pointer argument is. 0: closed. */
static int memory_of(const struct hot_row *row, const struct call *c, PyObject *const *values, const struct hot_patch *p, uint64_t *at)
{
    if (p->flags & HOT_POINTER) {
        const struct hot_pointer *const pointer = (const void *)values[p->source];
        *at = pointer->address;
        return hot_memory_is_of(pointer, row->queue->device);
    }
    PyObject *const array = p->source >= 0 ? values[p->source] : c->result;
    const char *const data = p->source == HOT_BLOCK ? PyBytes_AsString(c->block) : ((const struct hot_ndarray *)(const void *)array)->data;
    *at = (uint64_t)(uintptr_t)data;
    return 1;
}

/* Everything but the launch. 0: left to Python, perhaps with an exception. */
static int fill(const struct hot_row *row, PyObject *const *values, struct call *c)
{
    PyObject *const given = row->out < 0 || values[row->out] == Py_None ? NULL : values[row->out];
    c->result = given ? (Py_INCREF(given), given) : hot_result(row->empty, row->shape, row->dtype, (size_t)row->result_nbytes);
    if (!c->result || (!given && !is_array(c->result)) || (row->nnumbers && !(c->block = block_of(row, values))))
        return 0;
    for (Py_ssize_t i = 0; i < row->record_nbytes; i += HOT_CHUNK) /* a call of memcpy costs as much as all of it */
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

/* Keeps what a launch uses that has not ended: 0, or -1 with an exception of the wait for it. */
static int hold(const struct hot_row *row, const struct call *c, PyObject *const *values, size_t nvalues, int64_t value, int waits)
{
    PyObject *used[HOT_MOST_VALUES + 3] = {(PyObject *)(uintptr_t)row, c->result, c->block};
    const Py_ssize_t n = (Py_ssize_t)nvalues + 3;
    memcpy(used + 3, values, nvalues * sizeof *values);
    if (waits)
        return hot_wait_for(row->queue, value, used, n);
    hot_hold(row->queue, value, used, n);
    return 0;
}

/* A timeline value; 0 or less: refused. `*unfinished`: it has not ended well yet. */
static int64_t launch(const struct hot_row *row, const struct call *c, uint64_t epoch, int waits, int *unfinished)
{
    struct sp_handle *const queue = row->queue->handle;
    const struct sp_functions *const call = queue->functions;
    int64_t (*const again)(void *queue, const void *record, size_t nbytes, uint64_t epoch) = call->again ? call->again : call->launch;
    const int brief = row->brief && call->brief; /* to give up the GIL costs a tenth of such a call */
    const size_t nbytes = (size_t)row->record_nbytes;
    int64_t value;
    PyThreadState *const others = brief ? NULL : PyEval_SaveThread();
    value = again(queue, c->record, nbytes, epoch);
    if (value > 0)
        *unfinished = waits ? call->wait(queue, (uint64_t)value, brief ? 0 : MOMENT_NS) != 0 : call->reached(queue) < (uint64_t)value;
    if (others)
        PyEval_RestoreThread(others);
    return value;
}

PyObject *hot_row_run(struct hot_row *row, PyObject *device, PyObject *const *values, size_t nvalues, int waits)
{
    struct call c;
    uint64_t epoch; /* read before anything is looked at */
    c.result = c.block = NULL;
    if (!device)
        device = row->queue->device;
    if (!hot_epoch(device, &epoch) || !is_open(row, device))
        return NULL;
    int unfinished = 0;
    const int64_t value = fill(row, values, &c) ? launch(row, &c, epoch, waits, &unfinished) : 0;
    PyObject *made = NULL;
    if (value <= 0)
        PyErr_Clear(); /* Python comes upon it again, and says it better */
    else if (!unfinished || (!waits && !row->holds) || hold(row, &c, values, nvalues, value, waits) == 0)
        made = waits ? (Py_INCREF(c.result), c.result) : hot_fence_of(row->queue, value);
    Py_XDECREF(c.result);
    Py_XDECREF(c.block);
    return made;
}

/* ---- making one ---- */

/* Is it a record of this kernel, which its queue would take? */
static int is_taken(const struct hot_row *row)
{
    PyObject *const pointer = PyObject_GetAttrString(row->kernel, "_pointer");
    const unsigned long long kernel = pointer ? PyLong_AsUnsignedLongLong(pointer) : 0;
    Py_XDECREF(pointer);
    PyErr_Clear();
    struct sp_cmd_dispatch head;
    memcpy(&head, row->record, sizeof head);
    struct sp_handle *const queue = row->queue->handle;
    return queue && kernel && head.kernel == kernel && hot_kernel_is_of(row->kernel, row->queue->device) &&
           queue->functions->check(queue, row->record, (size_t)row->record_nbytes) >= 0;
}

/* Has each pointer that covers something a patch? The bytes that pointers cover stand behind the arguments. */
static int is_patched(const struct hot_row *row)
{
    struct sp_cmd_dispatch head;
    memcpy(&head, row->record, sizeof head);
    size_t npointers = 0;
    for (uint32_t at = sizeof head + head.args_nbytes; at < (uint32_t)row->record_nbytes; at += 8)
        npointers += word(row->record, at) != 0;
    return npointers == row->npatches;
}

/* Do the patches and numbers stay inside the record, the block and the values? */
static int is_sound(const struct hot_row *row, PyObject *const *values, size_t nvalues)
{
    const uint64_t last = (uint64_t)row->record_nbytes - 8;
    int sound = row->record_nbytes >= (Py_ssize_t)sizeof(struct sp_cmd_dispatch) && row->record_nbytes <= MOST_NBYTES &&
                row->record_nbytes % 8 == 0 && row->out < (int)nvalues && (size_t)PyTuple_Size(row->meant) == nvalues &&
                !(row->compared >> nvalues) && is_taken(row) && is_patched(row);
    for (size_t i = 0; sound && i < row->npatches; i++) {
        const struct hot_patch *const p = &row->patches[i];
        sound = p->address_at <= last && p->covered_at <= last && p->source >= HOT_FIXED && p->source < (int32_t)nvalues &&
                (p->source != HOT_BLOCK || row->nnumbers) && (p->source < 0 || (p->flags & HOT_POINTER ? hot_is_pointer(values[p->source]) : is_array(values[p->source])));
    }
    for (size_t i = 0; sound && i < row->nnumbers; i++)
        sound = row->numbers[i].value < nvalues && (Py_ssize_t)row->numbers[i].at + 8 <= row->block_nbytes;
    for (Py_ssize_t i = 0; sound && i < PyTuple_Size(row->kept); i++)
        sound = hot_is_pointer(PyTuple_GetItem(row->kept, i));
    for (size_t i = 0; sound && i < nvalues; i++)
        sound = !(row->compared >> i & 1) || hot_is_plain(PyTuple_GetItem(row->meant, (Py_ssize_t)i), 2);
    return sound;
}

/* Row(values, fixed): `fixed` is a tuple, which owns what the row reads. None: the key of such a call is too long. */
static PyObject *make(PyTypeObject *type, PyObject *given, PyObject *named)
{
    PyObject *values, *fixed, *constant, *all[HOT_MOST_VALUES];
    struct hot_row read;
    uint64_t words[HOT_MOST_WORDS];
    Py_ssize_t patches_nbytes, numbers_nbytes;
    (void)named;
    if (!PyArg_ParseTuple(given, "O!O!", &PyTuple_Type, &values, &PyTuple_Type, &fixed) ||
        !PyArg_ParseTuple(fixed, "OO!KO!O!y#y#O!OOOnipy#y#", &read.site, &PyTuple_Type, &read.meant, &read.compared, hot_queue_type,
                          &read.queue, hot_kernel_type, &read.kernel, &read.record, &read.record_nbytes, &read.patches,
                          &patches_nbytes, &PyTuple_Type, &read.kept, &read.empty, &read.shape, &read.dtype, &read.result_nbytes, &read.out,
                          &read.brief, &read.block, &read.block_nbytes, &read.numbers, &numbers_nbytes))
        return NULL;
    read.npatches = (size_t)patches_nbytes / sizeof *read.patches;
    read.nnumbers = (size_t)numbers_nbytes / sizeof *read.numbers;
    const size_t nvalues = read.nvalues = (size_t)PyTuple_Size(values);
    for (size_t i = 0; i < nvalues && i < HOT_MOST_VALUES; i++)
        all[i] = PyTuple_GetItem(values, (Py_ssize_t)i);
    read.nwords = hot_words_of(all, nvalues, words);
    if (!read.nwords || !hot_hash_of(read.site, all, nvalues, &read.hash, &constant))
        Py_RETURN_NONE;
    if (!is_sound(&read, all, nvalues))
        return PyErr_Format(PyExc_ValueError, "Row: expected a record with its places in bounds, got %zd bytes", read.record_nbytes), NULL;
    const Py_ssize_t words_nbytes = (Py_ssize_t)(read.nwords * sizeof *words), padded = (read.record_nbytes + HOT_CHUNK - 1) & -HOT_CHUNK;
    PyObject *const bytes = PyBytes_FromStringAndSize(NULL, words_nbytes + padded);
    struct hot_row *const made = bytes ? (void *)PyType_GenericAlloc(type, 0) : NULL;
    if (!made) {
        Py_XDECREF(bytes);
        return NULL;
    }
    const size_t head = offsetof(struct hot_row, words);
    memcpy((char *)made + head, (const char *)&read + head, sizeof read - head);
    char *const copy = memset(PyBytes_AsString(bytes), 0, (size_t)(words_nbytes + padded));
    made->copy = bytes;
    made->words = memcpy(copy, words, (size_t)words_nbytes);
    made->record = memcpy(copy + words_nbytes, read.record, (size_t)read.record_nbytes);
    made->holds = 0;
    for (size_t i = 0; i < made->npatches; i++)
        made->holds |= made->patches[i].source != HOT_FIXED && !(made->patches[i].flags & HOT_POINTER);
    made->fixed = fixed;
    Py_INCREF(fixed);
    return (PyObject *)made;
}

/* The collector's: a row stays readable for as long as somebody can call. */
static int keep(PyObject *self)
{
    (void)self;
    return 0;
}

static int forget(PyObject *self)
{
    Py_CLEAR(((struct hot_row *)(void *)self)->copy);
    return hot_clear_one(self);
}

static void dealloc(PyObject *self)
{
    hot_dealloc(self, forget);
}

int hot_rows(PyObject *module)
{
    static const struct hot_frame frame = {
        .name = "sparkle_drv._hot.Row",
        .doc = "What one call amounted to.",
        .size = sizeof(struct hot_row),
        .make = make,
        .traverse = hot_traverse_one,
        .clear = keep,
        .dealloc = dealloc,
    };
    hot_row_type = hot_collected(module, &frame);
    return hot_row_type ? 0 : -1;
}
