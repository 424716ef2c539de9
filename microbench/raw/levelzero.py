"""Level Zero's calls, on the queues of a forebay device."""

from __future__ import annotations

import ctypes
import struct
from typing import Any

from forebay.core.driver import Language
from forebay.queues.levelzero import operations

from .. import kernels
from ..layers import Ground, Handle, Texts
from . import Call, CLoop

GROUPS = (ctypes.c_uint32 * 3)(1, 1, 1)
FOREVER = 2**64 - 1
COUNTER_IMMEDIATE, COUNTER_HOST_VISIBLE, SCOPE_DEVICE, SCOPE_HOST = 1, 4, 2, 4  # as forebay makes its events
IN_ORDER = 8
DEVICE_ALLOC_DESC = bytes([0x15]) + bytes(23)  # ze_device_mem_alloc_desc_t with no flags


class LevelZeroLoop(CLoop):
    """The loop over Level Zero's calls. Its kernels and events live as long as the process."""

    texts: Texts = Texts(
        launch="zeCommandListAppendLaunchKernel queue kernel groups 0 size waits",
        signal="zeCommandListAppendSignalEvent queue event",
        event="answer = zeEventQueryStatus event",  # "not ready" is no error
        finish="zeCommandListHostSynchronize queue forever",
        copy=("zeCommandListAppendMemoryCopy queue to source n 0 0 0",) * 3,
        alloc="zeMemAllocDevice context described n 64 device address; zeMemFree context *address",
        alloc_note="the driver's own allocation",
    )
    set_number = "zeKernelSetArgumentValue kernel 1 4 cell"
    set_pointer = "zeKernelSetArgumentValue kernel 0 8 cell"

    def __init__(self, ground: Ground):
        super().__init__(ground)
        driver = ground.driver
        self.library: Any = ctypes.CDLL(operations.LIBRARY)
        self._kernels = driver.build(Language.OPENCL_C, kernels.opencl(), ())
        self.names.update({"context": driver.handle.context, "device": driver.native.device})
        described = ctypes.create_string_buffer(DEVICE_ALLOC_DESC, 24)
        self.names.update({"groups": GROUPS, "forever": FOREVER, "described": described})

    def queue_of(self, stream: Any) -> int:
        """The handle of a list."""
        return int(stream.native)

    def make_event(self, for_host: bool) -> int | None:
        """A counter-based event."""
        flags, scope = (COUNTER_IMMEDIATE | COUNTER_HOST_VISIBLE, SCOPE_HOST) if for_host else (1, SCOPE_DEVICE)
        described = struct.pack("I4xP3I4x", 0x2003A, 0, flags, scope, SCOPE_DEVICE)  # ze_event_counter_based_desc_t
        text = "zeEventCounterBasedCreate context device described made"
        return self.made(text, described=ctypes.create_string_buffer(described))

    def wait_for_all(self, events: Any) -> list[Any]:
        """A wait for each."""
        return [step for event in events for step in self.say("zeEventHostSynchronize event forever", event)]

    def make_kernel(self, arguments: int, memory: Any) -> int:
        """A kernel of the driver's."""
        # what is made for plans is a structure that begins with the driver's handle
        made = self._kernels[kernels.name_of(arguments)].create(None)
        kernel = ctypes.c_void_p.from_address(made).value or 0
        text = f"zeKernelSetGroupSize kernel 1 1 1; {self.set_pointer}"
        self.do(text, kernel=kernel, cell=ctypes.c_uint64(memory.address))
        for index, value in enumerate(kernels.values(arguments), 1):
            self.do(f"zeKernelSetArgumentValue kernel {index} 4 cell", kernel=kernel, cell=ctypes.c_int32(value))
        return kernel

    def recording(self, stream: Handle, length: int) -> list[Call]:
        """A closed command list of the given number of launches, appended."""
        described = ctypes.create_string_buffer(struct.pack("I4xP2I", 0x0F, 0, 0, IN_ORDER))  # ze_command_list_desc_t
        closed = self.made("zeCommandListCreate context device described made", described=described)
        kernel, launch = self.kernel(), "zeCommandListAppendLaunchKernel queue kernel groups 0 0 0;" * length
        self.do(f"{launch} zeCommandListClose queue", queue=closed, kernel=kernel.made)
        text = "zeCommandListImmediateAppendCommandListsExp queue 1 closed 0 0 0"
        return self.say(text, stream, closed=ctypes.c_uint64(closed), kept=kernel)
