// What Thrust has in this header.
#pragma once
#include <thrust/iterator/counting_iterator.h>
