"""Filling the table of calls, and naming them in errors."""

import ctypes

from libc.stdint cimport uintptr_t

CALL_NAMES: tuple[str, ...] = tuple((<bytes> call_names[i]).decode() for i in range(n_calls))

# Newer than what forebay needs: drivers without them get along with less, or are told so when they are asked for.
NEWER = {
    "zeCommandListAppendHostFunction", "zeCommandListImmediateAppendCommandListsExp", "zeEventCounterBasedCreate",
}


def load(library: ctypes.CDLL) -> None:
    """Fill the table from the loader, a `ctypes.CDLL`; once is enough.

    Raises
    ------
    ImportError
        When the loader is too old to have one of the functions that cannot be done without.
    """
    cdef void** entries = <void**> &ze
    cdef int i
    if entries[0] != NULL:
        return
    found = []
    for name in CALL_NAMES:
        try:
            found.append(ctypes.cast(getattr(library, name), ctypes.c_void_p).value)
        except AttributeError:
            if name not in NEWER:
                raise ImportError(
                    f"the Level Zero loader has no {name}: upgrade it (Debian, Ubuntu: libze1)") from None
            found.append(0)
    for i in range(n_calls):
        entries[i] = <void*> <uintptr_t> found[i]


def has(name: str) -> bool:
    """Whether the loader has a call."""
    cdef void** entries = <void**> &ze
    return entries[CALL_NAMES.index(name)] != NULL
