/* A matrix product of numpy arrays without a line of Python between the check of its operands and its launch.
 *
 * Python (ops/gemm/fastpath.py) chooses kernels and puts them into a table by their sizes. `call` looks at the three arrays,
 * finds the kernel, packs one record and launches it. Each device has a table; so has each constant (ops/memory/constant.py), whose
 * entries hold its packed elements. A call that is not as usual returns False: Python then begins again from the
 * arguments, does it or raises the error.
 */
#include "gemm_table.h"
#include "constant.h"
#include "hot/launch/hold.h"
#include "matrix.h"

#include "core/args.h"
#include "include/sp_cmd.h"

#include <limits.h>
#include <stddef.h>
#include <string.h>

/* From this many multiplications on, other Python threads may run meanwhile. */
static const double WORTH_LETTING_GO = 64e3;

/* The arguments of gemm_f32, and the bytes covered by each pointer. One record serves both types: one macro declares the
 * arguments of both, and they differ in what their pointers point to. */
struct gemm_record {
    struct sp_cmd_dispatch head;
    struct sp_args_gemm_f32 args;
    uint64_t covered[4];
};
enum { ARGS_END = offsetof(struct sp_args_gemm_f32, act) + sizeof(uint32_t) };
_Static_assert(sizeof(struct gemm_record) == sizeof(struct sp_cmd_dispatch) + sizeof(struct sp_args_gemm_f32) + 4 * 8 &&
                   ARGS_END + sizeof(uint32_t) == sizeof(struct sp_args_gemm_f32),
               "the only hole of a record is behind act");
_Static_assert(sizeof(struct sp_args_gemm_f64) == sizeof(struct sp_args_gemm_f32) &&
                   offsetof(struct sp_args_gemm_f64, act) == offsetof(struct sp_args_gemm_f32, act),
               "both types have the same arguments");

/* Added to a type (hot_matrix): how operands lie in memory, which their plan depends on; ops/gemm/fastpath.py has the same. */
enum { A_TURNED = 2, B_TURNED = 4, ANY_LAYOUT = 8, LAST_TYPE = 15 };

struct entry {
    PyObject *kernel; /* NULL: a free place */
    PyObject *blob;   /* a core.Array in the place of b, packed or row-major; NULL: b is an operand of the call */
    struct sp_cmd_dispatch head;
    uint32_t m, n, k, type, act;
};

struct hot_products {
    PyObject_HEAD
    PyObject *queue; /* core.Queue; NULL: nothing else is looked at */
    struct entry *entries;
    size_t count; /* a power of two */
};

PyTypeObject *hot_products_type;

static struct entry *place(const struct hot_products *p, size_t m, size_t n, size_t k, int type)
{
    uint64_t mixed = m * 0x9e3779b97f4a7c15u ^ n * 0xc2b2ae3d27d4eb4fu ^ k * 0x165667b19e3779f9u ^ (uint64_t)type << 60;
    mixed = (mixed ^ mixed >> 29) * 0xbf58476d1ce4e5b9u;
    return &p->entries[mixed >> 32 & (p->count - 1)];
}

static int same(const struct entry *e, size_t m, size_t n, size_t k, int type)
{
    return e->kernel && e->m == m && e->n == n && e->k == k &&
           (e->type == (uint32_t)type || e->type == (((uint32_t)type & 1) | ANY_LAYOUT));
}

static void clear_entry(struct entry *e)
{
    PyObject *const kernel = e->kernel, *const blob = e->blob;
    memset(e, 0, sizeof *e);
    Py_XDECREF(kernel);
    Py_XDECREF(blob);
}

/* The entry for these operands; NULL: Python has to make one, or something is closed. `held`: the entry has the right operand. */
static const struct entry *find(const struct hot_products *p, const struct hot_matrix *a, const struct hot_matrix *out,
                                const struct hot_matrix *b, int held)
{
    const size_t m = a->rows, n = out->columns, k = a->columns;
    const int type = a->type | (a->cs != 1 ? A_TURNED : 0) | (b->cs > 1 ? B_TURNED : 0);
    const struct entry *const e = place(p, m, n, k, type);
    if (!same(e, m, n, k, type) || held != (e->blob != NULL))
        return NULL;
    return hot_kernel_is_of(e->kernel, ((const struct hot_queue *)(const void *)p->queue)->device) ? e : NULL;
}

/* The table of a constant; NULL: it has none for this queue. */
static const struct hot_products *table_of(const struct hot_constant *constant, PyObject *queue)
{
    PyObject *const table = constant->products;
    if (!table || Py_TYPE(table) != hot_products_type)
        return NULL;
    const struct hot_products *const p = (const void *)table;
    return p->queue == queue ? p : NULL;
}

/* The address of a bias of `n` elements, NULL of None. 0: not as usual, or `out` is written over it. */
static int look_at_bias(PyObject *given, const struct hot_matrix *out, const char **at, size_t *nbytes)
{
    *at = NULL;
    *nbytes = 0;
    if (given == Py_None)
        return 1;
    const struct hot_ndarray *const bias = hot_plain_array(given, hot_float_dtypes[out->type]);
    if (!bias || bias->ndim != 1 || (size_t)bias->shape[0] != out->columns)
        return 0;
    *at = bias->data;
    *nbytes = out->columns * (out->type ? 8 : 4);
    return *at + *nbytes <= out->data || out->data + out->nbytes <= *at;
}

/* Of a launch with these operands that others were before. A timeline value; -1: an exception. */
static int64_t unfinished(const struct hot_queue *q, int64_t value, PyObject *const *args, PyObject *blob, int planned)
{
    PyObject *const used[] = {args[0], args[1], args[2], args[3], blob};
    const Py_ssize_t n = sizeof used / sizeof *used;
    if (!planned)
        return hot_wait_for(q, value, used, n) ? -1 : value;
    hot_hold(q, value, used, n);
    return value;
}

/* args: a, b, out, bias. A timeline value, by then reached; 0: left to Python; -1: an exception. `act` < 0: that of the table.
 * `planned`: a launch that would have to wait for its turn is left to Python, too, and so is a constant: a plan has its own
 * kernel. It waits for nothing. hot: gcc takes the code behind the refusals for rare, and copies there by slow short
 * instructions. */
__attribute__((hot)) static int64_t launch(const struct hot_products *p, PyObject *const *args, int act, int planned)
{
    struct hot_matrix a, b, out;
    const char *bias;
    size_t bias_nbytes;
    const struct hot_constant *const constant = planned ? NULL : hot_constant_of(args[1]);
    const int held = constant || args[1] == Py_None;
    const struct hot_queue *const q = (const void *)p->queue;
    if (!q || !q->handle || !q->handle->functions->brief)
        return 0;
    const struct sp_functions *const call = q->handle->functions;
    if (constant && !(p = table_of(constant, p->queue)))
        return 0;
    if (!hot_look(args[0], &a) || !hot_look(args[2], &out) || a.type != out.type || a.rows != out.rows)
        return 0;
    if (held) /* only then: zeroing it costs as much as looking at it */
        b = (struct hot_matrix){0};
    else if (!hot_look(args[1], &b) || b.type != a.type || b.rows != a.columns || b.columns != out.columns)
        return 0;
    if (!(out.flags & HOT_WRITEABLE) || out.cs != 1 || out.rs < out.columns || hot_matrices_overlap(&out, &a) ||
        (!held && hot_matrices_overlap(&out, &b)) || !look_at_bias(args[3], &out, &bias, &bias_nbytes))
        return 0;
    uint64_t epoch; /* read before anything is looked at */
    const struct entry *const e = hot_epoch(q->device, &epoch) ? find(p, &a, &out, &b, held) : NULL;
    if (!e || (planned && call->reached(q->handle) != call->submitted(q->handle)))
        return 0;
    struct gemm_record r; /* every field: zeroing all first costs as much as writing it */
    r.head = e->head;
    r.args.c = (float *)(uintptr_t)out.data;
    r.args.a = (const float *)(uintptr_t)a.data;
    r.args.b = (const float *)(uintptr_t)b.data;
    r.args.bias = (const float *)(uintptr_t)bias;
    r.args.m = e->m;
    r.args.n = e->n;
    r.args.k = e->k;
    r.args.rsa = (uint32_t)a.rs;
    r.args.csa = (uint32_t)a.cs;
    r.args.rsb = (uint32_t)b.rs;
    r.args.csb = (uint32_t)b.cs;
    r.args.rsc = (uint32_t)out.rs;
    r.args.act = act < 0 ? e->act : (uint32_t)act;
    memset((char *)&r.args + ARGS_END, 0, sizeof(uint32_t));
    r.covered[0] = out.nbytes;
    r.covered[1] = a.nbytes;
    r.covered[2] = b.nbytes;
    r.covered[3] = bias_nbytes;
    PyObject *const blob = e->blob;
    if (blob) {
        const struct hot_pointer *const packed = (const void *)blob;
        if (!hot_memory_is_of(packed, q->device) ||
            hot_meet(out.data, out.nbytes, (const void *)(uintptr_t)packed->address, packed->nbytes))
            return 0; /* closed, or `out` is this memory: Python names the error */
        r.args.b = (const float *)(uintptr_t)packed->address;
        r.covered[2] = packed->nbytes;
        r.args.rsb = e->n;
        r.args.csb = 1;
        Py_INCREF(blob);
    }
    PyObject *const kernel = e->kernel; /* another thread may change the table meanwhile */
    Py_INCREF(kernel);
    int64_t value;
    if ((double)e->m * e->n * e->k < WORTH_LETTING_GO) {
        value = call->launch(q->handle, &r, sizeof r, epoch);
    } else {
        Py_BEGIN_ALLOW_THREADS
        value = call->launch(q->handle, &r, sizeof r, epoch);
        Py_END_ALLOW_THREADS
    }
    if (value <= 0)
        value = 0; /* refused: Python comes upon it again */
    else if (planned ? call->reached(q->handle) < (uint64_t)value : call->wait(q->handle, (uint64_t)value, 0) != 0)
        value = unfinished(q, value, args, blob, planned);
    Py_DECREF(kernel);
    Py_XDECREF(blob);
    return value;
}

static PyObject *call(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    if (nargs != 5 || !PyLong_CheckExact(args[4]))
        Py_RETURN_FALSE;
    const long act = PyLong_AsLong(args[4]);
    if (act < 0 || act > INT_MAX) {
        PyErr_Clear(); /* of what is no long at all */
        Py_RETURN_FALSE;
    }
    const int64_t value = launch((void *)self, args, (int)act, 0);
    return value < 0 ? NULL : PyBool_FromLong(value > 0);
}

int64_t hot_product_now(PyObject *products, PyObject *const *args, int act)
{
    return launch((void *)products, args, act, 0);
}

int64_t hot_product(PyObject *products, PyObject *const *args, PyObject **queue)
{
    *queue = ((const struct hot_products *)(const void *)products)->queue;
    return launch((void *)products, args, -1, 1);
}

/* put(type, m, n, k, act, kernel, head, blob=None). */
static PyObject *put(PyObject *self, PyObject *given)
{
    struct hot_products *const p = (void *)self;
    unsigned int m, n, k, type, act;
    PyObject *kernel, *blob = Py_None;
    const char *head;
    Py_ssize_t head_nbytes;
    if (!PyArg_ParseTuple(given, "IIIIIO!y#|O", &type, &m, &n, &k, &act, hot_kernel_type, &kernel, &head, &head_nbytes, &blob))
        return NULL;
    struct entry made = {.m = m, .n = n, .k = k, .type = type, .act = act};
    if (type > LAST_TYPE || head_nbytes != sizeof made.head || (blob != Py_None && !hot_is_pointer(blob)))
        return PyErr_Format(PyExc_ValueError, "put: expected a type up to %d, a head and memory of the device", LAST_TYPE), NULL;
    memcpy(&made.head, head, sizeof made.head);
    if (made.head.nbytes != sizeof(struct gemm_record) || made.head.args_nbytes != sizeof(struct sp_args_gemm_f32))
        return PyErr_Format(PyExc_ValueError, "put: expected records of %zu bytes, got %u", sizeof(struct gemm_record), made.head.nbytes),
               NULL;
    made.kernel = kernel;
    made.blob = blob == Py_None ? NULL : blob;
    Py_INCREF(kernel);
    Py_XINCREF(made.blob);
    struct entry *const e = place(p, m, n, k, (int)type);
    struct entry old = *e;
    *e = made;
    clear_entry(&old);
    Py_RETURN_NONE;
}

static int traverse(PyObject *self, visitproc visit, void *arg)
{
    struct hot_products *const p = (void *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(p->queue);
    for (size_t i = 0; i < p->count; i++) {
        Py_VISIT(p->entries[i].kernel);
        Py_VISIT(p->entries[i].blob);
    }
    return 0;
}

static int clear(PyObject *self)
{
    struct hot_products *const p = (void *)self;
    Py_CLEAR(p->queue);
    for (size_t i = 0; i < p->count; i++)
        clear_entry(&p->entries[i]);
    return 0;
}

static void dealloc(PyObject *self)
{
    struct entry *const entries = ((struct hot_products *)(void *)self)->entries;
    hot_dealloc(self, clear);
    PyMem_Free(entries);
}

/* Products(queue, count): how many places. */
static PyObject *make(PyTypeObject *type, PyObject *given, PyObject *named)
{
    PyObject *queue;
    unsigned int count;
    if (named && PyDict_Size(named))
        return PyErr_Format(PyExc_TypeError, "Products: no keywords are taken"), NULL;
    if (!PyArg_ParseTuple(given, "O!I", hot_queue_type, &queue, &count))
        return NULL;
    if (count < 1 || count > 4096 || (count & (count - 1)))
        return PyErr_Format(PyExc_ValueError, "Products: a power of two is wanted, got %u", count), NULL;
    struct entry *const entries = PyMem_Calloc(count, sizeof *entries);
    PyObject *const self = entries ? PyType_GenericAlloc(type, 0) : NULL;
    if (!self) {
        PyMem_Free(entries);
        return entries ? NULL : PyErr_NoMemory();
    }
    struct hot_products *const p = (void *)self;
    p->entries = entries;
    p->count = count;
    p->queue = queue;
    Py_INCREF(queue);
    return self;
}

static PyMethodDef methods[] = {
    {"call", (PyCFunction)(void (*)(void))call, METH_FASTCALL,
     "call(a, b, out, bias, act): out = act(a @ b + bias), done when it returns; False: nothing was done."},
    {"put", put, METH_VARARGS, "put(type, m, n, k, act, kernel, head, blob=None): a kernel for these sizes."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef members[] = {
    {"queue", T_OBJECT, offsetof(struct hot_products, queue), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

int hot_products(PyObject *module)
{
    static const struct hot_frame frame = {
        .name = "sparkle_drv._hot.Products",
        .doc = "Kernels for products of numpy arrays, by size.",
        .size = sizeof(struct hot_products),
        .make = make,
        .methods = methods,
        .members = members,
        .traverse = traverse,
        .clear = clear,
        .dealloc = dealloc,
    };
    hot_products_type = hot_collected(module, &frame);
    return hot_products_type ? 0 : -1;
}
