/* The call of a map that was called before: plain numpy arrays of one shape and numbers go from Python's arguments to the
 * kernel without a line of Python between. What is not as the plan has it (other types, strides, shapes that differ, an
 * `out` that overlaps) is left to ops/map/operation.py, which begins again from the arguments: nothing has been submitted by then. */
#include "calls.h"
#include "hot/launch/hold.h"
#include "hot/launch/launch.h"
#include "hot/numpy/result.h"
#include "hot/launch/scalar.h"

#include "core/args.h"
#include "include/sp_cmd.h"
#include "include/sp_map.h"

#include <stddef.h>
#include <string.h>

enum { POINTERS = 12, MOST_VALUES = 64 };

/* Where a value of the call goes; ops/map/fastpath.py packs these. */
struct place {
    uint32_t is_scalar;
    uint32_t source; /* which positional argument, or, from `npositional` on, which name */
    uint32_t slot;   /* input or constant */
    uint32_t type;   /* enum sp_map_type */
};

struct plan {
    uint32_t npositional, nnames, nplaces, ninputs, ncells, result;
    uint64_t cache_nbytes;
    struct place place[MOST_VALUES];
};

/* `kept`: queue, kernel, words (an Array), head (bytes), cells (bytes), the names, what each place takes (a dtype or the
 * type of a number), the dtype of the result, numpy.empty. */
enum { QUEUE, KERNEL, WORDS, HEAD, CELLS, NAMES, TAKES, DTYPE, EMPTY, KEPT };

struct map_call {
    PyObject_HEAD
    PyObject *kept;
    struct plan plan;
};

static PyTypeObject *map_call_type;
static PyObject *shape_word;

static PyObject *kept(const struct map_call *m, Py_ssize_t i)
{
    return PyTuple_GetItem(m->kept, i);
}

static int overlaps(const struct hot_ndarray *y, size_t y_nbytes, const struct hot_ndarray *x, size_t x_nbytes)
{
    return !(y->data == x->data && y_nbytes == x_nbytes) && y->data < x->data + x_nbytes &&
           x->data < y->data + y_nbytes;
}

/* The values of one call, read and checked. */
struct given {
    const struct hot_ndarray *x[SP_MAP_INPUTS];
    uint32_t type[SP_MAP_INPUTS];
    PyObject *like; /* the first array */
    uint64_t n;
};

static size_t itemsize(uint32_t type)
{
    return type == SP_MAP_F64 ? 8 : 4;
}

/* struct's */
static uint32_t code_of(uint32_t type)
{
    return type == SP_MAP_F64 ? 'd' : type == SP_MAP_F32 ? 'f' : 'i';
}

static int read_values(const struct map_call *m, PyObject *args, PyObject *names, char *cells, struct given *g)
{
    const struct plan *const plan = &m->plan;
    PyObject *const wanted = kept(m, NAMES), *const takes = kept(m, TAKES);
    if (PyTuple_Size(args) != plan->npositional || PyDict_Size(names) != plan->nnames)
        return 0;
    for (uint32_t i = 0; i < plan->nplaces; i++) {
        const struct place *const p = &plan->place[i];
        PyObject *const value = p->source < plan->npositional
                                    ? PyTuple_GetItem(args, p->source)
                                    : PyDict_GetItemWithError(names, PyTuple_GetItem(wanted, p->source - plan->npositional));
        PyObject *const take = PyTuple_GetItem(takes, i);
        if (!value || !take)
            return 0;
        if (p->is_scalar) {
            if ((PyObject *)Py_TYPE(value) != take || !hot_pack_scalar(code_of(p->type), value, cells + (size_t)8 * p->slot))
                return 0;
            continue;
        }
        const struct hot_ndarray *const x = hot_plain_array(value, take);
        if (!x || (g->like && !hot_same_shape(x, (const void *)g->like)))
            return 0;
        g->like = g->like ? g->like : value;
        g->x[p->slot] = x;
        g->type[p->slot] = p->type;
    }
    if (!g->like)
        return 0;
    g->n = hot_count(g->x[0]);
    return g->n > 0;
}

/* A new reference to where the result goes; NULL without an exception: not here. */
static PyObject *target(const struct map_call *m, const struct given *g, PyObject *out)
{
    PyObject *const dtype = kept(m, DTYPE);
    if (out == Py_None) {
        PyObject *const shape = PyObject_GetAttr(g->like, shape_word);
        PyObject *const made = shape ? hot_result(kept(m, EMPTY), shape, dtype, g->n * itemsize(m->plan.result)) : NULL;
        Py_XDECREF(shape);
        if (made && !hot_plain_array(made, dtype)) {
            Py_DECREF(made);
            return NULL;
        }
        return made;
    }
    const struct hot_ndarray *const y = hot_plain_array(out, dtype);
    if (!y || !(y->flags & HOT_WRITEABLE) || !hot_same_shape(y, (const void *)g->like))
        return NULL;
    const size_t nbytes = g->n * itemsize(m->plan.result);
    for (uint32_t i = 0; i < m->plan.ninputs; i++)
        if (overlaps(y, nbytes, g->x[i], g->n * itemsize(g->type[i])))
            return NULL;
    Py_INCREF(out);
    return out;
}

struct record {
    struct sp_cmd_dispatch head;
    struct sp_args_fused_map args;
    uint64_t covered[POINTERS];
};
_Static_assert(sizeof(struct record) == sizeof(struct sp_cmd_dispatch) + sizeof(struct sp_args_fused_map) + 8 * POINTERS &&
                   sizeof(struct sp_args_fused_map) % 8 == 0,
               "a record has no holes");

enum { GEOMETRY = SP_MAP_GEO_HEAD + 1 + (SP_MAP_INPUTS + 1) * 3 };

static void write_geometry(const struct map_call *m, const struct given *g, int64_t geometry[GEOMETRY])
{
    uint64_t nbytes = g->n * itemsize(m->plan.result);
    memset(geometry, 0, GEOMETRY * sizeof *geometry);
    geometry[SP_MAP_GEO_NDIM] = 1;
    geometry[SP_MAP_GEO_HEAD] = (int64_t)g->n;
    int64_t *at = geometry + SP_MAP_GEO_HEAD + 1;
    at[0] = m->plan.result;
    at[2] = (int64_t)itemsize(m->plan.result);
    for (uint32_t i = 0; i < m->plan.ninputs; i++) {
        at += 3;
        at[0] = g->type[i];
        at[2] = (int64_t)itemsize(g->type[i]);
        nbytes += g->n * itemsize(g->type[i]);
    }
    geometry[SP_MAP_GEO_STREAM] = nbytes > m->plan.cache_nbytes;
}

/* 0: something that the plan relies on is closed. */
static int write_record(const struct map_call *m, const struct given *g, const struct hot_ndarray *y, char *block,
                        struct record *r)
{
    const struct hot_queue *const q = (const void *)kept(m, QUEUE);
    const struct hot_pointer *const words = (const void *)kept(m, WORDS);
    if (!hot_kernel_is_of(kept(m, KERNEL), q->device) || !hot_memory_is_of(words, q->device))
        return 0;
    char *head;
    Py_ssize_t head_nbytes;
    if (PyBytes_AsStringAndSize(kept(m, HEAD), &head, &head_nbytes) || head_nbytes != sizeof r->head)
        return 0;
    memset(r, 0, sizeof *r);
    memcpy(&r->head, head, sizeof r->head);
    if (r->head.nbytes != sizeof *r || r->head.args_nbytes != sizeof r->args)
        return 0;
    struct sp_args_fused_map *const v = &r->args;
    uint64_t *const x_nbytes[SP_MAP_INPUTS] = {&v->x0_nbytes, &v->x1_nbytes, &v->x2_nbytes, &v->x3_nbytes,
                                               &v->x4_nbytes, &v->x5_nbytes, &v->x6_nbytes, &v->x7_nbytes};
    v->y = (void *)y->data;
    v->y_nbytes = r->covered[0] = g->n * itemsize(m->plan.result);
    for (uint32_t i = 0; i < m->plan.ninputs; i++) {
        v->x[i] = (void *)g->x[i]->data;
        *x_nbytes[i] = r->covered[1 + i] = g->n * itemsize(g->type[i]);
    }
    v->program = (void *)(uintptr_t)words->address;
    v->nwords = (uint32_t)(words->nbytes / 4);
    v->geometry = (void *)block;
    v->ngeometry = GEOMETRY;
    v->consts = m->plan.ncells ? (void *)(block + GEOMETRY * sizeof(int64_t)) : NULL;
    v->nconsts = m->plan.ncells;
    r->covered[9] = words->nbytes;
    r->covered[10] = 8 * (uint64_t)m->plan.ncells;
    r->covered[11] = GEOMETRY * sizeof(int64_t);
    return 1;
}

/* call(args, names, out): the result; None: do it otherwise. */
static PyObject *run(PyObject *self, PyObject *given)
{
    const struct map_call *const m = (const void *)self;
    PyObject *args, *names, *out, *cells_object = kept(m, CELLS);
    struct given g = {.like = NULL};
    struct record r;
    char *cells, *block;
    if (!PyArg_ParseTuple(given, "O!O!O", &PyTuple_Type, &args, &PyDict_Type, &names, &out))
        return NULL;
    /* Geometry and constants in an object: should the launch wait for others, they may have to outlive this call. */
    PyObject *const held = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(GEOMETRY * sizeof(int64_t) + 8 * (size_t)m->plan.ncells));
    PyObject *y = NULL;
    if (!held || !(block = PyBytes_AsString(held)) || !(cells = PyBytes_AsString(cells_object)))
        goto otherwise;
    memcpy(block + GEOMETRY * sizeof(int64_t), cells, 8 * (size_t)m->plan.ncells);
    if (!read_values(m, args, names, block + GEOMETRY * sizeof(int64_t), &g) || !(y = target(m, &g, out)))
        goto otherwise;
    const struct hot_queue *const q = (const void *)kept(m, QUEUE);
    uint64_t epoch;
    if (!hot_epoch(q->device, &epoch)) /* before anything is looked at */
        goto otherwise;
    int64_t geometry[GEOMETRY];
    write_geometry(m, &g, geometry);
    memcpy(block, geometry, sizeof geometry);
    if (PyErr_Occurred() || !write_record(m, &g, (const void *)y, block, &r))
        goto otherwise;
    int rc = 0;
    Py_INCREF(self); /* another thread may forget it meanwhile */
    const int64_t value = hot_launch_and_wait(q, &r, sizeof r, epoch, &rc);
    if (value > 0 && rc) {
        PyObject *used[2 + SP_MAP_INPUTS] = {y, held};
        memcpy(used + 2, g.x, sizeof g.x);
        if (hot_wait_for(q, value, used, sizeof used / sizeof *used))
            Py_CLEAR(y);
    }
    Py_DECREF(self);
    if (value > 0) {
        Py_DECREF(held);
        return y;
    }
otherwise:
    PyErr_Clear(); /* Python comes upon it again, and says it better */
    Py_XDECREF(y);
    Py_XDECREF(held);
    Py_RETURN_NONE;
}

/* map_call(plan, kept): see struct plan and the list above it. */
static PyObject *make(PyObject *module, PyObject *given)
{
    const char *plan;
    Py_ssize_t nbytes;
    PyObject *objects;
    (void)module;
    if (!PyArg_ParseTuple(given, "y#O!", &plan, &nbytes, &PyTuple_Type, &objects))
        return NULL;
    const Py_ssize_t least = offsetof(struct plan, place);
    if (nbytes < least || nbytes > (Py_ssize_t)sizeof(struct plan) || PyTuple_Size(objects) != KEPT)
        return PyErr_Format(PyExc_ValueError, "map_call: a plan and %d objects are wanted", KEPT), NULL;
    struct plan read;
    memset(&read, 0, sizeof read);
    memcpy(&read, plan, (size_t)nbytes);
    int well = read.nplaces <= MOST_VALUES && nbytes == least + (Py_ssize_t)(read.nplaces * sizeof(struct place)) &&
               read.ninputs >= 1 && read.ninputs <= SP_MAP_INPUTS && read.result < SP_MAP_I64;
    uint32_t seen = 0;
    for (uint32_t i = 0; well && i < read.nplaces; i++) {
        const struct place *const p = &read.place[i];
        well = p->type < SP_MAP_I64 && p->source < read.npositional + read.nnames &&
               p->slot < (p->is_scalar ? read.ncells : read.ninputs);
        if (well && !p->is_scalar)
            seen |= 1u << p->slot;
    }
    well = well && seen == (1u << read.ninputs) - 1;
    const PyObject *const types[KEPT] = {
        [HEAD] = (PyObject *)&PyBytes_Type, [CELLS] = (PyObject *)&PyBytes_Type,
        [NAMES] = (PyObject *)&PyTuple_Type, [TAKES] = (PyObject *)&PyTuple_Type};
    for (int i = 0; well && i < KEPT; i++)
        well = !types[i] || (PyObject *)Py_TYPE(PyTuple_GetItem(objects, i)) == types[i];
    well = well && PyObject_TypeCheck(PyTuple_GetItem(objects, QUEUE), hot_queue_type) &&
           PyObject_TypeCheck(PyTuple_GetItem(objects, KERNEL), hot_kernel_type) &&
           PyObject_TypeCheck(PyTuple_GetItem(objects, WORDS), hot_pointer_type) &&
           PyTuple_Size(PyTuple_GetItem(objects, NAMES)) == (Py_ssize_t)read.nnames &&
           PyTuple_Size(PyTuple_GetItem(objects, TAKES)) == (Py_ssize_t)read.nplaces &&
           PyBytes_Size(PyTuple_GetItem(objects, CELLS)) == 8 * (Py_ssize_t)read.ncells;
    well = well && ((const struct hot_queue *)(const void *)PyTuple_GetItem(objects, QUEUE))->handle;
    if (!well)
        return PyErr_Format(PyExc_ValueError, "map_call: that plan makes no sense"), NULL;
    struct map_call *const made = (void *)PyType_GenericAlloc(map_call_type, 0);
    if (made) {
        Py_INCREF(objects);
        made->kept = objects;
        made->plan = read;
    }
    return (PyObject *)made;
}

static int traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((struct map_call *)(void *)self)->kept);
    return 0;
}

/* The collector's: `kept` stays readable for as long as somebody can call. It goes with the object. */
static int clear(PyObject *self)
{
    (void)self;
    return 0;
}

static int forget(PyObject *self)
{
    Py_CLEAR(((struct map_call *)(void *)self)->kept);
    return 0;
}

static void dealloc(PyObject *self)
{
    hot_dealloc(self, forget);
}

static PyMethodDef methods[] = {
    {"run", run, METH_VARARGS, "run(args, names, out): the result, or None: nothing was done."},
    {NULL, NULL, 0, NULL},
};

static const struct hot_frame frame = {
    .name = "sparkle_drv._hot.MapCall",
    .doc = "A map that was called before.",
    .size = sizeof(struct map_call),
    .methods = methods,
    .traverse = traverse,
    .clear = clear,
    .dealloc = dealloc,
};

static PyMethodDef functions[] = {
    {"map_call", make, METH_VARARGS, "map_call(plan, kept): a MapCall; ValueError if it makes no sense."},
    {NULL, NULL, 0, NULL},
};

int hot_map(PyObject *module)
{
    shape_word = PyUnicode_InternFromString("shape");
    map_call_type = hot_collected(module, &frame);
    return shape_word && map_call_type ? PyModule_AddFunctions(module, functions) : -1;
}
