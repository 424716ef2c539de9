// cuda::std has what std has: all that hiprtc includes, and what the header beside this one adds.
#pragma once
#include <hip/hip_runtime.h>

namespace std {}
namespace cuda::std {
using namespace ::std;
}
