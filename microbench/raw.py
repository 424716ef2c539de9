"""The compiled C loops, and the addresses of the driver's functions that they call."""

from __future__ import annotations

import ctypes
import os
import shlex
import subprocess
import sysconfig
from hashlib import sha256
from pathlib import Path

import pyopencl

SOURCE = Path(__file__).with_name("raw.c")


def library() -> ctypes.CDLL:
    """`raw.c`, compiled into ``build/`` when it has changed."""
    digest = sha256(SOURCE.read_bytes()).hexdigest()[:16]
    target = SOURCE.parent.parent / "build" / "microbench" / f"raw-{digest}.so"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")[0]
        partial = target.with_suffix(f".{os.getpid()}")
        subprocess.run([compiler, "-O2", "-shared", "-fPIC", str(SOURCE), "-o", str(partial)], check=True)
        partial.rename(target)  # another process may be at the same
    loaded = ctypes.CDLL(str(target))
    loaded.launches.restype = loaded.changing_launches.restype = ctypes.c_double
    return loaded


def function(name: str) -> ctypes.c_void_p:
    """The address of an OpenCL function in the loader that pyopencl, and so penstock, uses."""
    return ctypes.cast(getattr(ctypes.CDLL(pyopencl._cl.__file__), name), ctypes.c_void_p)


def set_address(kernel: pyopencl.Kernel, index: int, address: int) -> None:
    """Set a pointer argument to an address of shared virtual memory."""
    call = ctypes.CDLL(pyopencl._cl.__file__).clSetKernelArgSVMPointer
    error = call(ctypes.c_void_p(kernel.int_ptr), ctypes.c_uint32(index), ctypes.c_void_p(address))
    if error:
        raise RuntimeError(f"clSetKernelArgSVMPointer failed: {error}")


class RawLoop:
    """Launches of one kernel on one queue, from C."""

    def __init__(self, queue: pyopencl.CommandQueue, kernel: pyopencl.Kernel, *kept: object):
        self._library = library()
        self._kept = (queue, kernel, *kept)  # whose handles and arguments are used
        self._queue = ctypes.c_void_p(queue.int_ptr)
        self._kernel = ctypes.c_void_p(kernel.int_ptr)
        self._enqueue = function("clEnqueueNDRangeKernel")
        self._set = function("clSetKernelArg")

    def __call__(self, n: int) -> float:
        """Seconds that n launches take."""
        return self._checked(self._library.launches(self._enqueue, self._queue, self._kernel, ctypes.c_size_t(n)))

    def changing(self, n: int, index: int) -> float:
        """The same with one int argument set each time."""
        return self._checked(
            self._library.changing_launches(
                self._enqueue, self._set, self._queue, self._kernel, ctypes.c_uint32(index), ctypes.c_size_t(n)
            )
        )

    @staticmethod
    def _checked(taken: float) -> float:
        if taken < 0:
            raise RuntimeError("a driver call of the raw loop failed")
        return taken
