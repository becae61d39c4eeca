/* Matrix products of numpy arrays: what a plan and gemm launch. */
#ifndef SP_HOT_GEMM_TABLE_H
#define SP_HOT_GEMM_TABLE_H
#include "hot/launch/objects.h"

/* Launches on an idle queue what a plan holds: (a, b or None, out, bias or None). A timeline value; 0: left to Python. Should
 * others have been before us, the operands are held until it is reached. `*queue` is borrowed. */
int64_t hot_product(PyObject *products, PyObject *const *args, PyObject **queue);
/* With this activation, after what the queue has to do, and waits for it; -1: an exception. */
int64_t hot_product_now(PyObject *products, PyObject *const *args, int act);
extern PyTypeObject *hot_products_type;
/* Makes the type: 0, or -1 with an exception. */
int hot_products(PyObject *module);
#endif
