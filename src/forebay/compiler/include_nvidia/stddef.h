// What kernels have of this is built into the compiler.
#pragma once
#ifndef NULL
#define NULL 0
#endif
