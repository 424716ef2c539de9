"""Graphs: commands and what they depend on, to be launched together."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any
from weakref import ref

from forebay.core.errors import (
    ArgumentTypeError,
    CaptureError,
    ClosedError,
    InvalidArgumentError,
    NotSupportedError,
)
from forebay.queues.graphs.executable import ExecutableGraph, serial_order
from forebay.queues.graphs.memory import GraphMemory, Reserved, ancestors
from forebay.queues.graphs.work import (
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

if TYPE_CHECKING:
    from types import TracebackType

    from forebay.queues.device import Device
    from forebay.queues.queue import Queue

_ids = itertools.count(1)


class Node:
    """One command of a graph; made by the graph's methods and by capture.

    Attributes
    ----------
    work : Work
        What it does, with attributes by its kind: ``kernel``, ``grid``, ``block`` and ``arguments``; ``dst``, ``src``
        and ``nbytes``; ``buffer`` and ``value``; ``function``; ``buffer``; ``works``.
    dependencies : tuple of Node
        What it comes after.
    """

    def __init__(self, graph: Graph, work: Work, dependencies: tuple[Node, ...]) -> None:
        if not isinstance(work, Work):
            raise ArgumentTypeError("a Node is made by the methods of a Graph, or by capture")
        self._graph = ref(graph)  # not to keep what it uses until the collector comes by
        self.work = work
        self.dependencies = dependencies

    @property
    def graph(self) -> Graph | None:
        """The graph it is in; None when that is gone."""
        return self._graph()

    @property
    def kind(self) -> str:
        """What it does, in a word: "kernel", "copy", "fill", "host", "empty", "alloc", "free" or "graph"."""
        return self.work.kind

    def __repr__(self) -> str:
        return f"<forebay.Node: {self.work!r}>"


class Graph:
    """Commands and what they depend on; made by `Queue.capture` and `Device.graph`.

    It is a template: `instantiate` makes what is launched. `launch` does that when it is needed, so a graph that is not
    changed any more can be used as it is. Nodes keep all that they use alive: buffers, kernels, host functions, and
    copies of bytes by value. Of host memory only the place is remembered: copies read and write it when the graph runs.

    Memory that a graph allocates (`Queue.alloc` in a capture, `add_alloc`) is at the same place in every launch. It is
    in use from the launch on until a node of the graph frees it, or else until `Queue.free` after the launch, or a node
    of another graph; only then can the graph be launched again. While it is not in use, nothing but nodes may use it.
    A graph with such nodes has one executable graph at a time, and becomes no part of another one (CUDA, graph memory
    nodes). The memory is the driver's from the node's making on until nodes, executable graphs and buffers on it are
    gone; in a capture, what the graph has freed before serves again.

    Each node runs after all it depends on, and side by side with others that it does not depend on, in up to four
    branches at a time. Nodes that use the same memory need a dependency, also when they were added one after the other.
    For everybody else a launch is one command of its queue: what comes after it comes after all of the graph.

    Attributes
    ----------
    device : Device
    """

    def __init__(self, device: Any = None, *, _made: bool = False) -> None:
        if not _made:
            raise ArgumentTypeError("a Graph is made by Queue.capture or Device.graph")
        self.device: Device = device
        self.id = next(_ids)
        self.closed = False
        self._nodes: list[Node] = []
        self._own: ExecutableGraph | None = None  # what `launch` uses, until nodes are added
        self._captured = False  # by a capture that has not ended
        self._allocated: dict[GraphMemory, Node] = {}  # by nodes of it
        self._freed: dict[GraphMemory, Node] = {}  # by nodes of it, its own memory or another graph's
        self._idle: list[GraphMemory] = []  # its own that is freed, and that nothing else is in yet
        self._scratch: dict[int, Any] = {}  # of captured launches, by kernel
        self._instance: Callable[[], ExecutableGraph | None] = lambda: None  # the last, when there can be but one

    # -- what it has

    @property
    def nodes(self) -> tuple[Node, ...]:
        """In the order they were added in."""
        return tuple(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    # -- adding to it

    def add_kernel(self, kernel: Any, grid: Any, block: Any, *args: Any, after: Any = ()) -> Node:
        """Add ``queue.launch(kernel, grid, block, *args)``; the arguments' values are those of now.

        Parameters
        ----------
        after : Node or sequence of Node
            What it comes after; this and all other nodes that are passed are the graph's own.
        """
        return self._insert(make_kernel(self.device, kernel, grid, block, args), after)

    def add_copy(self, dst: Any, src: Any, *, after: Any = ()) -> Node:
        """Add ``queue.copy(dst, src)``, except that host memory is read, or written, each time the graph runs."""
        return self._insert(make_copy(self.device, dst, src), after)

    def add_fill(self, buf: Any, value: Any, *, after: Any = ()) -> Node:
        """Add ``queue.fill(buf, value)``."""
        return self._insert(make_fill(self.device, buf, value), after)

    def add_host(self, function: Any, *, after: Any = ()) -> Node:
        """Add ``queue.host(function)``."""
        return self._insert(make_host(function), after)

    def add_alloc(self, shape: Any, dtype: Any = "f4", *, after: Any = ()) -> Node:
        """Add ``queue.alloc(shape, dtype)``; the Buffer is the ``work.buffer`` of the node.

        Raises
        ------
        ArgumentTypeError, InvalidArgumentError, OutOfMemoryError
        """
        self._check_complete()
        return self._insert(make_alloc(self.device, shape, dtype), after)

    def add_free(self, buf: Any, *, after: Any = ()) -> Node:
        """Add ``queue.free(buf)``, of memory that this graph allocates, or another one in a launch before.

        Raises
        ------
        InvalidArgumentError
            When no graph allocates it, a node of this graph frees it already, the graph that allocates it does, or it
            is this graph's own and in use.
        ArgumentTypeError, ClosedError
        """
        self._check_complete()
        work = make_free(self.device, buf)
        self._check_not_freed(work)
        return self._insert(work, after)

    def add_graph(self, graph: Graph, *, after: Any = ()) -> Node:
        """Add all that another graph's nodes do now, as one node (HIP, hipGraphAddChildGraphNode).

        Branches within it run one after the other.

        Raises
        ------
        NotSupportedError
            When it allocates or frees memory.
        InvalidArgumentError
            When it is of another device, or its nodes depend on each other in a circle.
        """
        self._check_complete()
        if not isinstance(graph, Graph):
            raise ArgumentTypeError(f"add_graph() needs a Graph, not {type(graph).__name__}")
        return self._insert(graph._as_work(self.device), after)

    def _as_work(self, device: Any) -> Work:
        """All that its nodes do, for a node of a graph of this device."""
        self._check_complete()
        if self.device is not device:
            raise InvalidArgumentError(f"the graph to add belongs to {self.device.name}, not to {device.name}")
        if self._has_memory_nodes:
            raise NotSupportedError("a graph with nodes that allocate or free memory cannot be part of another one")
        return make_list("graph", [node.work for node in serial_order(self._nodes)])

    def add_empty(self, *, after: Any = ()) -> Node:
        """Add a node that does nothing: for others to depend on."""
        return self._insert(make_empty(), after)

    def add_dependency(self, earlier: Node, later: Node) -> None:
        """Let `later` come after `earlier`. That nodes do not depend on each other in a circle is checked by
        `instantiate`.

        Raises
        ------
        InvalidArgumentError
            When it does already, or the two are one, or not of this graph.
        """
        self._check_complete()
        earlier, later = self._own_nodes((earlier, later))
        if earlier is later:
            raise InvalidArgumentError(f"{later!r} cannot depend on itself")
        if earlier in later.dependencies:
            raise InvalidArgumentError(f"{later!r} comes after {earlier!r} already")
        later.dependencies = (*later.dependencies, earlier)
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
        return self._append(work, self._own_nodes(given))

    def _append(self, work: Work, dependencies: tuple[Node, ...]) -> Node:
        node = Node(self, work, dependencies)
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

    def _check_not_freed(self, work: Work) -> None:
        """Nodes that come later cannot use what is freed; nor is it freed twice, or by two graphs."""
        for buffer in work.buffers if self._freed else ():
            if graph_memory_of(buffer) in self._freed:
                raise InvalidArgumentError(f"{work!r}: the graph has freed this memory before")
        if isinstance(work, MemoryWork) and work.kind == "free":
            memory = work.memory
            if memory.inner or (memory.live and memory in self._allocated):
                raise InvalidArgumentError(
                    f"{work!r}: the graph that allocates this memory frees it, or has allocated it by a launch"
                )

    def _freed_before(self, nodes: tuple[Node, ...], nbytes: int) -> Reserved | None:
        """Memory that the graph has freed before what comes after these nodes, and that fits; taken out."""
        before = ancestors(nodes) if self._idle else set()
        for memory in self._idle:
            size = memory.reserved.nbytes
            if nbytes <= size <= 2 * nbytes and self._freed[memory] in before:
                self._idle.remove(memory)
                return memory.reserved
        return None

    @property
    def _has_memory_nodes(self) -> bool:
        return bool(self._allocated or self._freed)

    # -- running it

    def instantiate(self, auto_free: bool = False) -> ExecutableGraph:
        """Make what is launched: with kernel objects and argument memory of its own.

        Where the driver can, all of a branch up to a host function, or to where another branch begins or ends, becomes
        one driver call (a closed command list on Level Zero). Each branch beyond the first takes a queue of the driver;
        a graph without branches takes none.

        Parameters
        ----------
        auto_free : bool
            Whether a launch frees what the launch before has allocated and nobody freed (HIP,
            hipGraphInstantiateFlagAutoFreeOnLaunch); else such a launch is an error.

        Raises
        ------
        InvalidArgumentError
            When nodes depend on each other in a circle, or one uses memory that the graph allocates after it or frees
            before it.
        ClosedError
            When a kernel or buffer that a node uses is closed.
        NotSupportedError
            When nodes allocate or free memory, and what was instantiated before is not closed.
        """
        self._check_complete()
        if self._has_memory_nodes:
            self._own = None  # of launches before: it is not in the way
            before = self._instance()
            if before is not None and not before.closed:
                raise NotSupportedError(
                    "a graph with memory nodes has one executable graph at a time: close that first"
                )
        made = ExecutableGraph._of(self.device, self._nodes, auto_free)
        self._instance = ref(made)
        return made

    def launch(self, queue: Queue) -> None:
        """Run it on a queue (see `ExecutableGraph.launch`); instantiates it first, unless that was done for a launch
        before and nothing was added since.
        """
        self._check_complete()
        if self._own is None:
            self._own = self.instantiate()
        self._own.launch(queue)

    def update(self, graph: Graph) -> None:
        """Let this graph's nodes do what another graph's do (see `ExecutableGraph.update`).

        What was instantiated from it before is not changed.

        Raises
        ------
        GraphUpdateError
            When the other graph differs in more than what its nodes do; nothing has changed then.
        """
        self._check_complete()
        if self._own is None:
            self._own = self.instantiate()
        self._own.update(graph)
        for node, other in zip(serial_order(self._nodes), serial_order(graph._nodes), strict=True):
            node.work = other.work

    # -- showing it

    def debug_dot(self) -> str:
        """The graph in Graphviz' language, one line for each node and each dependency."""
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
        """Give back what it uses, once launches of it are done. What was instantiated from it lives on. Does not block;
        twice is fine.
        """
        self.closed = True
        self._own = None
        self._nodes = []
        self._allocated, self._freed, self._idle, self._scratch = {}, {}, [], {}

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
