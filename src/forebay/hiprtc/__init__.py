"""hiprtc: kernels compiled at run time, in the calling convention of AMD's hip-python package.

Each function returns a tuple whose first element is a `hiprtcResult` (`hiprtcGetErrorString` returns the text only,
as there). A program is HIP C++ or OpenCL C. Clang compiles HIP C++ to SPIR-V where the device takes it, NVRTC for CUDA
(docs/hip-kernels.md). It is compiled for the current device, so that the log is its compiler's; the code that comes out
can be loaded on any device that takes its kind.

    from forebay import hip, hiprtc      # instead of: from hip import hip, hiprtc
"""

from forebay.hiprtc.api import *  # noqa: F403

__all__ = [  # noqa: F405
    "has_symbol",
    "hiprtcAddNameExpression",
    "hiprtcCompileProgram",
    "hiprtcCreateProgram",
    "hiprtcDestroyProgram",
    "hiprtcGetBitcode",
    "hiprtcGetBitcodeSize",
    "hiprtcGetCode",
    "hiprtcGetCodeSize",
    "hiprtcGetErrorString",
    "hiprtcGetLoweredName",
    "hiprtcGetProgramLog",
    "hiprtcGetProgramLogSize",
    "hiprtcJITInputType",
    "hiprtcLinkAddData",
    "hiprtcLinkAddFile",
    "hiprtcLinkComplete",
    "hiprtcLinkCreate",
    "hiprtcLinkDestroy",
    "hiprtcLinkState",
    "hiprtcProgram",
    "hiprtcResult",
    "hiprtcVersion",
    "ihiprtcLinkState",
]  # fmt: skip
