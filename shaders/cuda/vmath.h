/* exp, log, tanh and friends of one element, by the functions that nvcc puts into the PTX (libdevice): full range, errors
 * of a few ulp, infinities, NaN and denormals as C's libm has them. */
#define FLOATS(T, s)                                                                                                   \
    DEVICE T sp_relu(T x) { return x < 0 ? 0 : x; }                                                                    \
    DEVICE T sp_min(T a, T b) { return a < b || a != a ? a : b; } /* NaN wins: in numpy, and here */                   \
    DEVICE T sp_max(T a, T b) { return a > b || a != a ? a : b; }                                                      \
    DEVICE T sp_abs(T x) { return fabs##s(x); }                                                                        \
    DEVICE T sp_exp(T x) { return exp##s(x); }                                                                         \
    DEVICE T sp_log(T x) { return log##s(x); }                                                                         \
    DEVICE T sp_sqrt(T x) { return sqrt##s(x); }                                                                       \
    DEVICE T sp_tanh(T x) { return tanh##s(x); }                                                                       \
    DEVICE T sp_sin(T x) { return sin##s(x); }                                                                         \
    DEVICE T sp_cos(T x) { return cos##s(x); }                                                                         \
    DEVICE T sp_floor(T x) { return floor##s(x); }                                                                     \
    DEVICE T sp_pow(T x, T y) { return pow##s(x, y); }                                                                 \
    DEVICE T sp_fma(T a, T b, T c) { return fma##s(a, b, c); }                                                         \
    DEVICE T sp_sigmoid(T x) { return 1 / (1 + exp##s(-x)); }                                                          \
    DEVICE T sp_act(T x, u32 act) /* in the order of enum sp_activation */                                             \
    {                                                                                                                  \
        return act == 1 ? sp_relu(x) : act == 2 ? sp_tanh(x) : act == 3 ? sp_sigmoid(x) : x;                           \
    }
FLOATS(f32, f)
FLOATS(f64, )
#undef FLOATS

DEVICE i32 sp_relu(i32 x) { return x < 0 ? 0 : x; }
DEVICE i32 sp_abs(i32 x) { return x < 0 ? (i32)-(u32)x : x; }
DEVICE i32 sp_min(i32 a, i32 b) { return a < b ? a : b; }
DEVICE i32 sp_max(i32 a, i32 b) { return a > b ? a : b; }
