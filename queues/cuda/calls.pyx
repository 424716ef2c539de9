"""Fills the table of calls, and names the calls in errors."""

import ctypes

from libc.stdint cimport uintptr_t

from forebay.core.driver import fill_table

CALL_NAMES: tuple[str, ...] = tuple([(b"cu" + call_names[i]).decode() for i in range(N_CALLS)])


def load(library: ctypes.CDLL) -> None:
    """Fill the table from the driver's library, a `ctypes.CDLL`. One call is enough.

    Raises
    ------
    ImportError
        If the driver is too old to have one of the functions.
    """
    fill_table(<uintptr_t> &cuda, CALL_NAMES, library, (), "CUDA's driver",
               "install a driver of CUDA 13.0 or newer (580)")


def error_name(code: int) -> str:
    """The CUDA_ERROR_… name of a code; "error CODE" for one that the driver does not know."""
    cdef const char* name = NULL
    if cuda.GetErrorName == NULL or cuda.GetErrorName(<cuda_result_t> code, &name) != 0 or name == NULL:
        return f"error {code}"
    return name.decode()
