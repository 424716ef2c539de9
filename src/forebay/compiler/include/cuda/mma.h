// CUDA's names of rocwmma/rocwmma.hpp.
#pragma once
#include <rocwmma/rocwmma.hpp>

namespace nvcuda {
namespace wmma = rocwmma;
}
