// Thrust's tuples and pairs, which are those of C++.
#pragma once
#include <hip/hip_runtime.h>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>

namespace thrust {
using std::get;
using std::ignore;
using std::make_pair;
using std::make_tuple;
using std::nullopt;
using std::numeric_limits;
using std::optional;
using std::pair;
using std::swap;
using std::tie;
using std::tuple;
using std::tuple_element;
using std::tuple_size;
}  // namespace thrust
