/* Converts objects that stand for numbers, and packs numbers as arguments.
 *
 * `__index__` and `__float__` are the caller's code: they may have effects, raise, or be ended by
 * Ctrl-C. So each is called once, and its exceptions propagate unchanged. */
#include "scalar.h"

#include <math.h>
#include <string.h>

static PyObject *complex_word, *complex_type, *real_type;

/* Returns 1 for numpy's complex numbers. Their __float__ would drop the imaginary part. */
static int is_complex(PyObject *given)
{
    if (!PyObject_HasAttr((PyObject *)(void *)Py_TYPE(given), complex_word))
        return 0;
    return PyObject_IsInstance(given, complex_type) == 1 && PyObject_IsInstance(given, real_type) == 0;
}

/* Called after a conversion to a number failed. Returns 1 if the caller's own __index__ or
 * __float__ raised the exception, which stays set. A TypeError or OverflowError without a traceback
 * comes from Python or numpy: then clears it and returns 0. */
static int callers(void)
{
    PyObject *kind, *value, *traceback;
    PyErr_Fetch(&kind, &value, &traceback);
    const int ours = !kind || (!traceback && (PyErr_GivenExceptionMatches(kind, PyExc_TypeError) ||
                                              PyErr_GivenExceptionMatches(kind, PyExc_OverflowError)));
    if (!ours) {
        PyErr_Restore(kind, value, traceback);
        return 1;
    }
    Py_XDECREF(kind);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    return 0;
}

PyObject *hot_plain(uint32_t code, PyObject *given)
{
    PyObject *made = NULL;
    if (PyLong_Check(given) || !hot_is_real(code)) {
        made = PyNumber_Index(given);
    } else if (!is_complex(given)) {
        const double value = PyFloat_AsDouble(given);
        made = value == -1.0 && PyErr_Occurred() ? NULL : PyFloat_FromDouble(value);
    }
    return made || callers() ? made : hot_itself(given);
}

PyObject *hot_plain_word(PyObject *given)
{
    PyObject *of[4];
    Py_ssize_t n = 0;
    if (given == Py_None || PyIndex_Check(given))
        return given == Py_None ? hot_itself(given) : hot_plain('q', given);
    PyObject *const each = PyObject_GetIter(given);
    for (PyObject *one; each && n < 4 && (one = PyIter_Next(each)); n++) {
        of[n] = hot_plain('q', one);
        Py_DECREF(one);
        if (!of[n])
            break;
    }
    Py_XDECREF(each);
    PyObject *made = PyErr_Occurred() ? NULL : PyTuple_New(n);
    int plain = 1;
    for (Py_ssize_t i = 0; i < n; i++) {
        plain = plain && PyLong_CheckExact(of[i]);
        if (made)
            PyTuple_SetItem(made, i, of[i]); /* cannot fail: a new tuple, an index in bounds */
        else
            Py_DECREF(of[i]);
    }
    if (made && plain)
        return made;
    Py_XDECREF(made);
    return callers() ? NULL : hot_itself(given);
}

/* Returns the bits of IEEE 754's binary16, rounded to nearest even, or -1 if the value is finite
 * and too large. */
static int half_bits(double value)
{
    enum { MANTISSA = 10, LEAST = -14, INFINITE = 0x7c00, QUIET = 0x7e00, SIGN = 0x8000 };
    const int sign = signbit(value) ? SIGN : 0;
    if (isnan(value) || isinf(value))
        return sign | (isnan(value) ? QUIET : INFINITE);
    const int exponent = fabs(value) < ldexp(1, LEAST) ? LEAST : ilogb(value);
    if (exponent > -LEAST + 1)
        return -1;
    /* The first term has the biased exponent minus 1 in the exponent field. The second term is the
     * mantissa. The leading 1 of a normal number's mantissa carries into the exponent field and
     * adds the missing 1. A mantissa that is rounded up to 2 adds one more. */
    const int bits = ((exponent - LEAST) << MANTISSA) + (int)nearbyint(ldexp(fabs(value), MANTISSA - exponent));
    return bits < INFINITE ? sign | bits : -1;
}

static int pack_float(uint32_t code, PyObject *number, char *at)
{
    const double value = PyFloat_AsDouble(number);
    const float narrow = (float)value;
    if (value == -1.0 && PyErr_Occurred())
        return 0;
    if (code == 'e') {
        const int bits = half_bits(value);
        const uint16_t half = (uint16_t)bits;
        memcpy(at, &half, sizeof half);
        return bits >= 0;
    }
    if (code == 'd')
        memcpy(at, &value, 8);
    else
        memcpy(at, &narrow, 4);
    return code == 'd' || !isinf(narrow) || isinf(value);
}

static int pack_integer(uint32_t code, PyObject *number, char *at)
{
    if (code == 'Q') {
        const unsigned long long value = PyLong_AsUnsignedLongLong(number);
        memcpy(at, &value, 8);
        return !(value == (unsigned long long)-1 && PyErr_Occurred());
    }
    const long long value = PyLong_AsLongLong(number);
    if (value == -1 && PyErr_Occurred())
        return 0;
    const size_t nbytes = code == 'q' ? 8 : code == 'i' || code == 'I' ? 4 : code == 'h' || code == 'H' ? 2 : 1;
    /* copies the low bytes, which come first: the package supports only little-endian CPUs */
    memcpy(at, &value, nbytes);
    if (nbytes == 8)
        return 1;
    /* one more than the largest signed integer of `nbytes` bytes */
    const long long past = 1LL << (8 * nbytes - 1);
    return code == 'B' || code == 'H' || code == 'I' ? value >= 0 && value < 2 * past : value >= -past && value < past;
}

int hot_pack_scalar(uint32_t code, PyObject *number, char *at)
{
    const int fits = hot_is_real(code) ? pack_float(code, number, at) : pack_integer(code, number, at);
    if (!fits)
        PyErr_Clear();
    return fits; /* fault: range */
}

int hot_scalars(void)
{
    PyObject *const numbers = PyImport_ImportModule("numbers");
    complex_word = PyUnicode_InternFromString("__complex__");
    complex_type = numbers ? PyObject_GetAttrString(numbers, "Complex") : NULL;
    real_type = numbers ? PyObject_GetAttrString(numbers, "Real") : NULL;
    Py_XDECREF(numbers);
    return complex_word && complex_type && real_type ? 0 : -1;
}
