"""A null pointer is the same for every function and structure, however a program spells it."""

import ctypes
import inspect
import re

import numpy as np
import pytest

from forebay import hip, hiprtc
from forebay.hip import ext
from forebay.hip.facts import Record

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
    function = inspect.unwrap(FUNCTIONS[name], stop=lambda each: hasattr(each, "__signature__"))
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
        """By the first pattern of `MAKERS` that fits the function and the parameter; None by no pattern."""
        makers = (make for pattern, make in MAKERS.items() if re.fullmatch(pattern, f"{function} {name}"))
        return next(makers, lambda samples: None)(self)

    def host(self):
        self.kept.append(np.zeros(64, "u1"))
        return self.kept[-1]

    def event(self):
        event = ok(hip.hipEventCreate())
        ok(hip.hipEventRecord(event))
        return event

    def compiled(self):
        program = hiprtc.hiprtcCreateProgram(SOURCE.encode(), b"program", 0, None, None)[1]
        hiprtc.hiprtcCompileProgram(program, 0, None)
        return program

    @staticmethod
    def graph():
        return ok(hip.hipGraphCreate(0))


MAKERS = {
    r".* (f|func|hfunc|function_address|kernel)": lambda s: s.functions("nothing"),
    r".*([eE]vent|start|stop)": Samples.event,
    r".*Graph.*Kernel.* .*[pP]arams": lambda s: kernel(s.functions("nothing"), 1),
    r".*Graph.*Memset.* .*[pP]arams": lambda s: memset(ok(hip.hipMalloc(64)), 1, 16),
    r".*Graph.*Host.* .*[pP]arams": lambda s: hip.hipHostNodeParams(lambda data: None),
    r".*Graph.*MemAlloc.* .*[pP]arams": lambda s: hip.hipMemAllocNodeParams(),
    r".*Graph.* .*[pP]arams.*": lambda s: hip.hipMemcpy3DParms(),
    r".* .*[eE]xec.*": lambda s: ok(hip.hipGraphInstantiate(s.graph()))[0],
    r".* .*[gG]raph": lambda s: s.graph(),
    r".* (node|hNode|originalNode)": lambda s: ok(hip.hipGraphAddEmptyNode(s.graph(), None, 0)),
    r".* (kernelParams|args)": lambda s: [ctypes.c_int(1)],
    r"hiprtc.* (log|code|bitcode)": lambda s: bytearray(1 << 16),
    r"hiprtc.* hip_link_state": lambda s: hiprtc.hiprtcLinkCreate()[1],
    r"hiprtc.* prog": Samples.compiled,
    r"hiprtc.* (src|image|name)": lambda s: SOURCE.encode(),
    r"hiprtc.*": lambda s: None,
    r".* (dst|src|dest|dev_ptr|devPtr|dptr|ptr|.*Device)": lambda s: ok(hip.hipMalloc(64)),
    r".* (data|value|host.*|hst.*|.*[hH]ost)": Samples.host,
    r".* stream": lambda s: ok(hip.hipStreamCreate()),
    r".* mem_pool": lambda s: ok(hip.hipDeviceGetDefaultMemPool(0)),
    r".* (ctx|peerCtx)": lambda s: ok(hip.hipCtxGetCurrent()),
    r".* extent": lambda s: hip.hipExtent(4, 4, 4),
    r".* desc": lambda s: ok(hip.hipCreateChannelDesc(32, 0, 0, 0, 0)),
    r".* pitchedDevPtr": lambda s: hip.hipPitchedPtr(ok(hip.hipMalloc(64)), 4, 4, 4),
    r".* path": lambda s: str(s.folder / "graph.dot"),
    r".* (kname|name)": lambda s: b"nothing",
    r".* (image|code|fatbin)": lambda s: SOURCE.encode(),
    r".* (module|mod|hmod|library)": lambda s: s.functions("nothing").module,
    r".* fn": lambda s: lambda data: None,
    r".* callback": lambda s: lambda *data: None,
    r".* attributes": lambda s: hip.hipPointerAttribute_t(),
}


def outcome(name, arguments):
    try:
        result = FUNCTIONS[name](**arguments)
    except Exception as error:
        return type(error).__name__, str(error)
    finally:
        ext.hipStreamStepEnd(None)
        hip.hipStreamEndCapture(hip.hipStreamPerThread)
    return result[0].name if isinstance(result, tuple) else result


# They hold the stream until the host thread has run, or a value is written: on null hardware for ever.
HOLDING = ("hipStreamAddCallback", "hipLaunchHostFunc", "hipStreamWaitValue")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.executes if name.startswith(HOLDING) else ())
        for name in FUNCTIONS
        if POINTERS[name]
    ],
)
def test_functions(device, request, tmp_path, name):
    samples = Samples(lambda kernel: request.getfixturevalue("function")(kernel), tmp_path)  # which most do without
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
    for member in set(kind.PROPERTIES()) - {"userData"}:  # which is any object
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
