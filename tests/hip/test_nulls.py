"""A null pointer is the same for every function and structure, however a program spells it."""

import ctypes
import inspect

import numpy as np
import pytest

from forebay import hip, hiprtc
from forebay.hip.transfers.params import Record

from .conftest import SOURCE, ok
from .helpers import K, kernel, memset, read

SPELLINGS = {
    "None": None, "0": 0, "NumPy's 0": np.int64(0), "c_void_p": ctypes.c_void_p(),
    "POINTER": ctypes.POINTER(ctypes.c_int)(), "Pointer": hip.Pointer(0), "a handle": hip.ihipStream_t(),
}  # fmt: skip


FUNCTIONS = {
    name: getattr(module, name) for module in (hip, hiprtc) for name in module.__all__
    if name.startswith("hip") and inspect.isroutine(getattr(module, name))
}  # fmt: skip


def parameters_of(name):
    """The parameters of a function, by the definition that has their types."""
    function = inspect.unwrap(FUNCTIONS[name])
    shown = inspect.signature(function.__self__.definition if inspect.isbuiltin(function) else function).parameters
    return [each for each in shown.values() if each.kind == each.POSITIONAL_OR_KEYWORD]


POINTERS = {
    name: [each.name for each in parameters_of(name) if each.annotation in ("Any", "bytes | str", "bytes | str | None")]
    for name in FUNCTIONS
}
NUMBERS = {"kind": K.hipMemcpyDefault, "flags": 0, "value": 0, "mask": None, "device": 0, "dev": 0, "deviceId": 0}


class Samples:
    """Valid arguments, by the name of the parameter; new ones for each call, because it may end what it gets."""

    def __init__(self, functions, folder):
        self.functions, self.folder, self.kept = functions, folder, []

    def of(self, function, name):
        low = name.lower()
        if name in ("f", "func", "hfunc", "function_address", "kernel"):
            return self.functions("nothing")
        if low.endswith(("event", "start", "stop")):
            event = ok(hip.hipEventCreate())
            ok(hip.hipEventRecord(event))
            return event
        if "params" in low and "Graph" in function:
            return self.node_params(function)
        if "exec" in low:
            return ok(hip.hipGraphInstantiate(self.graph()))[0]
        if low.endswith("graph"):
            return self.graph()
        if name in ("node", "hNode", "originalNode"):
            return ok(hip.hipGraphAddEmptyNode(self.graph(), None, 0))
        if name in ("kernelParams", "args"):
            return [ctypes.c_int(1)]
        if name in ("dst", "src", "dest", "dev_ptr", "devPtr", "dptr", "ptr") or name.endswith("Device"):
            return ok(hip.hipMalloc(64))
        if function.startswith("hiprtc"):
            return self.of_compiler(name)
        if name in ("data", "value") or low.startswith(("host", "hst")) or low.endswith("host"):
            self.kept.append(np.zeros(64, "u1"))
            return self.kept[-1]
        makers = {
            "stream": hip.hipStreamCreate, "mem_pool": lambda: hip.hipDeviceGetDefaultMemPool(0),
            "ctx": hip.hipCtxGetCurrent, "peerCtx": hip.hipCtxGetCurrent,
            "extent": lambda: (0, hip.hipExtent(4, 4, 4)), "desc": lambda: hip.hipCreateChannelDesc(32, 0, 0, 0, 0),
            "pitchedDevPtr": lambda: (0, hip.hipPitchedPtr(ok(hip.hipMalloc(64)), 4, 4, 4)),
            "path": lambda: (0, str(self.folder / "graph.dot")), "kname": lambda: (0, b"nothing"),
            "name": lambda: (0, b"nothing"), "image": lambda: (0, SOURCE.encode()),
            "code": lambda: (0, SOURCE.encode()), "fatbin": lambda: (0, SOURCE.encode()),
            "module": lambda: (0, self.functions("nothing").module), "fn": lambda: (0, lambda data: None),
            "callback": lambda: (0, lambda *data: None), "attributes": lambda: (0, hip.hipPointerAttribute_t()),
        }  # fmt: skip
        for other in ("mod", "hmod", "library"):
            makers[other] = makers["module"]
        return ok(makers[name]()) if name in makers else None

    @staticmethod
    def of_compiler(name):
        """Outputs, a program that is compiled, and else a text."""
        if name in ("log", "code", "bitcode"):
            return bytearray(1 << 16)
        if name == "hiprtc_link_state":
            return hiprtc.hiprtcLinkCreate()[1]
        if name != "prog":
            return SOURCE.encode() if name in ("src", "image", "name") else None
        program = hiprtc.hiprtcCreateProgram(SOURCE.encode(), b"program", 0, None, None)[1]
        hiprtc.hiprtcCompileProgram(program, 0, None)
        return program

    @staticmethod
    def graph():
        return ok(hip.hipGraphCreate(0))

    def node_params(self, function):
        if "Kernel" in function:
            return kernel(self.functions("nothing"), 1)
        if "Memset" in function:
            return memset(ok(hip.hipMalloc(64)), 1, 16)
        if "Host" in function:
            return hip.hipHostNodeParams(lambda data: None)
        if "MemAlloc" in function:
            return hip.hipMemAllocNodeParams()
        return hip.hipMemcpy3DParms()


def outcome(name, arguments):
    try:
        result = FUNCTIONS[name](**arguments)
    except Exception as error:
        return type(error).__name__, str(error)
    finally:
        hip.hipStreamStepEnd(None)
        hip.hipStreamEndCapture(hip.hipStreamPerThread)
    return result[0].name if isinstance(result, tuple) else result


# They hold the stream until the host thread has run, or a value is written: on null hardware for ever.
HOLDING = ("hipStreamAddCallback", "hipLaunchHostFunc", "hipStreamWaitValue")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.executes(run=False) if name.startswith(HOLDING) else ())
        for name in FUNCTIONS
        if POINTERS[name]
    ],
)
def test_functions(device, function, tmp_path, name):
    samples = Samples(function, tmp_path)
    names = [each.name for each in parameters_of(name)]
    for pointer in POINTERS[name]:
        found = {}
        for spelling, null in SPELLINGS.items():
            given = {each: samples.of(name, each) if each in POINTERS[name] else NUMBERS.get(each, 1) for each in names}
            found[spelling] = outcome(name, given | {pointer: null})
        assert len(set(found.values())) == 1, (pointer, found)


def test_every_parameter_is_of_a_known_kind():
    """A new one that is Any, and no pointer, would lose its 0."""
    kinds = {str(each.annotation) for name in FUNCTIONS if "rtc" not in name for each in parameters_of(name)}
    assert kinds == {"Any", "int", "int | None", "object"}


@pytest.mark.parametrize("kind", Record.__subclasses__(), ids=lambda kind: kind.__name__)
def test_members_of_structures(kind):
    for member in kind.PROPERTIES():
        for null in SPELLINGS.values() if kind()[member] is None else ():
            assert kind(**{member: null})[member] is None


@pytest.mark.parametrize("spelling", [*SPELLINGS, "()", "[]"])
@pytest.mark.parametrize("way", ["kernelParams", "extra"])
def test_the_way_of_arguments_that_is_not_taken(device, function, really, way, spelling):
    memory = ok(hip.hipMalloc(4))
    pointer, number = ctypes.c_void_p(int(memory)), ctypes.c_int(5)
    given = [ctypes.addressof(pointer), ctypes.addressof(number)] if way == "kernelParams" else (memory, number)
    null = {**SPELLINGS, "()": (), "[]": []}[spelling]
    ways = {"kernelParams": null, "extra": null, way: given}
    ok(hip.hipModuleLaunchKernel(function("fill"), 1, 1, 1, 1, 1, 1, 0, None, **ways))
    assert read(memory, 1) == [5] or not really
    params = hip.hipKernelNodeParams(func=function("fill"), **ways)
    ok(hip.hipGraphAddKernelNode(ok(hip.hipGraphCreate(0)), null, 0, params))
