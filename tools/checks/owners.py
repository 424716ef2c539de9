"""Each part of the state of queues and devices is changed by its owner alone, and by `core.state`, which makes it.

Others may read it, on fast paths inline. A change is an assignment, a call that changes a container or an atomic, or an
address that is passed on.
"""

import re

from tools.checks import DRIVERS, ROOT, cython_sources

STATE = "core/state"
OWNERS = {
    "order": ("sync",),
    "in_flight": ("sync",),
    "null_order": ("sync",),
    "gates": ("sync", "queues/host_functions"),  # one is noted before its command, and ends with it
    "deferred": ("lifetimes",),
    "plans": ("queues/launch/launch", "lifetimes"),  # a first launch adds one, and a collection takes it out
    "made": ("queues/queue", "lifetimes"),  # goes to a later Queue
    "resident": (),
    "resident.listed": ("queues/memory/allocation", "lifetimes"),
    "resident.closings": ("queues/memory/allocation",),
    "registry": (),
    "registry.counts_of_ended": ("queues/device",),
    "registry.idle_queues": ("lifetimes",),
}
CHANGES = "push_back|push_front|pop_back|pop_front|insert|erase|clear|swap|resize|store|fetch_add|fetch_sub|exchange"
FIELD = rf"\.({'|'.join(part for part in OWNERS if '.' not in part)})\.(\w+)(?:\.\w+|\[[^]]*\])*?"
CHANGED = re.compile(rf"{FIELD}(?:\.(?:{CHANGES})\(| [-+|&]?= )|&\w+(?:\.\w+)*?{FIELD}\b(?!\()")


def findings():
    """Yield the lines that change a part that is another module's, and the parts that do not exist."""
    fields = re.findall(r"^    [^#\n]*?\b(\w+)(?=$|  #)", (ROOT / STATE).with_suffix(".pxd").read_text(), re.M)
    yield from (f"{STATE}.pxd has no {part}" for part in OWNERS if part.split(".")[-1] not in fields)
    for path in cython_sources("src/forebay"):
        module = path.relative_to(ROOT).with_suffix("").as_posix()
        if module.startswith(DRIVERS):  # which have parts of such names
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            for changed in CHANGED.finditer(line.partition("#")[0]):
                part, field = (changed[1], changed[2]) if changed[1] else (changed[3], changed[4])
                owners = (STATE, *OWNERS.get(f"{part}.{field}", OWNERS[part]))
                if not module.startswith(owners):
                    yield f"{path.relative_to(ROOT)}:{number} changes what {owners[-1]} owns: {line.strip()}"
