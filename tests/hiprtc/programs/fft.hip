#include <hip/hip_complex.h>
#include <hip/hip_runtime.h>

// The Fourier transform of 256 complex numbers a block, in shared memory, by two.
extern "C" __global__ void fft(const hipFloatComplex* in, hipFloatComplex* out) {
    __shared__ hipFloatComplex x[256];
    int t = threadIdx.x;  // of 128
    in += blockIdx.x * 256;
    out += blockIdx.x * 256;
    x[__brev(t) >> 24] = in[t];
    x[__brev(t + 128) >> 24] = in[t + 128];
    for (int half = 1; half < 256; half *= 2) {
        __syncthreads();
        int k = t & (half - 1), at = 2 * t - k;
        float sine, cosine;
        sincospif(-(float)k / half, &sine, &cosine);
        hipFloatComplex even = x[at], odd = hipCmulf(x[at + half], make_hipFloatComplex(cosine, sine));
        x[at] = hipCaddf(even, odd);
        x[at + half] = hipCsubf(even, odd);
    }
    __syncthreads();
    out[t] = x[t];
    out[t + 128] = x[t + 128];
}
