"""What tests see of forebay's insides: no other file of theirs names a private attribute of the product."""

import contextlib
import functools
import os
from unittest import mock

import numpy as np

import forebay
import forebay as fb
from forebay import hip, host_empty
from forebay.queues import device as devices_module
from forebay.queues import queue as queues_module
from forebay.queues import selection
from forebay.queues.graphs import graph as graphs
from forebay.queues.kernels import build
from forebay.queues.queue import note_unseen_wait
from forebay.races import reports
from forebay.selftest import work


def clock_of(queue):
    """Return the queue's vector clock: the epoch that it comes after, by queue identifier."""
    return queues_module.clock_of(queue)


def context_of(device):
    """Return what the Devices of one driver context share."""
    return device._context


@contextlib.contextmanager
def watching_new_queues(watcher):
    """Call ``watcher(queue)`` for each queue that is made, before its maker has it."""
    queues_module.watchers.append(watcher)
    try:
        yield
    finally:
        queues_module.watchers.remove(watcher)


def step_of(queue):
    """Return the open step that the queue has joined, or None."""
    return queue._step


def capture_of(queue):
    """Return the capture that records the queue's commands, or None."""
    return queue._capture


def natives_of(program):
    """Return the driver's built program."""
    return program._built


def module_of(program):
    """Return the module that Level Zero's driver built of a program."""
    return next(iter(program._built.values()))._module


def launch_memory_of(device):
    """Return the pool that scratch and results of launches come from."""
    return device._launch_memory


def lend(queue, shape, dtype):
    """Return memory of the pool for launches, as a launch on the queue would have it."""
    return queue.device._lend(queue, (shape,), dtype)


def bounds_of(queue, buffer):
    """Return the least and greatest number and the sum, as sizes of scratch are measured."""
    (found,) = buffer.device._reductions.run(queue, [buffer])
    return found


def forget_races(device):
    """Forget the races that the checker has reported on the device."""
    reports.forget(device.null_queue.id)


class ClosingDevice(forebay.Device):
    """A Device that calls ``meanwhile`` when `close` has waited, and is not closed yet."""

    meanwhile = None

    def _give_back_memory(self):  # the last step of the wait
        super()._give_back_memory()
        if self.meanwhile is not None and not self.closed:
            self.meanwhile()


@contextlib.contextmanager
def without_shared_contexts():
    """Let Devices of the block join no driver context from before it. Gives the list of those that may be joined."""
    before = list(devices_module._shared)
    devices_module._shared.clear()
    try:
        yield devices_module._shared
    finally:
        devices_module._shared[:] = before


def come_after_unseen(queue):
    """Let the race checker take what follows on the queue for ordered by a wait for a value in memory."""
    note_unseen_wait(queue)


class _Counted:
    """In place of the class of executable graphs: counts those that are made."""

    def __init__(self):
        self.made = []

    def _of(self, *arguments):
        self.made.append(forebay.ExecutableGraph._of(*arguments))
        return self.made[-1]


@contextlib.contextmanager
def executables_made():
    """Give the list of executable graphs that are made in the block."""
    counted = _Counted()
    with mock.patch.object(graphs, "ExecutableGraph", counted):
        yield counted.made


def over_host_memory(device, address, nbytes):
    """Return a buffer over memory of the program, which the driver registers; None if it cannot."""
    return device._over_host_memory(address, nbytes)


def compiler_is_loaded_again():
    """Return a patch: the library that compiles OpenCL C on Level Zero is not loaded yet."""
    from forebay.queues.levelzero import programs

    return mock.patch.object(programs, "_load", functools.cache(programs._load.__wrapped__))


@contextlib.contextmanager
def without_compiler(library):
    """Let OpenCL C on Level Zero be compiled with this library, which is not there, until the block ends."""
    from forebay.queues.levelzero import programs

    with mock.patch.object(programs, "LIBRARY", library), compiler_is_loaded_again():
        yield


def source_in_cpp(made, device, decided, typed):
    """Return the source of an expression for these types, and for parameters of these types."""
    from forebay.expressions.sources import Given

    count = len(made.in_params)
    parts = tuple(typed[:count]), tuple(typed[count:])
    return made._source(device, Given(made.name, made._dialect, "", decided, *parts))


def makes_context():
    """Return whether a thread makes such a context."""
    from forebay.queues.cuda import programs

    return programs._making.locked()


def control_of(bench):
    """Return what selftest's control run reports: how many races on purpose were seen."""

    return work._control(bench)


def buffer_over(device, memory, shape, dtype):
    """Return a Buffer over memory of the device's driver."""
    return device._over(memory, shape, np.dtype(dtype))


def open_hip_devices():
    """Return the open Devices of HIP, by number."""
    return hip.devices._devices


def forget_hip_handles(number):
    """Forget the streams, events, memory and other handles of HIP's device of this number, which stays open."""
    for forget in hip.devices._on_reset:
        forget(number)


@contextlib.contextmanager
def hip_without_devices():
    """Within the context, HIP finds no device."""
    nothing = mock.patch.dict(os.environ, {selection.VARIABLE: "custom:99"})
    with mock.patch.multiple(hip.devices, _infos=None, _devices={}), nothing:
        yield


@contextlib.contextmanager
def hip_without_mapped_memory(device):
    """Within the context, kernels of the device cannot use the memory of `hipHostMalloc`."""
    copies_only = mock.patch.object(hip.memory, "_host_memory", lambda device, nbytes: host_empty(nbytes, "u1", device))
    with mock.patch.object(device.driver, "has_shared", False) if device.info.backend == "opencl" else copies_only:
        yield


def device_of(driver):
    """Return a Device of an open driver that a test has changed."""
    return fb.Device._of(driver)


def end_build_processes():
    """End the processes for building, as the end of this one does."""
    build._end()


@contextlib.contextmanager
def around_builds(step, before=lambda: None, after=lambda: None):
    """Call functions around a step of each build in another process: "accepts", of the request, or "answer"."""
    whole = getattr(build.ChildProcess, step)

    def call(self, *arguments):
        before()
        result = whole(self, *arguments)
        after()
        return result

    with mock.patch.object(build.ChildProcess, step, call):
        yield


def cache_key(builder):
    """Return the key of what a builder of programs builds, in the cache on disk."""
    return builder._key()


@contextlib.contextmanager
def refusing_to_tell(option):
    """Have OpenCL's compiler refuse kernels without parameters where it is given this option."""
    import pyopencl as cl

    from forebay.queues.kernels.opencl_c import Compiler, names_in

    build = Compiler.build_program

    def refuse(self, program, *options):
        if option in options:
            source = program.get_info(cl.program_info.SOURCE)
            built = build(self, self._program(source))
            if any(cl.Kernel(built, name).num_args == 0 for name in names_in(built)):
                program = self._program(f"#error a kernel without parameters\n{source}")
        return build(self, program, *options)

    with mock.patch.object(Compiler, "build_program", refuse):
        yield


def binary_of(program, name):
    """Return the binary that Level Zero's compiler has made of a kernel's program."""
    return program._built[name]._module.native_binary()


def device_that_calls_before_it_waits_for_openings(function):
    """Return a class of Devices that call a function before they wait for threads that open gates."""

    class Watched(fb.Device):
        def _wait_for_openings(self):
            function()
            super()._wait_for_openings()

    return Watched


def elementwise_that_calls_before_it_compiles(function):
    """Return a class as `fb.elementwise` that calls a function with a Device before it compiles for that."""

    class Calling(fb.elementwise):
        def _take(self, device, program):
            function(device)
            return super()._take(device, program)

    return Calling


def in_order_of_preference(devices):
    """Return devices of OpenCL in the order in which they are listed."""
    from forebay.queues.opencl import discovery

    return sorted(devices, key=discovery._preference)


def build_copies_by_kernel(device):
    """Build the kernels by which a device copies with strides, as the first such copy does."""
    return device._moves


def fill_by_kernel(device):
    """Have a device fill by a kernel, as one whose memory is addresses alone."""
    if hasattr(device.driver, "_fill_by_kernel"):
        device.driver._fill_by_kernel()


def without_clang_in_a_wheel():
    """Hide the clang that a package brings; a context manager."""
    return mock.patch("forebay.compiler.clang._in_wheel", return_value="")
