"""Short forms for tests of `forebay.hip`."""

import ctypes
import threading

import numpy as np
import pytest

from forebay import hip, hiprtc
from forebay.compiler.clang import find_clang
from forebay.core.driver import Language

from .conftest import ok

E = hip.hipError_t
K = hip.hipMemcpyKind
N = 1000


STREAMS = {  # what makes a stream of this kind
    "null": lambda: None, "legacy": lambda: hip.hipStreamLegacy, "per-thread": lambda: hip.hipStreamPerThread,
    "blocking": lambda: ok(hip.hipStreamCreate()),
    "non-blocking": lambda: ok(hip.hipStreamCreateWithFlags(hip.hipStreamNonBlocking)),
}  # fmt: skip


def code(result):
    """The code of a call that failed; the outputs are None."""
    first, *outputs = result
    assert first != E.hipSuccess
    assert outputs == [None] * len(outputs)
    return first


def can_map(device):
    """Whether kernels of the device can use memory of `hipHostMalloc`."""
    number = hip.devices.number_of(device)
    return bool(ok(hip.hipDeviceGetAttribute(hip.hipDeviceAttribute_t.hipDeviceAttributeCanMapHostMemory, number)))


CANNOT_MAP = "the device cannot map memory of the host: hipDeviceAttributeCanMapHostMemory is 0"


def skip_without_compiler(device):
    """Skip the test where HIP C++ is not compiled because clang is not installed."""
    clang, why = find_clang()
    if clang is None and Language.SPIRV in device.driver.languages:
        pytest.skip(why)


def compiled(source):
    """What hiprtc makes of a program."""
    skip_without_compiler(hip.current_device())
    program = ok(hiprtc.hiprtcCreateProgram(source, b"program.hip", 0, None, None))
    result = hiprtc.hiprtcCompileProgram(program, 0, None)
    log = bytearray(ok(hiprtc.hiprtcGetProgramLogSize(program)))
    ok(hiprtc.hiprtcGetProgramLog(program, log))
    assert result == (hiprtc.hiprtcResult.HIPRTC_SUCCESS,), log.decode()
    image = bytearray(ok(hiprtc.hiprtcGetCodeSize(program)))
    ok(hiprtc.hiprtcGetCode(program, image))
    return image


def function_of(source, name):
    """A kernel of a program, which is HIP C++ or OpenCL C."""
    image = compiled(source) if b"__global__" in source else source
    return ok(hip.hipModuleGetFunction(ok(hip.hipModuleLoadData(image)), name))


def variable(module, name):
    return ok(hip.hipModuleGetGlobal(module, name))[0]


def ints(count=N, value=0):
    """Memory of the device with so many of this int."""
    pointer = ok(hip.hipMalloc(4 * count))
    ok(hip.hipMemsetD32(pointer, value, count))
    ok(hip.hipStreamSynchronize(0))
    return pointer


def read(pointer, count=N):
    """What is there, as a list of ints; waits for the null stream."""
    out = np.zeros(count, "i4")
    ok(hip.hipMemcpy(out, pointer, out.nbytes, K.hipMemcpyDeviceToHost))
    return out.tolist()


def launch(function, stream, *args, groups=N // 10, block=10, shared=0):
    arguments = tuple(ctypes.c_int(arg) if isinstance(arg, int) else arg for arg in args)
    ok(hip.hipModuleLaunchKernel(function, groups, 1, 1, block, 1, 1, shared, stream, None, arguments))


def waits_for(gate, call):
    """Call, while another thread opens the gate; whether it had been opened when the call returned."""
    opened = []
    opener = threading.Timer(0.02, lambda: (opened.append(True), gate.open()))
    opener.start()
    ok(call())
    waited = bool(opened)
    opener.join()
    return waited


def fork(event, origin, *others):
    ok(hip.hipEventRecord(event, origin))
    for other in others:
        ok(hip.hipStreamWaitEvent(other, event, 0))


def kernel(function, *args, grid=N // 10, block=10, **more):
    """The parameters of a kernel node; ints are C's."""
    arguments = tuple(ctypes.c_int(arg) if isinstance(arg, int) else arg for arg in args)
    return hip.hipKernelNodeParams(
        func=function, gridDim=hip.dim3(grid), blockDim=hip.dim3(block), extra=arguments, **more
    )


def add(graph, *args, after=()):
    """A kernel node: a function and its arguments."""
    return ok(hip.hipGraphAddKernelNode(graph, list(after), len(after), kernel(*args)))


def memset(dst, value, width=N, size=4, height=1, pitch=0):
    return hip.hipMemsetParams(dst=dst, elementSize=size, height=height, pitch=pitch, value=value, width=width)


def instantiate(graph):
    return ok(hip.hipGraphInstantiate(graph, 0))[0]


def launched(executable, stream):
    ok(hip.hipGraphLaunch(executable, stream))
    ok(hip.hipStreamSynchronize(stream))


def run(graph, stream, times=1):
    executable, node, log = ok(hip.hipGraphInstantiate(graph, 0))
    assert (node, log) == (None, b"")
    for _ in range(times):
        ok(hip.hipGraphLaunch(executable, stream))
    ok(hip.hipStreamSynchronize(stream))
    ok(hip.hipGraphExecDestroy(executable))


def alloc_params(nbytes=4 * N):
    """The parameters of a node that allocates memory of the current device."""
    location = hip.hipMemLocation(hip.hipMemLocationType.hipMemLocationTypeDevice, ok(hip.hipGetDevice()))
    props = hip.hipMemPoolProps(allocType=hip.hipMemAllocationType.hipMemAllocationTypePinned, location=location)
    return hip.hipMemAllocNodeParams(poolProps=props, bytesize=nbytes)
