"""CuPy's own kernels: in CUDA or HIP C++, compiled by `forebay.hiprtc`'s compiler and launched as CuPy does.

    from forebay.cupy_style import ElementwiseKernel, RawKernel      # instead of: from cupy import …

Arrays are forebay's Buffers, or NumPy arrays, which are copied in before the kernel and out after it. A kernel runs on
the queue that is given as ``stream=``, else on the device of its first Buffer, on the thread's current queue of that
device (``with queue:``).
"""

import forebay.face  # noqa: F401 - it has Devices take HIP C++
from forebay.cupy_style.from_expressions import ElementwiseKernel, ReductionKernel
from forebay.cupy_style.raw import RawKernel, RawModule

__all__ = ["ElementwiseKernel", "RawKernel", "RawModule", "ReductionKernel"]
