"""Level Zero's calls, on the queues of a forebay device."""

from __future__ import annotations

import ctypes
import struct
from typing import Any

import forebay as fb
from forebay.core.driver import Language
from forebay.queues.levelzero import calls

from .. import kernels
from . import Call, address_of

GROUPS = (ctypes.c_uint32 * 3)(1, 1, 1)
FOREVER = 2**64 - 1
COUNTER_IMMEDIATE, COUNTER_HOST_VISIBLE, SCOPE_DEVICE, SCOPE_HOST = 1, 4, 2, 4  # as forebay makes its events
IN_ORDER = 8
DEVICE_ALLOC_DESC = bytes([0x15]) + bytes(23)  # ze_device_mem_alloc_desc_t with no flags


def called(name: str, *arguments: Any) -> None:
    """Call a function of the loader that has to succeed."""
    if code := getattr(ctypes.CDLL(calls.LIBRARY), name)(*arguments):
        raise fb.DriverError(f"{name}: {calls.result_name(code)}")


class Driver:
    """Makes calls of Level Zero. Streams are forebay's queues."""

    def __init__(self, device: Any):
        self.device = device
        self.driver: Any = device.driver
        self._kernels = self.driver.build(Language.OPENCL_C, kernels.opencl(), ())
        # behind a count, forebay's ZeDevice points to its ZeContext, and that to the driver's context
        context = ctypes.c_uint64.from_address(self.driver.context_handle + 8).value
        self._context = ctypes.c_uint64.from_address(context + 8).value

    def call(self, name: str, *arguments: int, loaded: tuple[int, ...] = (), result: int = 0) -> Call:
        """A call of a function of the loader."""
        function = ctypes.cast(getattr(ctypes.CDLL(calls.LIBRARY), name), ctypes.c_void_p).value or 0
        return Call(function, arguments, loaded, result)

    @staticmethod
    def handle(stream: fb.Queue) -> int:
        """The driver's list."""
        return int(stream.native)

    def settle(self, stream: fb.Queue) -> None:
        """Wait for what forebay does not know of."""
        called("zeCommandListHostSynchronize", ctypes.c_void_p(self.handle(stream)), ctypes.c_uint64(FOREVER))

    # -- launches

    def memory(self, nbytes: int) -> Any:
        """Memory of the kind that forebay uses."""
        return self.driver.allocate(nbytes)

    def kernel(self, arguments: int, memory: Any) -> int:
        """A kernel object of its own with its arguments set. It lives as long as the process."""
        # what is made for plans is a structure that begins with the driver's handle
        made = self._kernels[kernels.name_of(arguments)].create(None)
        kernel = ctypes.c_void_p.from_address(made)
        address = ctypes.c_uint64(memory.address)
        called("zeKernelSetGroupSize", kernel, 1, 1, 1)
        called("zeKernelSetArgumentValue", kernel, 0, ctypes.c_size_t(8), ctypes.byref(address))
        for index, value in enumerate(kernels.values(arguments), 1):
            number = ctypes.c_int32(value)
            called("zeKernelSetArgumentValue", kernel, index, ctypes.c_size_t(4), ctypes.byref(number))
        return kernel.value or 0

    def launch(self, stream: fb.Queue, kernel: int, waits: Any = None) -> list[Call]:
        """A launch of one work-item that waits for the events of an array."""
        count = len(waits) if waits is not None else 0
        first = address_of(waits) if count else 0
        arguments = self.handle(stream), kernel, address_of(GROUPS), 0, count, first
        return [self.call("zeCommandListAppendLaunchKernel", *arguments)]

    def set_number(self, kernel: int, index: int, cell: ctypes.c_int32) -> Call:
        """Set an integer."""
        return self.call("zeKernelSetArgumentValue", kernel, index, 4, address_of(cell))

    def set_pointer(self, kernel: int, memory: Any, cell: ctypes.c_uint64) -> Call:
        """Set the pointer; the cell is for the call's use."""
        cell.value = memory.address
        return self.call("zeKernelSetArgumentValue", kernel, 0, 8, address_of(cell))

    # -- events

    def events(self, count: int, for_host: bool = False) -> Any:
        """An array of so many counter-based events, which live as long as the process."""
        array = (ctypes.c_void_p * count)()
        flags, scope = (COUNTER_IMMEDIATE | COUNTER_HOST_VISIBLE, SCOPE_HOST) if for_host else (1, SCOPE_DEVICE)
        described = struct.pack("I4xP3I4x", 0x2003A, 0, flags, scope, SCOPE_DEVICE)  # ze_event_counter_based_desc_t
        context, device = ctypes.c_void_p(self._context), ctypes.c_void_p(self.driver.native.device)
        for index in range(count):
            slot = ctypes.c_void_p(address_of(array) + 8 * index)
            called("zeEventCounterBasedCreate", context, device, described, slot)
        return array

    def marker(self, stream: fb.Queue, events: Any, index: int = 0) -> list[Call]:
        """Signal an event of an array."""
        return [self.call("zeCommandListAppendSignalEvent", self.handle(stream), events[index])]

    def release(self, events: Any) -> list[Call]:
        """Nothing: counter-based events are used again as they are."""
        return []

    def query(self, events: Any, answer: ctypes.c_int32) -> list[Call]:
        """Ask whether the first event of an array is done."""
        scrap = ctypes.c_uint64.from_buffer(ctypes.create_string_buffer(8))  # "not ready" is no error
        self._scrap = scrap
        return [self.call("zeEventQueryStatus", events[0], result=address_of(scrap))]

    def finish(self, stream: fb.Queue) -> list[Call]:
        """Wait for all that a list was given."""
        return [self.call("zeCommandListHostSynchronize", self.handle(stream), FOREVER)]

    def wait_for(self, events: Any) -> list[Call]:
        """Let the host wait for all events of an array."""
        return [self.call("zeEventHostSynchronize", events[index], FOREVER) for index in range(len(events))]

    # -- memory

    def copy(self, stream: fb.Queue, direction: str, nbytes: int) -> tuple[list[Call], object]:
        """A copy "up", "down" or "across", the host's memory being pinned; and what has to be kept."""
        here, there = self.memory(nbytes), self.memory(nbytes)
        at, host = self.pinned(nbytes)
        to, source = {"up": (here.address, at), "down": (at, here.address), "across": (there.address, here.address)}[
            direction
        ]
        return [self._copy(stream, to, source, nbytes)], (here, there, host)

    def _copy(self, stream: fb.Queue, to: int, source: int, nbytes: int) -> Call:
        return self.call("zeCommandListAppendMemoryCopy", self.handle(stream), to, source, nbytes, 0, 0, 0)

    def pinned(self, nbytes: int) -> tuple[int, object]:
        """The address of pinned memory, and what has to be kept."""
        host = fb.host_empty(nbytes, "u1", device=self.device)
        return host.ctypes.data, host

    def upload(self, stream: fb.Queue, memory: Any, source: int, nbytes: int) -> Call:
        """A copy from an address of pinned memory."""
        return self._copy(stream, memory.address, source, nbytes)

    def alloc(self, stream: fb.Queue, nbytes: int) -> tuple[list[Call], object, str]:
        """Memory allocated and freed."""
        address = ctypes.c_uint64()
        described = ctypes.create_string_buffer(DEVICE_ALLOC_DESC, 24)
        at, device = address_of(address), self.driver.native.device
        calls = [
            self.call("zeMemAllocDevice", self._context, address_of(described), nbytes, 64, device, at),
            self.call("zeMemFree", self._context, at, loaded=(1,)),
        ]
        return calls, (address, described), "the driver's own allocation"

    # -- recordings

    def recording(self, stream: fb.Queue, length: int) -> tuple[list[Call], object] | None:
        """Appending a closed command list of so many launches."""
        memory, closed = self.memory(4096), ctypes.c_void_p()
        kernel = ctypes.c_void_p(self.kernel(2, memory))
        context, device = ctypes.c_void_p(self._context), ctypes.c_void_p(self.driver.native.device)
        described = struct.pack("I4xP2I", 0x0F, 0, 0, IN_ORDER)  # ze_command_list_desc_t
        called("zeCommandListCreate", context, device, described, ctypes.byref(closed))
        for _ in range(length):
            called("zeCommandListAppendLaunchKernel", closed, kernel, GROUPS, None, 0, None)
        called("zeCommandListClose", closed)
        call = self.call(
            "zeCommandListImmediateAppendCommandListsExp", self.handle(stream), 1, address_of(closed), 0, 0, 0
        )
        return [call], (memory, closed)
