"""What a lock guards is used under it, as far as that can be checked.

In headers clang's ``-Wthread-safety`` checks it, by the words of `core/ownership.hpp`. In Cython a `Guard` leaves its
lock at the end of the function, and C++ destroys variables in the reverse order: so references that are declared behind
it would be released under the lock.
"""

import re
import subprocess
import sys
import sysconfig
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

from tools.checks import FOLDERS, ROOT, cython_sources

FUNCTION = re.compile(r"^( *)(?:cdef|cpdef|def) [^=\n]*\(", re.M)
GUARD = re.compile(r"^ +cdef Guard \w+$", re.M)
REFERENCE = re.compile(r"^ +cdef (?:Refs?\[\w+\]|\w+Ref) (\w+)", re.M)


def unguarded(header):
    """Return clang's warnings about a header."""
    builtin = Path(find_spec("ziglang").origin).parent / "lib" / "include"
    run = subprocess.run(
        [sys.executable, "-m", "ziglang", "clang", "-std=c++17", "-fsyntax-only", "-Wthread-safety", "-x", "c++",
         "-Wno-pragma-once-outside-header", f"-I{ROOT}", "-isystem", builtin,
         "-isystem", sysconfig.get_path("include"), header],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return [line for line in run.stderr.splitlines() if re.search("(?:warning|error): ", line)]


def released_under_guards(text):
    """Yield the line of each reference that is declared behind a Guard of its function, and its name."""
    starts = [match.start() for match in FUNCTION.finditer(text)] + [len(text)]
    for start, end in pairwise(starts):
        if guard := GUARD.search(text, start, end):
            for reference in REFERENCE.finditer(text, guard.end(), end):
                yield text.count("\n", 0, reference.start()) + 1, reference[1]


def findings():
    """Yield clang's warnings, and references that would be released under a lock."""
    headers = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.hpp"))]
    guarded = [path for path in headers if "GUARDED_BY(" in path.read_text(encoding="utf-8")]
    for header in guarded:
        yield from unguarded(header)
    for path in cython_sources():
        for line, name in released_under_guards(path.read_text(encoding="utf-8")):
            yield f"{path.relative_to(ROOT)}:{line} declares {name} behind a Guard, which is left after it"
