"""The requirements that tests have of their device. A test is not collected if its device does not meet them.

``@pytest.mark.needs("OpenCL")`` takes any of the words here. Use `pytest.skip` for facts that need an open device.
"""

import os
import re
import sys

from forebay import hip
from forebay.queues.opencl.programs import options_for_variables
from forebay.queues.selection import VARIABLE, devices, select
from tests.drivers.levelzero import validation
from tools import null_levelzero

from .limits import limits


def host_memory():
    """Bytes of memory of this machine."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


NEEDS = {
    "OpenCL": lambda info: info.backend == "opencl",
    "CUDA": lambda info: info.backend == "cuda",
    "Level Zero": lambda info: info.backend == "level_zero",
    "SYCL": lambda info: info.backend == "sycl",
    "waits that starve": lambda info: info.backend in ("opencl", "sycl") and info.kind == "cpu",
    # pyopencl makes the queues of OpenCL, and the tests cannot make that fail
    "queues made by forebay": lambda info: info.backend != "opencl",
    # Without a GIL pyopencl's builds take turns.
    "builds at once": lambda info: info.backend != "opencl" or getattr(sys, "_is_gil_enabled", lambda: True)(),
    # CUDA has no kernel objects: forebay keeps the arguments itself until a launch.
    "arguments set by calls": lambda info: info.backend != "cuda",
    # On CUDA a graph without host functions is one graph of the driver's, branches included.
    "graphs cut into lanes": lambda info: info.backend != "cuda",
    # Level Zero's own; for OpenCL the tests have some
    "recordings that change": lambda info: info.backend in ("level_zero", "opencl"),
    "null hardware": lambda info: null_levelzero.inside(),
    # For whole programs that only show what they have computed.
    "real hardware": lambda info: not null_levelzero.inside(),
    # The layer reports every call that a driver refuses, and sees only its own process.
    "no validation layer": lambda info: not validation.active(),
    # For what compiled kernels compute: SYCL's devices share OpenCL's compiler, and the layer sees no kernel.
    "a compiler of its own": lambda info: info.backend != "sycl" and not validation.active(),
    # For tests whose processes choose no device: SYCL's are never the default, so they would run on OpenCL once more.
    "the default device": lambda info: info.name == select("").name,
    # For tests that use no device: they run when no device was chosen.
    "no chosen device": lambda info: not os.environ.get(VARIABLE),
    # Of CUDA's compilers, which need no GPU: on another driver they would be the same once more.
    "no device of another driver than CUDA": lambda info: not os.environ.get(VARIABLE) or info.backend == "cuda",
    # For tests that ask for all the memory there is: NVIDIA's driver takes as much of the host, under its own lock.
    "no more memory than the host": lambda info: info.memory <= host_memory(),
    "memory that processes share": lambda info: info.backend == "cuda" and info.native.has_ipc,
    "no memory that processes share": lambda info: info.backend != "cuda",
    "two devices": lambda info: len(hip.devices.infos()) > 1,
    "two drivers": lambda info: any(other.usable and other.backend != info.backend for other in devices()),
    # NVIDIA's OpenCL refuses to launch with a null pointer for a parameter that had an address before (580).
    "null pointers after others": lambda info: info.backend != "opencl" or info.platform != "NVIDIA CUDA",
    # SYCL's is given to the driver when the queue's lock is let go, and waits for what comes in between, too.
    "doubles": lambda info: limits(info).doubles,
    "halves": lambda info: limits(info).halves,
    "images": lambda info: limits(info).images,
    "atomics on 64 bits": lambda info: limits(info).long_atomics,
    "SPIR-V": lambda info: limits(info).spirv,
    "no SPIR-V": lambda info: not limits(info).spirv,
    # Of clang, which makes SPIR-V, or of the driver; elsewhere it is refused.
    "a compiler of HIP C++": lambda info: limits(info).spirv or info.backend == "cuda",
    "no compiler of HIP C++": lambda info: not limits(info).spirv and info.backend != "cuda",
    "no variables": lambda info: (
        info.backend == "sycl" or (info.backend == "opencl" and not options_for_variables(info.native))
    ),
}


def variable_options(device):
    """Options with which the device's compiler takes variables in global memory; None where it takes none."""
    info = device.info
    if info.backend == "sycl":
        info = next(each for each in devices() if each.backend != "sycl" and each.description == info.description)
    if info.backend == "level_zero":
        return ("-cl-std=CL3.0",)
    return options_for_variables(info.native) if info.backend == "opencl" else None


OF_FILE = re.compile(r"^pytestmark = (?:\[$.*?^]$|.*?$)", re.DOTALL | re.MULTILINE)
OF_MARK = re.compile(r"mark\.needs\((.*?)\)", re.DOTALL)
WORD = re.compile(r'"(.*?)"')


def has(info, item):
    """Whether the device meets all needs of this test."""
    return all(NEEDS[word](info) for mark in item.iter_markers("needs") for word in mark.args)


def may_have(info, text):
    """Whether the device meets what all tests of a file need, as far as its text says that in the usual way."""
    marks = [mark for found in OF_FILE.findall(text) for mark in OF_MARK.findall(found)]
    return all(NEEDS[word](info) for mark in marks for word in WORD.findall(mark))
