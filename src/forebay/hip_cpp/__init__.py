"""HIP C++ to OpenCL C, for a clearly delimited subset.

The preprocessor is pcpp. The parser knows the subset and refuses the rest by name. Address spaces, which HIP's pointers
do not show and OpenCL C 1.2 insists on, are found by unification: what is assigned, compared or passed joins the spaces
of both sides, and each function is translated once for each combination of spaces, and of template arguments, that it
is called with. docs/hip-kernels.md shows what becomes of each construct.
"""

from forebay.hip_cpp.building import build
from forebay.hip_cpp.errors import NotInstalledError, RefusedError
from forebay.hip_cpp.program import Variable
from forebay.hip_cpp.translate import KernelInfo, ParameterInfo, Translation, translate

__all__ = [
    "KernelInfo",
    "NotInstalledError",
    "ParameterInfo",
    "RefusedError",
    "Translation",
    "Variable",
    "build",
    "translate",
]
