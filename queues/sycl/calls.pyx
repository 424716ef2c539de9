"""Fills the table of calls, and names the calls in errors."""

import ctypes
from pathlib import Path

from libc.stdint cimport uintptr_t

from forebay.core.driver import fill_table

CALL_NAMES: tuple[str, ...] = tuple([(b"DPCTL" + call_names[i]).decode() for i in range(N_CALLS)])

REASONS: dict[int, str] = {
    OUT_OF_MEMORY: "OUT_OF_MEMORY",
    HOLDS_ADOPTED: "HOLDS_ADOPTED",
    WAITS_FOR_HELD: "WAITS_FOR_HELD",
    GATE_FAILED: "GATE_FAILED",
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
