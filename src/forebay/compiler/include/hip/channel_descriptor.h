// Types of textures.
#pragma once
#include <hip/hip_texture_types.h>
