// memcpy and memset are built into the compiler.
#pragma once
#ifndef NULL
#define NULL 0
#endif
#include <hip/device/strings.h>
