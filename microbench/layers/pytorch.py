"""PyTorch, on streams of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..raw.cuda import need_nvidia
from . import AbsentError, Apart, Ground, Statement, Subject, Texts

FILL = "an elementwise operation, not a kernel of one's own"


class PyTorch(Apart):
    """`Tensor.fill_`, for want of kernels of one's own, and PyTorch's streams, events, graphs and pool."""

    about = "PyTorch: Tensor.fill_, streams, events, graphs and its pool; streams not held"
    operations = "launch launch_finish record wait query replay copy alloc"
    texts: Texts = Texts(
        alloc_note="its caching allocator",
        elsewhere="with use(h{{0}}): {}",
        signal="h{1}.record(h{0})",
        wait="h{0}.wait_event(h{1})",
        event="h{1}.query()",
        stream="h{0}.query()",
        finish="h{0}.synchronize()",
        copy=("copy(to, source, non_blocking=True)",) * 3,
        alloc="empty(n, dtype=u1, device='cuda')",
    )

    def __init__(self, ground: Ground):
        super().__init__(ground)
        need_nvidia(ground)
        if not torch.cuda.is_available():
            raise AbsentError("is built without CUDA")
        self._settle, self._current = torch.cuda.synchronize, torch.cuda.stream
        self.make_event: Callable[[bool], Any] = lambda for_host: torch.cuda.Event()
        self.memories.extend([torch.zeros(1, device="cuda") for _ in range(2)])
        self.names.update({"a": self.memories[0].fill_, "b": self.memories[1].fill_, "use": torch.cuda.stream})
        self.names.update({"copy": torch.Tensor.copy_, "empty": torch.empty, "u1": torch.uint8})

    def make_stream(self, kind: str = "blocking") -> Any:
        """One of 32 streams, which are handed out in turn."""
        return torch.cuda.Stream()

    def kernels(self, change: str = "", arguments: int = 2) -> list[Any]:
        """`fill_`."""
        if arguments != 2:
            raise AbsentError(FILL)
        others = {"": [], "scalar": ["a(2.0)"], "pointer": ["b(1.0)"]}
        return [Statement(text, {}, FILL) for text in ("a(1.0)", *others[change])]

    def pinned(self, nbytes: int) -> Any:
        """A tensor of the host."""
        return torch.empty(nbytes, dtype=torch.uint8, pin_memory=True)

    def memory(self, nbytes: int) -> Any:
        """A tensor of the device."""
        return torch.empty(nbytes, dtype=torch.uint8, device="cuda")

    def replay(self, length: int, changed: int) -> Subject:
        """`CUDAGraph.replay`."""
        if changed:
            raise AbsentError("its graphs cannot be changed")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.main.it):
            for _ in range(length):
                self.memories[0].fill_(1.0)
        return self.subject(self.say("graph.replay()", note=FILL, graph=graph))
