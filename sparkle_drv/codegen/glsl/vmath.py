"""exp, tanh, log and others in GLSL, for one f32 or f64 element.

A driver's functions may be wrong by thousands of ulp: GLSL allows exp(x) an error of 3 + 2|x| ulp.
A driver may also assume that no NaN occurs, so these functions recognise NaN by its bits. Where a
comparison must not lose a NaN, it compares the bits as integers. Values that depend on the order of
roundings are `precise`. Drivers may flush denormals.

`text(names)` returns the named functions and those that they call. f64 functions are overloads of
the f32 names. kit.py calls `text`.
"""

from __future__ import annotations

from collections.abc import Iterable

_LN2_HI, _LN2_LO = "0.693359375", "-2.12194440e-4"

# name -> (names of the functions that it calls, text). Each Taylor or atanh series below stops
# before its first term that is less than a quarter ulp on the reduced range.
_F32: dict[str, tuple[tuple[str, ...], str]] = {
    "nan": (
        (),
        """\
bool sp_nan(float x) { return (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u; }""",
    ),
    "relu": (
        (),
        """\
/* -0 .. -inf in bits: NaN is not among them and stays NaN. */
float sp_relu(float x) { return floatBitsToUint(x) - 0x80000000u <= 0x7f800000u ? 0.0 : x; }""",
    ),
    "key": (
        (),
        """\
/* Whole numbers in the order of the floats: comparing those, denormals are not taken for zero. */
int sp_key(float x)
{
    int u = floatBitsToInt(x);
    return u ^ ((u >> 31) & 0x7fffffff);
}""",
    ),
    "min": (
        ("nan", "key"),
        """\
float sp_min(float a, float b)
{
    return sp_nan(a) ? a : sp_nan(b) ? b : sp_key(a) < sp_key(b) ? a : b;
}""",
    ),
    "max": (
        ("nan", "key"),
        """\
float sp_max(float a, float b)
{
    return sp_nan(a) ? a : sp_nan(b) ? b : sp_key(a) > sp_key(b) ? a : b;
}""",
    ),
    "exp_parts": (
        (),
        """\
/* e**r * 2**n for |r| <= ln2/2; in two steps, so that neither overflows early. */
float sp_exp_parts(float r, int n)
{
    precise float p = 1.9875691500e-4;
    p = p * r + 1.3981999507e-3;
    p = p * r + 8.3334519073e-3;
    p = p * r + 4.1665795894e-2;
    p = p * r + 1.6666665459e-1;
    p = p * r + 5.0000001201e-1;
    p = p * (r * r) + r + 1.0;
    int first = n >> 1;
    p = p * uintBitsToFloat(uint(first + 127) << 23);
    p = p * uintBitsToFloat(uint(n - first + 127) << 23);
    return p;
}""",
    ),
    "exp": (
        ("nan", "exp_parts"),
        f"""\
float sp_exp(float x)
{{
    precise float c = clamp(x, -104.0, 89.0);
    precise float n = floor(c * 1.44269504 + 0.5);
    precise float r = c - n * {_LN2_HI};
    r = r - n * {_LN2_LO};
    float y = sp_exp_parts(r, int(n));
    return sp_nan(x) ? x : y;
}}""",
    ),
    "tanh": (
        ("exp",),
        """\
float sp_tanh(float x)
{
    float a = abs(x);
    precise float z = x * x;
    precise float p = -5.70498872745e-3;
    p = p * z + 2.06390887954e-2;
    p = p * z - 5.37397155531e-2;
    p = p * z + 1.33314422036e-1;
    p = p * z - 3.33332819422e-1;
    p = p * z * x + x;
    precise float far = 1.0 - 2.0 / (sp_exp(a + a) + 1.0);
    return a < 0.625 ? p : sp_nan(x) ? x : x < 0.0 ? -far : far;
}""",
    ),
    "sigmoid": (
        ("exp",),
        "float sp_sigmoid(float x) { return 1.0 / (1.0 + sp_exp(-x)); }",
    ),
    "log": (
        ("nan",),
        """\
/* x = m * 2**e with m in [sqrt(1/2), sqrt(2)); log(m) = 2 atanh((m - 1) / (m + 1)). */
float sp_log(float x)
{
    uint u = floatBitsToUint(x);
    if (sp_nan(x))
        return x;
    if ((u & 0x7fffffffu) == 0u)
        return uintBitsToFloat(0xff800000u);
    if (u > 0x80000000u)
        return uintBitsToFloat(0x7fc00000u);
    if (u == 0x7f800000u)
        return x;
    int e = 0;
    if (u < 0x00800000u) { /* a denormal is its bits times 2**-149 */
        u = floatBitsToUint(float(u));
        e = -149;
    }
    uint t = u - 0x3f3504f3u;
    e += int(t) >> 23;
    float m = uintBitsToFloat((t & 0x007fffffu) + 0x3f3504f3u);
    precise float f = m - 1.0;
    precise float s = f / (2.0 + f);
    precise float z = s * s;
    precise float p = z * (0.666666667 + z * (0.4 + z * (0.285714286 + z * 0.222222222)));
    precise float square = 0.5 * f * f;
    precise float n = float(e);
    precise float low = s * (square + p) + n * 9.0580006145e-6;
    return n * 0.693138123 - ((square - low) - f);
}""",
    ),
    "far": (
        (),
        """\
/* r of x = r + q * pi/2, |r| <= pi/4, for finite |x| >= 1 given by its bits (Payne and Hanek): of
 * the product with 2/pi only the 64 bits are made that are q modulo 4 and what comes after it. */
float sp_far(uint x, out uint q)
{
    const uint two_over_pi[7] = uint[7](0x28be60dbu, 0x9391054au, 0x7f09d5f4u, 0x7d4d3770u,
                                        0x36d8a566u, 0x4f10e410u, 0u);
    uint e = ((x >> 23) & 255u) - 126u, i = e >> 5;
    uint m = (x << 8) | 0x80000000u;
    uint a = i > 0u ? two_over_pi[i - 1u] : 0u, b = two_over_pi[i], c = two_over_pi[i + 1u];
    e &= 31u;
    if (e > 0u) {
        a = (a << e) | (b >> (32u - e));
        b = (b << e) | (c >> (32u - e));
        c = (c << e) | (two_over_pi[i + 2u] >> (32u - e));
    }
    uint high, low, carried, lost;
    umulExtended(m, c, carried, lost);
    umulExtended(m, b, high, low);
    low += carried;
    high += m * a + (low < carried ? 1u : 0u);
    q = (high + 0x20000000u) >> 30;
    high -= q << 30;
    bool below = (high & 0x80000000u) != 0u;
    if (below) {
        low = 0u - low;
        high = ~high + (low == 0u ? 1u : 0u);
    }
    precise float r = float(high) * 4294967296.0 + float(low);
    r = r * 3.40612158e-19; /* pi/2 / 2**62 */
    if ((x & 0x80000000u) != 0u) {
        q = 0u - q;
        below = !below;
    }
    return below ? -r : r;
}""",
    ),
    "turn": (
        ("nan", "far"),
        """\
/* sin(x + quarters * pi/2), good to a few ulp. */
float sp_turn(float x, uint quarters)
{
    if ((floatBitsToUint(x) & 0x7f800000u) == 0x7f800000u)
        return uintBitsToFloat(0x7fc00000u);
    float r;
    uint q;
#ifdef SP_DOUBLES
    if (abs(x) < 1e5) {
        double n = floor(double(x) * 0.63661977236758134308lf + 0.5lf);
        r = float(double(x) - n * 1.57079632679489661923lf);
        q = uint(n - 4.0lf * floor(n * 0.25lf)) + quarters;
    }
#else
    if (abs(x) < 1e3) {
        precise float n = floor(x * 0.636619772 + 0.5);
        precise float s = x - n * 1.5703125;
        s = s - n * 4.837512969970703e-4;
        s = s - n * 7.54978995489188e-8;
        r = s;
        q = uint(n - 4.0 * floor(n * 0.25)) + quarters;
    }
#endif
    else {
        r = sp_far(floatBitsToUint(x), q);
        q += quarters;
    }
    float z = r * r;
    float s = r + r * z * (-1.66666667e-1 + z * (8.33333333e-3 + z * (-1.98412698e-4
            + z * 2.75573192e-6)));
    float c = 1.0 + z * (-0.5 + z * (4.16666667e-2 + z * (-1.38888889e-3 + z * (2.48015873e-5
            - z * 2.75573192e-7))));
    float y = (q & 1u) != 0u ? c : s;
    return (q & 2u) != 0u ? -y : y;
}""",
    ),
    "sin": (("turn",), "float sp_sin(float x) { return sp_turn(x, 0u); }"),
    "cos": (("turn",), "float sp_cos(float x) { return sp_turn(x, 1u); }"),
    "pow": (
        ("nan", "exp_parts", "exp", "log"),
        """\
/* a**y for finite a > 0. The error of the logarithm counts |y log a| times: hence doubles. */
float sp_pow_positive(float a, float y)
{
#ifdef SP_DOUBLES
    uint u = floatBitsToUint(a);
    int e = 0;
    if (u < 0x00800000u) {
        u = floatBitsToUint(float(u));
        e = -149;
    }
    uint t = u - 0x3f3504f3u;
    e += int(t) >> 23;
    double m = double(uintBitsToFloat((t & 0x007fffffu) + 0x3f3504f3u));
    double s = (m - 1.0lf) / (m + 1.0lf);
    double z = s * s;
    double p = 1.0lf / 17.0lf;
    p = p * z + 1.0lf / 15.0lf;
    p = p * z + 1.0lf / 13.0lf;
    p = p * z + 1.0lf / 11.0lf;
    p = p * z + 1.0lf / 9.0lf;
    p = p * z + 1.0lf / 7.0lf;
    p = p * z + 1.0lf / 5.0lf;
    p = p * z + 1.0lf / 3.0lf;
    p = 2.0lf * s * (p * z + 1.0lf) + double(e) * 0.69314718055994530942lf;
    p = clamp(p * double(y), -104.0lf, 89.0lf);
    double n = floor(p * 1.44269504088896340736lf + 0.5lf);
    return sp_exp_parts(float(p - n * 0.69314718055994530942lf), int(n));
#else
    return sp_exp(y * sp_log(a));
#endif
}

/* The special cases are those of C's pow. */
float sp_pow(float x, float y)
{
    float infinity = uintBitsToFloat(0x7f800000u);
    float a = abs(x);
    if (y == 0.0 || (x == 1.0 && !sp_nan(x)))
        return 1.0;
    if (sp_nan(x) || sp_nan(y))
        return uintBitsToFloat(0x7fc00000u);
    bool y_infinite = abs(y) == infinity;
    bool whole = abs(y) >= 8388608.0 || floor(y) == y;
    bool odd = whole && abs(y) < 16777216.0 && (int(y) & 1) != 0;
    bool negative = (floatBitsToUint(x) >> 31) != 0u;
    if (negative && a != 0.0 && a != infinity && !whole)
        return uintBitsToFloat(0x7fc00000u);
    float power;
    if (a == 0.0 || a == infinity)
        power = (a == 0.0) == (y > 0.0) ? 0.0 : infinity;
    else if (y_infinite)
        power = a == 1.0 ? 1.0 : (a > 1.0) == (y > 0.0) ? infinity : 0.0;
    else
        power = sp_pow_positive(a, y);
    return negative && odd ? -power : power;
}""",
    ),
}

_F64: dict[str, str] = {
    "nan": """\
bool sp_nan(double x)
{
    uvec2 u = unpackDouble2x32(x);
    uint high = u.y & 0x7fffffffu;
    return high > 0x7ff00000u || (high == 0x7ff00000u && u.x != 0u);
}""",
    "relu": """\
double sp_relu(double x)
{
    bool negative = (unpackDouble2x32(x).y >> 31) != 0u;
    return negative && !sp_nan(x) ? 0.0lf : x;
}""",
    "min": """\
double sp_min(double a, double b) { return sp_nan(a) ? a : sp_nan(b) ? b : a < b ? a : b; }""",
    "max": """\
double sp_max(double a, double b) { return sp_nan(a) ? a : sp_nan(b) ? b : a > b ? a : b; }""",
    "exp": """\
double sp_pow2(int n) { return packDouble2x32(uvec2(0u, uint(n + 1023) << 20)); }

/* e**r - 1 for |r| <= ln2/2, by its series. */
double sp_expm1_near(double r)
{
    double p = 1.0lf / 6227020800.0lf;
    p = p * r + 1.0lf / 479001600.0lf;
    p = p * r + 1.0lf / 39916800.0lf;
    p = p * r + 1.0lf / 3628800.0lf;
    p = p * r + 1.0lf / 362880.0lf;
    p = p * r + 1.0lf / 40320.0lf;
    p = p * r + 1.0lf / 5040.0lf;
    p = p * r + 1.0lf / 720.0lf;
    p = p * r + 1.0lf / 120.0lf;
    p = p * r + 1.0lf / 24.0lf;
    p = p * r + 1.0lf / 6.0lf;
    p = p * r + 0.5lf;
    return p * r * r + r;
}

double sp_exp(double x)
{
    double c = clamp(x, -746.0lf, 710.0lf);
    precise double n = floor(c * 1.44269504088896340736lf + 0.5lf);
    precise double r = c - n * 0.693145751953125lf;
    r = r - n * 1.42860682030941723212e-6lf;
    precise double p = 1.0lf + sp_expm1_near(r);
    int whole = int(n);
    int first = whole >> 1;
    p = p * sp_pow2(first);
    p = p * sp_pow2(whole - first);
    return sp_nan(x) ? x : p;
}""",
    "tanh": """\
double sp_tanh(double x)
{
    double a = abs(x);
    double t = sp_expm1_near(2.0lf * a);
    precise double far = 1.0lf - 2.0lf / (sp_exp(2.0lf * a) + 1.0lf);
    double y = a < 0.17lf ? t / (t + 2.0lf) : far;
    return sp_nan(x) ? x : x < 0.0lf ? -y : y;
}""",
    "sigmoid": "double sp_sigmoid(double x) { return 1.0lf / (1.0lf + sp_exp(-x)); }",
}
_F64_NEEDS: dict[str, tuple[str, ...]] = {
    "relu": ("nan",), "min": ("nan",), "max": ("nan",), "exp": ("nan",), "tanh": ("exp",),
    "sigmoid": ("exp",),
}  # fmt: skip
_F64_ONLY = "f64:"


def text(names: Iterable[str], doubles: bool) -> str:
    """Returns the text of the functions `names` and of those that they call, each once.

    A name is "exp" for f32, "f64:exp" for f64. With `doubles`, f32 functions may compute in f64
    where that helps (OpenGL ES has no f64).
    """
    bodies: dict[str, str] = {}

    def visit(name: str) -> None:
        if name in bodies:
            return
        if name.startswith(_F64_ONLY):
            short = name.removeprefix(_F64_ONLY)
            for need in _F64_NEEDS.get(short, ()):
                visit(_F64_ONLY + need)
            bodies[name] = _F64[short]
        else:
            needs, body = _F32[name]
            for need in needs:
                visit(need)
            bodies[name] = body

    for name in names:
        visit(name)
    define = ["#define SP_DOUBLES"] if doubles and bodies else []
    return "\n".join([*define, *bodies.values()])


def use(name: str, dtype: str) -> str:
    """Returns what to append to Kit.uses, so that the shader gets the function `name` for elements
    of `dtype`.
    """
    return _F64_ONLY + name if dtype == "f64" else name
