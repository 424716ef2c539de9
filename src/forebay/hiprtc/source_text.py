"""What a program says that clang does not know for SPIR-V, said in another way."""

from __future__ import annotations

import re

from forebay.hiprtc.assembly import without_assembly

__all__ = ["as_clang_takes_it"]

# As nvcc takes it: `__device__ __shared__` of a variable within a function.
SHARED_TWICE = re.compile(r"\b__device__(?=\s+__shared__\b)|(?<=\b__shared__ )__device__\b")
# Integers that SPIR-V has not: classes of the headers do what they do.
UNSIGNED_WIDE = re.compile(r"\b(?:unsigned\s+__int128(?:_t)?|__int128(?:_t)?\s+unsigned|__uint128_t)\b")
WIDE = re.compile(r"\b(?:signed\s+)?__int128(?:_t)?\b")


def as_clang_takes_it(source: str) -> str:
    """Return the text of a file without what only nvcc and AMD's clang know, at the same lines."""
    if "int128" in source:
        source = UNSIGNED_WIDE.sub("__forebay::uint128", source)
        source = WIDE.sub("__forebay::int128", source)
    return without_assembly(SHARED_TWICE.sub(" " * len("__device__"), source))
