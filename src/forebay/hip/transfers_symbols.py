"""The variables of modules as symbols.

In C++ a symbol is the variable itself, which the compiler has registered. A Python program has compiled its kernels
at run time, so it has no such symbols: it gets a pointer from `hipModuleGetGlobal`, and gives that as the symbol.
"""

from __future__ import annotations

from typing import Any

from forebay.hip import allocations
from forebay.hip.allocations import Allocation
from forebay.hip.copies import enqueue, places
from forebay.hip.errors import HipError, api
from forebay.hip.facts import hipError_t, hipMemcpyKind
from forebay.hip.memory import pointer_to, size_of
from forebay.hip.pointers import DeviceArray, Pointer, address_of
from forebay.hip.streams import queue_of
from forebay.queues.capture_rules import refuse_synchronous

Kind = hipMemcpyKind
TO = (Kind.hipMemcpyHostToDevice, Kind.hipMemcpyDeviceToDevice, Kind.hipMemcpyDefault)
FROM = (Kind.hipMemcpyDeviceToHost, Kind.hipMemcpyDeviceToDevice, Kind.hipMemcpyDefault)


def variable_of(symbol: Any) -> Allocation:
    """Return the variable that begins where `hipModuleGetGlobal` said.

    Raises
    ------
    HipError
        hipErrorInvalidSymbol for anything else.
    """
    address, _ = address_of(symbol)
    found = allocations.peek(address) if address else None
    if found is None or not found.variable:
        raise HipError(
            hipError_t.hipErrorInvalidSymbol,
            f"no variable of a module begins at {address:#x}; a symbol is the pointer that hipModuleGetGlobal returns",
        )
    return found


def within(symbol: Any, offset: Any) -> Pointer:
    """Return the pointer to a byte of a variable. A copy finds out whether the variable has as many from there on."""
    return pointer_to(variable_of(symbol)) + size_of(offset)


def check_symbol_kind(kind: Any, kinds: tuple[Kind, ...]) -> None:
    """Raise for a kind of copy that is not for symbols, or goes the other way; hipErrorInvalidMemcpyDirection."""
    if kind not in kinds:
        raise HipError(hipError_t.hipErrorInvalidMemcpyDirection, f"a copy of a symbol cannot be of kind {kind!r}")


def _copy(symbol: Any, other: Any, size: Any, offset: Any, kind: Any, kinds: tuple[Kind, ...], stream: Any) -> None:
    nbytes = size_of(size)
    inside = within(symbol, offset)
    check_symbol_kind(kind, kinds)
    queue = queue_of(stream)
    if nbytes:
        dst, src = (inside, other) if kinds is TO else (other, inside)
        enqueue(queue, *places(dst, src, nbytes, kind))


@api(outputs=1)
def hipGetSymbolAddress(symbol: Any) -> DeviceArray:
    """Return ``(hipError_t, pointer)`` of a variable: what `hipModuleGetGlobal` returned, which is given.

    `symbol` is that pointer.

    hipErrorInvalidSymbol for anything else.
    """
    return pointer_to(variable_of(symbol))


@api(outputs=1)
def hipGetSymbolSize(symbol: Any) -> int:
    """Return ``(hipError_t, bytes)`` of a variable; hipErrorInvalidSymbol as for `hipGetSymbolAddress`.

    `symbol` is what `hipModuleGetGlobal` returned.
    """
    return variable_of(symbol).nbytes


@api()
def hipMemcpyToSymbol(
    symbol: Any, src: Any, sizeBytes: int, offset: int = 0, kind: int = Kind.hipMemcpyHostToDevice
) -> None:
    """Copy into a variable of a module on the null stream; ``(hipError_t,)``. Blocks until it is done.

    `sizeBytes` bytes from `src`.

    Parameters
    ----------
    symbol : pointer
        What `hipModuleGetGlobal` returned.
    offset : int
        Bytes into the variable.
    kind : hipMemcpyKind
        HostToDevice, DeviceToDevice or Default.

    hipErrorInvalidSymbol for anything but a variable, hipErrorInvalidValue beyond its end,
    hipErrorInvalidMemcpyDirection for other kinds. See `hipMemcpy`.
    """
    refuse_synchronous("hipMemcpyToSymbol")
    _copy(symbol, src, sizeBytes, offset, kind, TO, None)
    queue_of(None).finish()


@api()
def hipMemcpyToSymbolAsync(symbol: Any, src: Any, sizeBytes: int, offset: int, kind: int, stream: Any = None) -> None:
    """Copy into a variable in the order of the stream; ``(hipError_t,)``. See `hipMemcpyToSymbol`.

    `symbol`, `src`, `sizeBytes`, `offset` and `kind` as there; `stream` is a stream, None or 0. Blocks only where
    `hipMemcpyAsync` does.
    """
    _copy(symbol, src, sizeBytes, offset, kind, TO, stream)


@api()
def hipMemcpyFromSymbol(
    dst: Any, symbol: Any, sizeBytes: int, offset: int = 0, kind: int = Kind.hipMemcpyDeviceToHost
) -> None:
    """Copy from a variable of a module on the null stream; ``(hipError_t,)``. Blocks until it is done.

    `sizeBytes` bytes to `dst`, from `offset` bytes into the variable `symbol` on.

    The kind is DeviceToHost, DeviceToDevice or Default; otherwise as `hipMemcpyToSymbol`.
    """
    refuse_synchronous("hipMemcpyFromSymbol")
    _copy(symbol, dst, sizeBytes, offset, kind, FROM, None)
    queue_of(None).finish()


@api()
def hipMemcpyFromSymbolAsync(dst: Any, symbol: Any, sizeBytes: int, offset: int, kind: int, stream: Any = None) -> None:
    """Copy from a variable in the order of the stream; ``(hipError_t,)``. See `hipMemcpyFromSymbol`.

    `dst`, `symbol`, `sizeBytes`, `offset` and `kind` as there; `stream` is a stream, None or 0. Blocks only where
    `hipMemcpyAsync` does.
    """
    _copy(symbol, dst, sizeBytes, offset, kind, FROM, stream)
