/* What ops.Constant begins with: a private copy of an array, and what was decided for products and convolutions with it. */
#include "constant.h"

#include <stddef.h>

PyTypeObject *hot_constant_type;
struct hot_seen hot_constants;

static int traverse_constant(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((struct hot_constant *)(void *)self)->products);
    Py_VISIT(((struct hot_constant *)(void *)self)->convolutions);
    return 0;
}

static int clear_constant(PyObject *self)
{
    Py_CLEAR(((struct hot_constant *)(void *)self)->products);
    Py_CLEAR(((struct hot_constant *)(void *)self)->convolutions);
    return 0;
}

static void dealloc_constant(PyObject *self)
{
    hot_dealloc(self, clear_constant);
}

static PyMemberDef constant_members[] = {
    {"_products", T_OBJECT, offsetof(struct hot_constant, products), 0, NULL},
    {"_convolutions", T_OBJECT, offsetof(struct hot_constant, convolutions), 0, NULL},
    {"_rows", T_ULONGLONG, offsetof(struct hot_constant, rows), 0, NULL},
    {"_columns", T_ULONGLONG, offsetof(struct hot_constant, columns), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static const struct hot_frame constant_frame = {
    .name = "sparkle_drv._hot.ConstantBase",
    .doc = "What ops.Constant begins with.",
    .size = sizeof(struct hot_constant),
    .is_base = 1,
    .members = constant_members,
    .traverse = traverse_constant,
    .clear = clear_constant,
    .dealloc = dealloc_constant,
};

int hot_constant(PyObject *module)
{
    hot_constant_type = hot_collected(module, &constant_frame);
    return hot_constant_type ? 0 : -1;
}
