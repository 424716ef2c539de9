"""Graphs made ready to run: in one order, with kernels and memory of their own, and recorded where the driver can.

The order is one in which every node comes after all it depends on, and the commands run in it one after the other: a
queue is in order. Host functions divide it into parts, of which each is one call of the driver if that can record them.
"""

import numpy as np
cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint32_t, uint64_t, uintptr_t
from libc.string cimport memcpy
from libcpp.atomic cimport memory_order_relaxed
from libcpp.vector cimport vector

from penstock.events.anchors cimport anchor_on_device
from penstock.queues.buffer cimport Buffer
from penstock.queues.copies cimport host_memory_of
from penstock.queues.driver cimport (
    COPY_COMMAND, FILL_COMMAND, LAUNCH_COMMAND, Command, Memory, Status, Waits
)
from penstock.queues.host_functions cimport Call, submit_call
from penstock.queues.plan cimport PackedPointer, Plan, delete_plan, new_plan, set_changed_arguments
from penstock.queues.state cimport QueueState, release_device_state
from penstock.queues.work cimport CopyWork, FillWork, HostWork, KernelWork, ListWork, Work
from penstock.sync.ordering cimport (
    Order, abort_command, apply_command, begin_command, conclude, count_command, end_order, waits_of
)

from penstock.queues.buffer import _ids
from penstock.queues.host_memory import host_empty


# -- making it


class CopyOnHost:
    """What a driver that does not take pageable memory leaves to the host thread."""

    def __init__(self, to, source):
        self.to = np.frombuffer(to, np.uint8) if not isinstance(to, np.ndarray) else to.reshape(-1).view(np.uint8)
        self.source = np.frombuffer(source, np.uint8) if not isinstance(source, np.ndarray) else (
            source.reshape(-1).view(np.uint8))

    def __call__(self):
        self.to[:] = self.source


@cython.no_gc_clear
cdef class Prepared:
    """What is given back when the device is done with it."""

    def __dealloc__(self):
        cdef size_t i
        for i in range(self.steps.size()):
            if self.steps[i].recording != NULL:
                self.driver.release_recording(self.steps[i].recording)
        for i in range(self.plans.size()):
            delete_plan(self.plans[i])
        if self.state != NULL:
            release_device_state(self.state)

    cdef int add(self, Command command) except -1:
        if self.steps.empty() or self.steps.back().kind != COMMANDS:
            self.steps.push_back(Step(COMMANDS, self.commands.size(), 0, NULL))
        self.commands.push_back(command)
        self.steps[self.steps.size() - 1].count += 1
        return 0

    cdef int add_host(self, object function) except -1:
        self.steps.push_back(Step(HOST_CALL, len(self.functions), 1, NULL))
        self.functions.append(function)
        return 0

    cdef int add_copy(self, const Memory* to, const Memory* source, size_t nbytes) except -1:
        cdef Command command
        command.kind = COPY_COMMAND
        command.to = to[0]
        command.source = source[0]
        command.nbytes = nbytes
        return self.add(command)


cdef int add_kernel(Prepared prepared, object device, KernelWork work) except -1:
    """Launches of one kernel with the very same arguments share a kernel object, which nobody else has. Bytes by value
    are brought to a buffer of the launch's own before it, each time: none is skipped.
    """
    cdef vector[char] packed = work.packed
    cdef uint64_t bytes_set = 0, bytes_skipped = 0
    cdef uint32_t failed_at = 0
    cdef uintptr_t handle
    cdef PackedPointer* slot
    cdef const unsigned char[::1] given
    cdef Memory source
    cdef Command command
    cdef Plan* plan
    cdef Status status
    if work.follows:
        work.kernel._keep_up_with_memory()
    for index, value in work.by_value:
        given = value
        native = device._allocate(given.shape[0], "device")
        staged = device.driver.stage(given.shape[0])
        prepared.kept += [native, staged]
        slot = <PackedPointer*> (packed.data() + work.kernel.layout[<size_t> index].offset)
        slot.allocation = next(_ids)
        slot.memory.handle = <void*> <uintptr_t> native.handle
        slot.memory.address = native.address
        slot.memory.offset = 0
        slot.memory.host = False
        source = host_memory_of(staged)
        memcpy(<void*> <uintptr_t> source.address, &given[0], given.shape[0])
        prepared.add_copy(&slot.memory, &source, given.shape[0])
    key = work.kernel.id, PyBytes_FromStringAndSize(packed.data(), packed.size())
    if key in prepared.by_arguments:
        plan = prepared.plans[<size_t> prepared.by_arguments[key]]
    else:
        handle = work.kernel._create()
        plan = new_plan(
            prepared.driver, <void*> handle, work.kernel.id, work.kernel.layout, work.kernel.count,
            work.kernel.packed_size)
        prepared.by_arguments[key] = prepared.plans.size()
        prepared.plans.push_back(plan)
        status = set_changed_arguments(plan, packed.data(), &bytes_set, &bytes_skipped, &failed_at)
        if status != 0:
            parameter = work.kernel.parameters[failed_at]
            device._raise(
                status, f"kernel {work.kernel.name!r}, argument {failed_at} ({parameter.type_name} {parameter.name})")
    command.kind = LAUNCH_COMMAND
    command.kernel = plan.kernel
    command.geometry = work.geometry
    return prepared.add(command)


cdef int add_copy(Prepared prepared, object device, CopyWork work) except -1:
    """Pageable memory is read and written when the graph runs: by the driver, or else by the host thread."""
    cdef Memory memory
    if work.nbytes == 0:
        return 0
    if not work.pageable or (device.driver.takes_pageable if work.to.host else device.driver.reads_pageable_late):
        return prepared.add_copy(&work.to, &work.source, work.nbytes)
    staged = host_empty(work.nbytes, np.uint8, device)
    prepared.kept.append(staged)
    memory = host_memory_of(staged)
    if work.to.host:
        prepared.add_copy(&memory, &work.source, work.nbytes)
        return prepared.add_host(CopyOnHost(work.host, staged))
    prepared.add_host(CopyOnHost(staged, work.host))
    return prepared.add_copy(&work.to, &memory, work.nbytes)


cdef int add_fill(Prepared prepared, FillWork work) except -1:
    cdef Command command
    cdef const unsigned char[::1] pattern = work.pattern
    if (<Buffer> work.buffer).nbytes == 0:
        return 0
    command.kind = FILL_COMMAND
    command.to = work.to
    command.nbytes = (<Buffer> work.buffer).nbytes
    command.pattern_size = pattern.shape[0]
    command.pattern = &pattern[0]  # the work's
    return prepared.add(command)


cdef int add_work(Prepared prepared, object device, Work work) except -1:
    if type(work) is ListWork:
        for each in (<ListWork> work).works:
            add_work(prepared, device, each)
    elif work.kind == "kernel":
        add_kernel(prepared, device, work)
    elif work.kind == "copy":
        add_copy(prepared, device, work)
    elif work.kind == "fill":
        add_fill(prepared, work)
    elif work.kind == "host":
        prepared.add_host((<HostWork> work).function)
    return 0


cdef int record_steps(Prepared prepared, object device, QueueState* queue) except -1:
    cdef Status status
    cdef Step* step
    cdef size_t i
    for i in range(prepared.steps.size()):
        step = &prepared.steps[i]
        if step.kind != COMMANDS or step.count == 1:
            continue
        with nogil:
            status = prepared.driver.record(
                queue.handle, prepared.commands.data() + step.first, step.count, &step.recording)
        if status != 0:
            device._raise(status, "recording a graph")
        if step.recording != NULL:
            step.kind = RECORDED
    return 0


cdef Replay new_replay(object device, QueueState* queue, list works):
    """Of the works, in this order, for all queues of the device; `queue` is one of them."""
    cdef Replay replay = Replay.__new__(Replay)
    cdef Prepared prepared = Prepared.__new__(Prepared)
    queue.device.references.fetch_add(1, memory_order_relaxed)
    prepared.state = queue.device
    prepared.driver = queue.driver
    prepared.functions = []
    prepared.by_arguments = {}
    prepared.kept = works[:]
    for work in works:
        add_work(prepared, device, work)
    if prepared.driver.record != NULL:
        record_steps(prepared, device, queue)
    replay.prepared = prepared
    replay.steps = &prepared.steps
    replay.commands = &prepared.commands
    return replay


@cython.no_gc_clear
cdef class Replay:
    """Keeps it until what was submitted of it is done."""

    def __dealloc__(self):
        if self.prepared is not None:
            anchor_on_device(self.prepared.state, self.prepared)


# -- running it


cdef inline Status submit_one(QueueState* queue, const Command* command, Waits waits) noexcept nogil:
    if command.kind == LAUNCH_COMMAND:
        return queue.driver.launch(queue.handle, command.kernel, &command.geometry, waits)
    if command.kind == COPY_COMMAND:
        return queue.driver.copy(queue.handle, &command.to, &command.source, command.nbytes, waits, NULL)
    return queue.driver.fill(
        queue.handle, &command.to, command.pattern, command.pattern_size, command.nbytes, waits, NULL)


cdef inline void count_one(QueueState* queue, Order* order, bint* began, Waits* waits) noexcept nogil:
    """The driver took one more; the first has carried the waits."""
    if began[0]:
        count_command(queue)
    else:
        apply_command(queue, order)
        began[0] = True
        waits.count = 0


cdef Status submit_replay(
    QueueState* queue, vector[Step]* steps, vector[Command]* commands, vector[Call*]& calls, size_t* called, bint* began
) noexcept nogil:
    """All of it under one lock: nothing else comes in between. `called` counts the host functions that were submitted,
    and `began` is whether anything was.

    The epoch counts calls of the driver, because it also tells how full the queue can be. When one of them fails, what
    was submitted before it runs.
    """
    cdef Order order
    cdef Waits waits
    cdef Step* step
    cdef size_t i, j
    cdef Status status = begin_command(queue, &order)
    called[0] = 0
    began[0] = False
    if status != 0:
        return status
    waits = waits_of(&order)
    for i in range(steps.size()):
        step = &steps[0][i]
        if step.kind == HOST_CALL:
            status = submit_call(queue, calls[called[0]], waits)
            if status == 0:
                called[0] += 1
                count_one(queue, &order, began, &waits)
        elif step.kind == RECORDED:
            status = queue.driver.replay(queue.handle, step.recording, waits)
            if status == 0:
                count_one(queue, &order, began, &waits)
        else:
            for j in range(step.first, step.first + step.count):
                status = submit_one(queue, &commands[0][j], waits)
                if status != 0:
                    break
                count_one(queue, &order, began, &waits)
        if status != 0:
            break
    if status == 0:
        queue.counts.graph_launches += 1
    if began[0]:
        queue.lock.unlock()
        end_order(&order)
    elif status != 0 or not order.markers.empty():
        abort_command(queue, &order)
    else:
        conclude(queue, &order)
    return status
