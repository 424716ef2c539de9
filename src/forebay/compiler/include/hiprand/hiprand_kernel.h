// Random numbers in kernels, with hipRAND's functions: XORWOW (G. Marsaglia, "Xorshift RNGs", 2003), Philox4x32-10
// (J. Salmon and others, "Parallel random numbers: as easy as 1, 2, 3", 2011) and MRG32k3a (P. L'Ecuyer, 1999).
//
// The numbers of a seed are not those of hipRAND or cuRAND, whose seeding is not published. XORWOW's subsequences begin
// at places drawn by a hash, and an offset into it is walked.
#pragma once
#include <hip/device/own_names.h>

#include <hip/hip_runtime.h>

namespace __forebay {

// S. Vigna's splitmix64: good bits from any seed.
__DEVICE__ unsigned long long mixed(unsigned long long& seed) {
    unsigned long long z = seed += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

struct random_extras {
    int boxmuller_flag, boxmuller_flag_double;
    float boxmuller_extra;
    double boxmuller_extra_double;
};

struct xorwow : random_extras {
    unsigned v[5], d;

    __DEVICE__ unsigned next() {
        unsigned t = v[0] ^ v[0] >> 2;
        for (int i = 0; i < 4; i++)
            v[i] = v[i + 1];
        v[4] = (v[4] ^ v[4] << 4) ^ (t ^ t << 1);
        return (d += 362437) + v[4];
    }
    __DEVICE__ void skip(unsigned long long count) {
        for (; count; count--)
            next();
    }
    __DEVICE__ void begin(unsigned long long seed, unsigned long long sequence, unsigned long long offset) {
        unsigned long long mix = mixed(seed) ^ sequence * 0xd1342543de82ef95;
        for (int i = 0; i < 4; i += 2) {
            unsigned long long bits = mixed(mix);
            v[i] = (unsigned)bits;
            v[i + 1] = (unsigned)(bits >> 32);
        }
        unsigned long long bits = mixed(mix);
        v[4] = (unsigned)bits | 1;  // all five must not be 0
        d = (unsigned)(bits >> 32);
        skip(offset);
    }
};

struct philox : random_extras {
    unsigned counter[4], key[2], output[4], used;

    __DEVICE__ void compute() {
        unsigned c[4] = {counter[0], counter[1], counter[2], counter[3]}, k0 = key[0], k1 = key[1];
        for (int round = 0; round < 10; round++) {
            unsigned long long a = 0xd2511f53ull * c[0], b = 0xcd9e8d57ull * c[2];
            c[0] = (unsigned)(b >> 32) ^ c[1] ^ k0;
            c[2] = (unsigned)(a >> 32) ^ c[3] ^ k1;
            c[1] = (unsigned)b;
            c[3] = (unsigned)a;
            k0 += 0x9e3779b9;
            k1 += 0xbb67ae85;
        }
        for (int i = 0; i < 4; i++)
            output[i] = c[i];
    }
    __DEVICE__ void count(unsigned long long blocks) {
        unsigned long long low = (unsigned long long)counter[1] << 32 | counter[0], sum = low + blocks;
        counter[0] = (unsigned)sum;
        counter[1] = (unsigned)(sum >> 32);
        if (sum < low && ++counter[2] == 0)
            counter[3]++;
    }
    __DEVICE__ unsigned next() {
        if (used == 4) {
            count(1);
            compute();
            used = 0;
        }
        return output[used++];
    }
    __DEVICE__ uint4 next4() {
        unsigned x = next(), y = next(), z = next(), w = next();
        return make_uint4(x, y, z, w);
    }
    __DEVICE__ void skip(unsigned long long numbers) {
        numbers += used;
        count(numbers / 4);
        used = (unsigned)(numbers % 4);
        compute();
    }
    __DEVICE__ void begin(unsigned long long seed, unsigned long long sequence, unsigned long long offset) {
        key[0] = (unsigned)seed;
        key[1] = (unsigned)(seed >> 32);
        counter[0] = counter[1] = used = 0;
        counter[2] = (unsigned)sequence;
        counter[3] = (unsigned)(sequence >> 32);
        skip(offset);
    }
};

struct mrg32k3a : random_extras {
    unsigned long long x[3], y[3];
    static constexpr unsigned long long m1 = 4294967087, m2 = 4294944443;

    static __DEVICE__ void advance(unsigned long long (&state)[3], unsigned long long a, unsigned long long b,
                                   unsigned long long c, unsigned long long m, unsigned long long count, int doublings) {
        // (a b c; 1 0 0; 0 1 0) to the power of count · 2^doublings, times the state, newest first.
        unsigned long long power[3][3] = {{a, b, c}, {1, 0, 0}, {0, 1, 0}}, made[3][3];
        for (int bit = -doublings; bit < 64; bit++) {
            if (bit >= 0 && !(count >> bit))
                return;
            if (bit >= 0 && count >> bit & 1) {
                unsigned long long old[3] = {state[0], state[1], state[2]};
                for (int i = 0; i < 3; i++)
                    state[i] = (power[i][0] * old[0] % m + power[i][1] * old[1] % m + power[i][2] * old[2] % m) % m;
            }
            for (int i = 0; i < 3; i++)
                for (int j = 0; j < 3; j++)
                    made[i][j] = (power[i][0] * power[0][j] % m + power[i][1] * power[1][j] % m +
                                  power[i][2] * power[2][j] % m) % m;
            for (int i = 0; i < 9; i++)
                power[i / 3][i % 3] = made[i / 3][i % 3];
        }
    }
    __DEVICE__ unsigned next() {
        unsigned long long p = (1403580 * x[1] + 810728 * (m1 - x[2])) % m1;
        unsigned long long q = (527612 * y[0] + 1370589 * (m2 - y[2])) % m2;
        x[2] = x[1], x[1] = x[0], x[0] = p;
        y[2] = y[1], y[1] = y[0], y[0] = q;
        return (unsigned)(p > q ? p - q : p + m1 - q);
    }
    __DEVICE__ void skip(unsigned long long count, int doublings = 0) {
        advance(x, 0, 1403580, m1 - 810728, m1, count, doublings);
        advance(y, 527612, 0, m2 - 1370589, m2, count, doublings);
    }
    __DEVICE__ void begin(unsigned long long seed, unsigned long long sequence, unsigned long long offset) {
        for (int i = 0; i < 3; i++) {
            unsigned long long bits = seed ? mixed(seed) : 12345ull << 32 | 12345;
            x[i] = (bits >> 32) % m1;
            y[i] = (unsigned)bits % m2;
        }
        x[0] += x[0] == 0;  // not all three may be 0
        y[0] += y[0] == 0;
        skip(sequence, 76);
        skip(offset);
    }
};

// I. Sobol's sequence in the order of A. Antonov's and V. Saleev's Gray code (1979), for the direction vectors that the
// host gives. One number follows another in the same dimension, so normal ones are made of one each.
template <class W>
struct sobol : random_extras {
    static constexpr int bits = sizeof(W) * 8;
    W v[bits], x, i, scrambled_by;

    __DEVICE__ W next_word() {
        W now = x;
        int first = __ffsll((long long)(unsigned long long)(W)~i);
        x ^= v[first ? first - 1 : bits - 1];
        i++;
        return now;
    }
    __DEVICE__ unsigned next() { return (unsigned)(next_word() >> (bits - 32)); }
    __DEVICE__ void skip(unsigned long long count) {
        i += (W)count;
        x = scrambled_by;
        for (int bit = 0; bit < bits; bit++)
            if ((i ^ i >> 1) >> bit & 1)
                x ^= v[bit];
    }
    __DEVICE__ void begin(const W* vectors, W offset, W scramble = 0) {
        scrambled_by = scramble;
        for (int bit = 0; bit < bits; bit++)
            v[bit] = vectors[bit];
        i = 0;
        skip(offset);
    }
};
template <class S>
inline constexpr bool is_sobol = false;
template <class W>
inline constexpr bool is_sobol<sobol<W>> = true;

template <class S>
inline constexpr bool is_random = std::is_base_of_v<random_extras, S>;

// In (0, 1], as cuRAND and hipRAND have it.
__DEVICE__ float to_uniform(unsigned bits) { return fminf((float)bits * 0x1p-32f + 0x1p-33f, 1.0f); }
template <class S>
__DEVICE__ double uniform_double(S* state) {
    if constexpr (is_sobol<S>) {
        constexpr double step = S::bits == 32 ? 0x1p-32 : 0x1p-64;
        return fmin((double)state->next_word() * step + step / 2, 1.0);
    } else {
    unsigned long long high = state->next(), low = state->next();
    return (double)((high << 32 | low) >> 11) * 0x1p-53 + 0x1p-53;
    }
}
// G. Box and M. Muller: two normal numbers of two uniform ones.
template <class T>
struct pair_of {
    T x, y;
};
template <class S>
__DEVICE__ pair_of<float> normal_pair(S* state) {
    float radius = sqrtf(-2 * logf(to_uniform(state->next()))), sine, cosine;
    sincosf(6.283185307f * to_uniform(state->next()), &sine, &cosine);
    return {radius * sine, radius * cosine};
}
template <class S>
__DEVICE__ pair_of<double> normal_pair_double(S* state) {
    double radius = sqrt(-2 * log(uniform_double(state))), sine, cosine;
    sincos(6.283185307179586 * uniform_double(state), &sine, &cosine);
    return {radius * sine, radius * cosine};
}
template <class S>
__DEVICE__ float normal(S* state) {
    if constexpr (is_sobol<S>)
        return normcdfinvf(to_uniform(state->next()));
    if (state->boxmuller_flag) {
        state->boxmuller_flag = false;
        return state->boxmuller_extra;
    }
    pair_of<float> both = normal_pair(state);
    state->boxmuller_flag = true;
    state->boxmuller_extra = both.y;
    return both.x;
}
template <class S>
__DEVICE__ double normal_double(S* state) {
    if constexpr (is_sobol<S>)
        return normcdfinv(uniform_double(state));
    if (state->boxmuller_flag_double) {
        state->boxmuller_flag_double = false;
        return state->boxmuller_extra_double;
    }
    pair_of<double> both = normal_pair_double(state);
    state->boxmuller_flag_double = true;
    state->boxmuller_extra_double = both.y;
    return both.x;
}
// D. Knuth's for small means, a product of uniform numbers; beyond, the rounded normal number that it comes close to.
template <class S>
__DEVICE__ unsigned poisson(S* state, double mean) {
    if (mean > 64) {
        double number = floor(mean + sqrt(mean) * normal_double(state) + 0.5);
        return number < 0 ? 0 : (unsigned)number;
    }
    double limit = exp(-mean), product = uniform_double(state);
    unsigned count = 0;
    for (; product > limit; count++)
        product *= uniform_double(state);
    return count;
}

}  // namespace __forebay

// The functions of a library, whose names begin with its own.
#define FOREBAY_RANDOM_OF(S) template <class S, std::enable_if_t<__forebay::is_random<S>, int> = 0> __DEVICE__
#define FOREBAY_RANDOM(lib)                                                                                        \
    using lib##State = __forebay::xorwow;                                                                          \
    using lib##State_t = __forebay::xorwow;                                                                        \
    using lib##StateXORWOW = __forebay::xorwow;                                                                    \
    using lib##StateXORWOW_t = __forebay::xorwow;                                                                  \
    using lib##StatePhilox4_32_10 = __forebay::philox;                                                             \
    using lib##StatePhilox4_32_10_t = __forebay::philox;                                                           \
    using lib##StateMRG32k3a = __forebay::mrg32k3a;                                                                \
    using lib##StateMRG32k3a_t = __forebay::mrg32k3a;                                                              \
    using lib##StateSobol32 = __forebay::sobol<unsigned>;                                                          \
    using lib##StateSobol32_t = __forebay::sobol<unsigned>;                                                        \
    using lib##StateScrambledSobol32 = __forebay::sobol<unsigned>;                                                 \
    using lib##StateScrambledSobol32_t = __forebay::sobol<unsigned>;                                               \
    __DEVICE__ void lib##_init(const unsigned* vectors, unsigned scramble, unsigned offset,                        \
                               __forebay::sobol<unsigned>* state) {                                                \
        state->begin(vectors, offset, scramble);                                                                   \
    }                                                                                                              \
    using lib##DirectionVectors32_t = unsigned[32];                                                                \
    __DEVICE__ void lib##_init(const unsigned* vectors, unsigned offset,                                           \
                               __forebay::sobol<unsigned>* state) {                                                \
        state->begin(vectors, offset);                                                                             \
    }                                                                                                              \
    using lib##StateSobol64 = __forebay::sobol<unsigned long long>;                                                \
    using lib##StateSobol64_t = __forebay::sobol<unsigned long long>;                                              \
    using lib##StateScrambledSobol64 = __forebay::sobol<unsigned long long>;                                       \
    using lib##StateScrambledSobol64_t = __forebay::sobol<unsigned long long>;                                     \
    __DEVICE__ void lib##_init(const unsigned long long* vectors, unsigned long long scramble, unsigned long long offset,\
                               __forebay::sobol<unsigned long long>* state) {                                      \
        state->begin(vectors, offset, scramble);                                                                   \
    }                                                                                                              \
    using lib##DirectionVectors64_t = unsigned long long[64];                                                      \
    __DEVICE__ void lib##_init(const unsigned long long* vectors, unsigned long long offset,                       \
                               __forebay::sobol<unsigned long long>* state) {                                      \
        state->begin(vectors, offset);                                                                             \
    }                                                                                                              \
    __DEVICE__ unsigned long long lib(__forebay::sobol<unsigned long long>* state) { return state->next_word(); }  \
    FOREBAY_RANDOM_OF(S)                                                                                           \
    void lib##_init(unsigned long long seed, unsigned long long sequence, unsigned long long offset, S* state) {   \
        state->boxmuller_flag = state->boxmuller_flag_double = false;                                                        \
        state->begin(seed, sequence, offset);                                                                      \
    }                                                                                                              \
    FOREBAY_RANDOM_OF(S) unsigned lib(S* state) { return state->next(); }                                          \
    FOREBAY_RANDOM_OF(S) float lib##_uniform(S* state) { return __forebay::to_uniform(state->next()); }            \
    FOREBAY_RANDOM_OF(S) double lib##_uniform_double(S* state) { return __forebay::uniform_double(state); }        \
    FOREBAY_RANDOM_OF(S) float lib##_normal(S* state) { return __forebay::normal(state); }                         \
    FOREBAY_RANDOM_OF(S) double lib##_normal_double(S* state) { return __forebay::normal_double(state); }          \
    FOREBAY_RANDOM_OF(S) float2 lib##_normal2(S* state) {                                                          \
        auto both = __forebay::normal_pair(state);                                                                 \
        return {both.x, both.y};                                                                                   \
    }                                                                                                              \
    FOREBAY_RANDOM_OF(S) double2 lib##_normal2_double(S* state) {                                                  \
        auto both = __forebay::normal_pair_double(state);                                                          \
        return {both.x, both.y};                                                                                   \
    }                                                                                                              \
    FOREBAY_RANDOM_OF(S) float lib##_log_normal(S* state, float mean, float deviation) {                           \
        return expf(mean + deviation * __forebay::normal(state));                                                  \
    }                                                                                                              \
    FOREBAY_RANDOM_OF(S) float2 lib##_log_normal2(S* state, float mean, float deviation) {                         \
        auto both = __forebay::normal_pair(state);                                                                 \
        return {expf(mean + deviation * both.x), expf(mean + deviation * both.y)};                                 \
    }                                                                                                              \
    FOREBAY_RANDOM_OF(S) double2 lib##_log_normal2_double(S* state, double mean, double deviation) {               \
        auto both = __forebay::normal_pair_double(state);                                                          \
        return {exp(mean + deviation * both.x), exp(mean + deviation * both.y)};                                   \
    }                                                                                                              \
    FOREBAY_RANDOM_OF(S) double lib##_log_normal_double(S* state, double mean, double deviation) {                 \
        return exp(mean + deviation * __forebay::normal_double(state));                                            \
    }                                                                                                              \
    FOREBAY_RANDOM_OF(S) unsigned lib##_poisson(S* state, double mean) { return __forebay::poisson(state, mean); } \
    __DEVICE__ uint4 lib##4(__forebay::philox* state) { return state->next4(); }                                   \
    __DEVICE__ float4 lib##_uniform4(__forebay::philox* state) {                                                   \
        uint4 bits = state->next4();                                                                               \
        return {__forebay::to_uniform(bits.x), __forebay::to_uniform(bits.y), __forebay::to_uniform(bits.z),       \
                __forebay::to_uniform(bits.w)};                                                                    \
    }                                                                                                              \
    __DEVICE__ double2 lib##_uniform2_double(__forebay::philox* state) {                                           \
        double x = __forebay::uniform_double(state), y = __forebay::uniform_double(state);                         \
        return {x, y};                                                                                             \
    }                                                                                                              \
    __DEVICE__ double4 lib##_uniform4_double(__forebay::philox* state) {                                           \
        double2 one = lib##_uniform2_double(state), two = lib##_uniform2_double(state);                            \
        return {one.x, one.y, two.x, two.y};                                                                       \
    }                                                                                                              \
    __DEVICE__ float4 lib##_log_normal4(__forebay::philox* state, float mean, float deviation) {                   \
        float2 one = lib##_log_normal2(state, mean, deviation), two = lib##_log_normal2(state, mean, deviation);   \
        return {one.x, one.y, two.x, two.y};                                                                       \
    }                                                                                                              \
    __DEVICE__ uint4 lib##_poisson4(__forebay::philox* state, double mean) {                                       \
        uint4 result;                                                                                              \
        result.x = lib##_poisson(state, mean), result.y = lib##_poisson(state, mean);                              \
        result.z = lib##_poisson(state, mean), result.w = lib##_poisson(state, mean);                              \
        return result;                                                                                             \
    }                                                                                                              \
    __DEVICE__ double4 lib##_normal4_double(__forebay::philox* state) {                                            \
        auto one = __forebay::normal_pair_double(state), two = __forebay::normal_pair_double(state);               \
        return {one.x, one.y, two.x, two.y};                                                                       \
    }                                                                                                              \
    __DEVICE__ double4 lib##_log_normal4_double(__forebay::philox* state, double mean, double deviation) {         \
        double2 one = lib##_log_normal2_double(state, mean, deviation);                                            \
        double2 two = lib##_log_normal2_double(state, mean, deviation);                                            \
        return {one.x, one.y, two.x, two.y};                                                                       \
    }                                                                                                              \
    __DEVICE__ float4 lib##_normal4(__forebay::philox* state) {                                                    \
        auto one = __forebay::normal_pair(state), two = __forebay::normal_pair(state);                             \
        return {one.x, one.y, two.x, two.y};                                                                       \
    }
FOREBAY_RANDOM(hiprand)

FOREBAY_RANDOM_OF(S)
void skipahead(unsigned long long count, S* state) { state->skip(count); }
// To another subsequence, at the same place in it. XORWOW's begin where a hash says, and cannot be left for another.
__DEVICE__ void skipahead_sequence(unsigned long long count, __forebay::philox* state) {
    unsigned long long sequence = ((unsigned long long)state->counter[3] << 32 | state->counter[2]) + count;
    state->counter[2] = (unsigned)sequence;
    state->counter[3] = (unsigned)(sequence >> 32);
    state->compute();
}
__DEVICE__ void skipahead_subsequence(unsigned long long count, __forebay::mrg32k3a* state) { state->skip(count, 76); }
__DEVICE__ void skipahead_sequence(unsigned long long count, __forebay::mrg32k3a* state) { state->skip(count, 127); }
#include <hip/device/program_names.h>
