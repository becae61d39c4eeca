/* What plans begin with: `plan(...) -> Fence` by the short way that ops/ has given it, else by its method `_call`. */
#include "hot/launch/again.h"
#include "calls.h"
#include "vectorcall.h"
#include "hot/launch/fence.h"
#include "conv_plan.h"
#include "gemm_table.h"

#include <stddef.h>

enum { MOST_OPERANDS = 4 };

struct hot_plan {
    PyObject_HEAD
    hot_vectorcall *vectorcall;
    PyObject *short_way; /* a Products or a Planned; None or NULL: there is none */
};

static PyObject *call_word;
static PyTypeObject *plan_type;

/* A timeline value, or 0: as hot_product. */
static int64_t by_short_way(PyObject *short_way, PyObject *const *operands, Py_ssize_t n, PyObject **queue)
{
    if (Py_TYPE(short_way) == hot_products_type && n == 3) {
        PyObject *const given[MOST_OPERANDS] = {operands[0], operands[1], operands[2], Py_None};
        return hot_product(short_way, given, queue);
    }
    if (Py_TYPE(short_way) == hot_products_type && n == 4)
        return hot_product(short_way, operands, queue);
    if (Py_TYPE(short_way) == hot_planned_type && n == 2)
        return hot_planned(short_way, operands, queue);
    return 0;
}

/* A fence; NULL without an exception: left to Python. */
static PyObject *shortly(PyObject *self, PyObject *const *operands, Py_ssize_t n)
{
    PyObject *const short_way = ((const struct hot_plan *)(const void *)self)->short_way;
    if (!short_way)
        return NULL;
    PyObject *queue = NULL;
    Py_INCREF(short_way); /* another thread may set it anew meanwhile */
    const int64_t value = by_short_way(short_way, operands, n, &queue);
    PyObject *const fence = value > 0 ? hot_fence_of((const void *)queue, value) : NULL;
    Py_DECREF(short_way);
    return fence;
}

/* For METH_FASTCALL's kind of arguments. */
static PyObject *call_vector(PyObject *self, PyObject *const *args, size_t nargsf, PyObject *names)
{
    const Py_ssize_t nargs = hot_nargs(nargsf);
    if (!names) {
        PyObject *const fence = shortly(self, args, nargs);
        if (fence || PyErr_Occurred())
            return fence;
    }
    return hot_call_again(self, call_word, NULL, args, nargs, names);
}

static PyObject *call(PyObject *self, PyObject *operands, PyObject *named)
{
    PyObject *given[MOST_OPERANDS];
    const Py_ssize_t n = PyTuple_Size(operands);
    if (!named && n <= MOST_OPERANDS) {
        for (Py_ssize_t i = 0; i < n; i++)
            given[i] = PyTuple_GetItem(operands, i);
        PyObject *const fence = shortly(self, given, n);
        if (fence || PyErr_Occurred())
            return fence;
    }
    PyObject *const method = PyObject_GetAttr(self, call_word);
    PyObject *const made = method ? PyObject_Call(method, operands, named) : NULL;
    Py_XDECREF(method);
    return made;
}

static PyObject *make(PyTypeObject *type, PyObject *args, PyObject *named)
{
    (void)args;
    (void)named;
    struct hot_plan *const p = (void *)PyType_GenericAlloc(type, 0);
    if (p)
        p->vectorcall = call_vector;
    return (PyObject *)p;
}

static int traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((struct hot_plan *)(void *)self)->short_way);
    return 0;
}

static int clear(PyObject *self)
{
    Py_CLEAR(((struct hot_plan *)(void *)self)->short_way);
    return 0;
}

static void dealloc(PyObject *self)
{
    hot_dealloc(self, clear);
}

/* direct(class of plans): a subclass whose objects are called faster, and are otherwise the same. */
static PyObject *direct(PyObject *module, PyObject *base)
{
    static const struct hot_direct d = {make, call, NULL, offsetof(struct hot_plan, vectorcall), 0};
    (void)module;
    if (!PyType_Check(base) || !PyType_IsSubtype((PyTypeObject *)base, plan_type))
        return PyErr_Format(PyExc_TypeError, "direct: a class of plans is wanted"), NULL;
    return hot_direct(base, &d);
}

static PyMethodDef functions[] = {
    {"direct", direct, METH_O, "direct(class): a subclass of plans that are called faster."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef members[] = {
    {"_short_way", T_OBJECT, offsetof(struct hot_plan, short_way), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

int hot_plan(PyObject *module)
{
    static const struct hot_frame frame = {
        .name = "sparkle_drv._hot.PlanBase",
        .doc = "What plans begin with.",
        .size = sizeof(struct hot_plan),
        .is_base = 1,
        .make = make,
        .call = call,
        .members = members,
        .traverse = traverse,
        .clear = clear,
        .dealloc = dealloc,
    };
    call_word = PyUnicode_InternFromString("_call");
    plan_type = hot_collected(module, &frame);
    return call_word && plan_type ? PyModule_AddFunctions(module, functions) : -1;
}
