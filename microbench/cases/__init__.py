"""The cases, a file each. A file has a `CASE` and the function that gives its points."""

from __future__ import annotations

from ..bench import Case
from . import (
    busy,
    by_value,
    chains,
    copies,
    events,
    finish,
    first,
    graph,
    host,
    idle,
    launch,
    pool,
    reproducer,
    scratch,
    start,
    step,
    streams,
    threads,
)

CASES: dict[str, Case] = {
    module.CASE.name: module.CASE
    for module in (
        launch, streams, idle, busy, reproducer, finish, events, chains, by_value, scratch, graph, step, copies, pool,
        host, threads, first, start,
    )
}  # fmt: skip
"""By name, in the order of the tables."""
