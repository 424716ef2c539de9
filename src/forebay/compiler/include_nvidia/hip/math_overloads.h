// Functions of mathematics of integers, and of two types at once (C++, [cmath.syn]): they compute in double. CUDA has them
// from the host's <cmath>. The empty pack makes these the worse match wherever another header has them as well.
#pragma once

namespace __forebay {
template <bool, class T> struct only_if {};
template <class T> struct only_if<true, T> { typedef T type; };
template <class T> struct number { enum { integral = 0, any = 0 }; };
#define FOREBAY_NUMBER(T, is_integral) \
    template <> struct number<T> { enum { integral = is_integral, any = 1 }; };
FOREBAY_NUMBER(bool, 1)
FOREBAY_NUMBER(char, 1)
FOREBAY_NUMBER(signed char, 1)
FOREBAY_NUMBER(unsigned char, 1)
FOREBAY_NUMBER(short, 1)
FOREBAY_NUMBER(unsigned short, 1)
FOREBAY_NUMBER(int, 1)
FOREBAY_NUMBER(unsigned int, 1)
FOREBAY_NUMBER(long, 1)
FOREBAY_NUMBER(unsigned long, 1)
FOREBAY_NUMBER(long long, 1)
FOREBAY_NUMBER(unsigned long long, 1)
FOREBAY_NUMBER(float, 0)
FOREBAY_NUMBER(double, 0)
#undef FOREBAY_NUMBER
template <class T, class U> struct same { enum { value = 0 }; };
template <class T> struct same<T, T> { enum { value = 1 }; };
}

// In two parts, for a float does not hold every int.
__DEVICE__ float powif(float x, int n) {
    int low = n % 256;
    return n == low ? powf(x, float(n)) : powf(x, float(n - low)) * powf(x, float(low));
}
__DEVICE__ double powi(double x, int n) { return pow(x, double(n)); }

#define FOREBAY_OF_ONE(name)                                                                                        \
    template <class T, class... None>                                                                               \
    __DEVICE__ typename __forebay::only_if<__forebay::number<T>::integral && sizeof...(None) == 0, double>::type    \
    name(T x, None...) { return name(double(x)); }
FOREBAY_OF_ONE(acos)
FOREBAY_OF_ONE(acosh)
FOREBAY_OF_ONE(asin)
FOREBAY_OF_ONE(asinh)
FOREBAY_OF_ONE(atan)
FOREBAY_OF_ONE(atanh)
FOREBAY_OF_ONE(cbrt)
FOREBAY_OF_ONE(ceil)
FOREBAY_OF_ONE(cos)
FOREBAY_OF_ONE(cosh)
FOREBAY_OF_ONE(erf)
FOREBAY_OF_ONE(erfc)
FOREBAY_OF_ONE(exp)
FOREBAY_OF_ONE(exp2)
FOREBAY_OF_ONE(expm1)
FOREBAY_OF_ONE(fabs)
FOREBAY_OF_ONE(floor)
FOREBAY_OF_ONE(lgamma)
FOREBAY_OF_ONE(log)
FOREBAY_OF_ONE(log10)
FOREBAY_OF_ONE(log1p)
FOREBAY_OF_ONE(log2)
FOREBAY_OF_ONE(logb)
FOREBAY_OF_ONE(nearbyint)
FOREBAY_OF_ONE(rint)
FOREBAY_OF_ONE(round)
FOREBAY_OF_ONE(rsqrt)
FOREBAY_OF_ONE(sin)
FOREBAY_OF_ONE(sinh)
FOREBAY_OF_ONE(sqrt)
FOREBAY_OF_ONE(tan)
FOREBAY_OF_ONE(tanh)
FOREBAY_OF_ONE(tgamma)
FOREBAY_OF_ONE(trunc)
#undef FOREBAY_OF_ONE

#define FOREBAY_OF_TWO(name)                                                                                        \
    template <class T, class U, class... None>                                                                      \
    __DEVICE__ typename __forebay::only_if<__forebay::number<T>::any && __forebay::number<U>::any &&                \
                                               (__forebay::number<T>::integral || !__forebay::same<T, U>::value) && \
                                               sizeof...(None) == 0,                                                \
                                           double>::type                                                            \
    name(T x, U y, None...) { return name(double(x), double(y)); }
FOREBAY_OF_TWO(atan2)
FOREBAY_OF_TWO(copysign)
FOREBAY_OF_TWO(fdim)
FOREBAY_OF_TWO(fmax)
FOREBAY_OF_TWO(fmin)
FOREBAY_OF_TWO(fmod)
FOREBAY_OF_TWO(hypot)
FOREBAY_OF_TWO(nextafter)
FOREBAY_OF_TWO(pow)
FOREBAY_OF_TWO(remainder)
#undef FOREBAY_OF_TWO

// CUDA's min and max of two integers are ambiguous where one has 64 bits and the other is of another type.
#define FOREBAY_OF_LONG(name, better)                                                                               \
    template <class T, class U, class... None>                                                                      \
    __DEVICE__ typename __forebay::only_if<__forebay::number<T>::integral && __forebay::number<U>::integral &&      \
                                               !__forebay::same<T, U>::value &&                                     \
                                               (sizeof(T) == 8 || sizeof(U) == 8) && sizeof...(None) == 0,          \
                                           decltype(T() + U())>::type                                               \
    name(T x, U y, None...) {                                                                                       \
        decltype(T() + U()) a = x, b = y;                                                                           \
        return a better b ? a : b;                                                                                  \
    }
FOREBAY_OF_LONG(max, >)
FOREBAY_OF_LONG(min, <)
#undef FOREBAY_OF_LONG
