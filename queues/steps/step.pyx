"""Steps, which `Queue.step` makes."""

from typing import TYPE_CHECKING

cimport cython
from libc.stdint cimport uint32_t

from forebay.core.driver cimport Status
from forebay.core.process cimport is_forked
from forebay.core.state cimport count_step
from forebay.lifetimes.collection cimport collect_device
from forebay.queues.queue cimport Queue
from forebay.queues.steps.collection cimport (
    IN_STEP, LaneOwner, can_collect, count_left, leave_lane, new_lane, open_lane, retire_lane
)

from forebay.core.errors import ArgumentTypeError, CaptureError, ClosedError, StepError

if TYPE_CHECKING:
    from typing_extensions import Never

cdef extern from "Python.h":
    void* PyThreadState_Get() nogil

cdef list open_steps = []  # of all threads; only touched with the GIL


@cython.no_gc_clear
cdef class Step:
    """A stretch of a program that repeats: ``with step:`` around its commands. Made by `Queue.step`.

    The first time, the commands are submitted as they stand, and the launches are recorded. From then on, on a driver
    that can change what it has recorded (Level Zero), each launch is only compared with the record, and leaving the
    block submits a run of launches by one driver call. Arguments and group counts may differ each time. When kernels,
    blocks or the number of launches differ, the launches are submitted as they stand from there on and recorded anew;
    after three such times in a row the step gives up, which `Stats.steps_given_up` tells. On other drivers each launch
    is submitted at once, as without the step.

    Everything is ordered as if it had been submitted at once: what is no launch submits the launches before it first,
    and so does whatever waits for them, in any thread. Only what the host finds out without forebay, such as a flag
    in pinned memory that a kernel sets, may come as late as the end of the block.

    Another queue of the device takes part from its first wait in the block for this queue, or for an event recorded
    there. Only the launches of the thread that opened the step are collected. An exception that leaves the block
    changes nothing of this: what was launched before is submitted.

    Attributes
    ----------
    queue : Queue
    closed : bool
    """

    cdef readonly Queue queue
    cdef readonly bint closed
    cdef bint is_open
    cdef void* thread
    cdef LaneOwner own  # the queue's; None when the driver submits each launch at once
    cdef dict others  # LaneOwner by Queue
    cdef list joined  # LaneOwners that take part this time, beside the queue's
    cdef object __weakref__

    def __init__(self, *args: Never, **kwargs: Never) -> None:
        raise ArgumentTypeError("a Step is made by Queue.step")

    @staticmethod
    def _of(Queue queue) -> Step:
        cdef Step step = Step.__new__(Step)
        step.queue = queue
        step.others = {}
        step.joined = []
        if can_collect(queue.state):
            step.own = new_lane(queue, queue.state)
        return step

    def __dealloc__(self):
        if self.queue is not None and not is_forked():
            self.give_back()

    cdef int give_back(self) except -1:
        for owner in [self.own, *self.others.values()]:
            if owner is not None:
                retire_lane(owner)
        self.own = None
        self.others = {}
        self.joined = []
        return 0

    def __enter__(self) -> Step:
        """Begin the step.

        Raises
        ------
        ClosedError
            When the step or its queue is closed.
        StepError
            When this thread has a step open, or the queue is in one.
        CaptureError
            When the queue is captured.
        """
        cdef void* thread = PyThreadState_Get()
        cdef Status status = 0
        cdef Step other
        if self.closed:
            raise ClosedError(f"this Step of {self.queue!r} is closed")
        self.queue._check_open()
        if self.queue._capture is not None:
            raise CaptureError(f"step on {self.queue!r}: it is captured")
        if self.queue._step is not None:
            raise StepError(f"step on {self.queue!r}: it is in an open step already")
        for other in open_steps:
            if other.thread == thread:
                raise StepError(f"step on {self.queue!r}: a step of {other.queue!r} is open in this thread")
        if self.own is not None:
            status = open_lane(self.own)
            if status == IN_STEP:
                raise StepError(f"step on {self.queue!r}: it is in an open step already")
            if status != 0:
                self.queue._raise(status, "step")
        self.thread = thread
        self.is_open = True
        self.queue._step = self
        open_steps.append(self)
        count_step(1)
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        """End the step, and submit what was collected.

        Does not wait for the device. Blocks only while the device's own queue is full, without the GIL.

        Raises
        ------
        DriverError
            When the driver refused a launch that was collected; those after it were not submitted. Not when an
            exception leaves the block.
        """
        if self.is_open:
            self.leave(kind is not None)

    cdef int leave(self, bint failed) except -1:
        """End it: first whatever cannot fail."""
        cdef LaneOwner owner
        cdef LaneOwner refused = None
        self.is_open = False
        open_steps.remove(self)
        count_step(-1)
        self.queue._step = None
        if self.own is not None:
            leave_lane(self.own, failed)
            if self.own.lane.failed != 0:
                refused = self.own
        for owner in self.joined:
            (<Queue> owner.queue)._step = None
            leave_lane(owner, failed)
            if owner.lane.failed != 0:
                refused = owner
        if self.joined:
            self.joined = []
        with nogil:
            count_left(self.queue.state)
        if refused is not None:
            self.raise_refused(refused, failed)
        return 0

    cdef int raise_refused(self, LaneOwner owner, bint failed) except -1:
        cdef Status status = owner.lane.failed
        cdef uint32_t failed_at = owner.lane.failed_at
        owner.lane.failed = 0
        if failed:
            return 0
        name, parameters = owner.names[owner.lane.failed_kernel]
        what = f"kernel {name!r}, collected by a step"
        if failed_at < len(parameters):
            parameter = parameters[failed_at]
            what += f", argument {failed_at} ({parameter.type_name} {parameter.name})"
        owner.queue._raise(status, what)

    def _join(self, Queue queue, Queue producer, epoch: int | None) -> None:
        """Let a queue take part that waits for one that does, or for an event that was recorded there at this epoch."""
        cdef LaneOwner owner
        if (
            not self.is_open or self.thread != PyThreadState_Get() or self.own is None or queue._step is not None
            or queue.device._context is not self.queue.device._context or queue._capture is not None
            or not can_collect(queue.state)
        ):
            return
        owner = self.own if producer is self.queue else self.others[producer]
        if epoch is not None and epoch <= owner.lane.began:
            return
        owner = self.others.get(queue)
        if owner is None:
            owner = self.others[queue] = new_lane(queue, queue.state)
        if open_lane(owner) == 0:
            queue._step = self
            self.joined.append(owner)

    def close(self) -> None:
        """Give back what the step has recorded, once the device is done with it. Does not block.

        An open step is ended first. Closing twice is fine.
        """
        if self.closed:
            return
        self.closed = True
        try:
            if self.is_open:
                self.leave(False)
        finally:
            self.give_back()
        collect_device(self.queue.state.device)

    def __repr__(self) -> str:
        state = "closed, " if self.closed else "open, " if self.is_open else ""
        return f"<forebay.Step, {state}on {self.queue!r}>"
