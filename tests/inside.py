"""What tests see of forebay's insides: no other file of theirs names a private attribute of the product."""

import contextlib
from unittest import mock

import forebay as fb
from forebay.queues.kernels import build_process


def clock_of(queue):
    """Return the queue's vector clock: the epoch that it comes after, by queue identifier."""
    return queue._clock


def context_of(device):
    """Return what the Devices of one driver context share."""
    return device._context


def step_of(queue):
    """Return the open step that the queue has joined, or None."""
    return queue._step


def capture_of(queue):
    """Return the capture that records the queue's commands, or None."""
    return queue._capture


def natives_of(program):
    """Return the driver's built program."""
    return program._natives


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
    device._forget_races()


def device_of(driver):
    """Return a Device of an open driver that a test has changed."""
    return fb.Device._of(driver)


def end_build_processes():
    """End the processes for building, as the end of this one does."""
    build_process._end()


@contextlib.contextmanager
def around_builds(step, before=lambda: None, after=lambda: None):
    """Call functions around a step of each build in another process: "accepts", of the request, or "answer"."""
    whole = getattr(build_process._Process, step)

    def call(self, *arguments):
        before()
        result = whole(self, *arguments)
        after()
        return result

    with mock.patch.object(build_process._Process, step, call):
        yield


def cache_key(builder):
    """Return the key of what a builder of programs builds, in the cache on disk."""
    return builder._key()


@contextlib.contextmanager
def refusing_to_tell(option):
    """Have OpenCL's compiler refuse kernels without parameters where it is given this option."""
    import pyopencl as cl

    from forebay.queues.drivers.opencl import programs

    build = programs.Builder._build

    def refuse(self, program, *options):
        if option in options:
            source = program.get_info(cl.program_info.SOURCE)
            built = build(self, self._program(source))
            if any(cl.Kernel(built, name).num_args == 0 for name in programs.names_in(built)):
                program = self._program(f"#error a kernel without parameters\n{source}")
        return build(self, program, *options)

    with mock.patch.object(programs.Builder, "_build", refuse):
        yield


def binary_of(program, name):
    """Return the binary that Level Zero's compiler has made of a kernel's program."""
    return program._natives[name]._module.native_binary()


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
