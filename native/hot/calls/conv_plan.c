/* The call of a planned convolution: two numpy arrays, everything else packed when the plan was made (ops/conv2d/fastpath.py). What is
 * not as usual is left to Python, which begins again: nothing has been submitted by then. */
#include "conv_plan.h"
#include "conv_table.h"
#include "hot/launch/hold.h"

#include <stddef.h>
#include <string.h>

enum { COVERS_Y, COVERS_X, COVERS_W, COVERS_BIAS }; /* the places of `covered` */

struct hot_planned {
    PyObject_HEAD
    PyObject *queue, *kernel;
    PyObject *w, *bias; /* a core.Array or Buffer; of bias also None */
    struct conv_record record;
};

PyTypeObject *hot_planned_type;

/* 0: closed. */
static int held(PyObject *given, const PyObject *device, const float **at, uint64_t *covered)
{
    if (given == Py_None) {
        *at = NULL;
        *covered = 0;
        return 1;
    }
    const struct hot_pointer *const p = (const void *)given;
    if (!hot_memory_is_of(p, device))
        return 0;
    *at = (const float *)(uintptr_t)p->address;
    *covered = p->nbytes;
    return 1;
}

/* What native code cannot see: it checks sizes, and that whoever made the kernel is this device. */
static int pack(const struct hot_planned *p, PyObject *const *args, const PyObject *device, struct conv_record *r)
{
    const struct hot_ndarray *const x = hot_plain_array(args[0], hot_float_dtypes[0]);
    const struct hot_ndarray *const y = hot_plain_array(args[1], hot_float_dtypes[0]);
    if (!x || !y || !(y->flags & HOT_WRITEABLE) || !hot_kernel_is_of(p->kernel, device))
        return 0;
    const size_t y_nbytes = hot_count(y) * sizeof(float), x_nbytes = hot_count(x) * sizeof(float);
    *r = p->record;
    r->args.y = (float *)(void *)y->data;
    r->args.x = (const float *)(const void *)x->data;
    r->covered[COVERS_Y] = y_nbytes;
    r->covered[COVERS_X] = x_nbytes;
    return held(p->w, device, &r->args.w, &r->covered[COVERS_W]) &&
           held(p->bias, device, &r->args.bias, &r->covered[COVERS_BIAS]) && !hot_meet(y->data, y_nbytes, x->data, x_nbytes) &&
           !hot_meet(y->data, y_nbytes, r->args.w, r->covered[COVERS_W]) &&
           !hot_meet(y->data, y_nbytes, r->args.bias, r->covered[COVERS_BIAS]);
}

int64_t hot_planned(PyObject *planned, PyObject *const *args, PyObject **queue)
{
    const struct hot_planned *const p = (const void *)planned;
    *queue = p->queue;
    if (!p->queue || !p->kernel || !p->w || !p->bias)
        return 0;
    const struct hot_queue *const q = (const void *)p->queue;
    if (!q->handle || !q->handle->functions->brief)
        return 0;
    const struct sp_functions *const call = q->handle->functions;
    uint64_t epoch; /* read before anything is found open */
    struct conv_record r;
    if (!hot_epoch(q->device, &epoch) || !pack(p, args, q->device, &r) || call->reached(q->handle) != call->submitted(q->handle)) {
        PyErr_Clear();
        return 0;
    }
    int64_t value;
    Py_BEGIN_ALLOW_THREADS
    value = call->launch(q->handle, &r, sizeof r, epoch);
    Py_END_ALLOW_THREADS
    if (value > 0 && call->reached(q->handle) < (uint64_t)value) /* another thread has come before */
        hot_hold(q, value, args, 2);
    return value > 0 ? value : 0;
}

static int traverse(PyObject *self, visitproc visit, void *arg)
{
    struct hot_planned *const p = (void *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(p->queue);
    Py_VISIT(p->kernel);
    Py_VISIT(p->w);
    Py_VISIT(p->bias);
    return 0;
}

static int clear(PyObject *self)
{
    struct hot_planned *const p = (void *)self;
    Py_CLEAR(p->queue);
    Py_CLEAR(p->kernel);
    Py_CLEAR(p->w);
    Py_CLEAR(p->bias);
    return 0;
}

static void dealloc(PyObject *self)
{
    hot_dealloc(self, clear);
}

/* Planned(queue, kernel, head, scalars as 18 u32, w, bias). */
static PyObject *make(PyTypeObject *type, PyObject *given, PyObject *named)
{
    PyObject *queue, *kernel, *w, *bias;
    const char *head, *scalars;
    Py_ssize_t head_nbytes, scalars_nbytes;
    struct conv_record record = {.covered = {0}};
    if (named && PyDict_Size(named))
        return PyErr_Format(PyExc_TypeError, "Planned: no keywords are taken"), NULL;
    if (!PyArg_ParseTuple(given, "O!O!y#y#O!O", hot_queue_type, &queue, hot_kernel_type, &kernel, &head, &head_nbytes, &scalars,
                          &scalars_nbytes, hot_pointer_type, &w, &bias))
        return NULL;
    if (bias != Py_None && !hot_is_pointer(bias))
        return PyErr_Format(PyExc_TypeError, "Planned: memory of the device or None is wanted as the bias"), NULL;
    if (head_nbytes != sizeof record.head || scalars_nbytes != sizeof(struct conv_scalars))
        return PyErr_Format(PyExc_ValueError, "Planned: a head or scalars of another size"), NULL;
    memcpy(&record.head, head, sizeof record.head);
    memcpy((char *)&record.args + offsetof(struct sp_args_conv2d_f32, n), scalars, sizeof(struct conv_scalars));
    if (record.head.nbytes != sizeof record || record.head.args_nbytes != sizeof record.args)
        return PyErr_Format(PyExc_ValueError, "Planned: records of %u bytes", record.head.nbytes), NULL;
    struct hot_planned *const p = (void *)PyType_GenericAlloc(type, 0);
    if (!p)
        return NULL;
    p->record = record;
    p->queue = queue;
    p->kernel = kernel;
    p->w = w;
    p->bias = bias;
    Py_INCREF(queue);
    Py_INCREF(kernel);
    Py_INCREF(w);
    Py_INCREF(bias);
    return (PyObject *)p;
}

int hot_planned_convolutions(PyObject *module)
{
    static const struct hot_frame frame = {
        .name = "sparkle_drv._hot.Planned",
        .doc = "A planned convolution of numpy arrays.",
        .size = sizeof(struct hot_planned),
        .make = make,
        .traverse = traverse,
        .clear = clear,
        .dealloc = dealloc,
    };
    hot_planned_type = hot_collected(module, &frame);
    return hot_planned_type ? 0 : -1;
}
