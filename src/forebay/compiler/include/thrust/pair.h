// What Thrust has in this header.
#pragma once
#include <thrust/tuple.h>
