"""Fills the table of calls, and names the calls in errors."""

import ctypes

from forebay.core.function_table cimport fill, names_of

CALL_NAMES: tuple[str, ...] = names_of(call_names, N_CALLS, "ze")

# Newer than forebay requires. Without them forebay uses something else, or raises an error when they are needed.
_NEWER = {
    "zeCommandListAppendHostFunction", "zeCommandListImmediateAppendCommandListsExp", "zeEventCounterBasedCreate",
    "zeCommandListGetNextCommandIdExp", "zeCommandListUpdateMutableCommandsExp",
}


def load(library: ctypes.CDLL) -> None:
    """Fill the table from the loader, a `ctypes.CDLL`. One call is enough.

    Raises
    ------
    ImportError
        If the loader is too old to have one of the functions that forebay requires.
    """
    fill(<void**> &ze, CALL_NAMES, library, _NEWER, "the Level Zero loader",
         "upgrade it (Debian, Ubuntu: libze1)")
