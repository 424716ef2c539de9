"""Filling the table of calls, and naming them in errors."""

import ctypes

import pyopencl

from forebay.core.function_table cimport fill, names_of

CALL_NAMES: tuple[str, ...] = names_of(call_names, N_CALLS, "cl")

_SVM = {
    "clEnqueueSVMMemcpy", "clEnqueueSVMMemFill", "clSetKernelArgSVMPointer", "clSetKernelExecInfo", "clSVMAlloc",
    "clSVMFree",
}


def load() -> None:
    """Fill the table from the loader that pyopencl's extension module is linked to; once is enough.

    Looking a symbol up in a library also looks in the libraries it depends on, so this finds the very loader whose
    objects pyopencl hands out, wherever it came from.

    Raises
    ------
    ImportError
        When that loader is too old to have one of the functions (SVM ones may be missing).
    """
    fill(<void**> &cl, CALL_NAMES, ctypes.CDLL(pyopencl._cl.__file__), _SVM, "the OpenCL loader",
         "forebay needs OpenCL 1.2 or newer")
