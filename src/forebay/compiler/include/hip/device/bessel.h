// Bessel functions: sums of Chebyshev polynomials, whose coefficients were computed with mpmath from the functions' values.
#pragma once

#include <hip/device/math_standard.h>

namespace __forebay::bessel {

// Up to 8, over (x / 8)^2: J0, J1 / x, and what is left of Y0 and of Y1 / x without their logarithm and pole.
template <class T>
constexpr T j0_near[] = {
    0.15772797147489012, -0.008723442352852221, 0.2651786132033368, -0.37009499387264977, 0.15806710233209725,
    -0.034893769411408884, 0.004819180069467605, -0.00046062616620627504, 3.246032882100508e-05,
    -1.7619469077621507e-06, 7.608163592418782e-08, -2.679253530557673e-09, 7.848696314479465e-11,
    -1.9438346867370164e-12, 4.125320595634374e-14, -7.588508125447546e-16};
template <class T>
constexpr T j1_near[] = {
    0.08104484632565812, -0.1489751450676521, 0.1609992623572097, -0.08268049176681791, 0.022213639654966037,
    -0.003646940600769276, 0.0004050337728354822, -3.255554866857259e-05, 1.9858774049915165e-06,
    -9.521984756750436e-08, 3.687133759097148e-09, -1.178026622695885e-10, 3.160154580348003e-12,
    -7.221755239651773e-14, 1.4232144003513942e-15, -2.4441972916190464e-17};
template <class T>
constexpr T y0_near[] = {
    -0.03314611320328494, -0.2744743055297453, 0.17903431407718265, 0.26156734625504663, -0.17730201278114358,
    0.04719668959576339, -0.007287962479552079, 0.0007531135932577742, -5.632079141056987e-05, 3.206532537654801e-06,
    -1.44072332740187e-07, 5.248794787330516e-09, -1.5837552541812015e-10, 4.02633081830612e-12,
    -8.747341203310769e-14, 1.6434898714919468e-15, -2.6977881152566837e-17};
template <class T>
constexpr T y1_near[] = {
    0.0025380132357417816, -0.01608717304766875, -0.09591204536083074, 0.08445197259652346, -0.028328123944594365,
    0.005289897544167113, -0.0006414551451326356, 5.505982873338744e-05, -3.53808001868935e-06, 1.7707804556154404e-07,
    -7.11055004989928e-09, 2.344337905911516e-10, -6.4651518414115946e-12, 1.51429151205002e-13,
    -3.0511859694473254e-15, 5.34668038572867e-17};
// From 8 on, over (8 / x)^2: Hankel's P and x * Q of orders 0 and 1.
template <class T>
constexpr T p0[] = {
    0.9994603493475187, -0.0005365220468132117, 3.0751847875194745e-06, -5.1705945376060975e-08,
    1.6306464635151382e-09, -7.86409137723707e-11, 5.168262387349193e-12, -4.3045788699253914e-13,
    4.3265957431549404e-14, -5.069034095935236e-15, 6.748072215733873e-16, -1.0011513723467786e-16,
    1.6305919233744186e-17};
template <class T>
constexpr T q0[] = {
    -0.12444683684269607, 0.0005470815954089319, -5.9315987288485175e-06, 1.4377965798375193e-07,
    -5.817532749493056e-09, 3.376097523734991e-10, -2.565397936797308e-11, 2.404916100281365e-12,
    -2.6690625482579414e-13, 3.4041800321963686e-14, -4.87994410531204e-15, 7.729703176242605e-16,
    -1.3348852171502517e-16};
template <class T>
constexpr T p1[] = {
    1.0009030408600137, 0.0008989898330859408, -3.987284300488908e-06, 6.177633960644299e-08, -1.8718907491063067e-09,
    8.816898659582339e-11, -5.704863640395645e-12, 4.699195515230542e-13, -4.6842237839904895e-14,
    5.452674896044717e-15, -7.221180842274018e-16, 1.0667689114335412e-16, -1.7312313216116335e-17};
template <class T>
constexpr T q1[] = {
    0.3742222965562826, -0.0007702178839325664, 7.3108922063643636e-06, -1.676782510726674e-07, 6.583354662120443e-09,
    -3.749090950541556e-10, 2.8121750359748866e-11, -2.61145253946232e-12, 2.8774212663332235e-13,
    -3.649001916061838e-14, 5.206626366226707e-15, -8.215318025458595e-16, 1.4141084390211833e-16};
// exp(-x) * I0 and exp(-x) * I1 / x up to 8, over x; exp(-x) * sqrt(x) * I0 and I1 from 8 on, over 8 / x.
template <class T>
constexpr T i0_near[] = {
    0.33839763720473803, -0.3046826723431984, 0.17162090152220877, -0.09490109704804764, 0.04930528423967071,
    -0.02373741480589947, 0.010546460394594998, -0.004324309995050576, 0.0016394756169413357, -0.0005763755745385824,
    0.00018850288509584165, -5.754195010082104e-05, 1.6448448070728896e-05, -4.4167383584587505e-06,
    1.1173875391201037e-06, -2.670793853940612e-07, 6.046995022541919e-08, -1.300025009986248e-08,
    2.6598237246823866e-09, -5.189795601635263e-10, 9.675809035373237e-11, -1.726826291441556e-11,
    2.95505266312964e-12, -4.856446783111929e-13, 7.676185498604936e-14, -1.1685332877993451e-14,
    1.715391285555133e-15, -2.431279846547955e-16, 3.3307945188222384e-17};
template <class T>
constexpr T i1_near[] = {
    0.12629359322181682, -0.17641651835783406, 0.1026436586898471, -0.05294598120809499, 0.024726449030626516,
    -0.010564084894626197, 0.004156422944312888, -0.0015135724506312532, 0.0005122859561685758,
    -0.00016176081582589674, 4.781565107550054e-05, -1.3273163656039436e-05, 3.4702513081376785e-06,
    -8.568720264695455e-07, 2.0032947535521353e-07, -4.445059128796328e-08, 9.381537386495773e-09,
    -1.8872497517228294e-09, 3.625590281552117e-10, -6.663489723502027e-11, 1.1736186298890901e-11,
    -1.9839743977649436e-12, 3.223793365945575e-13, -5.042185504727912e-14, 7.600684294735408e-15,
    -1.1055969477353862e-15, 1.5536319577362005e-16, -2.111421214358166e-17};
template <class T>
constexpr T i0_far[] = {
    0.4022452055070544, 0.0033691164782556943, 6.889758346916825e-05, 2.8913705208347567e-06, 2.0489185894690638e-07,
    2.266668990498178e-08, 3.3962320257083865e-09, 4.94060238822497e-10, 1.1889147107846439e-11,
    -3.1499165279632416e-11, -1.3215811840447713e-11, -1.7941785315068062e-12, 7.180124451383666e-13,
    3.8527783827421426e-13, 1.54008621752141e-14, -4.150569347287222e-14, -9.554846698828307e-15,
    3.8116806693526224e-15, 1.7725601330565263e-15, -3.425485619677219e-16, -2.8276239805165836e-16,
    3.461222867697461e-17, 4.46562142029676e-17, -4.830504485944182e-18, -7.233180487874754e-18};
template <class T>
constexpr T i1_far[] = {
    0.38928811750914005, -0.009761097491361469, -0.00011058893876262371, -3.882564808877691e-06,
    -2.512236237870209e-07, -2.6314688468895196e-08, -3.835380385964237e-09, -5.589743462196584e-10,
    -1.8974958123505413e-11, 3.2526035830154884e-11, 1.4125807436613782e-11, 2.0356285441470896e-12,
    -7.198551776245908e-13, -4.0835511110921974e-13, -2.1015418427726643e-14, 4.272440016711951e-14,
    1.0420276984128802e-14, -3.8144030724370075e-15, -1.8803547755107825e-15, 3.3082023109209285e-16,
    2.96262899764595e-16, -3.209525921993424e-17, -4.6503053684893586e-17, 4.414348323071708e-18, 7.517296310842105e-18};

// The sum at x between 0 and 1 (Clenshaw).
template <class T, int N>
__DEVICE__ T sum(const T (&coefficients)[N], T x) {
    T twice = 4 * x - 2, before = 0, last = 0;
    for (int k = N - 1; k > 0; --k) {
        T next = twice * last - before + coefficients[k];
        before = last;
        last = next;
    }
    return twice / 2 * last - before + coefficients[0];
}

// sqrt(2 / (pi x)) (P cos(x - a) -+ Q sin(x - a)) with a = pi / 4 for order 0, 3 pi / 4 for order 1, for x from 8 on.
template <bool Second, class T>
__DEVICE__ T far(int order, T x) {
    T z = 64 / (x * x), p = order ? sum(p1<T>, z) : sum(p0<T>, z), q = (order ? sum(q1<T>, z) : sum(q0<T>, z)) / x;
    T s = sin(x), c = cos(x), scale = rsqrt(x) * T(0.56418958354775628695);
    T cosine = order ? s - c : c + s, sine = order ? -s - c : s - c;
    T result = scale * (Second ? p * sine + q * cosine : p * cosine - q * sine);
    return x == __builtin_inff() ? 0 : result;
}

template <class T>
__DEVICE__ T j(int order, T x) {
    T size = fabs(x), z = size * size / 64;
    T result = size >= 8 ? far<false>(order, size) : order ? size * sum(j1_near<T>, z) : sum(j0_near<T>, z);
    return order && x < 0 ? -result : result;
}

template <class T>
__DEVICE__ T y(int order, T x) {
    if (x < 0)
        return __builtin_nanf("");
    if (x == 0)
        return -__builtin_inff();
    if (x >= 8)
        return far<true>(order, x);
    const T by = T(0.63661977236758134308);
    T z = x * x / 64, wave = by * log(x) * j(order, x);
    return order ? wave - by / x + x * sum(y1_near<T>, z) : wave + sum(y0_near<T>, z);
}

// Other orders: upwards where that is stable, else downwards from one so high that its function is nearly 0 (Miller).
template <class T>
__DEVICE__ T jn(int n, T x) {
    T sign = (n & 1) && (n < 0) != (x < 0) ? -1 : 1;
    n = n < 0 ? -n : n;
    x = fabs(x);
    if (n < 2 || x == 0 || x == __builtin_inff())
        return sign * (n < 2 ? j(n, x) : 0);
    T before = j(0, x), last = j(1, x);
    if (n <= x) {
        for (int k = 1; k < n; ++k) {
            T next = 2 * k / x * last - before;
            before = last;
            last = next;
        }
        return sign * last;
    }
    T above = 0, here = T(1e-30), wanted = 0, norm = 0;
    for (int k = (n + (int)sqrt(60.0f * n) + 20) & ~1; k > 0; --k) {
        T below = 2 * k / x * here - above;
        above = here;
        here = below;
        if (fabs(here) > T(1e20)) {
            here *= T(1e-20);
            above *= T(1e-20);
            wanted *= T(1e-20);
            norm *= T(1e-20);
        }
        if (k - 1 == n)
            wanted = here;
        if ((k & 1) && k > 1)
            norm += 2 * here;
    }
    return sign * wanted / (norm + here);
}

template <class T>
__DEVICE__ T yn(int n, T x) {
    T sign = n < 0 && (n & 1) ? -1 : 1;
    n = n < 0 ? -n : n;
    if (n < 2 || x <= 0 || x == __builtin_inff())
        return sign * y(n < 2 ? n : 0, x);
    T before = y(0, x), last = y(1, x);
    for (int k = 1; k < n && last > -__builtin_inff(); ++k) {
        T next = 2 * k / x * last - before;
        before = last;
        last = next;
    }
    return sign * last;
}

template <class T>
__DEVICE__ T i(int order, T x) {
    T size = fabs(x);
    if (size == __builtin_inff())
        return order ? x : size;
    T result = size < 8 ? (order ? size * sum(i1_near<T>, size / 8) : sum(i0_near<T>, size / 8))
                        : (order ? sum(i1_far<T>, 8 / size) : sum(i0_far<T>, 8 / size)) * rsqrt(size);
    T half = exp(size / 2);  // which is finite where the result is
    result = result * half * half;
    return order && x < 0 ? -result : result;
}

}  // namespace __forebay::bessel

#define FOREBAY_BESSEL(T, f)                                                          \
    __DEVICE__ T j0##f(T x) { return __forebay::bessel::j(0, x); }                    \
    __DEVICE__ T j1##f(T x) { return __forebay::bessel::j(1, x); }                    \
    __DEVICE__ T y0##f(T x) { return __forebay::bessel::y(0, x); }                    \
    __DEVICE__ T y1##f(T x) { return __forebay::bessel::y(1, x); }                    \
    __DEVICE__ T jn##f(int n, T x) { return __forebay::bessel::jn(n, x); }            \
    __DEVICE__ T yn##f(int n, T x) { return __forebay::bessel::yn(n, x); }            \
    __DEVICE__ T cyl_bessel_i0##f(T x) { return __forebay::bessel::i(0, x); }         \
    __DEVICE__ T cyl_bessel_i1##f(T x) { return __forebay::bessel::i(1, x); }
FOREBAY_BESSEL(float, f)
FOREBAY_BESSEL(double, )
#undef FOREBAY_BESSEL
