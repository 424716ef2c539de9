"""The counters of a queue or a device."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Stats:
    """What has been submitted and what was saved, exact. Subtract two to see what happened in between.

    Attributes
    ----------
    launches, copies, fills, host_functions : int
        Commands the driver accepted.
    markers_made, markers_shared : int
        Markers of this queue: driver events made, and further uses of one that was already there.
    waits_made : int
        Edges from another queue that this queue's commands carried.
    waits_elided_completed, waits_elided_ordered : int
        Edges that were dropped because the producer was known to be done, or because the queue was ordered after it.
    events_made : int
        Driver events created for any reason.
    host_syncs : int
        Times the host waited in the driver. A `Device` counts the waits for events and for the whole device as well.
    arg_bytes_set, arg_bytes_skipped : int
        Bytes of kernel arguments given to the driver, and not given because they had not changed.
    reductions : int
        Launches of forebay's own, counted as launches too, that measured a buffer for the size of scratch.
    allocations : int
        Pieces of memory that the driver allocated; counted for a `Device`, not for a queue.
    graph_launches : int
        Graphs launched; what is in them is not counted as launches, copies and fills.
    """

    launches: int = 0
    copies: int = 0
    fills: int = 0
    host_functions: int = 0
    markers_made: int = 0
    markers_shared: int = 0
    waits_made: int = 0
    waits_elided_completed: int = 0
    waits_elided_ordered: int = 0
    events_made: int = 0
    host_syncs: int = 0
    arg_bytes_set: int = 0
    arg_bytes_skipped: int = 0
    reductions: int = 0
    allocations: int = 0
    graph_launches: int = 0

    @property
    def waits_elided(self) -> int:
        """All edges that were dropped."""
        return self.waits_elided_completed + self.waits_elided_ordered

    def __sub__(self, earlier: Stats) -> Stats:
        if not isinstance(earlier, Stats):
            return NotImplemented
        return Stats(*(getattr(self, f.name) - getattr(earlier, f.name) for f in fields(self)))

    def __str__(self) -> str:
        shown = {f.name: getattr(self, f.name) for f in fields(self)} | {"waits_elided": self.waits_elided}
        width = max(map(len, shown))
        return "\n".join(f"{name:<{width}}  {value:>12,}" for name, value in shown.items())
