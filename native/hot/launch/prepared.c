/* Prepared launches. `Queue.prepare` returns the bound method `go` of a prepared launch. A list of
 * commands that was submitted also keeps a prepared launch (struct hot_commands). */
#include "launch.h"

#include <stddef.h>

PyTypeObject *hot_prepared_type;

/* Submits the prepared launch again and returns the timeline value. METH_FASTCALL, because CPython
 * calls such a method faster than METH_NOARGS. */
static PyObject *go(PyObject *self, PyObject *const *args, Py_ssize_t nargs)
{
    struct hot_prepared *p = (void *)self;
    (void)args;
    if (nargs)
        return PyErr_Format(PyExc_TypeError, "go: no arguments are taken, %zd were given", nargs), NULL;
    struct sp_submission *prepared;
    /* a new reference to p->kept, because another thread may call the method `take` meanwhile */
    PyObject *kept;
    Py_BEGIN_CRITICAL_SECTION(self);
    prepared = p->prepared;
    kept = p->kept;
    Py_XINCREF(kept);
    Py_END_CRITICAL_SECTION();
    if (!prepared || !p->again) {
        Py_XDECREF(kept);
        return PyErr_Format(PyExc_RuntimeError, "go: nothing is prepared"), NULL;
    }
    const struct sp_functions *const f = ((struct sp_handle *)prepared->queue)->functions;
    /* Makes the Python int of the next timeline value before the driver runs, because the driver's
     * code evicts Python's data from the CPU's caches. This order saves 25 ns (measured by
     * benchmarks/amdgpu_submit.py). */
    const long long next = __atomic_load_n(&p->last, __ATOMIC_RELAXED) + 1;
    PyObject *const number = f->resend ? PyLong_FromLongLong(next) : NULL;
    int64_t value = hot_resend(prepared);
    if (value == next && number) {
        __atomic_store_n(&p->last, value, __ATOMIC_RELAXED);
        Py_XDECREF(kept);
        return number;
    }
    Py_XDECREF(number);
    if (value == 0) {
        Py_BEGIN_ALLOW_THREADS
        value = f->run((struct sp_prepared *)(void *)prepared);
        Py_END_ALLOW_THREADS
    }
    __atomic_store_n(&p->last, value, __ATOMIC_RELAXED);
    Py_XDECREF(kept);
    return value > 0 ? PyLong_FromLongLong(value) : PyObject_CallFunction(p->again, "OL", self, (long long)value);
}

/* take(kept, prepared): from now on the method `go` launches the submission `prepared`, whose
 * memory `kept` owns. */
static PyObject *take(PyObject *self, PyObject *given)
{
    struct hot_prepared *p = (void *)self;
    PyObject *kept, *old;
    unsigned long long prepared;
    if (!PyArg_ParseTuple(given, "OK", &kept, &prepared))
        return NULL;
    Py_INCREF(kept);
    Py_BEGIN_CRITICAL_SECTION(self);
    old = p->kept;
    p->kept = kept;
    p->prepared = (struct sp_submission *)(uintptr_t)prepared;
    Py_END_CRITICAL_SECTION();
    Py_XDECREF(old); /* after the exchange, because this may free the old submission */
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"go", (PyCFunction)(void (*)(void))go, METH_FASTCALL, "Launches; returns the timeline value."},
    {"take", take, METH_VARARGS, "take(kept, prepared): from now on `go` launches that."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef members[] = {
    {"kept", T_OBJECT, offsetof(struct hot_prepared, kept), READONLY, NULL},
    {"again", T_OBJECT, offsetof(struct hot_prepared, again), 0, NULL},
    {"prepared", T_ULONGLONG, offsetof(struct hot_prepared, prepared), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

int hot_prepared(PyObject *module)
{
    static const struct hot_frame frame = {
        .name = "sparkle_drv._hot.Prepared",
        .doc = "A prepared launch; its bound method `go` is what Queue.prepare returns.",
        .size = sizeof(struct hot_prepared),
        .references = 2,
        .methods = methods,
        .members = members,
    };
    hot_prepared_type = hot_collected(module, &frame);
    return hot_prepared_type ? 0 : -1;
}
