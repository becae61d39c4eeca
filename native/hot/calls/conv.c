/* The call of a convolution of numpy arrays that was made before, without a line of Python between the check of its
 * operands and its launch.
 *
 * Python (ops/conv2d/fastpath.py) puts what it decided for shapes and parameters into a table. `call` looks at the arrays, finds
 * the decision, packs one record and launches it. Each device has a table; so has each constant (ops/memory/constant.py), whose
 * entries hold its packed elements. A call that is not as usual returns None, with nothing submitted: Python then begins
 * again from the arguments, does it or raises the error. */
#include "calls.h"
#include "constant.h"
#include "conv_table.h"
#include "hot/launch/hold.h"
#include "hot/launch/launch.h"
#include "op.h"
#include "hot/numpy/result.h"

#include <string.h>

enum { MOST_SETS = 4096 };

_Static_assert((int)ARGUMENTS == (int)HOT_OP_VALUES, "a call has as many values");
static PyTypeObject *convolutions_type;

static size_t nbytes_of(const struct hot_ndarray *a)
{
    return hot_count(a) * sizeof(float);
}

static int overlap(const struct hot_ndarray *y, const struct hot_ndarray *x)
{
    return x && hot_meet(y->data, nbytes_of(y), x->data, nbytes_of(x));
}

/* A new reference to where the result goes; NULL: not here. */
static PyObject *target(const struct hot_convolutions *p, const struct conv_entry *e, PyObject *const *args)
{
    PyObject *const dtype = hot_float_dtypes[0];
    const size_t nbytes = (size_t)(e->shapes.out[0] * e->shapes.out[1] * e->shapes.out[2] * e->shapes.out[3]) * sizeof(float);
    PyObject *const made = args[OUT] == Py_None ? hot_result(p->empty, e->out_shape, dtype, nbytes)
                                                : (Py_INCREF(args[OUT]), args[OUT]);
    if (!made)
        return NULL;
    const struct hot_ndarray *const y = hot_plain_array(made, dtype);
    if (y && y->ndim == NDIM && !memcmp(y->shape, e->shapes.out, sizeof e->shapes.out) && y->flags & HOT_WRITEABLE &&
        !overlap(y, (const void *)args[X]) && (e->blob || !overlap(y, (const void *)args[W])) &&
        !overlap(y, args[BIAS] == Py_None ? NULL : (const void *)args[BIAS]))
        return made;
    Py_DECREF(made);
    return NULL;
}

/* 0: closed, or gone. `*packed` is a new reference to the packed weights, or NULL. */
static int fill(const struct conv_entry *e, PyObject *const *args, const PyObject *device, PyObject *y, struct conv_record *r, PyObject **packed)
{
    const struct hot_ndarray *const x = (const void *)args[X];
    const struct hot_ndarray *const bias = args[BIAS] == Py_None ? NULL : (const void *)args[BIAS];
    const struct hot_ndarray *const out = (const void *)y;
    if (!hot_kernel_is_of(e->kernel, device))
        return 0;
    *packed = NULL;
    r->head = e->head;
    r->args.y = (void *)out->data;
    r->args.x = (const void *)x->data;
    r->args.bias = bias ? (const void *)bias->data : NULL;
    memcpy((char *)&r->args + offsetof(struct sp_args_conv2d_f32, n), &e->scalars, sizeof e->scalars);
    r->covered[0] = nbytes_of(out);
    r->covered[1] = nbytes_of(x);
    r->covered[3] = bias ? nbytes_of(bias) : 0;
    if (!e->blob) {
        const struct hot_ndarray *const w = (const void *)args[W];
        r->args.w = (const void *)w->data;
        r->covered[2] = nbytes_of(w);
        return 1;
    }
    const struct hot_pointer *const at = (const void *)e->blob;
    if (!hot_memory_is_of(at, device))
        return 0;
    r->args.w = (const void *)(uintptr_t)at->address;
    r->covered[2] = at->nbytes;
    Py_INCREF(e->blob);
    *packed = e->blob;
    return 1;
}

/* The table of a constant; NULL: it has none for this queue. */
static const struct hot_convolutions *table_of(const struct hot_constant *constant, PyObject *queue)
{
    PyObject *const table = constant->convolutions;
    if (!table || Py_TYPE(table) != convolutions_type)
        return NULL;
    const struct hot_convolutions *const p = (const void *)table;
    return p->queue == queue ? p : NULL;
}

/* The decision for these operands, which go together; NULL: they are not as usual, or Python has to decide. */
static const struct conv_entry *find(const struct hot_convolutions *p, PyObject *const *args)
{
    const PyObject *const dtype = hot_float_dtypes[0];
    const struct hot_ndarray *const x = hot_plain_array(args[X], dtype);
    const struct hot_constant *const constant = hot_constant_of(args[W]);
    const struct hot_ndarray *const w = constant ? NULL : hot_plain_array(args[W], dtype);
    if (constant)
        p = table_of(constant, p->queue);
    if (!p || !x || x->ndim != NDIM || (!constant && (!w || w->ndim != NDIM)))
        return NULL;
    const struct conv_entry *const e = conv_find(p, x->shape, w ? w->shape : NULL, args + FIRST_PARAMETER);
    if (!e || args[BIAS] == Py_None)
        return e;
    const struct hot_ndarray *const bias = hot_plain_array(args[BIAS], dtype);
    return bias && bias->ndim == 1 && bias->shape[0] == e->shapes.w[0] ? e : NULL;
}

/* call(x, w, bias, out, stride, padding, dilation, groups, activation, layout, algo): the result; None: nothing was done. */
static PyObject *call(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    const struct hot_convolutions *const p = (const void *)self;
    const struct hot_queue *const q = (const void *)p->queue;
    PyObject *y = NULL, *packed = NULL;
    if (nargs != ARGUMENTS || !q || !q->handle || !q->device)
        Py_RETURN_NONE;
    uint64_t epoch;
    const struct conv_entry *const e = hot_epoch(q->device, &epoch) ? find(p, args) : NULL;
    struct conv_record r;
    if (!e)
        goto otherwise;
    PyObject *const kernel = e->kernel; /* another thread may change the table meanwhile */
    Py_INCREF(kernel);
    const struct conv_entry copy = *e;
    PyObject *const out_shape = copy.out_shape;
    PyObject *const blob = copy.blob;
    Py_INCREF(out_shape);
    Py_XINCREF(blob);
    y = target(p, &copy, args);
    const int filled = y && fill(&copy, args, q->device, y, &r, &packed);
    int64_t value = 0;
    int rc = 0;
    if (filled) {
        Py_INCREF(self);
        value = hot_launch_and_wait(q, &r, sizeof r, epoch, &rc);
        PyObject *const used[] = {y, packed, args[X], args[W], args[BIAS]};
        if (value > 0 && rc && hot_wait_for(q, value, used, sizeof used / sizeof *used))
            Py_CLEAR(y);
        Py_DECREF(self);
    }
    Py_DECREF(kernel);
    Py_DECREF(out_shape);
    Py_XDECREF(blob);
    if (value > 0) {
        Py_XDECREF(packed);
        return y;
    }
otherwise:
    PyErr_Clear(); /* Python comes upon it again, and says it better */
    Py_XDECREF(y);
    Py_XDECREF(packed);
    Py_RETURN_NONE;
}

PyObject *hot_conv2d(PyObject *table, PyObject *const *values, const struct hot_op_more *more)
{
    (void)more;
    if (Py_TYPE(table) != convolutions_type)
        return NULL;
    PyObject *const found = call(table, values, ARGUMENTS);
    if (found != Py_None)
        return found;
    Py_DECREF(found);
    return NULL;
}

static int traverse(PyObject *self, visitproc visit, void *arg)
{
    struct hot_convolutions *const p = (void *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(p->queue);
    Py_VISIT(p->empty);
    for (size_t i = 0; i < WAYS * p->nsets; i++) {
        Py_VISIT(p->entries[i].kernel);
        Py_VISIT(p->entries[i].parameters);
        Py_VISIT(p->entries[i].out_shape);
        Py_VISIT(p->entries[i].blob);
    }
    return 0;
}

static int clear(PyObject *self)
{
    struct hot_convolutions *const p = (void *)self;
    Py_CLEAR(p->queue); /* without which nothing else is looked at */
    for (size_t i = 0; i < WAYS * p->nsets; i++)
        conv_clear(&p->entries[i]);
    Py_CLEAR(p->empty);
    return 0;
}

static void dealloc(PyObject *self)
{
    struct conv_entry *const entries = ((struct hot_convolutions *)(void *)self)->entries;
    hot_dealloc(self, clear);
    PyMem_Free(entries);
}

/* Convolutions(queue, empty, sets). */
static PyObject *make(PyTypeObject *type, PyObject *given, PyObject *named)
{
    PyObject *queue, *empty;
    unsigned int nsets;
    if (named && PyDict_Size(named))
        return PyErr_Format(PyExc_TypeError, "Convolutions: no keywords are taken"), NULL;
    if (!PyArg_ParseTuple(given, "O!OI", hot_queue_type, &queue, &empty, &nsets))
        return NULL;
    if (nsets < 1 || nsets > MOST_SETS || (nsets & (nsets - 1)))
        return PyErr_Format(PyExc_ValueError, "Convolutions: a power of two is wanted, got %u", nsets), NULL;
    struct conv_entry *const entries = PyMem_Calloc((size_t)WAYS * nsets, sizeof *entries);
    PyObject *const self = entries ? PyType_GenericAlloc(type, 0) : NULL;
    if (!self) {
        PyMem_Free(entries);
        return entries ? NULL : PyErr_NoMemory();
    }
    struct hot_convolutions *const p = (void *)self;
    p->entries = entries;
    p->nsets = nsets;
    p->queue = queue;
    p->empty = empty;
    Py_INCREF(queue);
    Py_INCREF(empty);
    return self;
}

static PyMethodDef methods[] = {
    {"call", (PyCFunction)(void (*)(void))call, METH_FASTCALL, "call(x, w, bias, out, ...): the result, or None: nothing was done."},
    {"put", conv_put, METH_VARARGS, "put(...): what was decided for shapes and parameters."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef members[] = {
    {"queue", T_OBJECT, offsetof(struct hot_convolutions, queue), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

int hot_conv(PyObject *module)
{
    static const struct hot_frame frame = {
        .name = "sparkle_drv._hot.Convolutions",
        .doc = "What was decided for convolutions of numpy arrays.",
        .size = sizeof(struct hot_convolutions),
        .make = make,
        .methods = methods,
        .members = members,
        .traverse = traverse,
        .clear = clear,
        .dealloc = dealloc,
    };
    convolutions_type = hot_collected(module, &frame);
    return convolutions_type ? 0 : -1;
}
