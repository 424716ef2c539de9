"""cuda.core, on streams of its own."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from cuda import core

if not hasattr(core, "Device"):
    from cuda.core import experimental as core  # where it was before its first release

from .. import kernels
from ..raw.cuda import need_nvidia
from . import Apart, Ground, Run, Texts


class CudaCore(Apart):
    """`cuda.core.launch` and its streams and events."""

    about = "cuda.core: launch, streams, events and buffers; streams not held"
    operations = "launch launch_finish record wait query alloc threads"
    texts: Texts = Texts(
        launch="launch(h{0}, config, k, *given)",
        signal="h{0}.record(h{1})",
        wait="h{0}.wait(h{1})",
        event="h{1}.is_done",
        finish="h{0}.sync()",
        alloc="allocate(n, stream=h{0}).close(h{0})",
    )
    number = ctypes.c_int

    def __init__(self, ground: Ground):
        super().__init__(ground)
        need_nvidia(ground)
        device: Any = core.Device()
        device.set_current()
        options = core.ProgramOptions(std="c++17", arch=f"sm_{device.arch}")
        code = core.Program(kernels.cuda(), code_type="c++", options=options).compile("cubin")
        stream = device.create_stream()
        self._settle = device.sync
        self.make_event: Callable[[bool], Any] = lambda for_host: stream.record()  # such events are recorded again
        self.function: Callable[[int], Any] = lambda arguments: code.get_kernel(kernels.name_of(arguments))
        self.memories.extend([device.allocate(4096, stream=stream) for _ in range(2)])
        config = core.LaunchConfig(grid=1, block=1)
        self._device = device
        self.names.update({"launch": core.launch, "config": config, "allocate": device.allocate})

    def make_stream(self, kind: str = "blocking") -> Any:
        """A `cuda.core.Stream`."""
        return self._device.create_stream()

    def in_thread(self, launch: Run) -> Run:
        """With the device, which each thread has to make its own."""
        return lambda n: (core.Device().set_current(), launch(n))[1]
