/* roundeven of C23, only for the emulator: glibc has it since 2.25, and a wheel is linked for 2.17.
 * rint would be wrong, because the host's rounding mode is set to that of the wave. Compilers use
 * the CPU's instruction where there is one. */
#include <math.h>

double roundeven(double x)
{
    /* from 2^52 on every double is a whole number; x + x makes a signalling NaN a quiet one */
    if (!(fabs(x) < 0x1p52))
        return x != x ? x + x : x;
    double below = floor(x), part = x - below; /* exact */
    double odd = below - 2 * floor(below / 2);
    return copysign(part < 0.5 || (part == 0.5 && odd == 0) ? below : below + 1, x);
}

float roundevenf(float x)
{
    return (float)roundeven((double)x);
}
