"""Fills the table of calls, and names the calls in errors."""

import ctypes
from functools import partial
from pathlib import Path

from libc.stdint cimport uintptr_t

from forebay.core.driver import fill_table
from forebay.core.errors import Error, NotSupportedError, OutOfMemoryError

CALL_NAMES: tuple[str, ...] = tuple([(b"DPCTL" + call_names[i]).decode() for i in range(N_CALLS)])

# What is raised for forebay's own reasons, but for a gate that failed
REFUSALS: dict[int, partial[Error]] = {
    OUT_OF_MEMORY: partial(
        OutOfMemoryError, "the host has no memory to hold a queue at a gate, or a command behind it"),
    HOLDS_ADOPTED: partial(
        NotSupportedError, "a queue of dpctl cannot be held: SYCL has no event that the host sets, and dpctl could "
        "submit behind the gate"),
    WAITS_FOR_HELD: partial(
        NotSupportedError, "a queue of dpctl cannot wait for what is behind a gate or a host function that has not "
        "returned: SYCL knows of it only afterwards; finish the other queue first"),
}

LIBRARIES = ("libDPCTLSyclInterface.so", "DPCTLSyclInterface.dll")


def load() -> None:
    """Fill the table from the library that dpctl is linked to. One call is enough.

    Raises
    ------
    ImportError
        If dpctl is missing, cannot be loaded, or is too old to have one of the functions.
    """
    import dpctl

    folder = Path(dpctl.__file__).parent
    path = next((folder / name for name in LIBRARIES if (folder / name).exists()), None)
    if path is None:
        raise ImportError(f"{folder} has no {LIBRARIES[0]}")
    fill_table(<uintptr_t> &sycl, CALL_NAMES, ctypes.CDLL(str(path)), (), f"dpctl {dpctl.__version__}",
               "forebay needs dpctl 0.21 or newer")
