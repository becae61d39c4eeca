/* Functions of one number, where OpenCL's own do not do. NaN wins: in numpy, and here. */
#define FLOATS(T)                                                                                  \
    static inline T relu_of_##T(T x) { return x < 0 ? 0 : x; }                                     \
    static inline T min_of_##T(T a, T b) { return a < b || a != a ? a : b; }                       \
    static inline T max_of_##T(T a, T b) { return a > b || a != a ? a : b; }                       \
    static inline T sigmoid_of_##T(T x) { return 1 / (1 + exp(-x)); }                              \
    /* In the order of sparkle_drv's enum sp_activation. */                                        \
    static inline T act_of_##T(T x, u32 act)                                                       \
    {                                                                                              \
        return act == 1 ? relu_of_##T(x) : act == 2 ? tanh(x) : act == 3 ? sigmoid_of_##T(x) : x;  \
    }
FLOATS(f32)
WITH_F64(FLOATS(f64))
