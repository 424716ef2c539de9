"""The order of a graph's nodes, and which of them run side by side."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from forebay.core.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forebay.queues.graphs.graph import Node


def serial_order(nodes: Sequence[Node]) -> list[Node]:
    """Return the nodes, each after all its dependencies, otherwise in the order in which they were added.

    Raises
    ------
    InvalidArgumentError
        When the dependencies form a circle.
    """
    from graphlib import CycleError, TopologicalSorter
    from heapq import heappop, heappush

    at = {node: i for i, node in enumerate(nodes)}
    sorter = TopologicalSorter({i: [at[other] for other in node.dependencies] for node, i in at.items()})
    try:
        sorter.prepare()
    except CycleError as error:
        circle = error.args[1]
        raise InvalidArgumentError(f"{nodes[circle[0]]!r} depends on itself, through others") from None
    ready: list[int] = []
    ordered = []
    while sorter.is_active():
        for i in sorter.get_ready():
            heappush(ready, i)
        ordered.append(nodes[heappop(ready)])
        sorter.done(at[ordered[-1]])
    return ordered


# -- decides which nodes of a graph run side by side, and where they wait for each other
#
# Each node goes into a lane. The nodes of one lane run in order, so only dependencies between lanes need waits. A lane
# is cut into segments before a node that waits, and after a node that another lane waits for.


LANES = 4  # the most, including the launch queue's; each other lane costs an executable graph a driver queue
BRANCHES = 32  # the most within one recording, where they cost nothing but the time to decide


@dataclass
class Segment:
    """Nodes of one lane, submitted one after the other.

    Attributes
    ----------
    lane : int
        0 is the launch queue.
    nodes : list of int
        Empty in the segment that ends a graph: it only makes lane 0 wait for the other lanes.
    waits : list of int
        Segments of other lanes that this segment waits for. Segments that its lane already comes after are left out.
    awaited : bool
        Whether another lane waits for the end of this segment.
    from_start : bool
        Whether the segment begins a lane and waits for no other segment, so that only the start of the launch comes
        before it.
    """

    lane: int
    nodes: list[int] = field(default_factory=list)
    waits: list[int] = field(default_factory=list)
    awaited: bool = False
    from_start: bool = False


@dataclass
class _Lanes:
    """The lanes filled so far.

    A position is the index of a node in its lane; -1 stands for the start of the lane. `needs` is a list with one
    position for each lane: the last node there that must come first.
    """

    most: int
    nodes: list[list[int]] = field(default_factory=list)
    after: list[list[list[int]]] = field(default_factory=list)  # [lane][position]: the last position before it, by lane

    def tail(self, lane: int) -> int:
        return len(self.nodes[lane]) - 1

    def implied(self, needs: list[int]) -> list[int]:
        """Return the last position in each lane that comes before a node with these needs."""
        found = list(needs)
        for lane, position in enumerate(needs):
            if position >= 0:
                found = [max(pair) for pair in zip(found, self.after[lane][position], strict=True)]
        return found

    def choose(self, needs: list[int]) -> int:
        """Return the lane for a node with these needs.

        It prefers the fewest new waits, then the fewest new lanes, then the fewest new orderings.
        """
        there = range(len(self.nodes))
        following = [lane for lane in there if needs[lane] == self.tail(lane)]
        if following:
            return 0 if 0 in following else max(following, key=lambda lane: self.nodes[lane][-1])
        implied = self.implied(needs)
        idle = [lane for lane in there if implied[lane] == self.tail(lane)]
        if idle:
            return idle[0]
        if len(self.nodes) < self.most:
            self.nodes.append([])
            self.after.append([])
            return len(self.nodes) - 1
        return min(there, key=lambda lane: len(self.nodes[lane]))

    def waits(self, lane: int, needs: list[int]) -> list[tuple[int, int]]:
        """Return the (lane, position) pairs that a node with these needs must wait for if it goes into this lane."""
        before = self.after[lane][-1] if self.after[lane] else [-1] * self.most
        new = [(other, at) for other, at in enumerate(needs) if other != lane and at > before[other]]
        return [
            (other, at)
            for other, at in new
            if not any(self.after[another][there][other] >= at for another, there in new if another != other)
        ]

    def append(self, lane: int, node: int, needs: list[int]) -> None:
        after = self.implied(needs)
        if self.after[lane]:
            after = [max(pair) for pair in zip(after, self.after[lane][-1], strict=True)]
        self.nodes[lane].append(node)
        after[lane] = self.tail(lane)
        self.after[lane].append(after)


def segments_of(dependencies: Sequence[Sequence[int]], acting: Sequence[bool], most: int = LANES) -> list[Segment]:
    """Cut a graph into segments. Each segment comes after all the segments that it waits for.

    Parameters
    ----------
    dependencies : sequence of sequence of int
        The nodes that each node comes after. They all have smaller numbers.
    acting : sequence of bool
        Whether each node does anything. A node that does nothing gets no place: nodes that depend on it take over its
        dependencies.
    most : int
        The most lanes that there may be.
    """
    if all(node - 1 in earlier for node, earlier in enumerate(dependencies) if node):
        chain = [node for node, acts in enumerate(acting) if acts]
        return [Segment(0, chain)] if chain else []
    lanes = _Lanes(most)
    needs: list[list[int]] = []  # by node: the positions that a dependent of it needs
    placed: list[tuple[int, int, list[tuple[int, int]]]] = []  # node, lane, waits
    for node, earlier in enumerate(dependencies):
        own = [-1] * most
        for other in earlier:
            own = [max(pair) for pair in zip(own, needs[other], strict=True)]
        if acting[node]:
            lane = lanes.choose(own)
            placed.append((node, lane, lanes.waits(lane, own)))
            lanes.append(lane, node, own)
            own = [-1] * most
            own[lane] = lanes.tail(lane)
        needs.append(own)
    ends = [-1] * most
    for lane in range(1, len(lanes.nodes)):
        ends[lane] = lanes.tail(lane)
    last = lanes.waits(0, ends) if lanes.nodes else []
    awaited = {point for _, _, waits in placed for point in waits}.union(last)
    return _cut(placed, awaited, last)


def _cut(
    placed: list[tuple[int, int, list[tuple[int, int]]]], awaited: set[tuple[int, int]], last: list[tuple[int, int]]
) -> list[Segment]:
    segments: list[Segment] = []
    open_in: dict[int, int] = {}  # by lane: the segment that the lane's next node continues
    lengths: defaultdict[int, int] = defaultdict(int)
    ending_at: dict[tuple[int, int], int] = {}
    for node, lane, waits in placed:
        if waits or lane not in open_in:
            from_start = lane != 0 and lengths[lane] == 0 and not waits
            open_in[lane] = len(segments)
            segments.append(Segment(lane, [], [ending_at[point] for point in waits], from_start=from_start))
        segment = open_in[lane]
        segments[segment].nodes.append(node)
        point = lane, lengths[lane]
        if point in awaited:
            segments[segment].awaited = True
            ending_at[point] = segment
            del open_in[lane]
        lengths[lane] += 1
    if last:
        segments.append(Segment(0, [], [ending_at[point] for point in last]))
    return segments
