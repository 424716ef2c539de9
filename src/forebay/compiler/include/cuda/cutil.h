// What kernels use of the library that came with CUDA's SDK until version 4.
#pragma once

#define CUT_BANK_CHECKER(array, index) (array)[index]
