"""The order of a graph's nodes, and which of them run concurrently."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from forebay.core.errors import InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from forebay.queues.graphs.graph import Node


def serial_order(nodes: Sequence[Node]) -> list[Node]:
    """Sort nodes by dependencies, otherwise in the order of adding. A cycle raises InvalidArgumentError."""
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


# -- decides which nodes of a graph run concurrently, and where they wait for each other
#
# Each node goes into a lane. The nodes of one lane run in order, so only dependencies between lanes need waits. A lane
# is cut into segments before a node that waits, and after a node that another lane waits for.


LANES = 4  # at most, with the launch queue's; each other lane costs an executable graph a driver queue
BRANCHES = 32  # at most within one recording, where they cost only the time to decide


@dataclass
class Segment:
    """Nodes of one lane, submitted one after the other."""

    lane: int  # 0 is the launch queue
    nodes: list[int] = field(default_factory=list)  # none if lane 0 only waits for the others at the end
    waits: list[int] = field(default_factory=list)  # segments of other lanes that its lane is not ordered after yet
    awaited: bool = False  # another lane waits for its end
    from_start: bool = False  # it begins a lane and waits only for the start of the launch


# A position is the index of a node in its lane; -1 is the start of the lane. Positions by lane say up to which node of
# each lane something comes after.


def _latest(*positions: list[int]) -> list[int]:
    return [max(each) for each in zip(*positions, strict=True)]


class _Lanes:
    """The lanes filled so far."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.start = [-1] * most
        self.after: list[list[list[int]]] = []  # by lane and position: the positions that come before, with its own
        self.last: list[int] = []  # the last node of each lane

    def before(self, lane: int) -> list[int]:
        """Return the positions that come before the lane's next node."""
        return self.after[lane][-1] if lane < len(self.after) else self.start

    def implied(self, needs: list[int]) -> list[int]:
        """Return the positions that come before a node which comes after these."""
        return _latest(needs, *[self.after[lane][at] for lane, at in enumerate(needs) if at >= 0])

    def choose(self, needs: list[int]) -> int:
        """Return the lane, maybe a new one, for these needs: fewest new waits, then new lanes, then new orderings."""
        tails = [len(positions) - 1 for positions in self.after]
        following = [lane for lane, tail in enumerate(tails) if needs[lane] == tail]
        if following:
            return 0 if 0 in following else max(following, key=self.last.__getitem__)
        implied = self.implied(needs)
        idle = [lane for lane, tail in enumerate(tails) if implied[lane] == tail]
        if idle:
            return idle[0]
        return len(tails) if len(tails) < self.most else tails.index(min(tails))

    def waits(self, lane: int, needs: list[int]) -> list[tuple[int, int]]:
        """Return the (lane, position) pairs that a node with these needs must wait for if it goes into this lane."""
        before = self.before(lane)
        new = [(other, at) for other, at in enumerate(needs) if other != lane and at > before[other]]
        return [
            (other, at)
            for other, at in new
            if not any(self.after[another][there][other] >= at for another, there in new if another != other)
        ]

    def append(self, lane: int, node: int, needs: list[int]) -> list[int]:
        """Add a node to a lane. Returns the needs of a node that comes after it."""
        after = _latest(self.implied(needs), self.before(lane))
        if lane == len(self.after):
            self.after.append([])
            self.last.append(node)
        after[lane] = len(self.after[lane])
        self.after[lane].append(after)
        self.last[lane] = node
        return [after[lane] if each == lane else -1 for each in range(self.most)]


def segments_of(dependencies: Sequence[Sequence[int]], acting: Sequence[bool], most: int = LANES) -> list[Segment]:
    """Cut a graph into segments, in at most `most` lanes. Each comes after all the segments that it waits for.

    `dependencies` are the nodes that each node comes after, all with smaller numbers. `acting` says whether each node
    does anything. One that does nothing gets no place: nodes that depend on it take over its dependencies.
    """
    if all(node - 1 in earlier for node, earlier in enumerate(dependencies) if node):
        chain = [node for node, acts in enumerate(acting) if acts]
        return [Segment(0, chain)] if chain else []
    lanes = _Lanes(most)
    needs: list[list[int]] = []  # by node: the positions that a dependent of it needs
    placed: list[tuple[int | None, int, list[tuple[int, int]]]] = []  # node, lane, waits
    for node, earlier in enumerate(dependencies):
        own = _latest(lanes.start, *[needs[other] for other in earlier])
        if acting[node]:
            lane = lanes.choose(own)
            placed.append((node, lane, lanes.waits(lane, own)))
            own = lanes.append(lane, node, own)
        needs.append(own)
    ends = [-1, *[len(positions) - 1 for positions in lanes.after[1:]], *lanes.start][:most]
    last = lanes.waits(0, ends)
    if last:
        placed.append((None, 0, last))
    awaited = {point for _, _, waits in placed for point in waits}
    segments: list[Segment] = []
    open_in: dict[int, int] = {}  # by lane: the segment that the lane's next node continues
    lengths = [0] * most
    ending_at: dict[tuple[int, int], int] = {}
    for each, lane, waits in placed:
        if waits or lane not in open_in:
            from_start = lane != 0 and lengths[lane] == 0 and not waits
            open_in[lane] = len(segments)
            segments.append(Segment(lane, [], [ending_at[point] for point in waits], from_start=from_start))
        if each is not None:
            segments[open_in[lane]].nodes.append(each)
        point = lane, lengths[lane]
        if point in awaited:
            ending_at[point] = open_in.pop(lane)
            segments[ending_at[point]].awaited = True
        lengths[lane] += 1
    return segments
