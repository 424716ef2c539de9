// AMD's extensions are for the host.
#pragma once
#include <hip/hip_runtime.h>
