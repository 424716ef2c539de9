// Thrust's random numbers, in a thread: the generators and distributions of C++'s standard.
#pragma once
#include <hip/hip_runtime.h>
#pragma clang force_cuda_host_device begin
#include <random>
#pragma clang force_cuda_host_device end

namespace thrust {
namespace random {
using std::discard_block_engine;
using std::linear_congruential_engine;
using std::minstd_rand;
using std::minstd_rand0;
using std::normal_distribution;
using std::ranlux24;
using std::ranlux24_base;
using std::ranlux48;
using std::ranlux48_base;
using std::subtract_with_carry_engine;
using std::uniform_int_distribution;
using std::uniform_real_distribution;
// Thrust's default, which is not the standard library's.
using default_random_engine = minstd_rand;
}  // namespace random
using namespace random;
}  // namespace thrust
