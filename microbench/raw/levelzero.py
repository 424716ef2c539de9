"""Level Zero: the loop in C, and dpctl's `SyclQueue.submit` on the same driver when dpctl is installed."""

from __future__ import annotations

import ctypes
import timeit
from pathlib import Path
from typing import Any

import forebay as ps
from forebay.queues.levelzero import descriptors, loader
from microbench.interleaved import Sample
from microbench.raw import checked, loops


def called(name: str, *arguments: Any) -> None:
    """Call a function of the loader that has to succeed."""
    loader.checked(name, getattr(loader.load().library, name)(*arguments))


SLOTS = 512  # more than a sample has launches


class Raw:
    """One program of a device, for those who launch without forebay."""

    def __init__(self, device: ps.Device, source: str):
        self.driver = device.driver
        self._source = source
        self._kernels = self.driver.build(source, ())

    def _kernel(self) -> tuple[ctypes.c_void_p, object]:
        """A kernel of its own with its arguments set, and its memory. Both live as long as the process."""
        # what is made for plans is a structure that begins with the driver's handle
        kernel = ctypes.c_void_p.from_address(self._kernels["fill"].create(None))
        memory = self.driver.allocate(4096)
        address, number = ctypes.c_uint64(memory.address), ctypes.c_int32(100)
        called("zeKernelSetGroupSize", kernel, 1, 1, 1)
        called("zeKernelSetArgumentValue", kernel, 0, ctypes.c_size_t(8), ctypes.byref(address))
        called("zeKernelSetArgumentValue", kernel, 1, ctypes.c_size_t(4), ctypes.byref(number))
        return kernel, memory

    def loop(self, queue: ps.Queue) -> RawLoop:
        """The C loop on the queue's own command list."""
        return RawLoop(queue.native, *self._kernel())

    def others(self, queue: ps.Queue) -> dict[str, Sample]:
        """Other ways to launch the same from Python."""
        try:
            import dpctl
            import dpctl.memory
            import dpctl.program
        except ImportError:
            return {}
        from forebay.queues.levelzero import ocloc

        code = ocloc.compile_source(self._source, self.driver.info)

        def submits(native: Any) -> Sample:
            kernel = dpctl.program.create_program_from_spirv(native, code).get_sycl_kernel("fill")
            arguments = [dpctl.memory.MemoryUSMDevice(4096, queue=native), ctypes.c_int(100)]
            names = {"native": native, "kernel": kernel, "arguments": arguments}
            submit = timeit.Timer("native.submit(kernel, arguments, [1], [1])", globals=names).timeit

            def settled(n: int) -> float:
                taken = submit(n)
                native.wait()
                return taken

            return settled

        return {
            "dpctl SyclQueue.submit, in order": submits(dpctl.SyclQueue("level_zero", property="in_order")),
            "dpctl SyclQueue.submit, as by default": submits(dpctl.SyclQueue("level_zero")),
        }

    def recorded(self, queue: ps.Queue, length: int) -> Sample:
        """Appending a closed command list of so many launches, from C."""
        native = self.driver.native
        context, closed, (kernel, memory) = ctypes.c_void_p(), ctypes.c_void_p(), self._kernel()
        called("zeContextCreate", ctypes.c_void_p(native.driver), descriptors.context_desc(), ctypes.byref(context))
        in_order = descriptors.list_desc(0, flags=8)
        device = ctypes.c_void_p(native.device)
        called("zeCommandListCreate", context, device, in_order, ctypes.byref(closed))
        groups = (ctypes.c_uint32 * 3)(1, 1, 1)
        for _ in range(length):
            called("zeCommandListAppendLaunchKernel", closed, kernel, groups, None, 0, None)
        called("zeCommandListClose", closed)
        loop = loops(Path(__file__).with_suffix(".c")).replays
        append = ctypes.cast(loader.load().library.zeCommandListImmediateAppendCommandListsExp, ctypes.c_void_p)

        def sample(n: int, _kept: object = (memory, kernel)) -> float:
            return checked(loop(append, ctypes.c_void_p(queue.native), closed, ctypes.c_size_t(n)))

        return sample

    def uploading_loop(self, queue: ps.Queue, nbytes: int) -> Sample:
        """The C loop that copies so many bytes to the device before each launch."""
        kernel, memory = self._kernel()
        event = ctypes.c_void_p()
        described = descriptors.event_desc(flags=1, signal=4, wait=2)
        native = self.driver.native
        context = ctypes.c_void_p()
        called("zeContextCreate", ctypes.c_void_p(native.driver), descriptors.context_desc(), ctypes.byref(context))
        called("zeEventCounterBasedCreate", context, ctypes.c_void_p(native.device), described,
               ctypes.byref(event))  # fmt: skip
        ring = self.driver.stage(nbytes * SLOTS)
        loop = loops(Path(__file__).with_suffix(".c")).uploading_launches
        ze = loader.load().library
        functions = [ze.zeCommandListAppendLaunchKernel, ze.zeCommandListAppendMemoryCopy]
        arguments = [
            *(ctypes.cast(each, ctypes.c_void_p) for each in functions),
            event,
            ctypes.c_void_p(queue.native),
            kernel,
            ctypes.c_void_p(memory.address),
            ctypes.c_void_p(ring.ctypes.data),
            ctypes.c_size_t(nbytes),
            ctypes.c_size_t(SLOTS),
        ]

        def sample(n: int, _kept: object = (memory, ring)) -> float:
            return checked(loop(*arguments, ctypes.c_size_t(n)))

        return sample

    @staticmethod
    def settle(queue: ps.Queue) -> None:
        """Wait for launches that forebay does not know of."""
        called("zeCommandListHostSynchronize", ctypes.c_void_p(queue.native), ctypes.c_uint64(2**64 - 1))


class RawLoop:
    """Launches of one kernel on one queue, from C."""

    def __init__(self, queue: int, kernel: ctypes.c_void_p, *kept: object):
        self._library = loops(Path(__file__).with_suffix(".c"))
        self._kept = kept  # whose addresses are used
        self._queue = ctypes.c_void_p(queue)
        self._kernel = kernel
        ze = loader.load().library
        self._append = ctypes.cast(ze.zeCommandListAppendLaunchKernel, ctypes.c_void_p)
        self._set = ctypes.cast(ze.zeKernelSetArgumentValue, ctypes.c_void_p)

    def __call__(self, n: int) -> float:
        """Seconds that n launches take."""
        return checked(self._library.launches(self._append, self._queue, self._kernel, ctypes.c_size_t(n)))

    def changing(self, n: int, index: int) -> float:
        """The same with one int argument set each time."""
        return checked(
            self._library.changing_launches(
                self._append, self._set, self._queue, self._kernel, ctypes.c_uint32(index), ctypes.c_size_t(n)
            )
        )
