"""Programs: source or SPIR-V, built for one device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penstock.queues.errors import ArgumentTypeError, ClosedError, InvalidArgumentError

if TYPE_CHECKING:
    from penstock.queues.device import Device
    from penstock.queues.kernel import Kernel


def read_source(source: Any, options: Any) -> tuple[str | bytes, tuple[str, ...]]:
    """What `Device.program` is given.

    Raises
    ------
    ArgumentTypeError
    """
    if not isinstance(source, (str, bytes, bytearray, memoryview)):
        raise ArgumentTypeError(f"program: source is OpenCL C as str or SPIR-V as bytes, not {type(source).__name__}")
    try:
        options = tuple(options.split() if isinstance(options, str) else options)
        if not all(isinstance(option, str) for option in options):
            raise TypeError
    except TypeError:
        raise ArgumentTypeError("program: options are a str or a sequence of str") from None
    return source if isinstance(source, str) else bytes(source), options


class Program:
    """Kernels built from one source; made by `Device.program`.

    ``program["name"]`` is a `Kernel`, the same object each time. Iterating gives the names.

    Attributes
    ----------
    device : Device
    """

    def __init__(self, device: Any = None, natives: Any = None, make_kernel: Any = None) -> None:
        if not callable(make_kernel):
            raise ArgumentTypeError("a Program is made by Device.program")
        self.device: Device = device
        self._natives = natives
        self._make_kernel = make_kernel
        self._kernels: dict[str, Kernel] = {}
        self.closed = False

    @property
    def kernel_names(self) -> tuple[str, ...]:
        """The names of its kernels."""
        return tuple(self._natives)

    def __getitem__(self, name: str) -> Kernel:
        if self.closed:
            raise ClosedError("this Program is closed")
        if not isinstance(name, str):
            raise ArgumentTypeError(f"a kernel's name is a str, not {type(name).__name__}")
        if name not in self._natives:
            raise InvalidArgumentError(
                f"the program has no kernel {name!r}; it has {', '.join(map(repr, self._natives)) or 'none'}"
            )
        if name not in self._kernels:
            self._kernels[name] = self._make_kernel(self._natives[name])
        return self._kernels[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._natives)

    def __len__(self) -> int:
        return len(self._natives)

    def __contains__(self, name: object) -> bool:
        return name in self._natives

    def close(self) -> None:
        """Close its kernels. What was launched still runs; twice is fine."""
        self.closed = True
        for kernel in self._kernels.values():
            kernel.close()
        if self._natives:
            self.device._keep_until_done(self._natives)
        self._natives = {}

    def __del__(self) -> None:
        if getattr(self, "_natives", None):
            self.device._keep_until_done(self._natives)

    def __enter__(self) -> Program:
        if self.closed:
            raise ClosedError("this Program is closed")
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<penstock.Program ({', '.join(self._natives)}) on {self.device.name}>"
