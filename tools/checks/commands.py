"""Whatever submits something to a driver is part of a `Command`, which `sync.ordering` submits.

That is a function that takes a Command, or one derived from it, or that only such functions call. `OTHERS` lists the
rest.
"""

import re

from tools.checks import DRIVERS, ROOT, cython_sources

SUBMITS = re.compile(r"\bdriver\.(launch|copy|fill|prefetch|marker|barrier|record_shared|hold|replay)\(")
FUNCTION = re.compile(
    r"^(?:    )?(?:cdef|def) (?:[\w\[\]* ]+? ?\*?)??\b(\w+)\(((?:[^()]|\([^)]*\))*)\)[^\n]*:(?:  #[^\n]*)?\n"
    r"((?:    .*\n|\n)+)",
    re.M,
)
DERIVED = re.compile(r"^cdef cppclass (\w+)\((?:Command|Replay)\)", re.M)
OTHERS = {
    "sync/ordering.pyx": "carry_pending take_marker mark_for_host",  # waits that count already; markers count none
    "queues/launch/launch.pxd": "submit_launch",  # of `launch_ready` and `call_launch`
    "queues/launch/launch.pyx": "call_bound",  # the common bound launch
    "queues/graphs/executable.pyx": "submit_one",  # of `call_run` and of steps
    "queues/graphs/step.pyx": "replay_run",  # launches that were counted when they were collected
}
NO_CODE = re.compile(r'"""(?:.|\n)*?"""|#.*')


def read_functions(sources):
    """Return (whether it takes a Command, body) of each function, by file and name."""
    found = {}
    for name, source in sources.items():
        takes = re.compile(rf"\b({'|'.join(['Command', *DERIVED.findall(source)])})\* \w+")
        for each in FUNCTION.finditer(source):
            found[name, each[1]] = takes.search(each[2]) is not None, re.sub(NO_CODE, "", each[3])
    return found


def users_of(function, functions, sources):
    """Return the functions that name this one."""
    path, name = function
    module = path.rpartition(".")[0].replace("/", ".")
    imports = re.compile(rf"^from forebay\.{module} cimport (?:\([^)]*|.*)\b{name}\b", re.M)
    return {
        (other, each)
        for (other, each), (_, body) in functions.items()
        if (other, each) != function
        and re.search(rf"(?<![\w.]){name}\b", body)
        and (other.rpartition(".")[0] == path.rpartition(".")[0] or imports.search(sources[other]))
    }


def findings():
    """Yield the functions that submit by themselves, and those of the list that do not."""
    paths = {path.relative_to(ROOT).as_posix(): path for path in cython_sources()}
    sources = {name: path.read_text(encoding="utf-8") for name, path in paths.items() if not name.startswith(DRIVERS)}
    functions = read_functions(sources)
    alone = {each for each, (takes, body) in functions.items() if not takes and SUBMITS.search(body)}
    users = {each: users_of(each, functions, sources) for each in alone}
    while of_commands := {
        each for each in alone if users[each] and all(functions[user][0] and user not in alone for user in users[each])
    }:
        alone -= of_commands
    listed = {(name, each) for name, several in OTHERS.items() for each in several.split()}
    for name, each in sorted(alone ^ listed):
        yield f"{name}: {each} calls the driver by itself, or does not any more"
