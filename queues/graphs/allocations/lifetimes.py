"""How a launch of a graph allocates and frees graph memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from forebay.core.errors import InvalidArgumentError
from forebay.queues.graphs.allocations.memory import GraphMemory, lock
from forebay.queues.graphs.work import Work, graph_memory_of

if TYPE_CHECKING:
    from forebay.queues.graphs.graph import Node


class Lifetimes:
    """The graph memory that a launch hands out and takes back.

    Parameters
    ----------
    nodes, works
        In the order in which they run.
    auto_free : bool
        Whether a launch takes back the memory that the previous launch handed out.

    Raises
    ------
    InvalidArgumentError
        When a node uses memory before it is allocated or after it is freed.
    """

    def __init__(self, nodes: Sequence[Node], works: Sequence[Work], auto_free: bool) -> None:
        self.auto_free = auto_free
        self.made: list[GraphMemory] = list(_memories(works, "alloc"))
        self.handed_out: list[GraphMemory] = [memory for memory in self.made if not memory.inner]
        self.taken: list[GraphMemory] = [memory for memory in _memories(works, "free") if memory not in self.made]
        self.peak: int = 0
        used = 0
        ours = {*self.made, *self.taken}
        there = set(self.taken)
        for node, work in zip(nodes, works, strict=True):
            for memory in {graph_memory_of(buffer) for buffer in work.buffers}:
                if memory is None or memory not in ours:
                    continue
                if work.kind == "alloc":
                    there.add(memory)
                    used += memory.nbytes
                elif memory not in there:
                    raise InvalidArgumentError(
                        f"{node!r} uses memory before the graph allocates it, or after it frees it"
                    )
                elif work.kind == "free":
                    there.remove(memory)
                    used -= memory.nbytes
            self.peak = max(self.peak, used)

    @property
    def freed_at(self) -> list[tuple[int, int]]:
        """The points that a launch must come after, as (queue id, epoch) pairs."""
        return list({memory.freed_at for memory in self.made} - {(0, 0)})

    def begin(self) -> list[tuple[GraphMemory, bool]]:
        """Hand memory out and take memory back, and return the state that `undo` needs.

        Raises
        ------
        InvalidArgumentError
            When memory to hand out was not freed since the last launch, or memory to free is not allocated.
        """
        with lock:
            for memory in self.handed_out:
                if memory.live and not self.auto_free:
                    raise InvalidArgumentError(
                        "the graph was launched before, and memory that it allocates was not freed since: free it, or "
                        "instantiate the graph with auto_free"
                    )
            for memory in self.taken:
                memory.check_live()
            before = [(memory, memory.live) for memory in (*self.handed_out, *self.taken)]
            for memory in self.handed_out:
                memory.set_live(False)
            if self.made:
                figures = self.made[0].reserved.figures
                figures.used_high = max(figures.used_high, figures.used + self.peak)
            for memory in self.handed_out:
                memory.set_live(True)
            for memory in self.taken:
                memory.set_live(False)
        return before

    def undo(self, before: list[tuple[GraphMemory, bool]]) -> None:
        """Restore the state before `begin`, because nothing was launched."""
        with lock:
            for memory, live in before:
                memory.set_live(live)

    def end(self, queue: int, epoch: int) -> None:
        """Note that the launch was submitted, up to this epoch of this queue."""
        for memory in self.taken:
            memory.freed_at = (queue, epoch)


def _memories(works: Sequence[Work], kind: str) -> Iterator[GraphMemory]:
    for work in works:
        if work.kind == kind:
            yield work.memory  # type: ignore[attr-defined]
