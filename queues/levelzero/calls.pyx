"""Filling the table of calls, and naming them in errors."""

import ctypes

from forebay.core.function_table cimport fill, names_of

CALL_NAMES: tuple[str, ...] = names_of(call_names, N_CALLS, "ze")

# Newer than what forebay needs: drivers without them get along with less, or are told so when they are asked for.
_NEWER = {
    "zeCommandListAppendHostFunction", "zeCommandListImmediateAppendCommandListsExp", "zeEventCounterBasedCreate",
}


def load(library: ctypes.CDLL) -> None:
    """Fill the table from the loader, a `ctypes.CDLL`; once is enough.

    Raises
    ------
    ImportError
        When the loader is too old to have one of the functions that cannot be done without.
    """
    fill(<void**> &ze, CALL_NAMES, library, _NEWER, "the Level Zero loader",
         "upgrade it (Debian, Ubuntu: libze1)")
