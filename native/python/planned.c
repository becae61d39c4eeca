/* The call of a planned convolution: two numpy arrays, everything else packed when the plan was made (ops/convcall.py). What is
 * not as usual is left to Python, which begins again: nothing has been submitted by then. */
#include "conv_table.h"

#include <stddef.h>
#include <string.h>
#include <structmember.h>

typedef int64_t launch_function(void *queue, const void *record, size_t nbytes, uint64_t epoch);
typedef uint64_t value_function(void *queue);

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
    if (!p->storage || !hot_is_storage(p->storage) ||
        ((const struct hot_storage *)(const void *)p->storage)->device != device)
        return 0;
    *at = (const float *)(uintptr_t)p->address;
    *covered = p->nbytes;
    return 1;
}

static uint64_t nbytes_of(const struct hot_ndarray *a)
{
    uint64_t n = sizeof(float);
    for (int d = 0; d < a->ndim; d++)
        n *= (uint64_t)a->shape[d];
    return n;
}

/* What native code cannot see: it checks sizes, and that whoever made the kernel is this device. */
static int pack(const struct hot_planned *p, PyObject *const *args, const PyObject *device, struct conv_record *r)
{
    const struct hot_ndarray *const x = hot_plain_array(args[0], hot_float_dtypes[0]);
    const struct hot_ndarray *const y = hot_plain_array(args[1], hot_float_dtypes[0]);
    if (!x || !y || !(y->flags & HOT_WRITEABLE) || ((const struct hot_kernel *)(const void *)p->kernel)->device != device)
        return 0;
    *r = p->record;
    r->args.y = (float *)(void *)y->data;
    r->args.x = (const float *)(const void *)x->data;
    r->covered[COVERS_Y] = nbytes_of(y);
    r->covered[COVERS_X] = nbytes_of(x);
    return held(p->w, device, &r->args.w, &r->covered[COVERS_W]) &&
           held(p->bias, device, &r->args.bias, &r->covered[COVERS_BIAS]);
}

int64_t hot_planned(PyObject *planned, PyObject *const *args, PyObject **queue)
{
    const struct hot_planned *const p = (const void *)planned;
    *queue = p->queue;
    if (!p->queue || !p->kernel || !p->w || !p->bias)
        return 0;
    const struct hot_queue *const q = (const void *)p->queue;
    value_function *const reached = (value_function *)(uintptr_t)q->reached;
    value_function *const submitted = (value_function *)(uintptr_t)q->submitted;
    launch_function *const launch = (launch_function *)(uintptr_t)q->launch;
    void *const handle = (void *)(uintptr_t)q->handle;
    if (!q->device || !launch || !reached || !submitted)
        return 0;
    uint64_t epoch; /* read before anything is found open */
    struct conv_record r;
    if (!hot_epoch(q->device, &epoch) || !pack(p, args, q->device, &r) || reached(handle) != submitted(handle)) {
        PyErr_Clear();
        return 0;
    }
    int64_t value;
    Py_BEGIN_ALLOW_THREADS
    value = launch(handle, &r, sizeof r, epoch);
    Py_END_ALLOW_THREADS
    if (value > 0 && reached(handle) < (uint64_t)value) /* another thread came before: the arrays must last until it ran */
        return hot_wait_for(q, value) ? -1 : value;
    return value < 0 ? 0 : value; /* refused: Python comes upon it again */
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
    PyObject_GC_UnTrack(self);
    clear(self);
    hot_free(self);
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
    static PyType_Slot slots[] = {
        {Py_tp_doc, "A planned convolution of numpy arrays."},
        {Py_tp_new, make},
        {Py_tp_traverse, traverse},
        {Py_tp_clear, clear},
        {Py_tp_dealloc, dealloc},
        {0, NULL},
    };
    static PyType_Spec spec = {
        .name = "sparkle_drv._hot.Planned",
        .basicsize = sizeof(struct hot_planned),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
        .slots = slots,
    };
    hot_planned_type = hot_type(module, &spec, "Planned");
    return hot_planned_type ? 0 : -1;
}
