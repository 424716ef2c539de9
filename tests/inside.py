"""What tests see of forebay's insides: no other file of theirs names a private attribute of the product."""

import contextlib
from unittest import mock


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


def module_of(program):
    """Return the module that Level Zero's driver built of a program."""
    return next(iter(program._natives.values()))._module


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


def over_host_memory(device, address, nbytes):
    """Return a buffer over memory of the program, which the driver registers; None if it cannot."""
    return device._over_host_memory(address, nbytes)


def prefetch(queue, buffer, to_host):
    """Move shared memory to the host or to the device, in the order of the queue."""
    queue._prefetch(buffer, to_host)


@contextlib.contextmanager
def without_compiler(library):
    """Let OpenCL C on Level Zero be compiled with this library, which is not there, until the block ends."""
    from forebay.queues.drivers.levelzero import ocloc

    with mock.patch.multiple(ocloc, LIBRARY=library, _library=None):
        yield


def in_cpp(kind, *given):
    """Make an expression of this kind, `elementwise` or `reduction`, whose text is C++."""
    return kind._in_cpp(*given)


def source_in_cpp(made, device, decided, typed):
    """Return the source of an expression for these types, and for parameters of these types."""
    from forebay.expressions.sources import Given

    count = len(made.in_params)
    parts = tuple(typed[:count]), tuple(typed[count:])
    return made._source(device, Given(made.name, made.name, made._dialect, "", decided, *parts))


def declared_by(library, source, names):
    """Build OpenCL C by this library's table of functions; return (parameters by kernel, or None; the log)."""
    from forebay.queues.drivers.cuda.compilers import opencl_compiler

    opencl = opencl_compiler._load(library)
    devices = (opencl_compiler.c_void_p * 1)()
    opencl.call("clGetDeviceIDs", opencl._platform, opencl_compiler.c_ulong(0xFFFFFFFF), 1, devices, None)
    context = opencl.call("clCreateContext", None, 1, devices, None, None)
    build = opencl_compiler._Build(opencl, context, opencl_compiler.c_void_p(devices[0]))
    program = build._program(source)
    failed = build._build(program, ["-cl-kernel-arg-info"])
    found = None if failed else build._declared(program, names), build._log(program, source)
    opencl.call("clReleaseProgram", program)
    return found


def compiler_context(library, pci):
    """Return (context, device) of the OpenCL compiler of CUDA for a place of the PCI bus."""
    from forebay.queues.drivers.cuda.compilers import opencl_compiler

    return opencl_compiler._context(library, pci)


def makes_context():
    """Return whether a thread makes such a context."""
    from forebay.queues.drivers.cuda.compilers import opencl_compiler

    return opencl_compiler._making.locked()
