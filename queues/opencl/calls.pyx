"""Fills the table of calls, and names the calls in errors."""

import ctypes

import pyopencl

from forebay.core.function_table cimport fill, names_of

CALL_NAMES: tuple[str, ...] = names_of(call_names, N_CALLS, "cl")

_SVM = {
    "clEnqueueSVMMemcpy", "clEnqueueSVMMemFill", "clSetKernelArgSVMPointer", "clSetKernelExecInfo", "clSVMAlloc",
    "clSVMFree",
}


def load() -> None:
    """Fill the table from the loader that pyopencl's extension module is linked to. One call is enough.

    A symbol lookup in a library also searches the libraries it depends on. So this finds the same loader that made
    pyopencl's objects, wherever it came from.

    Raises
    ------
    ImportError
        If that loader is too old to have one of the functions. The SVM functions may be missing.
    """
    fill(<void**> &cl, CALL_NAMES, ctypes.CDLL(pyopencl._cl.__file__), _SVM, "the OpenCL loader",
         "forebay needs OpenCL 1.2 or newer")
