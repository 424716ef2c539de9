// CUB's names of hipcub/hipcub.hpp.
#pragma once
#include <hipcub/hipcub.hpp>

namespace cub = hipcub;
