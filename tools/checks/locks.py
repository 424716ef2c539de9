"""What a lock guards is used under it, as far as that can be checked.

In headers clang's ``-Wthread-safety`` checks it, by the words of `core/ownership.hpp`. In Cython a function that uses a
field of `GUARDED`, or calls one that is to be called under the lock, takes the lock itself, or says that it is locked,
in its docstring or on its first line, or that it may race. A `Command`'s own call is under the lock of its queue.
Whether it comes behind the taking of the lock is not seen.

A `Guard` leaves its lock at the end of the function, and C++ destroys variables in the reverse order: so references
that are declared behind it would be released under the lock.

Cython's `get` of a variable of type `dict` borrows the value, which another thread without a GIL may delete. So a
function that calls it on a `dict` that is not its own has a critical section or a lock, or says why the value stays.
"""

import re
import subprocess
import sys
import sysconfig
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

from tools.checks import FOLDERS, ROOT, cython_sources

FUNCTION = re.compile(r"^( *)(?:cdef|cpdef|def) (?!class)[^=\n(]*?(\w+)\(", re.M)
GUARD = re.compile(r"^ +cdef Guard \w+$", re.M)
REFERENCE = re.compile(r"^ +cdef (?:Refs?\[\w+\]|\w+Ref) (\w+)", re.M)

# Of each lock: the fields of core/state.pxd that it guards, how it is taken, and how a function says that it is held.
GUARDED = {
    "queue": (
        r"\.order\.(?:clock|clock_before|marker|copied|pending|before_pending|prune_at|checkpoints|gate_epochs"
        r"|null_pending|null_ordered|next_listed)\b|\.plans\.(?:by_kernel|last|staged)\b|\.step\)\.waiting\b"
        r"|\.resident\.is_indirect_user\b|\badvance_submitted\(\w+\.epochs\b",
        r"\b(?:take|try_take|Guard)\((?!self\.)(?!.*registry)[^\n]*\.lock\)|[^y]\.lock\.(?:try_)?lock\("
        r"|\b(?:gather|begin_at_once|begin_command)\(queue, &?order\)|\block_queue\(",
        r"queues? (?:is|are|stays) (?:all |both )?locked|Command\* command, Waits waits\) noexcept nogil:",
    ),
    "registry": (
        r"\.registry\.(?:queues|idle_queues|counts_of_ended)\b|\.null_order\.listed_ended\b"
        r"|\.deferred\.(?:retired|fresh|draining|kept)\b|\.gates\.bridges\b",
        r"\b(?:take|try_take|Guard)\(.*registry\.lock\)|registry\.lock\.(?:try_)?lock\(",
        r"(?<!No )registry is locked",
    ),
}
EXCUSED = re.compile("def __dealloc__|no other thread has it|forked child|may race")
DICT = re.compile(r"\bcdef (?:readonly |public )?dict (\w+)(?:[^#\n]*, (\w+))?")
BORROWS = re.compile(r"\b(\w+)\.get\((?!\))")
KEEPS = re.compile(r"critical.section|with self\.lock|no other thread changes it|entry stays")
IMPORTED = re.compile(r"^from forebay\.([\w.]+) cimport (\([^)]*\)|.*)", re.M)
PARTS = re.compile(r'([\s\S]*?\)[^\n]*(?:\n|$)(?:\s*"""[\s\S]*?""")?)([\s\S]*)')


def functions_of(text):
    """Yield each function of a source: its line, its name, what it says at its head, and its body."""
    for match in FUNCTION.finditer(text):
        end = re.compile(rf"^ {{0,{len(match[1])}}}[^\s)]", re.M).search(text, match.end())
        head, body = PARTS.match(text, match.start(), end.start() if end else len(text)).groups()
        above = re.search(r"(?:^#[^\n]*\n)*\Z", text[: match.start()], re.M)[0]
        yield text.count("\n", 0, match.start()) + 1, match[2], " ".join((above + head).split()), body


def unlocked(lock, sources):
    """Yield what uses a field that a lock guards, or what is called under it, and neither takes the lock nor has it."""
    fields, taken, locked = (re.compile(pattern) for pattern in GUARDED[lock])
    found = {name: list(functions_of(text)) for name, text in sources.items()}
    needs = {}  # by module: the functions that are called under the lock
    for name, functions in found.items():
        needs.setdefault(name[:-4], set()).update(each for _, each, head, _ in functions if locked.search(head))
    for name, text in sources.items():
        called = set(needs[name[:-4]])
        for module, names in IMPORTED.findall(text):
            called |= set(re.findall(r"\w+", names)) & needs.get(module.replace(".", "/"), set())
        use = re.compile(rf"{fields.pattern}|(?<![.\w])(?:{'|'.join(sorted(called))})\(" if called else fields.pattern)
        for line, each, head, body in found[name]:
            used = use.search(re.sub("#.*", "", body))
            if used and each not in called and not taken.search(body) and not EXCUSED.search(head + body):
                yield f"{name}:{line} {each} uses {used[0].strip('.(')} without the {lock}'s lock"


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


def borrowed(sources):
    """Yield what borrows from a `dict` that other threads may change."""
    dicts = {each for text in sources.values() for names in DICT.findall(text) for each in names}
    for name, text in sources.items():
        for line, each, head, body in functions_of(text):
            own = {each for names in DICT.findall(body) for each in names}
            used = set(BORROWS.findall(re.sub("#.*", "", body))) & dicts - own
            if used and not KEEPS.search(head + body):
                yield f"{name}:{line} {each} borrows from the dict {min(used)}: no other thread may delete the value"


def findings():
    """Yield clang's warnings, and what is used, borrowed or released where a lock does not allow it."""
    headers = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.hpp"))]
    guarded = [path for path in headers if "GUARDED_BY(" in path.read_text(encoding="utf-8")]
    for header in guarded:
        yield from unguarded(header)
    sources = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in cython_sources()}
    for lock in GUARDED:
        yield from unlocked(lock, sources)
    every = cython_sources("src/forebay")
    yield from borrowed({path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in every})
    for path in cython_sources():
        for line, name in released_under_guards(path.read_text(encoding="utf-8")):
            yield f"{path.relative_to(ROOT)}:{line} declares {name} behind a Guard, which is left after it"
