// Of cuBLAS, what a kernel's file has from it: the types of complex numbers.
#pragma once
#include <cuComplex.h>
