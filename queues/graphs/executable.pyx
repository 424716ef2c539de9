"""Executable graphs, which `Graph.instantiate` makes and queues launch.

An executable has works and, made from them, a replay. Works never change: new ones take their place, in a new tuple, or
in the same one while nobody else has it. A replay is changed only while nobody launches it and, where the driver minds,
it does not run; else a new one takes its place. So a launch is not disturbed when another thread changes or closes the
executable, and never waits for it.
"""

import threading
from typing import TYPE_CHECKING

cimport cython
from cpython.exc cimport PyErr_Clear, PyErr_ExceptionMatches, PyErr_Occurred
from cpython.object cimport PyObject
from libc.stdint cimport uint64_t
from libcpp.atomic cimport memory_order_relaxed
from libcpp.vector cimport vector

from forebay.core.driver cimport NO_PLAN, Status
from forebay.core.epochs cimport Lock, completed_epoch, submitted_epoch
from forebay.core.state cimport QueueState, closed_gates
from forebay.lifetimes.collection cimport collect_device
from forebay.queues.graphs.changes cimport (
    change_in_place, hold_buffers, is_time_for_one_by_one, replay_for, spares_of
)
from forebay.queues.graphs.replay cimport Replay, has_room, is_acting, is_one_call, is_one_recording, new_replay
from forebay.queues.graphs.sizes cimport Sizes, is_still, read_sizes
from forebay.queues.graphs.submission cimport OUT_OF_DATE, Submission, replay_one, room_of_launch, submit_replay
from forebay.queues.graphs.work cimport KernelWork, MemoryWork, PyTupleObject, Work, add_nodes, kernel_work
from forebay.queues.host_functions cimport Call, new_call, settle_call
from forebay.queues.launch.scratch cimport check_guards, fill_guards
from forebay.queues.memory.buffer cimport Buffer
from forebay.queues.queue cimport Queue
from forebay.races.checker cimport (
    begin_announcement, come_after_past, command, drop_point, host_function, is_checked, note_point, past_of_uses,
    wait_for_point, withdraw
)
from forebay.races.engine cimport Announcement, Use
from forebay.races.graphs cimport check_nodes
from forebay.sync.ordering cimport is_ready_to_launch, wait_for_point as order_after_point
from forebay.sync.room cimport make_room

from forebay.core.errors import (
    ArgumentTypeError, ClosedError, GraphUpdateError, InvalidArgumentError, NotSupportedError
)
from forebay.core.driver import AnyGraph
from forebay.queues.graphs.lanes import BRANCHES, LANES, segments_of
from forebay.queues.graphs.allocations.lifetimes import Lifetimes
from forebay.queues.graphs.shape import check_same_shape, direction_of, serial_order, shape_of
from forebay.queues.graphs.sizes import Accesses
from forebay.queues.graphs.work import make_copy, make_fill, make_host

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from typing_extensions import Buffer as HostBuffer
    from typing_extensions import Never, Self

    from forebay.queues.device import Device
    from forebay.queues.graphs.graph import Graph, Node
    from forebay.queues.graphs.work import Work
    from forebay.queues.kernels.kernel import Kernel
    from forebay.queues.memory.shapes import Grid

cdef extern from "Python.h":
    PyObject* PyDict_GetItemWithError(object dictionary, object key)


cdef struct Point:
    uint64_t queue
    uint64_t epoch


@cython.no_gc_clear
cdef class ExecutableGraph:
    """A graph that can be launched any number of times; made by `Graph.instantiate`.

    It holds copies of the graph's nodes as they were when it was made, and keeps everything they use alive. Its
    executions run one after the other on whatever queues (as in CUDA and HIP): a launch on a different queue waits for
    the previous launch. Any thread may use it: a change takes effect with the next launch that begins, never with half
    of one, and a launch that has begun goes on when another thread closes it.

    Attributes
    ----------
    device : Device
    closed : bool
    """

    cdef readonly object device
    cdef readonly bint closed
    # Whoever replaces one of these keeps the old one until the new one is there: dropping it may run any code.
    cdef tuple works  # the nodes' works, or their replacements
    cdef list latest  # the same, with those that were set since the last launch
    cdef bint stale  # there are such
    cdef vector[size_t] set_at  # at these nodes
    cdef bint set_often  # and perhaps at others
    cdef bint have_scratch  # some work may have
    cdef bint measures  # some work may have scratch whose size is read from buffers
    cdef Replay replay  # of works that may have been replaced since; None when it is closed
    cdef list spares  # other Replays, which take turns with that one when the works change
    cdef bint changes  # works were replaced, so recordings are made to be changed
    cdef uint64_t recorded_anew  # so often, because works were replaced
    cdef list lanes  # Queues that only its launches use, beside the launch queue
    cdef tuple ordered  # the nodes it was made from
    cdef dict places  # of these, by node
    cdef Py_ssize_t last_place  # that was asked for
    cdef list shape
    cdef bint auto_free
    cdef object handing_out  # a lock for a launch that hands out memory; reentrant: the collector may run a launch
    cdef Lock lock  # allows one launch at a time; guards the two below
    cdef uint64_t last_queue  # id of the last launch's queue; 0, which no queue has, before the first launch
    cdef uint64_t last_epoch
    cdef void* seen  # what the checker of races knows of the last launch; owned; NULL: nothing
    cdef object __weakref__

    device: Device

    def __dealloc__(self):
        drop_point(&self.seen)

    def __init__(self, *args: Never, **kwargs: Never) -> None:
        raise ArgumentTypeError("an ExecutableGraph is made by Graph.instantiate")

    @staticmethod
    def _of(device: Device, nodes: Sequence[Node], auto_free: bool = False) -> ExecutableGraph:
        cdef ExecutableGraph made = ExecutableGraph.__new__(ExecutableGraph)
        ordered = serial_order(nodes)
        made.device = device
        made.ordered = tuple(ordered)
        made.places = {node: at for at, node in enumerate(ordered)}
        made.shape = shape_of(ordered)
        made.auto_free = auto_free
        made.lanes = []
        made.spares = []
        made.handing_out = threading.RLock()
        works = tuple([node.work for node in ordered])
        if device._checked:
            made.check(works)
        made.replace(works)
        return made

    cdef int check(self, tuple works) except -1:
        """Tell the races of nodes with each other."""
        cdef vector[Use] uses
        cdef vector[size_t] owners
        cdef Queue null_queue = self.device.null_queue
        add_nodes(works, self.ordered, uses, owners)
        return check_nodes(
            null_queue, null_queue.state, uses, owners, self.ordered,
            [dependencies for _, dependencies, _ in self.shape])

    cdef int replace(self, tuple works) except -1:
        """Replace all works, and prepare them for launches. On an error nothing has changed."""
        cdef Queue null_queue = self.device.null_queue
        Accesses().add(works)
        have_scratch = any([(<Work> work).has_scratch for work in works])
        sizes = read_sizes(None, null_queue.state, works, have_scratch)
        replay = self.prepare(sizes)
        latest = list(works)
        _before = self.works, self.latest, self.replay
        self._check_open()
        self.works, self.latest, self.replay = works, latest, replay
        self.note_taken()
        self.have_scratch, self.measures = have_scratch, any([(<Work> work).measures for work in works])
        return 0

    cdef tuple current(self):
        """Return the works, once those that were set are among them."""
        _before = self.works
        if self.stale:
            self.note_taken()
            self.works = tuple(self.latest)
        return self.works

    cdef void note_taken(self) noexcept:
        self.stale = self.set_often = False
        self.set_at.clear()

    cdef size_t most_in_place(self) noexcept:
        """Return how many nodes are changed in place. For more, a look at every node costs less."""
        return 16 + <size_t> len(self.latest) // 32

    cdef int change_at_once(self) except -1:
        """Let what was launched last do what was set since then, where it can be changed in its place."""
        cdef vector[size_t] changed
        cdef Replay replay = self.replay
        if (
            replay is None or self.set_often or replay.works is not self.works
            or replay.sizes.works is not self.works
        ):
            return 0
        changed.swap(self.set_at)
        self.set_often = True  # until it is done
        # Meanwhile others may set more, or launch what was set, as other works.
        if change_in_place(replay, self.latest, changed) and replay.works is self.works:
            self.stale = not self.set_at.empty()
            self.set_often = self.set_at.size() == self.most_in_place()
        return 0

    cdef Replay prepare(self, Sizes sizes):
        """Make a replay with scratch of these sizes."""
        cdef Queue null_queue = self.device.null_queue
        cdef Replay replay
        cdef uint64_t closings = null_queue.state.device.closings.load()
        ordered = self.ordered
        self._check_open()  # or there are no nodes any more
        _held = hold_buffers(sizes.works)
        lifetimes = None
        if any([type(work) is MemoryWork for work in sizes.works]):
            lifetimes = Lifetimes(ordered, sizes.works, self.auto_free)
        collect_device(null_queue.state.device)
        records = null_queue.state.driver.new_recording != NULL and lifetimes is None
        one_by_one = records and is_time_for_one_by_one(self.recorded_anew, [self.replay, *self.spares])
        self.recorded_anew += self.changes
        branches = not one_by_one and is_one_recording(self.device, null_queue.state.driver, sizes.works)
        segments = segments_of(
            [dependencies for _, dependencies, _ in self.shape], [is_acting(work) for work in sizes.works],
            BRANCHES if branches else LANES)
        lanes = None if branches else self.lanes_of(segments)
        replay = new_replay(
            self.device, null_queue.state, sizes, segments, lanes, self.replay, self.changes, one_by_one)
        replay.lifetimes = lifetimes
        replay.closings = closings
        return replay

    cdef list lanes_of(self, list segments):
        """Return the queues for the segments' lanes, beside the launch queue."""
        others = max([segment.lane for segment in segments], default=0)
        before = self.lanes
        lanes = before[:others]
        for _ in range(len(lanes), others):
            lanes.append(self.device.queue(blocking=False, timing=False))
        if len(lanes) > len(before) and not self.closed:
            self.lanes = lanes
        return lanes

    cdef Replay ready(self, Queue queue):
        """Return what to launch. Blocks when something has to be measured, on this queue."""
        cdef tuple works = self.current()
        cdef Replay replay = self.replay
        cdef Sizes sizes
        if self.closed:
            self._check_open()
        self.check_open_buffers(works, replay)
        same = replay.works is works and not replay.one_by_one
        if same and replay.sizes.lasting and is_still(&replay.sizes.moment, queue.state.device):
            return replay
        sizes = read_sizes(queue, queue.state, works, self.have_scratch)
        _before = self.replay, replay.sizes
        if same and replay.works is works and has_room(replay, sizes):
            replay.sizes = sizes
        else:
            replay = replay_for(replay, self.spares, sizes)
            if replay is None:
                replay = self.prepare(sizes)
            if self.works is works and not self.closed:  # or the next launch prepares what has taken their place
                self.take_turn(replay)
        self.check_open_buffers(works, replay)  # again, because measuring takes time, and gives back memory of its own
        return replay

    cdef int take_turn(self, Replay replay) except -1:
        """Make this the replay that is launched, and keep the others, which may still run."""
        _before = self.spares
        others = [each for each in (self.replay, *self.spares) if each is not replay]
        self.replay, self.spares = replay, spares_of(others)
        return 0

    cdef int check_open_buffers(self, tuple works, Replay replay) except -1:
        cdef uint64_t closings = replay.prepared.state.closings.load(memory_order_relaxed)
        if closings != replay.closings:
            hold_buffers(works)
            if replay.works is works:
                replay.closings = closings
        return 0

    def _check_open(self) -> None:
        if self.closed:
            raise ClosedError("this ExecutableGraph is closed")

    def launch(self, queue: Queue) -> None:
        """Run the graph on a queue, after the queue's earlier commands. The launch is a command like any other.

        The graph may be launched again while it still runs. On a queue that is captured, its nodes become part of the
        capture. The call does not wait for the graph. It blocks while the device's own queue is full, and when the size
        of scratch is read from a buffer that may have been written to since the last launch: the buffer is then
        measured on this queue, after all known writes, and the scratch grows if it must.

        Parameters
        ----------
        queue : Queue
            Of the graph's device.

        Raises
        ------
        ClosedError
            When the graph, the queue or a buffer that the graph uses is closed, or a kernel whose scratch must grow.
        InvalidArgumentError
            When memory that the graph allocated was not freed since the last launch and `auto_free` is off, when it
            frees memory that is not allocated, or when a size of scratch comes out negative.
        NotSupportedError
            On a queue that is captured, when the graph has nodes that allocate or free memory.
        OutOfMemoryError
            When there is no memory for scratch. Nothing was submitted.
        Error
            In a host function, when something has to be measured.
        ScratchOverflowError
            On a debugging device, when a kernel wrote behind its scratch.
        DriverError
            When the driver refuses part of the graph. Everything submitted before that part still runs.
        """
        cdef Queue on
        cdef Status status
        if type(queue) is Queue:
            if self.stale:
                self.change_at_once()
            status = self.launch_at_once((<Queue> queue).state)
            if status == 0:
                return
            if status != NO_PLAN:
                (<Queue> queue)._raise(status, "graph launch")
        if not isinstance(queue, Queue):
            raise ArgumentTypeError(f"a graph is launched on a Queue, not on {type(queue).__name__}")
        on = queue
        self._check_open()
        on._check_open()
        if on.device._context is not self.device._context:
            raise InvalidArgumentError(f"the graph belongs to {self.device.name}, {on!r} does not")
        capture = on._capture
        if capture is not None and self.capture_into(capture, on):
            return
        if is_checked(on.state):
            self.launch_checked(on)
        else:
            self.launch_now(on)

    cdef int launch_checked(self, Queue on) except -1:
        """Launch on a queue that is checked for races."""
        cdef Announcement uses
        cdef vector[size_t] owners
        works = self.current()
        begin_announcement(on, on.state, uses)
        wait_for_point(on, on.state, self.seen)  # the launch before
        for work in works:
            if type(work) is MemoryWork and (<Work> work).kind == "alloc" and not (
                    self.auto_free and (<MemoryWork> work).memory.live):  # that takes it back without any wait
                come_after_past(on, on.state, past_of_uses((<MemoryWork> work).buffer.allocation.uses, False))
        try:
            add_nodes(works, self.ordered, uses, owners)
            command(on, on.state, uses)
            self.launch_now(on)
        except BaseException:
            withdraw(uses)
            raise
        return note_point(on, on.state, &self.seen)

    cdef int launch_now(self, Queue on) except -1:
        cdef Replay replay
        cdef Status status
        cdef uint64_t room = 0
        submitted = False
        while not submitted:
            with nogil:
                status = make_room(on.state, room)
            if status != 0:
                on._raise(status, "graph launch")
            replay = self.ready(on)
            room = room_of_launch(on.state, replay.submission, len(replay.prepared.functions))
            replay.users += 1
            try:
                if replay.lifetimes is None:
                    submitted = self.submit(on, replay)
                else:
                    with self.handing_out:
                        submitted = self.submit(on, replay)
            finally:
                replay.users -= 1

    cdef Status launch_at_once(self, QueueState* state) noexcept:
        """Submit what the launch before did, keeping the GIL, where that is one recording, nothing has changed, and
        there is nobody to wait for. NO_PLAN: nothing was done.
        """
        cdef Replay replay = self.replay
        cdef Submission* submission
        cdef Status status = NO_PLAN
        if replay is None or self.stale or replay.works is not self.works or not is_one_call(replay):
            return NO_PLAN
        submission = replay.submission
        if state.device != replay.prepared.state or not self.lock.try_lock():
            return NO_PLAN
        if (self.last_queue == state.epochs.queue_id or self.last_queue == 0) and state.lock.try_lock():
            # A driver may take fewer graphs than launches before it blocks: the GIL is kept for a quarter as many (CUDA
            # took more with a thousand nodes each), and only while the device goes on without anybody's help.
            if (
                is_ready_to_launch(state) and closed_gates(state.device) == 0
                and submitted_epoch(state.epochs) - completed_epoch(state.epochs) + submission.room
                < state.room // 4
                and is_still(&replay.sizes.moment, state.device)
                and state.device.closings.load() == replay.closings
            ):
                status = replay_one(state, submission)
                if status == 0:
                    self.last_queue = state.epochs.queue_id
                    self.last_epoch = submitted_epoch(state.epochs)
            state.lock.unlock()
        self.lock.unlock()
        return status

    cdef bint capture_into(self, object capture, Queue queue) except -1:
        """Make the works part of the queue's capture. Returns False when it has ended."""
        works = self.current()
        hold_buffers(works)
        if any([type(work) is MemoryWork for work in works]):
            raise NotSupportedError("a graph with nodes that allocate or free memory cannot be part of another one")
        return capture.add_graph(queue, works, [dependencies for _, dependencies, _ in self.shape])

    cdef bint submit(self, Queue queue, Replay replay) except -1:
        """Submit a replay. Returns False if a buffer was written to or closed since `ready` looked at it, or
        the queue was filled up.
        """
        cdef vector[Call*] calls
        cdef vector[Point] points
        cdef Point end = Point(0, 0)
        cdef Announcement told
        cdef size_t i, called = 0
        cdef bint begun = False
        cdef Status status = 1  # a failure, until the launch is tried
        cdef Sizes sizes = replay.sizes
        cdef uint64_t closings = replay.closings
        if queue.state.device.closings.load() != closings:
            return False
        # a buffer that is closed from now on must outlive the launch
        _held = [(<Buffer> buffer).allocation.memory for buffer in replay.buffers]
        if is_checked(queue.state):
            functions = [host_function(queue, queue.state, function, told) for function in replay.prepared.functions]
        else:
            functions = replay.prepared.functions
        guards, lifetimes = replay.prepared.guards, replay.lifetimes
        if guards:
            fill_guards(queue, guards)
        if lifetimes is not None:
            before = lifetimes.begin()
            for queue_id, epoch in lifetimes.freed_at:
                points.push_back(Point(queue_id, epoch))
        try:
            for function in functions:
                calls.push_back(new_call(queue, queue.state, function))
            with nogil:
                self.lock.lock()
                status = 0
                if self.last_queue != queue.state.epochs.queue_id and self.last_queue != 0:
                    status = order_after_point(queue.state, self.last_queue, self.last_epoch)
                for i in range(points.size()):
                    if status == 0:
                        status = order_after_point(queue.state, points[i].queue, points[i].epoch)
                if status == 0:
                    status = submit_replay(
                        queue.state, replay.submission, &sizes.moment, closings, calls, &called, &begun)
                    if status != OUT_OF_DATE:
                        self.last_queue = queue.state.epochs.queue_id
                        self.last_epoch = submitted_epoch(queue.state.epochs)
                end = Point(self.last_queue, self.last_epoch)
                self.lock.unlock()
        finally:
            if status != 0:
                withdraw(told)
            for i in range(calls.size()):
                settle_call(queue, functions[i], calls[i], i < called)
            if lifetimes is not None:
                if begun or status == 0:
                    lifetimes.end(end.queue, end.epoch)
                else:
                    lifetimes.undo(before)
        if status == OUT_OF_DATE:
            return False
        if status != 0:
            queue._raise(status, "graph launch")
        if guards:
            check_guards(queue, guards)
        return True

    def update(self, graph: Graph) -> None:
        """Take over the work of another graph's nodes (HIP, hipGraphExecUpdate). Running executions do not change.

        Parameters
        ----------
        graph : Graph
            It has the same kinds of nodes and the same dependencies, added in the same order. Its copies have the same
            direction: host to device, device to host, or within the device.

        Raises
        ------
        GraphUpdateError
            When the graphs differ in more than the work of their nodes. Nothing has changed then.
        InvalidArgumentError
            As for `Graph.instantiate`. Nothing has changed then.
        ArgumentTypeError
            For what is no graph.
        """
        self._check_open()
        if not isinstance(graph, AnyGraph):
            raise ArgumentTypeError(f"update() needs a Graph, not {type(graph).__name__}")
        graph._check_complete()
        if graph.device._context is not self.device._context:
            raise GraphUpdateError(
                f"the other graph belongs to {graph.device.name}, this one to {self.device.name}", "device",
                graph.nodes[0] if graph.nodes else None)
        ordered = serial_order(graph.nodes)
        for node in (*ordered, *self.ordered):
            if type(node.work) is MemoryWork:
                raise GraphUpdateError(
                    f"{node!r}: graphs that allocate or free memory are not updated", "memory",
                    node if node in ordered else None)
        check_same_shape(ordered, self.shape)
        self.replace(tuple([node.work for node in ordered]))

    def set_kernel(self, node: Node, kernel: Kernel, grid: Grid, block: Grid, *args: Any) -> None:
        """Change what a kernel node launches, from the next launch on (HIP, hipGraphExecKernelNodeSetParams).

        The graph, its nodes and running executions do not change.

        Parameters
        ----------
        node : Node
            A kernel node of the graph that this was made from.
        kernel, grid, block, *args
            As for `Queue.launch`.
        """
        cdef Py_ssize_t at = self.place_of(node, "kernel")
        self.put(at, kernel_work(self.device, kernel, grid, block, args, self.latest[at]))

    def set_copy(self, node: Node, dst: Buffer | HostBuffer, src: Buffer | HostBuffer) -> None:
        """Change what a copy node copies, from the next launch on (HIP, hipGraphExecMemcpyNodeSetParams1D).

        Parameters
        ----------
        node : Node
            A copy node of the graph that this was made from.
        dst, src
            As for `Graph.add_copy`, in the same direction as before: host to device, device to host, or within the
            device.
        """
        self._set(node, "copy", lambda: make_copy(self.device, dst, src))

    def set_fill(self, node: Node, buf: Buffer, value: Any) -> None:
        """Change the buffer or value of a fill node, from the next launch on (HIP, hipGraphExecMemsetNodeSetParams).

        Parameters
        ----------
        node : Node
            A fill node of the graph that this was made from.
        buf, value
            As for `Queue.fill`.
        """
        self._set(node, "fill", lambda: make_fill(self.device, buf, value))

    def set_host(self, node: Node, function: Callable[[], object]) -> None:
        """Change the function of a host node, from the next launch on (HIP, hipGraphExecHostNodeSetParams).

        Parameters
        ----------
        node : Node
            A host node of the graph that this was made from.
        function : callable
            As for `Queue.host`.
        """
        self._set(node, "host", lambda: make_host(function))

    def set_graph(self, node: Node, graph: Graph) -> None:
        """Change the graph of a graph node, from the next launch on (HIP, hipGraphExecChildGraphNodeSetParams).

        Parameters
        ----------
        node : Node
            A graph node of the graph that this was made from.
        graph : Graph
            A graph of the same shape, as for `update`.
        """
        self._set(node, "graph", lambda: graph._as_work(self.device))

    def _set(self, node: Node, kind: str, make: Callable[[], Work]) -> None:
        """Replace the work of a node of this kind by the one that `make` returns."""
        self.put(self.place_of(node, kind), make())

    cdef Py_ssize_t place_of(self, object node, str kind) except -1:
        """Return which node this is; it is one of this kind."""
        cdef Py_ssize_t at
        if self.closed:
            self._check_open()
        at = self.place_near_last(<PyObject*> node)
        if at < 0:
            at = self.look_up(node, kind)
        if (<Work> self.latest[at]).kind != kind:  # as that of the node
            raise InvalidArgumentError(f"set_{kind}: {node!r} is no {kind} node")
        self.last_place = at
        return at

    cdef Py_ssize_t place_near_last(self, PyObject* node) noexcept:
        """Return the place of the node that was looked for last, or the next; -1 if it is neither. Looking it up takes
        twice as long.
        """
        cdef PyObject** nodes = (<PyTupleObject*> self.ordered).ob_item
        cdef Py_ssize_t at
        for at in range(self.last_place, min(self.last_place + 2, len(self.ordered))):
            if nodes[at] == node:
                return at
        return -1

    cdef Py_ssize_t look_up(self, object node, str kind) except -1:
        cdef PyObject* found = PyDict_GetItemWithError(self.places, node)
        if found == NULL:
            if PyErr_Occurred() != NULL:
                if not PyErr_ExceptionMatches(TypeError):
                    return -1
                PyErr_Clear()  # what has no hash is no node
            raise InvalidArgumentError(f"set_{kind}: this is no node of the graph that this was made from")
        return <object> found

    cdef int put(self, Py_ssize_t at, Work work) except -1:
        """Replace the work of a node, of the same kind, from the next launch on. On an error nothing has changed."""
        if type(work) is not KernelWork:
            there, here = direction_of(work), self.shape[at][2]
            if there != here:
                raise InvalidArgumentError(f"set_{work.kind}: the node is to {work.kind} {here}, and not {there}")
        if work.measures or self.measures:
            before = None
            while before is not self.current():
                before = self.works
                Accesses().add((*before[:at], work, *before[at + 1:]))
            self.measures = True
        if self.closed:  # meanwhile, by another thread
            self._check_open()
        self.changes = True
        self.have_scratch = self.have_scratch or work.has_scratch
        _before = self.latest[at]
        self.latest[at] = work
        if self.set_at.size() < self.most_in_place():
            self.set_at.push_back(<size_t> at)
        else:
            self.set_often = True
        self.stale = True
        return 0

    @property
    def writes(self) -> tuple[Buffer, ...]:
        """The buffers that a launch may write to."""
        return tuple(dict.fromkeys([buffer for work in self.current() for buffer in work.writes]))

    def close(self) -> None:
        """Give back the graph's resources once its launches are done. Does not block. Closing twice is fine."""
        self.closed = True
        _before = self.works, self.latest, self.replay, self.spares, self.lanes, self.ordered, self.places
        self.works, self.latest, self.stale, self.replay = (), [], False, None
        self.spares, self.lanes, self.ordered, self.places = [], [], (), {}

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{len(self.works)} nodes"
        return f"<forebay.ExecutableGraph, {state}, on {self.device.name}>"
