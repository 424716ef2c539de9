"""The counters of a queue or a device."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Stats:
    """Exact counts of submitted and of saved work. The difference of two Stats is what happened in between.

    Attributes
    ----------
    launches, copies, fills, host_functions : int
        Commands that the driver accepted.
    markers_made, markers_shared : int
        Markers of this queue: driver events made, and further uses of existing ones.
    waits_made : int
        Edges from another queue that this queue's commands carried.
    waits_elided_completed, waits_elided_ordered : int
        Edges that were dropped because the producer was known to be done, or because the queue was ordered after it.
    events_made : int
        Driver events created for any reason.
    host_syncs : int
        Times the host waited in the driver. A `Device` also counts the waits for events and for the whole device.
    arg_bytes_set, arg_bytes_skipped : int
        Bytes of kernel arguments that were given to the driver, and bytes that were not because they had not changed.
    reductions : int
        Launches by forebay itself that measured a buffer for the size of scratch. They count as launches too.
    allocations : int
        Pieces of memory that the driver allocated. Counted for a `Device`, not for a queue.
    graph_launches : int
        Graphs launched. Their commands do not count as launches, copies and fills.
    steps, steps_recorded, steps_given_up : int
        Steps that were left; steps that were recorded, the first time or because the launches had changed in kind or
        number; and steps that are no longer compared, because they were never the same. Only `steps` is counted where
        the driver submits each launch at once.
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
    steps: int = 0
    steps_recorded: int = 0
    steps_given_up: int = 0

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
