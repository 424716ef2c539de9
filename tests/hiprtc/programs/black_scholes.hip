#include <hip/hip_runtime.h>

template <class T>
class Option {
  public:
    __device__ Option(T price, T strike, T years, T rate, T volatility)
        : price_(price), strike_(strike * exp(-rate * years)) {
        T spread = volatility * sqrt(years);
        d1_ = (log(price / strike) + (rate + volatility * volatility / 2) * years) / spread;
        d2_ = d1_ - spread;
    }
    __device__ T call() const { return price_ * normcdf(d1_) - strike_ * normcdf(d2_); }
    __device__ T put() const { return call() - price_ + strike_; }

  private:
    T price_, strike_, d1_, d2_;
};

template <class T>
__global__ void black_scholes(const T* price, const T* strike, const T* years, T rate, T volatility, T* call, T* put) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    Option<T> option(price[i], strike[i], years[i], rate, volatility);
    call[i] = option.call();
    put[i] = option.put();
}
