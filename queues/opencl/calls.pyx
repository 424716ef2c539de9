"""Fills the table of calls, and names the calls in errors."""

import ctypes

import pyopencl

from libc.stdint cimport uintptr_t

from forebay.core.driver import fill_table

CALL_NAMES: tuple[str, ...] = tuple([(b"cl" + call_names[i]).decode() for i in range(N_CALLS)])

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
    fill_table(<uintptr_t> &cl, CALL_NAMES, ctypes.CDLL(pyopencl._cl.__file__), _SVM, "the OpenCL loader",
               "forebay needs OpenCL 1.2 or newer")
