"""hiprtc: kernels compiled at run time, in the calling convention of AMD's hip-python package.

Each function returns a tuple whose first element is a `hiprtcResult` (`hiprtcGetErrorString` returns the text only,
as there). A program is HIP C++ or OpenCL C. Clang compiles HIP C++ to SPIR-V where the device takes it; elsewhere a
delimited subset is translated to OpenCL C (docs/hip-kernels.md). It is compiled for the current device, so that the log
is its compiler's; the code that comes out can be loaded on any device that takes its kind.

    from forebay import hip, hiprtc      # instead of: from hip import hip, hiprtc
"""

from typing import Any

from forebay.hiprtc.api import (
    hiprtcAddNameExpression,
    hiprtcCompileProgram,
    hiprtcCreateProgram,
    hiprtcDestroyProgram,
    hiprtcGetCode,
    hiprtcGetCodeSize,
    hiprtcGetErrorString,
    hiprtcGetLoweredName,
    hiprtcGetProgramLog,
    hiprtcGetProgramLogSize,
    hiprtcProgram,
    hiprtcResult,
    hiprtcVersion,
)

__all__ = [
    "hiprtcAddNameExpression", "hiprtcCompileProgram", "hiprtcCreateProgram", "hiprtcDestroyProgram",
    "hiprtcGetCode", "hiprtcGetCodeSize", "hiprtcGetErrorString", "hiprtcGetLoweredName", "hiprtcGetProgramLog",
    "hiprtcGetProgramLogSize", "hiprtcProgram", "hiprtcResult", "hiprtcVersion",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name.startswith(("hiprtcLink", "hiprtcGetBitcode", "hiprtcJIT")):
        raise AttributeError(f"forebay.hiprtc has no {name}: forebay has no bitcode and no linker")
    raise AttributeError(f"module 'forebay.hiprtc' has no attribute {name!r}")
