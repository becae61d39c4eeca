/* What plans begin with: `plan(...) -> Fence` by the short way that ops/ has given it, else by its method `_call`. */
#include "hot.h"

#include <stddef.h>

enum { MOST_OPERANDS = 4 };

struct hot_plan {
    PyObject_HEAD
    PyObject *short_way; /* a Products or a Planned; None or NULL: there is none */
};

static PyObject *call_word;

/* A timeline value, 0 or -1 as hot_product. */
static int64_t by_short_way(PyObject *short_way, PyObject *operands, PyObject **queue)
{
    PyObject *given[MOST_OPERANDS];
    const Py_ssize_t n = PyTuple_Size(operands);
    if (n > MOST_OPERANDS)
        return 0;
    for (Py_ssize_t i = 0; i < n; i++)
        given[i] = PyTuple_GetItem(operands, i);
    if (n == 3)
        given[3] = Py_None;
    if (Py_TYPE(short_way) == hot_products_type && (n == 3 || n == 4))
        return hot_product(short_way, given, queue);
    if (Py_TYPE(short_way) == hot_planned_type && n == 2)
        return hot_planned(short_way, given, queue);
    return 0;
}

static PyObject *call(PyObject *self, PyObject *operands, PyObject *named)
{
    PyObject *const short_way = ((const struct hot_plan *)(const void *)self)->short_way;
    if (short_way && !named) {
        PyObject *queue = NULL;
        Py_INCREF(short_way); /* another thread may set it anew meanwhile */
        const int64_t value = by_short_way(short_way, operands, &queue);
        PyObject *const fence = value > 0 ? hot_fence_of((const void *)queue, value) : NULL;
        Py_DECREF(short_way);
        if (value)
            return fence;
    }
    PyObject *const method = PyObject_GetAttr(self, call_word);
    PyObject *const made = method ? PyObject_Call(method, operands, named) : NULL;
    Py_XDECREF(method);
    return made;
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
        .call = call,
        .members = members,
        .traverse = traverse,
        .clear = clear,
        .dealloc = dealloc,
    };
    call_word = PyUnicode_InternFromString("_call");
    return call_word && hot_collected(module, &frame) ? 0 : -1;
}
