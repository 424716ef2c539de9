"""Capture: commands become nodes of a graph instead of running, by HIP's rules (hipStreamBeginCapture).

A capture begins on one queue. Another queue joins by waiting for an event that was recorded in the capture. The first
queue must wait for it again before the capture ends. No captured command reaches the driver.

The module is compiled, because Python functions handle signals between their lines: a Ctrl-C there could come before
`Capture` ends what it has begun.
"""

import math
import threading
from typing import TYPE_CHECKING
from weakref import ref

from forebay.core.errors import (
    CaptureError, CaptureImplicitError, CaptureInvalidatedError, CaptureIsolationError, CaptureMergeError,
    CaptureUnjoinedError, CaptureUnmatchedError, CaptureUnsupportedError, CaptureWrongThreadError, NotSupportedError,
    StepError
)
from forebay.core.process import Numbers
from forebay.queues.capture_rules import active, check_mode, lock
from forebay.queues.graphs.executable import (
    make_alloc, make_bound, make_copy, make_fill, make_free, make_host, make_kernel
)
from forebay.queues.graphs.graph import Graph, ancestors
from forebay.queues.memory.shapes import StridedView, read_dtype, read_shape
from forebay.queues.queue import set_capture

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any
    from forebay.queues.graphs.executable import Work
    from forebay.queues.graphs.graph import Node
    from forebay.queues.kernels.kernel import Kernel
    from forebay.queues.launch.launch import BoundLaunch
    from forebay.queues.memory.buffer import Buffer
    from forebay.queues.queue import Queue

_ids = Numbers()


class Capture:
    """A capture, ``with queue.capture() as graph:``, and the queues that take part in it."""

    id: int  # unique among the captures of this process
    origin: Any  # the queue on which it began and must end; None once it has ended
    mode: str  # "global", "thread_local" or "relaxed"
    thread: int  # the thread that began it
    graph: Graph
    invalid: str  # why it was invalidated; empty while it is valid
    active: bool  # until it ends
    _ends: dict[Queue, tuple[Node, ...]]  # the nodes that each queue's next command depends on

    def __init__(self, queue: Queue, mode: str) -> None:
        check_mode(mode)
        self.id = next(_ids)
        self.origin = queue
        self.mode = mode
        self.thread = 0
        self.invalid = ""
        self.active = False
        self._ends = {}

    def __del__(self) -> None:
        if getattr(self, "active", False):
            self.abandon()

    def __enter__(self) -> Graph:
        """Begin, as described at `Queue.capture`. After an error or a Ctrl-C it has not begun."""
        queue = self.origin
        if queue is None:
            raise CaptureError("this capture has ended: call Queue.capture() for another one")
        begins = False
        try:
            with lock:
                if self.active:
                    raise CaptureError(f"{queue!r} is captured already")
                begins = True
                self.thread = threading.get_ident()
                queue._check_open()
                if queue.is_null:
                    raise CaptureUnsupportedError("the null queue cannot be captured")
                if queue._capture is not None:
                    raise CaptureError(f"{queue!r} is captured already")
                if queue.adopted:
                    raise NotSupportedError(f"{queue!r} gets commands that forebay does not see, and cannot capture")
                if queue._step is not None:
                    raise StepError(f"capture of {queue!r}: it is in an open step")
                self.graph = Graph(queue.device, _made=True)
                self.graph._captured = True
                self.active = True
                active.add(self)
                self._join(queue, ())
        except BaseException:
            if begins:
                self.abandon()
            raise
        return self.graph

    def __exit__(self, kind: type[BaseException] | None, *others: object) -> None:
        """End. An exception in the block discards the capture."""
        if not self.active:
            if kind is None:
                self.check()
            return
        try:
            if kind is None:
                self.end(self.origin)
            else:
                self.discard()
        except BaseException:
            self.discard()
            raise

    @property
    def status(self) -> str:
        """The capture's state in HIP's words: "none", "active" or "invalidated"."""
        return "none" if not self.active else "invalidated" if self.invalid else "active"

    def dependencies(self, queue: Queue) -> tuple[Node, ...]:
        """Return the nodes that the queue's next command will depend on."""
        return self._ends[queue]

    def invalidate(self, why: str) -> None:
        """Invalidate the capture. The first reason is kept."""
        self.invalid = self.invalid or why

    def check(self) -> None:
        if self.invalid:
            raise CaptureInvalidatedError(f"the capture was invalidated: {self.invalid}")

    def refuse(self, what: str, instead: str = "") -> None:
        """Invalidate the capture and raise, as in HIP. `what` cannot be captured; `instead` says what to do."""
        self.invalidate(what)
        end = f": {instead}" if instead else ""
        raise CaptureUnsupportedError(f"{what}: this cannot be captured, and the capture is invalid now{end}")

    # -- commands of the queues

    # Another thread may end the capture at any time. Then each of these returns False or None, and the command must run
    # instead.

    def add(self, queue: Queue, work: Work) -> Node | None:
        with lock:
            if not self.active:
                return None
            self.check()
            self.graph._check_not_freed(work)
            node = self.graph._append(work, self._ends[queue])
            node._captured_on = ref(queue)
            self._ends[queue] = (node,)
        return node

    def launch(self, queue: Queue, kernel: Kernel, grid: Any, block: Any, arguments: tuple[Any, ...]) -> bool:
        return self.add(queue, make_kernel(queue.device, kernel, grid, block, arguments)) is not None

    def launch_bound(self, bound: BoundLaunch) -> bool:
        return self.add(bound.queue, make_bound(bound)) is not None

    def copy(self, queue: Queue, dst: Any, src: Any) -> bool:
        """Capture a copy. Also returns False for strided memory, which a launch copies."""
        if isinstance(dst, StridedView) or isinstance(src, StridedView):
            return False
        return self.add(queue, make_copy(self.graph.device, dst, src)) is not None

    def fill(self, queue: Queue, buffer: Any, value: Any) -> bool:
        return self.add(queue, make_fill(self.graph.device, buffer, value)) is not None

    def host(self, queue: Queue, function: Any) -> bool:
        return self.add(queue, make_host(function)) is not None

    def alloc(self, queue: Queue, shape: Any, dtype: Any) -> Buffer | None:
        """Capture an allocation, which each launch of the graph hands out."""
        with lock:
            if not self.active:
                return None
            self.check()
            nbytes = math.prod(read_shape(shape)) * read_dtype(dtype).itemsize
            freed = self.graph._freed_before(self._ends[queue], nbytes)
        work = make_alloc(self.graph.device, shape, dtype, freed)  # without the lock: it may call the driver
        return None if self.add(queue, work) is None else work.buffer

    def free(self, queue: Queue, buffer: Any) -> bool:
        return self.add(queue, make_free(self.graph.device, buffer)) is not None

    def add_graph(self, queue: Queue, works: Sequence[Work], dependencies: Sequence[Sequence[int]]) -> bool:
        """Capture all nodes of a graph that is launched on the queue."""
        with lock:
            if not self.active:
                return False
            self.check()
            if not works:
                return True
            self.graph._accesses.add(works)
            nodes: list[Node] = []
            for work, after in zip(works, dependencies, strict=True):
                nodes.append(self.graph._append(work, tuple(nodes[i] for i in after) or self._ends[queue]))
            inner = {i for after in dependencies for i in after}
            self._ends[queue] = tuple(node for i, node in enumerate(nodes) if i not in inner)
            return True

    def fork(self, queue: Queue) -> tuple[Capture, tuple[Node, ...]] | None:
        """Return the capture and the nodes that an event recorded on the queue stands for."""
        with lock:
            if not self.active:
                return None
            self.check()
            return self, self._ends[queue]

    def wait(self, queue: Queue, nodes: tuple[Node, ...]) -> None:
        """Make the queue wait for nodes of this capture. If it is not captured yet, it joins."""
        with lock:
            if not self.active:
                return
            other = queue._capture
            if other is not None and other is not self:
                self.invalidate("it was to be merged with another")
                other.invalidate("it was to be merged with another")
                raise CaptureMergeError(f"{queue!r} is captured already, and not into the same graph")
            self.check()
            if other is None:
                self._check_can_join(queue)
                self._join(queue, nodes)
            else:
                self._ends[queue] = tuple(dict.fromkeys((*self._ends[queue], *nodes)))

    def wait_outside(self, queue: Queue, what: str) -> None:
        """Refuse a captured queue's wait for something that is not captured, and invalidate the capture."""
        self.check()
        self.invalidate(f"{queue!r} was to wait for {what}, which is not captured")
        raise CaptureIsolationError(
            f"{queue!r} is captured and cannot wait for {what}, which is not: wait before the capture begins")

    def _check_can_join(self, queue: Queue) -> None:
        if queue.device._context is not self.graph.device._context:
            raise NotSupportedError(f"a capture is of one device, {self.graph.device.name}")
        if queue.is_null:
            self.invalidate("the null queue was to join it")
            raise CaptureImplicitError("the null queue cannot be captured")
        queue._check_open()
        if queue._step is not None:
            self.invalidate(f"{queue!r}, which is in an open step, was to join it")
            raise StepError(f"{queue!r} cannot join a capture: it is in an open step")

    def _join(self, queue: Queue, nodes: tuple[Node, ...]) -> None:
        self._ends[queue] = nodes
        set_capture(queue, self)

    # -- its end

    def end(self, queue: Queue) -> Graph:
        """End the capture, as described at `Queue.end_capture`."""
        with lock:
            if queue is not self.origin:
                raise CaptureUnmatchedError(f"the capture of {queue!r} began on {self.origin!r} and ends there")
            if self.mode != "relaxed" and threading.get_ident() != self.thread:
                raise CaptureWrongThreadError(f"the capture of {queue!r} ends in the thread that began it")
            reached = ancestors(self._ends[self.origin])
            unjoined = [other for other, ends in self._ends.items() if not reached.issuperset(ends)]
            self.abandon()
            if self.invalid:
                self.graph.close()
                self.check()
            if unjoined:
                self.graph.close()
                raise CaptureUnjoinedError(
                    f"{', '.join(map(repr, unjoined))} joined the capture, and {queue!r} does not come after all of it:"
                    " record an event there and wait for it here")
            return self.graph

    def abandon(self) -> None:
        """End the capture without checks, even if a Ctrl-C comes. Its queues run their commands again."""
        try:
            self._leave()
        except BaseException:
            self._leave()
            raise

    def _leave(self) -> None:
        """End the capture, or complete an interrupted call."""
        with lock:
            if self.active:
                self.graph._captured = False
            self.active = False
            active.discard(self)
            for queue in self._ends:
                if queue._capture is self:
                    set_capture(queue, None)
            self._ends = {}  # events recorded in the capture keep it alive, but must not keep queues
            self.origin = None

    def discard(self) -> None:
        """End the capture without checks, and close its graph."""
        self.abandon()
        self.graph.close()

    def lose(self, queue: Queue) -> None:
        """Remove a queue that is being closed. Closing the origin ends the capture."""
        with lock:
            if queue is self.origin:
                self.invalidate(f"{queue!r} was closed")
                self.discard()
            elif self._ends.pop(queue, None) is not None:
                self.invalidate(f"{queue!r} was closed")
                set_capture(queue, None)
