"""What a port of a HIP program to Python needs beside its kernels.

`examples.shock_tube` and `examples.linpack` compile files of other programs
with it, as they are. docs/porting.md explains the steps.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click
import numpy as np

from forebay import hip, hiprtc
from forebay.core.errors import NotInstalledError

Array = np.ndarray[Any, Any]


def check(result: Any) -> Any:
    """Return the outputs; raise if the code is not success."""
    code, *outputs = result
    if int(code):
        raise RuntimeError(f"{code.name}: {hip.last_exception()}")
    return outputs[0] if len(outputs) == 1 else outputs


def kernels(
    path: Path,
    names: list[str],
    options: list[str],
    headers: dict[str, str] | None = None,
) -> dict[str, Any]:
    """Compile a file and return its kernels by their names in C++. A name may
    be an instance of a template. `headers` are those that a build generates.
    """
    if not path.is_file():
        raise click.BadParameter(f"{path} is not there: is the clone complete?")
    made = headers or {}
    program = check(
        hiprtc.hiprtcCreateProgram(
            path.read_bytes(),
            os.fsencode(path),
            len(made),
            [text.encode() for text in made.values()],
            [name.encode() for name in made],
        )
    )
    for name in names:
        check(hiprtc.hiprtcAddNameExpression(program, name.encode()))
    words = [f"-I{path.parent}".encode(), *(word.encode() for word in options)]
    try:
        (code,) = hiprtc.hiprtcCompileProgram(program, len(words), words)
    except NotInstalledError as error:
        raise click.ClickException(str(error)) from None
    if int(code):
        log = bytearray(check(hiprtc.hiprtcGetProgramLogSize(program)))
        check(hiprtc.hiprtcGetProgramLog(program, log))
        raise click.ClickException(f"{path}: {code.name}\n{log.decode()}")
    image = bytearray(check(hiprtc.hiprtcGetCodeSize(program)))
    check(hiprtc.hiprtcGetCode(program, image))
    module = check(hip.hipModuleLoadData(image))
    found = {}
    for name in names:
        lowered = check(hiprtc.hiprtcGetLoweredName(program, name.encode()))
        found[name] = check(hip.hipModuleGetFunction(module, lowered))
    check(hiprtc.hiprtcDestroyProgram(program))
    return found


def launch(
    kernel: Any,
    grid: int | tuple[int, ...],
    block: int | tuple[int, ...],
    stream: Any,
    *arguments: Any,
    shared: int = 0,
) -> None:
    """Launch as ``kernel<<<grid, block, shared, stream>>>(arguments)`` does."""
    check(
        hip.hipModuleLaunchKernel(
            kernel, *dim3(grid), *dim3(block), shared, stream, None, arguments
        )
    )


def dim3(sizes: int | tuple[int, ...]) -> tuple[int, ...]:
    """Three sizes of one, two or three."""
    given = sizes if isinstance(sizes, tuple) else (sizes,)
    return (*given, 1, 1)[:3]


def pinned(shape: int | tuple[int, ...], dtype: Any = "f8") -> Array:
    """An array in memory that copies on a stream do not wait for."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = check(hip.hipHostMalloc(size, hip.hipHostMallocDefault))
    return np.frombuffer(memory, dtype).reshape(shape)


def upload(array: Array) -> Any:
    """Return memory of the device with a copy of an array."""
    memory = check(hip.hipMalloc(array.nbytes))
    kind = hip.hipMemcpyKind.hipMemcpyHostToDevice
    check(hip.hipMemcpy(memory, array, array.nbytes, kind))
    return memory


def download(memory: Any, like: Array, stream: Any = None) -> None:
    """Copy from the device into an array, on a stream."""
    kind = hip.hipMemcpyKind.hipMemcpyDeviceToHost
    check(hip.hipMemcpyAsync(like, memory, like.nbytes, kind, stream))


def event() -> Any:
    """Return an event that takes no times."""
    flags = hip.hipEventDisableTiming
    return check(hip.hipEventCreateWithFlags(flags))


def device() -> str:
    """Name the current device."""
    properties = hip.hipDeviceProp_t()
    check(hip.hipGetDeviceProperties(properties, check(hip.hipGetDevice())))
    return properties.gcnArchName.decode()
