"""Whatever submits something to a driver is part of a `Command`, which `sync.ordering` submits.

That is a function that takes a Command, or one derived from it. `OTHERS` lists the rest.
"""

import re

from tools.checks import ROOT, cython_sources

SUBMITS = re.compile(r"\bdriver\.(launch|copy|fill|prefetch|marker|barrier|record_shared|hold|replay)\(")
FUNCTION = re.compile(
    r"^(?:    )?cdef [\w\[\]* ]+?\b(\w+)\(((?:[^()]|\([^)]*\))*)\)[^\n]*:(?:  #[^\n]*)?\n((?:    .*\n|\n)+)", re.M
)
DERIVED = re.compile(r"^cdef cppclass (\w+)\(Command\)", re.M)
OTHERS = {
    "sync/ordering.pyx": "carry_pending take_marker mark_for_host",  # waits that count already; markers count none
    "queues/launch/launch.pxd": "submit_launch",  # of `launch_ready`, `launch_after_waits` and `call_launch`
    "queues/launch/launch.pyx": "call_bound upload",  # the common bound launch; of `upload_spills`
    "queues/graphs/executable.pyx": "submit_one add_event",  # of `call_run` and of steps; after it
    "queues/graphs/step.pyx": "replay_run",  # launches that were counted when they were collected
    "queues/host_functions.pyx": "submit_call",  # of `call_function` and of graphs
}
DRIVERS = ("queues/opencl", "queues/levelzero", "queues/sycl", "queues/cuda")


def findings():
    """Yield the functions that submit by themselves, and those of the list that do not."""
    for path in cython_sources():
        name, source = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
        if not name.startswith(DRIVERS):
            takes = re.compile(rf"\b({'|'.join(['Command', *DERIVED.findall(source)])})\* \w+")
            found = {
                each[1] for each in FUNCTION.finditer(source) if SUBMITS.search(each[3]) and not takes.search(each[2])
            }
            yield from (
                f"{name}: {each} calls the driver by itself, or does not any more"
                for each in sorted(found ^ set(OTHERS.get(name, "").split()))
            )
