// Of Thrust's iterators that go through several sequences at once, the tuples they point to.
#pragma once
#include <thrust/tuple.h>
