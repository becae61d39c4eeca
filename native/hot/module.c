/* The extension sparkle_drv._hot: the part of a launch that reads Python objects, on the stable ABI
 * of 3.10. */
#include "hot/calls/calls.h"
#include "hot/calls/key.h"
#include "hot/launch/fence.h"
#include "hot/launch/launch.h"
#include "hot/launch/pack.h"
#include "hot/launch/scalar.h"
#include "hot/numpy/result.h"

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "sparkle_drv._hot",
    .m_doc = "Base classes of core's objects, and the launch over them.",
    .m_size = -1,
};

PyMODINIT_FUNC PyInit__hot(void);

PyMODINIT_FUNC PyInit__hot(void)
{
    PyObject *module = PyModule_Create(&definition);
    if (module &&
        (hot_objects(module) || hot_fences(module) || hot_scalars() || hot_packing(module) || hot_numpy(module) ||
         hot_launch(module) || hot_prepared(module) ||
         hot_keys(module) || hot_rows(module) || hot_tables(module) || hot_callables(module))) {
        Py_DECREF(module);
        return NULL;
    }
#ifdef Py_GIL_DISABLED
    PyUnstable_Module_SetGIL(module, Py_MOD_GIL_NOT_USED);
#endif
    return module;
}
