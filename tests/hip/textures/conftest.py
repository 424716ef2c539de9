import ctypes

import numpy as np
import pytest

from forebay import hip

from ..conftest import ok
from ..helpers import K, compiled

Address = hip.hipTextureAddressMode
Kind = hip.hipChannelFormatKind
KINDS = {"i": Kind.hipChannelFormatKindSigned, "u": Kind.hipChannelFormatKindUnsigned,
         "f": Kind.hipChannelFormatKindFloat}  # fmt: skip


NAMES = """
#ifdef __HIP_PLATFORM_NVIDIA__  // there CUDA's names are those of the hardware's textures
#define cudaTextureObject_t hipTextureObject_t
#define cudaSurfaceObject_t hipSurfaceObject_t
#define cudaReadModeNormalizedFloat hipReadModeNormalizedFloat
#define cudaBoundaryModeTrap hipBoundaryModeTrap
#include <hip/hip_fp16.h>
#endif
"""


def code_of(source):
    """What hiprtc makes of a program."""
    return compiled((NAMES + source).encode())


@pytest.fixture
def load(device):
    """``load(source)``: a module in HIP C++."""
    return lambda source: ok(hip.hipModuleLoadData(code_of(source)))


def description(dtype, channels=1):
    bits = np.dtype(dtype).itemsize * 8
    return hip.hipChannelFormatDesc(*(bits * (i < channels) for i in range(4)), KINDS[np.dtype(dtype).kind])


def array_like(values, flags=0, dimensions=None):
    """An array of HIP with these values: of shape (depth, height, width, channels), without what there is not."""
    depth, height, width, channels = values.shape
    dimensions = dimensions or (3 if depth > 1 else 2 if height > 1 else 1)
    size = hip.hipExtent(width, height if dimensions > 1 else 0, depth if dimensions > 2 or flags & 5 else 0)
    array = ok(hip.hipMalloc3DArray(description(values.dtype, channels), size, flags))
    row = width * channels * values.itemsize
    params = hip.hipMemcpy3DParms(
        dstArray=array, srcPtr=hip.hipPitchedPtr(np.ascontiguousarray(values), row, width, height),
        extent=hip.hipExtent(width, height, depth), kind=K.hipMemcpyHostToDevice,
    )  # fmt: skip
    ok(hip.hipMemcpy3D(params))
    return array


def contents(array, like):
    """What an array holds, as one of NumPy of this shape and type."""
    depth, height, width, channels = like.shape
    out = np.zeros_like(like)
    row = width * channels * like.itemsize
    params = hip.hipMemcpy3DParms(
        srcArray=array, dstPtr=hip.hipPitchedPtr(out, row, width, height),
        extent=hip.hipExtent(width, height, depth), kind=K.hipMemcpyDeviceToHost,
    )  # fmt: skip
    ok(hip.hipMemcpy3D(params))
    return out


def resource_of(array):
    made = hip.hipResourceDesc()
    made.res.array.array = array
    return made


def linear(pointer, nbytes, dtype="i4", channels=1):
    made = hip.hipResourceDesc(hip.hipResourceType.hipResourceTypeLinear)
    of = made.res.linear
    of.devPtr, of.sizeInBytes, of.desc = pointer, nbytes, description(dtype, channels)
    return made


def pitched(pointer, width, height, pitch, dtype="i4", channels=1):
    made = hip.hipResourceDesc(hip.hipResourceType.hipResourceTypePitch2D)
    of = made.res.pitch2D
    of.devPtr, of.desc = pointer, description(dtype, channels)
    of.width, of.height, of.pitchInBytes = width, height, pitch
    return made


def texture_of(array, modes=Address.hipAddressModeClamp, linear=False, normalized=False, floats=False, border=None):
    """A texture object; `array` is an array, or a resource."""
    texture = hip.hipTextureDesc()
    texture.addressMode = [modes] * 3 if isinstance(modes, int) else list(modes)
    texture.filterMode, texture.readMode = hip.hipTextureFilterMode(linear), hip.hipTextureReadMode(floats)
    texture.normalizedCoords = int(normalized)
    texture.borderColor = border or [0.0] * 4
    resource = array if isinstance(array, hip.hipResourceDesc) else resource_of(array)
    return ok(hip.hipCreateTextureObject(resource, texture, None))


def surface_of(array):
    return ok(hip.hipCreateSurfaceObject(resource_of(array)))


class Kernels:
    """Kernels of a module whose first parameter is what they write, of `shape` and `dtype`, and the last a count."""

    def __init__(self, module):
        self.module = module

    def __call__(self, name, shape, dtype, *args, count=None):
        out = np.zeros(shape, dtype)
        count = len(out) if count is None else count
        function = ok(hip.hipModuleGetFunction(self.module, name.encode()))
        memory = [ok(hip.hipMalloc(max(out.nbytes, 1)))]
        given = [memory[0]]
        for arg in args:
            if isinstance(arg, np.ndarray):
                memory.append(ok(hip.hipMalloc(arg.nbytes)))
                ok(hip.hipMemcpy(memory[-1], np.ascontiguousarray(arg), arg.nbytes, K.hipMemcpyHostToDevice))
                arg = memory[-1]
            given.append(ctypes.c_int(arg) if isinstance(arg, int) else arg)
        given.append(ctypes.c_int(count))
        ok(hip.hipModuleLaunchKernel(function, -(-count // 32), 1, 1, 32, 1, 1, 0, None, None, tuple(given)))
        ok(hip.hipMemcpy(out, memory[0], out.nbytes, K.hipMemcpyDeviceToHost))
        for each in memory:
            ok(hip.hipFree(each))
        return out


@pytest.fixture
def kernels(load):
    """``kernels(source)``: see `Kernels`."""
    return lambda source: Kernels(load(source))
