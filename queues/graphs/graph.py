"""Graphs: commands and their dependencies, to be launched together."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any
from weakref import ref

from forebay.core.driver import AnyGraph, be
from forebay.core.errors import ArgumentTypeError, CaptureError, ClosedError, InvalidArgumentError, NotSupportedError
from forebay.queues.graphs.executable import (
    Accesses,
    ExecutableGraph,
    GraphMemory,
    MemoryWork,
    Work,
    graph_memory_of,
    make_alloc,
    make_copy,
    make_empty,
    make_fill,
    make_free,
    make_host,
    make_kernel,
    make_list,
)
from forebay.queues.graphs.shape import serial_order
from forebay.races.checker import place_in_program

if TYPE_CHECKING:
    from types import TracebackType

    from forebay.queues.device import Device
    from forebay.queues.queue import Queue

log: logging.Logger = logging.getLogger(__name__)
_ids = itertools.count(1)


class Node:
    """One command of a graph; made by the graph's methods and by capture.

    Attributes
    ----------
    work : Work
        The command. Its attributes depend on its kind: ``kernel``, ``grid``, ``block`` and ``arguments``; ``dst``,
        ``src`` and ``nbytes``; ``buffer`` and ``value``; ``function``; ``buffer``; ``works``.
    dependencies : tuple of Node
        The nodes that it comes after.
    """

    def __init__(self, graph: Graph, work: Work, dependencies: tuple[Node, ...]) -> None:
        if not isinstance(work, Work):
            raise ArgumentTypeError("a Node is made by the methods of a Graph, or by capture")
        self._graph = ref(graph)  # weak, or the cycle would keep the graph's memory until the garbage collector runs
        self.work = work
        self.dependencies = dependencies
        self._place = ""  # the line of the program that made it, where races are looked for
        self._captured_on: Callable[[], Queue | None] = lambda: None

    @property
    def graph(self) -> Graph | None:
        """The graph that the node is in; None when the graph is gone."""
        return self._graph()

    @property
    def kind(self) -> str:
        """The kind of command: "kernel", "copy", "fill", "host", "empty", "alloc", "free" or "graph"."""
        return self.work.kind

    def __repr__(self) -> str:
        return f"<forebay.Node: {self.work!r}>"


class Graph:
    """Commands and their dependencies; made by `Queue.capture` and `Device.graph`.

    A graph is a template: `instantiate` makes an executable graph, which is launched. `launch` instantiates the graph
    when needed, so a graph that no longer changes can be launched directly. Nodes keep everything they use alive:
    buffers, kernels, host functions, and copies of bytes by value. A graph only remembers the address of host memory:
    copies read and write it when the graph runs.

    Each executable graph has its own scratch (`Kernel.scratch`). The sizes are those of the data at each launch, not at
    the capture. A graph that may write to what a size is read from is refused when it is captured, or when the node is
    added: InvalidArgumentError names kernel, scratch and buffer.

    Memory that a graph allocates (`Queue.alloc` in a capture, `add_alloc`) has the same address in every launch. It is
    in use from the launch until a node of the graph frees it. If no node does, it is in use until `Queue.free` or a
    node of another graph frees it after the launch; only then can the graph be launched again. While the memory is not
    in use, only nodes may refer to it. A graph with such nodes has one executable graph at a time and cannot be part of
    another graph (CUDA, graph memory nodes). The graph holds the driver's memory from the making of the node until all
    nodes, executable graphs and buffers on it are gone. In a capture, memory that the graph has freed is used again.

    Each node runs after all its dependencies, and side by side with nodes that it does not depend on, in up to four
    branches. Nodes that use the same memory need a dependency, even when they were added one after the other. For
    everybody else a launch is one command of its queue: later commands come after the whole graph.

    Attributes
    ----------
    device : Device
    """

    def __init__(self, device: Any = None, *, _made: bool = False) -> None:
        if not _made:
            raise ArgumentTypeError("a Graph is made by Queue.capture or Device.graph")
        self.device: Device = device
        self.id: int = next(_ids)
        self.closed: bool = False
        self._nodes: list[Node] = []
        self._own: ExecutableGraph | None = None  # used by `launch`, until nodes are added
        self._captured = False  # whether a capture that has not ended is filling it
        self._allocated: dict[GraphMemory, Node] = {}  # the node that allocates each memory
        self._freed: dict[GraphMemory, Node] = {}  # the node that frees each memory, its own or another graph's
        self._idle: list[GraphMemory] = []  # its own memory that a node has freed and no other node uses again
        self._accesses = Accesses()
        self._lock = threading.RLock()  # one change or instantiation at a time, but for the nodes that a capture adds
        self._instance: Callable[[], ExecutableGraph | None] = lambda: None  # the last one made

    # -- its nodes

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes, in the order in which they were added."""
        return tuple(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    # -- adding to it

    def add_kernel(self, kernel: Any, grid: Any, block: Any, *args: Any, after: Any = ()) -> Node:
        """Add ``queue.launch(kernel, grid, block, *args)`` with the present values of the arguments.

        Parameters
        ----------
        after : Node or sequence of Node
            The nodes that it comes after. All nodes passed to a graph's methods must belong to the graph.

        Raises
        ------
        ArgumentTypeError, InvalidArgumentError, ClosedError
            As for `Queue.launch`, for arrays of the host, and when the graph may write to what the size of scratch is
            read from. The graph is unchanged.
        """
        return self._insert(make_kernel(self.device, kernel, grid, block, args), after)

    def add_copy(self, dst: Any, src: Any, *, after: Any = ()) -> Node:
        """Add ``queue.copy(dst, src)``, with `after` as in `add_kernel`.

        Host memory is read or written each time the graph runs.
        """
        return self._insert(make_copy(self.device, dst, src), after)

    def add_fill(self, buf: Any, value: Any, *, after: Any = ()) -> Node:
        """Add ``queue.fill(buf, value)``. `after` is as in `add_kernel`."""
        return self._insert(make_fill(self.device, buf, value), after)

    def add_host(self, function: Any, *, after: Any = ()) -> Node:
        """Add ``queue.host(function)``. `after` is as in `add_kernel`."""
        return self._insert(make_host(function), after)

    def add_alloc(self, shape: Any, dtype: Any = "f4", *, after: Any = ()) -> Node:
        """Add ``queue.alloc(shape, dtype)``, with `after` as in `add_kernel`.

        The Buffer is the ``work.buffer`` of the node.

        Raises
        ------
        ArgumentTypeError, InvalidArgumentError, OutOfMemoryError
        """
        self._check_complete()
        return self._insert(make_alloc(self.device, shape, dtype), after)

    def add_free(self, buf: Any, *, after: Any = ()) -> Node:
        """Add ``queue.free(buf)`` for memory that this graph allocates, or that another graph allocated in a launch.

        `after` is as in `add_kernel`.

        Raises
        ------
        InvalidArgumentError
            When no graph allocates the memory, when a node of this graph or of the graph that allocates it frees it
            already, or when it is this graph's own memory and in use.
        ArgumentTypeError, ClosedError
        """
        self._check_complete()
        work = make_free(self.device, buf)
        self._check_not_freed(work)
        return self._insert(work, after)

    def add_graph(self, graph: Graph, *, after: Any = ()) -> Node:
        """Add the present work of another graph as one node (HIP, hipGraphAddChildGraphNode).

        Branches of the added graph run one after the other. `after` is as in `add_kernel`.

        Raises
        ------
        ArgumentTypeError
            For what is no graph.
        NotSupportedError
            When the added graph allocates or frees memory.
        InvalidArgumentError
            When the added graph belongs to another device, or its dependencies form a circle.
        """
        self._check_complete()
        if not isinstance(graph, Graph):
            raise ArgumentTypeError(f"add_graph() needs a Graph, not {type(graph).__name__}")
        return self._insert(graph._as_work(self.device), after)

    def _as_work(self, device: Any) -> Work:
        """Return the work of all nodes, for one node of a graph of this device."""
        self._check_complete()
        if self.device._context is not device._context:
            raise InvalidArgumentError(f"the graph to add belongs to {self.device.name}, not to {device.name}")
        if self._has_memory_nodes:
            raise NotSupportedError("a graph with nodes that allocate or free memory cannot be part of another one")
        return make_list("graph", [node.work for node in serial_order(self._nodes)])

    def add_empty(self, *, after: Any = ()) -> Node:
        """Add a node that does nothing, for other nodes to depend on. `after` is as in `add_kernel`."""
        return self._insert(make_empty(), after)

    def add_dependency(self, earlier: Node, later: Node) -> None:
        """Let `later` come after `earlier`. `instantiate` checks that the dependencies form no circle.

        Raises
        ------
        InvalidArgumentError
            When `later` already comes after `earlier`, when both are the same node, or when one is not of this graph.
        """
        self._check_complete()
        earlier, later = self._own_nodes((earlier, later))
        if earlier is later:
            raise InvalidArgumentError(f"{later!r} cannot depend on itself")
        with self._lock:
            if earlier in later.dependencies:
                raise InvalidArgumentError(f"{later!r} comes after {earlier!r} already")
            later.dependencies = (*later.dependencies, earlier)
            self._own = None

    def remove_dependency(self, earlier: Node, later: Node) -> None:
        """Let `later` no longer come after `earlier`.

        Raises
        ------
        InvalidArgumentError
            When it does not, or when one of them is not of this graph.
        """
        self._check_complete()
        earlier, later = self._own_nodes((earlier, later))
        with self._lock:
            if earlier not in later.dependencies:
                raise InvalidArgumentError(f"{later!r} does not come after {earlier!r}")
            later.dependencies = tuple(node for node in later.dependencies if node is not earlier)
            self._own = None

    def _own_nodes(self, nodes: Iterable[Node]) -> tuple[Node, ...]:
        found = tuple(dict.fromkeys(nodes)) if not isinstance(nodes, tuple) else nodes
        for node in found:
            if not isinstance(node, Node):
                raise ArgumentTypeError(f"a graph consists of Nodes, not {type(node).__name__}")
            if node.graph is not self:
                raise InvalidArgumentError(f"{node!r} belongs to another graph")
        return found

    def _insert(self, work: Work, after: Any) -> Node:
        self._check_complete()
        try:
            given = dict.fromkeys((after,) if isinstance(after, Node) else after)
        except TypeError:
            raise ArgumentTypeError(f"after is a Node or several, not {type(after).__name__}") from None
        with self._lock:
            return self._append(work, self._own_nodes(given))

    def _append(self, work: Work, dependencies: tuple[Node, ...]) -> Node:
        self._accesses.add((work,))
        node = Node(self, work, dependencies)
        if self.device.null_queue.checked:
            node._place = place_in_program()
        self._nodes.append(node)
        self._own = None
        if isinstance(work, MemoryWork):
            if work.kind == "alloc":
                self._allocated[work.memory] = node
            else:
                self._freed[work.memory] = node
                if work.memory in self._allocated:
                    work.memory.inner = True
                    self._idle.append(work.memory)
        return node

    def _replace(self, works: dict[Node, Work]) -> None:
        """Replace the works of some nodes. On an error nothing has changed."""
        with self._lock:
            accesses = Accesses()
            accesses.add([works.get(node, node.work) for node in self._nodes])
            self._accesses = accesses
            for node, work in works.items():
                node.work = work
            self._own = None

    def _check_not_freed(self, work: Work) -> None:
        """Check that a new node uses no memory that the graph has freed, and frees none twice or besides its graph."""
        for buffer in work.buffers if self._freed else ():
            if graph_memory_of(buffer) in self._freed:
                raise InvalidArgumentError(f"{work!r}: the graph has freed this memory before")
        if isinstance(work, MemoryWork) and work.kind == "free":
            memory = work.memory
            if memory.inner or (memory.live and memory in self._allocated):
                raise InvalidArgumentError(
                    f"{work!r}: the graph that allocates this memory frees it, or has allocated it by a launch"
                )

    def _freed_before(self, nodes: tuple[Node, ...], nbytes: int) -> GraphMemory | None:
        """Take out memory of fitting size that the graph frees at or before these nodes. None if there is none."""
        before = ancestors(nodes) if self._idle else set()
        for memory in self._idle:
            if nbytes <= memory.reserved <= 2 * nbytes and self._freed[memory] in before:
                self._idle.remove(memory)
                return memory
        return None

    @property
    def _has_memory_nodes(self) -> bool:
        return bool(self._allocated or self._freed)

    # -- running it

    def instantiate(self, auto_free: bool = False) -> ExecutableGraph:
        """Make an executable graph, with its own kernel objects and argument memory.

        Where the driver can, each part of a branch becomes one driver call (a closed command list on Level Zero). A
        part ends at a host function and where another branch begins or ends. Each branch beyond the first takes a queue
        of the driver; a graph without branches takes none.

        Parameters
        ----------
        auto_free : bool
            Whether a launch frees memory that the previous launch allocated and that was not freed (HIP,
            hipGraphInstantiateFlagAutoFreeOnLaunch). Otherwise such a launch is an error.

        Raises
        ------
        InvalidArgumentError
            When the dependencies form a circle, when a node uses memory before the graph allocates it or after the
            graph frees it, or when a node may write to what the size of a node's scratch is read from.
        ClosedError
            When a kernel or buffer that a node uses is closed.
        NotSupportedError
            When nodes allocate or free memory, and the graph's previous executable graph is not closed.
        """
        with self._lock:
            self._check_complete()
            if self._has_memory_nodes:
                self._own = None  # drop the one made by `launch`, or it would count as not closed
                before = self._instance()
                if before is not None and not before.closed:
                    raise NotSupportedError(
                        "a graph with memory nodes has one executable graph at a time: close that first"
                    )
            made = ExecutableGraph._of(self.device, self.nodes, auto_free)
            self._instance = ref(made)
        log.debug("instantiated a graph of %d nodes for %s", len(self.nodes), self.device.name)
        return made

    def _executable(self) -> ExecutableGraph:
        """Return the executable graph of `launch`."""
        self._check_complete()
        own = self._own
        if own is None:
            with self._lock:
                own = self._own = self._own or self.instantiate()
        return own

    def launch(self, queue: Queue) -> None:
        """Run the graph on a queue (see `ExecutableGraph.launch`).

        The first launch instantiates the graph, and so does the first launch after nodes were added.
        """
        self._executable().launch(queue)

    def update(self, graph: Graph) -> None:
        """Replace the work of this graph's nodes by the work of another graph's nodes (see `ExecutableGraph.update`).

        Executable graphs that were instantiated from this graph do not change.

        Raises
        ------
        GraphUpdateError
            When the graphs differ in more than the work of their nodes. Nothing has changed then.
        """
        with self._lock:
            own = self._executable()
            own.update(graph)
            others = serial_order(graph.nodes)
            self._replace(dict(zip(serial_order(self.nodes), (node.work for node in others), strict=True)))
            self._own = own

    # -- showing it

    def debug_dot(self) -> str:
        """Return the graph in Graphviz's DOT language, one line for each node and each dependency."""
        self._check_open()
        number = {node: i for i, node in enumerate(self._nodes)}
        lines = [f"digraph graph_{self.id} {{"]
        for node, i in number.items():
            label = repr(node.work).replace("\\", "\\\\").replace('"', '\\"')
            lines.append(f'    n{i} [shape="box", label="{label}"];')
        for node, i in number.items():
            lines += [f"    n{number[other]} -> n{i};" for other in node.dependencies]
        return "\n".join([*lines, "}", ""])

    # -- life

    def close(self) -> None:
        """Give back the graph's resources once its launches are done. Its executable graphs live on.

        Does not block. Closing twice is fine.
        """
        self.closed = True
        self._own = None
        self._nodes = []
        self._allocated, self._freed, self._idle, self._accesses = {}, {}, [], Accesses()

    def _check_open(self) -> None:
        if self.closed:
            raise ClosedError("this Graph is closed")

    def _check_complete(self) -> None:
        self._check_open()
        if self._captured:
            raise CaptureError("this Graph is still being captured: end the capture first")

    def __enter__(self) -> Graph:
        self._check_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else "being captured" if self._captured else f"{len(self._nodes)} nodes"
        return f"<forebay.Graph {self.id}, {state}, on {self.device.name}>"


def ancestors(nodes: Sequence[Node]) -> set[Node]:
    """Return these nodes and all the nodes that they depend on, directly or through others."""
    found: set[Node] = set()
    left = list(nodes)
    while left:
        node = left.pop()
        if node not in found:
            found.add(node)
            left.extend(node.dependencies)
    return found


be(AnyGraph, Graph)
