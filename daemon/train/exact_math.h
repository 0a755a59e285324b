/* Functions whose bits do not depend on the C library: additions and multiplications in a fixed order, so that all
 * ranks work out the same learning rate whatever their libm. */
#ifndef EO_DAEMON_TRAIN_EXACT_MATH_H
#define EO_DAEMON_TRAIN_EXACT_MATH_H

#include <stdint.h>

/* x^n by squaring; n >= 0. */
static inline double exact_power(double x, int64_t n)
{
    double result = 1;

    for (; n > 0; n >>= 1) {
        if (n & 1) {
            result *= x;
        }
        x *= x;
    }
    return result;
}

/* cos(pi u) for u in [0, 1], within 2e-16: the Taylor series of cos on [0, pi/2], mirrored. */
static inline double exact_cos_pi(double u)
{
    const double pi = 3.14159265358979323846;
    double x = pi * (u <= 0.5 ? u : 1 - u), sum = 0;

    for (int k = 12; k > 0; k--) {
        sum = (1 + sum) * (-x * x) / ((2 * k - 1) * (2 * k));
    }
    return u <= 0.5 ? 1 + sum : -(1 + sum);
}

#endif
