/* Packs a launch: turns the caller's arguments into a record, or finds the reason to refuse them.
 * core/launch_errors.py makes the message of a refusal.
 *
 * The backend checks limits of the device and extents of pointers, since it checks every record.
 * `judge` finds what the backend refused. */
#include "pack.h"
#include "scalar.h"

#include "core/extents.h"

#include <string.h>

static int refuse(struct hot_record *r, int why, uint32_t index, uint64_t number)
{
    r->index = index;
    r->number = number;
    return why;
}

/* Returns 0 if a pointer belongs to `device`, else a refusal. Operations check this before they
 * read their operands, and a launch checks again. */
static int check_device(const struct hot_pointer *p, const PyObject *device)
{
    const PyObject *const its = hot_device_of(p);
    if (its == device)
        return 0;
    if (its != Py_None)
        return SP_REFUSED_ELSEWHERE; /* fault: elsewhere */
    return SP_REFUSED_CLOSED; /* fault: closed */
}

static int pack_pointer(const struct sp_arg *arg, PyObject *given, const PyObject *device, char *at, char *covered, unsigned *seen)
{
    if (given == Py_None && arg->is_optional)
        return 0; /* a null pointer: the record already has the address 0 */
    if (!hot_is(given, &hot_pointers))
        return SP_REFUSED_POINTER;
    const struct hot_pointer *const p = (const void *)given;
    const int why = check_device(p, device);
    if (why)
        return why;
    if (!(p->elements & arg->elements))
        return SP_REFUSED_ELEMENTS; /* fault: elements */
    if (arg->is_written && p->elements & HOT_READONLY_BIT)
        return SP_REFUSED_READONLY; /* fault: read-only */
    memcpy(at, &p->address, 8);
    memcpy(covered, &p->nbytes, 8);
    *seen |= (unsigned)p->elements;
    return 0;
}

static int pack_number(const struct sp_arg *arg, PyObject *given, char *at)
{
    if (!PyLong_CheckExact(given) && !(PyFloat_CheckExact(given) && hot_is_real(arg->code)))
        return SP_REFUSED_NUMBER;
    return hot_pack_scalar(arg->code, given, at) ? 0 : SP_REFUSED_RANGE;
}

static int pack_args(const struct sp_packing *p, const PyObject *device, PyObject *const *args, struct hot_record *r)
{
    char *const values = r->bytes + sizeof p->head, *covered = values + p->sig.args_nbytes;
    unsigned seen = 0;
    for (uint32_t i = 0; i < p->sig.nargs; i++) {
        const struct sp_arg *const arg = &p->sig.args[i];
        char *const at = values + arg->offset;
        int why;
        if (arg->is_pointer)
            why = pack_pointer(arg, args[i], device, at, covered, &seen);
        else
            why = pack_number(arg, args[i], at);
        if (why)
            return refuse(r, why, i, 0);
        covered += arg->is_pointer ? 8 : 0;
    }
    r->seen = seen;
    return 0;
}

/* Converts a Python int to uint32_t. Returns 0 if it does not fit. */
static int pack_count(PyObject *given, uint32_t *out)
{
    return hot_pack_scalar('I', given, (char *)out);
}

/* Packs `groups` or `group_size`, given as an int or a tuple of one to three ints. Axes that are
 * not given get size 1. `why` is the refusal for an int that does not fit in a uint32_t. */
static int pack_word(PyObject *given, uint32_t word, int why, uint32_t out[3], struct hot_record *r)
{
    if (PyLong_CheckExact(given)) {
        out[1] = out[2] = 1;
        return pack_count(given, out) ? 0 : refuse(r, why, 0, 0);
    }
    if (!PyTuple_CheckExact(given))
        return refuse(r, SP_REFUSED_WORD, word, 0);
    const Py_ssize_t n = PyTuple_Size(given);
    for (Py_ssize_t i = 0; i < n; i++)
        if (!PyLong_CheckExact(PyTuple_GetItem(given, i)))
            return refuse(r, SP_REFUSED_WORD, word, 0);
    if (n < 1 || n > 3)
        return refuse(r, SP_REFUSED_AXES, word, 0);
    for (uint32_t i = 0; i < 3; i++) {
        out[i] = 1;
        if (i < n && !pack_count(PyTuple_GetItem(given, i), out + i))
            return refuse(r, why, i, 0);
    }
    return 0;
}

/* Computes the number of groups on each axis of the grid from the kernel's arguments. Returns 0 or
 * a refusal. */
static int pack_grid(const struct sp_packing *p, struct sp_cmd_dispatch *d, struct hot_record *r)
{
    if (memcmp(d->group_size, p->head.group_size, sizeof d->group_size))
        return refuse(r, SP_REFUSED_OWN_SIZE, 0, 0);
    const struct sp_extent_step *steps = p->sig.steps + p->sig.nsteps;
    for (uint32_t i = 0; i < p->ngrid; steps += p->nsteps[i], i++) {
        uint64_t n = 0;
        if (sp_extent_value(steps, p->nsteps[i], d + 1, &n) || n > UINT32_MAX)
            return refuse(r, SP_REFUSED_GROUPS, i, n);
        d->groups[i] = (uint32_t)n;
    }
    return 0;
}

static int is_flat(const struct sp_packing *p, const struct sp_cmd_dispatch *d)
{
    for (uint32_t i = p->dims; i < 3; i++)
        if (d->groups[i] != 1 || d->group_size[i] != 1)
            return 0;
    return 1;
}

static int product(const uint32_t v[3], uint64_t *out)
{
    return __builtin_mul_overflow((uint64_t)v[0] * v[1], (uint64_t)v[2], out);
}

static int judge(const struct sp_packing *p, const struct sp_cmd_dispatch *d, struct hot_record *r)
{
    uint64_t threads, groups = 0, all;
    for (uint32_t i = 0; i < 3; i++)
        if (d->groups[i] > p->most_groups[i])
            return refuse(r, SP_REFUSED_GROUPS, i, d->groups[i]);
    if (product(d->group_size, &threads) || threads < 1 || threads > p->most_threads)
        return refuse(r, SP_REFUSED_GROUP_SIZE, 0, 0);
    if (product(d->groups, &groups) || __builtin_mul_overflow(groups, threads, &all))
        return refuse(r, SP_REFUSED_THREADS, 0, 0);
    if (p->is_routine && groups != 1)
        return refuse(r, SP_REFUSED_ROUTINE, 0, 0);
    if (!is_flat(p, d))
        return refuse(r, SP_REFUSED_DIMS, 0, 0);
    if (d->shared_nbytes > p->most_shared)
        return refuse(r, SP_REFUSED_SHARED, 0, 0);
    const int rc = sp_extents_check(&p->sig, d + 1, &r->index, &r->number);
    return rc == 0          ? 0
           : rc == -ERANGE ? SP_REFUSED_SHORT
           : rc == -EOVERFLOW ? SP_REFUSED_OVERFLOW
                              : SP_REFUSED_SENSELESS;
}

int hot_pack(const PyObject *device, PyObject *kernel, PyObject *const *args, Py_ssize_t nargs, PyObject *const *words,
             struct hot_record *r)
{
    if (!hot_is(kernel, &hot_kernels))
        return refuse(r, SP_REFUSED_KERNEL, 0, 0);
    if (!hot_kernel_is_of(kernel, device))
        return refuse(r, hot_kernel_is_of(kernel, Py_None) ? SP_REFUSED_KERNEL_CLOSED : SP_REFUSED_KERNEL_ELSEWHERE, 0, 0);
    const struct sp_packing *const p = hot_packing_of(kernel);
    struct sp_cmd_dispatch *const d = (void *)r->bytes;
    if (nargs != p->sig.nargs)
        return refuse(r, SP_REFUSED_COUNT, 0, 0); /* fault: arguments */
    *d = p->head;
    memset(d + 1, 0, d->nbytes - sizeof *d);
    r->nbytes = d->nbytes;
    int why = pack_args(p, device, args, r);
    if (why == 0 && words[1] != Py_None)
        why = pack_word(words[1], 1, SP_REFUSED_GROUP_SIZE, d->group_size, r);
    if (why)
        return why;
    if (words[0] != Py_None)
        why = pack_word(words[0], 0, SP_REFUSED_GROUPS, d->groups, r);
    else if (p->ngrid)
        why = pack_grid(p, d, r);
    else if (!p->is_routine)
        why = refuse(r, SP_REFUSED_NO_GROUPS, 0, 0);
    if (why)
        return why;
    if (!PyLong_CheckExact(words[2]))
        return refuse(r, SP_REFUSED_WORD, 2, 0);
    if (!pack_count(words[2], &d->shared_nbytes))
        return refuse(r, SP_REFUSED_SHARED, 0, 0);
    return is_flat(p, d) ? 0 : judge(p, d, r);
}

PyObject *hot_plain_launch(PyObject *kernel, PyObject *args, PyObject *const *words)
{
    const struct sp_signature *const sig = hot_is(kernel, &hot_kernels) ? &hot_packing_of(kernel)->sig : NULL;
    const Py_ssize_t nargs = PyTuple_Size(args);
    PyObject *const plain = PyTuple_New(nargs), *word[HOT_WORDS] = {NULL};
    int well = plain != NULL;
    for (Py_ssize_t i = 0; well && i < nargs; i++) {
        const int is_number = sig && nargs == sig->nargs && !sig->args[i].is_pointer;
        PyObject *const one = PyTuple_GetItem(args, i);
        PyObject *const made = is_number ? hot_plain(sig->args[i].code, one) : hot_itself(one);
        well = made && PyTuple_SetItem(plain, i, made) == 0;
    }
    for (int i = 0; well && i < HOT_WORDS; i++) {
        word[i] = i < 2 ? hot_plain_word(words[i]) : hot_plain('q', words[i]);
        well = word[i] != NULL;
    }
    PyObject *const made = well ? Py_BuildValue("O(OOO)", plain, word[0], word[1], word[2]) : NULL;
    Py_XDECREF(plain);
    for (int i = 0; i < HOT_WORDS; i++)
        Py_XDECREF(word[i]);
    return made;
}

int hot_pack_tuple(const PyObject *device, PyObject *kernel, PyObject *args, PyObject *const *words, struct hot_record *r)
{
    PyObject *given[SP_MAX_ARGS];
    const Py_ssize_t nargs = PyTuple_Size(args);
    for (Py_ssize_t i = 0; i < nargs && i < SP_MAX_ARGS; i++)
        given[i] = PyTuple_GetItem(args, i);
    return hot_pack(device, kernel, given, nargs, words, r);
}

static PyObject *refusal(int why, const struct hot_record *r)
{
    return Py_BuildValue("iIK", why, r->index, (unsigned long long)r->number);
}

static PyObject *pack(PyObject *module, PyObject *given)
{
    PyObject *device, *kernel, *args, *words[HOT_WORDS];
    struct hot_record r;
    (void)module;
    if (!PyArg_ParseTuple(given, "OOO!OOO", &device, &kernel, &PyTuple_Type, &args, &words[0], &words[1], &words[2]))
        return NULL;
    const int why = hot_pack_tuple(device, kernel, args, words, &r);
    return why ? refusal(why, &r) : PyBytes_FromStringAndSize(r.bytes, (Py_ssize_t)r.nbytes);
}

static PyObject *judge_record(PyObject *module, PyObject *given)
{
    PyObject *kernel, *record;
    struct hot_record r;
    (void)module;
    if (!PyArg_ParseTuple(given, "O!S", hot_kernels.type, &kernel, &record))
        return NULL;
    const int why = judge(hot_packing_of(kernel), (const void *)PyBytes_AsString(record), &r);
    return why ? refusal(why, &r) : hot_itself(Py_None);
}

static PyObject *plain(PyObject *module, PyObject *given)
{
    PyObject *kernel, *args, *words[HOT_WORDS];
    (void)module;
    if (!PyArg_ParseTuple(given, "OO!OOO", &kernel, &PyTuple_Type, &args, &words[0], &words[1], &words[2]))
        return NULL;
    return hot_plain_launch(kernel, args, words);
}

static PyObject *number(PyObject *module, PyObject *given)
{
    int code;
    PyObject *one;
    (void)module;
    return PyArg_ParseTuple(given, "CO", &code, &one) ? hot_plain((uint32_t)code, one) : NULL;
}

static PyObject *whose_memory(PyObject *module, PyObject *given)
{
    PyObject *pointer, *device;
    (void)module;
    if (!PyArg_ParseTuple(given, "O!O:whose", hot_pointers.type, &pointer, &device))
        return NULL;
    return PyLong_FromLong(check_device((const void *)pointer, device));
}

static PyMethodDef methods[] = {
    {"number", number, METH_VARARGS, "number(code, given): as plain, of one number for struct's code."},
    {"pack", pack, METH_VARARGS,
     "pack(device, kernel, args, groups, group_size, shared): the record of a launch of plain numbers, bytes; or why there is\n"
     "none, (enum sp_refusal of sp_pack.h, index of the argument, axis or launch option, the number that it is about)."},
    {"judge", judge_record, METH_VARARGS,
     "judge(kernel, record): why a backend refuses a record of `pack`, as that says it; None: not for its limits or extents."},
    {"plain", plain, METH_VARARGS,
     "plain(kernel, args, groups, group_size, shared): (args, (groups, group_size, shared)) with what stands for numbers\n"
     "converted, once; raises what the caller's conversions raise. An object that stands for no number stays as it is."},
    {"whose", whose_memory, METH_VARARGS, "whose(pointer, device): 0, or SP_REFUSED_CLOSED or SP_REFUSED_ELSEWHERE, as pack says it."},
    {NULL, NULL, 0, NULL},
};

int hot_packing(PyObject *module)
{
    return PyModule_AddFunctions(module, methods);
}
