"""Graphs: commands and their dependencies, to be launched together."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any
from weakref import ref

from forebay.core.driver import AnyGraph, be
from forebay.core.errors import ArgumentTypeError, CaptureError, ClosedError, InvalidArgumentError, NotSupportedError
from forebay.core.process import Numbers
from forebay.queues.graphs import executable
from forebay.queues.graphs.executable import Accesses, ExecutableGraph, GraphMemory, MemoryWork, Work, graph_memory_of
from forebay.queues.graphs.shape import serial_order
from forebay.queues.kernels.kernel import Closing
from forebay.races.checker import place_in_program

if TYPE_CHECKING:
    from forebay.queues.device import Device
    from forebay.queues.queue import Queue

log: logging.Logger = logging.getLogger(__name__)
_ids = Numbers()


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
        self._graph = ref(graph)  # weak: a cycle would keep the graph's memory until the garbage collector runs
        self.work = work
        self.dependencies = dependencies
        self._place = ""  # the line of the program that made it, for the race checker
        self._captured_on: Callable[[], Queue | None] = lambda: None

    @property
    def graph(self) -> Graph | None:
        """The graph of the node, or None if the graph is gone."""
        return self._graph()

    @property
    def kind(self) -> str:
        """The kind of command: "kernel", "copy", "fill", "host", "empty", "alloc", "free" or "graph"."""
        return self.work.kind

    def __repr__(self) -> str:
        return f"<forebay.Node: {self.work!r}>"


class Graph(Closing):
    """Commands and their dependencies; made by `Queue.capture` and `Device.graph`.

    A graph is a template: `instantiate` makes an executable graph, which is launched. `launch` instantiates the graph
    if needed, so a graph that no longer changes can be launched directly. Nodes keep all that they use alive: buffers,
    kernels, host functions, and copies of bytes by value. Of host memory a graph only stores the address: copies read
    and write that memory when the graph runs.

    Each executable graph has its own scratch (`Kernel.scratch`), with the sizes of the data at each launch, not at the
    capture. A capture or a new node that may write to what a size is read from raises InvalidArgumentError, which names
    kernel, scratch and buffer.

    Memory that a graph allocates (`Queue.alloc` in a capture, `add_alloc`) has the same address in every launch. It is
    in use from the launch until a node of the graph frees it. If no node does, it is in use until `Queue.free` or a
    node of another graph frees it after the launch; only then can the graph be launched again. While the memory is not
    in use, only nodes may refer to it. A graph with such nodes has one executable graph at a time and cannot be part of
    another graph (CUDA, graph memory nodes). The driver's memory is allocated when the node is made, and released when
    all nodes, executable graphs and buffers on it are gone. In a capture, memory that the graph has freed is reused.

    Each node runs after all its dependencies, and concurrently with nodes that it does not depend on, in up to four
    branches. Nodes that use the same memory need a dependency, even if they were added one after the other. Outside the
    graph, a launch is one command of its queue: later commands come after the whole graph.

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
        self._lock = threading.RLock()  # one change or instantiation at a time; a capture adds nodes without it
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
            As for `Queue.launch`, for arrays of the host, and if the graph may write to what a scratch size is read
            from. The graph is unchanged.
        """
        return self._insert(executable.make_kernel(self.device, kernel, grid, block, args), after)

    def add_copy(self, dst: Any, src: Any, *, after: Any = ()) -> Node:
        """Add ``queue.copy(dst, src)``, which accesses host memory in each run. `after` is as in `add_kernel`."""
        return self._insert(executable.make_copy(self.device, dst, src), after)

    def add_fill(self, buf: Any, value: Any, *, after: Any = ()) -> Node:
        """Add ``queue.fill(buf, value)``. `after` is as in `add_kernel`."""
        return self._insert(executable.make_fill(self.device, buf, value), after)

    def add_host(self, function: Any, *, after: Any = ()) -> Node:
        """Add ``queue.host(function)``. `after` is as in `add_kernel`."""
        return self._insert(executable.make_host(function), after)

    def add_alloc(self, shape: Any, dtype: Any = "f4", *, after: Any = ()) -> Node:
        """Add ``queue.alloc(shape, dtype)``. The node's ``work.buffer`` is the Buffer. `after` is as in `add_kernel`.

        Raises
        ------
        ArgumentTypeError, InvalidArgumentError, OutOfMemoryError
        """
        self._check_complete()
        return self._insert(executable.make_alloc(self.device, shape, dtype), after)

    def add_free(self, buf: Any, *, after: Any = ()) -> Node:
        """Add ``queue.free(buf)`` for memory that this graph allocates, or that another graph allocated in a launch.

        `after` is as in `add_kernel`.

        Raises
        ------
        InvalidArgumentError
            If no graph allocates the memory, if a node of this graph or of the graph that allocates it already frees
            it, or if it is this graph's own memory and in use.
        ArgumentTypeError, ClosedError
        """
        self._check_complete()
        work = executable.make_free(self.device, buf)
        self._check_not_freed(work)
        return self._insert(work, after)

    def add_graph(self, graph: Graph, *, after: Any = ()) -> Node:
        """Add the present work of another graph as one node (HIP, hipGraphAddChildGraphNode).

        Branches of the added graph run one after the other. `after` is as in `add_kernel`.

        Raises
        ------
        ArgumentTypeError
            If `graph` is not a Graph.
        NotSupportedError
            If the added graph allocates or frees memory.
        InvalidArgumentError
            If the added graph belongs to another device, or its dependencies form a cycle.
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
        return executable.make_list("graph", [node.work for node in serial_order(self._nodes)])

    def add_empty(self, *, after: Any = ()) -> Node:
        """Add a node that does nothing, for other nodes to depend on. `after` is as in `add_kernel`."""
        return self._insert(executable.make_list("empty", ()), after)

    def add_dependency(self, earlier: Node, later: Node) -> None:
        """Make `later` depend on `earlier`. `instantiate` checks that the dependencies form no cycle.

        Raises
        ------
        InvalidArgumentError
            If `later` already depends on `earlier`, if both are the same node, or if one is not of this graph.
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
        """Remove the dependency of `later` on `earlier`.

        Raises
        ------
        InvalidArgumentError
            If there is no such dependency, or if one of them is not of this graph.
        """
        self._check_complete()
        earlier, later = self._own_nodes((earlier, later))
        with self._lock:
            if earlier not in later.dependencies:
                raise InvalidArgumentError(f"{later!r} does not come after {earlier!r}")
            later.dependencies = tuple(node for node in later.dependencies if node is not earlier)
            self._own = None

    def _own_nodes(self, nodes: tuple[Node, ...]) -> tuple[Node, ...]:
        for node in nodes:
            if not isinstance(node, Node):
                raise ArgumentTypeError(f"a graph consists of Nodes, not {type(node).__name__}")
            if node.graph is not self:
                raise InvalidArgumentError(f"{node!r} belongs to another graph")
        return nodes

    def _insert(self, work: Work, after: Any) -> Node:
        self._check_complete()
        try:
            given = tuple(dict.fromkeys((after,) if isinstance(after, Node) else after))
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
        """Replace the works of some nodes. An error changes nothing."""
        with self._lock:
            accesses = Accesses()
            accesses.add([works.get(node, node.work) for node in self._nodes])
            self._accesses = accesses
            for node, work in works.items():
                node.work = work
            self._own = None

    def _check_not_freed(self, work: Work) -> None:
        """Refuse a node that uses memory freed in this graph, or frees memory that its own graph frees or uses."""
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
        """Take memory of a suitable size that the graph frees at or before these nodes from `_idle`, or return None."""
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

        If the driver can record commands, each part of a branch becomes one driver call (a closed command list on Level
        Zero). A part ends at a host function and where another branch begins or ends. Each branch beyond the first
        takes a queue of the driver.

        Parameters
        ----------
        auto_free : bool
            Whether a launch frees memory that the previous launch allocated and that was not freed (HIP,
            hipGraphInstantiateFlagAutoFreeOnLaunch). Otherwise such a launch is an error.

        Raises
        ------
        InvalidArgumentError
            If the dependencies form a cycle, if a node uses memory before the graph allocates it or after the graph
            frees it, or if a node may write to what the size of a node's scratch is read from.
        ClosedError
            If a kernel or buffer that a node uses is closed.
        NotSupportedError
            If nodes allocate or free memory, and the graph's previous executable graph is not closed.
        """
        with self._lock:
            self._check_complete()
            if self._has_memory_nodes:
                self._own = None  # else the one made by `launch` would count as not closed
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
        self._check_complete()
        own = self._own
        if own is None:
            with self._lock:
                own = self._own = self._own or self.instantiate()
        return own

    def launch(self, queue: Queue) -> None:
        """Run the graph on a queue (see `ExecutableGraph.launch`).

        The first launch instantiates the graph, and so does the first launch after nodes or dependencies have changed.
        """
        self._executable().launch(queue)

    def update(self, graph: Graph) -> None:
        """Replace the work of this graph's nodes by that of another graph's nodes (see `ExecutableGraph.update`).

        Executable graphs made by `instantiate` do not change.

        Raises
        ------
        GraphUpdateError
            If the graphs differ in more than the work of their nodes. Nothing has changed then.
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
        """Release the graph's resources once its launches are done. Its executable graphs stay open.

        Does not block. Closing twice is allowed.
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
