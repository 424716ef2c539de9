from collections.abc import Callable, Iterator
from typing import Any

from forebay.queues.kernels.kernel import Kernel
from forebay.queues.queue import Queue

class Address:
    address: int
    buffer: Any

class Handle(Address):
    queue: Any

class dim3:
    x: int
    y: int
    z: int
    def __init__(self, x: Any = 1, y: Any = 1, z: Any = 1) -> None: ...
    @staticmethod
    def PROPERTIES() -> list[str]: ...
    def __iter__(self) -> Iterator[int]: ...
    def __len__(self) -> int: ...
    def __getitem__(self, key: Any) -> int: ...

class Function:
    def __init__(self, kernel: Kernel, module: Any) -> None: ...
    @property
    def kernel(self) -> Kernel: ...
    @property
    def module(self) -> Any: ...

def connect(
    result: tuple[Any, ...],
    failure: Callable[[Exception, Any, Any], tuple[Any, ...]],
    function: Callable[[Any], Function],
    queue: Callable[[Any], Queue],
    buffer: Callable[[Any], Any],
    params: Callable[[Function, Any], tuple[Any, ...]],
    extra: Callable[[Function, Any], tuple[Any, ...]],
) -> None: ...
def kernel_arguments(function: Function, shared: int, params: Any, extra: Any) -> tuple[Any, ...]: ...
def set_null_queue(queue: Queue | None) -> None: ...
def hipModuleLaunchKernel(
    f: Any,
    gridDimX: int,
    gridDimY: int,
    gridDimZ: int,
    blockDimX: int,
    blockDimY: int,
    blockDimZ: int,
    sharedMemBytes: int = 0,
    stream: Any = None,
    kernelParams: Any = None,
    extra: Any = None,
) -> tuple[Any, ...]: ...
