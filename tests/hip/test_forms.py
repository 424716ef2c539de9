"""Functions called as hip-python 6 and 7 have them, where version 10 has them otherwise."""

import ctypes
import inspect

import pytest

from forebay import hip
from forebay.core.errors import ArgumentTypeError
from forebay.hip.errors import _Forms
from forebay.hip.table import FUNCTIONS

from .conftest import ok
from .helpers import memset

RESULT = hip.hipGraphExecUpdateResult
KINDS = hip.hipChannelFormatKind
FILL = b"kernel void fill(global int *x, int n) { *x = n; }"


def filled(result):
    """The result of a call that has filled in what it was given: nothing but a code."""
    assert result == (hip.hipError_t.hipSuccess,)


def values(structure):
    return {name: getattr(structure, name) for name in structure.PROPERTIES()}


def test_what_a_device_and_a_pointer_are_like(device):
    number = hip.devices.number_of(device)
    properties, attributes = hip.hipDeviceProp_t(), hip.hipPointerAttribute_t()
    filled(hip.hipGetDeviceProperties(properties, number))
    assert values(properties) == values(ok(hip.hipGetDeviceProperties(number)))
    filled(hip.hipGetDeviceProperties(prop=properties, deviceId=number))
    memory = ok(hip.hipMalloc(8))
    filled(hip.hipPointerGetAttributes(attributes, memory))
    assert values(attributes) == values(ok(hip.hipPointerGetAttributes(memory)))
    assert attributes.devicePointer == memory
    assert hip.hipFree(memory) == (0,)
    assert hip.hipPointerGetAttributes(attributes, memory) == (hip.hipError_t.hipErrorInvalidValue,)


def test_rows_and_planes(device):
    pitched = hip.hipPitchedPtr()
    filled(hip.hipMalloc3D(pitched, hip.hipExtent(width=64, height=3, depth=2)))
    assert (pitched.pitch, pitched.xsize, pitched.ysize) == (256, 64, 3)
    assert hip.hipFree(pitched.ptr) == (0,)
    filled(hip.hipMalloc3D(pitchedDevPtr=pitched, extent=hip.hipExtent(4, 1, 1)))
    assert pitched.xsize == 4
    assert hip.hipFree(pitched.ptr) == (0,)


def test_what_a_function_is_like(device):
    module = ok(hip.hipModuleLoadData(FILL))
    function, attributes = ok(hip.hipModuleGetFunction(module, b"fill")), hip.hipFuncAttributes()
    filled(hip.hipFuncGetAttributes(attributes, function))
    assert attributes.maxThreadsPerBlock > 0
    before = values(attributes)
    assert before == values(ok(hip.hipFuncGetAttributes(function)))
    assert hip.hipFuncGetAttributes(attributes, None) == (hip.hipError_t.hipErrorInvalidDeviceFunction,)
    assert values(attributes) == before  # which an error leaves
    assert hip.hipModuleUnload(module) == (0,)


def test_arrays(device):
    code, array = hip.hipMallocArray(
        ok(hip.hipCreateChannelDesc(32, 0, 0, 0, KINDS.hipChannelFormatKindFloat)), 8, 4, 0
    )
    if code != 0:
        pytest.skip(f"this device has no arrays: {hip.last_exception()}")
    channels, extent = hip.hipChannelFormatDesc(), hip.hipExtent()
    filled(hip.hipGetChannelDesc(channels, array))
    assert channels.x == 32
    channels = hip.hipChannelFormatDesc()
    assert ok(hip.hipArrayGetInfo(channels, extent, array)) == 0  # the flags, which are no structure
    assert (channels.x, extent.width, extent.height) == (32, 8, 4)
    for get, kind in (
        (hip.hipArrayGetDescriptor, hip.HIP_ARRAY_DESCRIPTOR),
        (hip.hipArray3DGetDescriptor, hip.HIP_ARRAY3D_DESCRIPTOR),
    ):
        described = kind()
        filled(get(described, array))
        assert (described.Width, described.Height) == (8, 4)
    resource, view = hip.hipResourceDesc(), hip.hipResourceViewDesc()
    resource.resType, resource.res.array.array = hip.hipResourceType.hipResourceTypeArray, array
    texture = ok(hip.hipCreateTextureObject(resource, hip.hipTextureDesc(), None))
    for get, described in (
        (hip.hipGetTextureObjectResourceDesc, hip.hipResourceDesc()),
        (hip.hipGetTextureObjectTextureDesc, hip.hipTextureDesc()),
        (hip.hipGetTextureObjectResourceViewDesc, view),
    ):
        if get(texture)[0] == 0:
            filled(get(described, texture))
    assert hip.hipDestroyTextureObject(texture) == (0,)
    assert hip.hipFreeArray(array) == (0,)


def test_nodes_whose_dependencies_are_left_out(device):
    """A list of them is an output there, and null. Parameters of nodes come after the node."""
    graph, memory = ok(hip.hipGraphCreate(0)), ok(hip.hipMalloc(64))
    filling, (first, none) = memset(memory, 3, 64, 1), ok(hip.hipGraphAddEmptyNode(graph, 0))
    assert none is None
    node, none = ok(hip.hipGraphAddMemsetNode(graph, 0, filling))
    assert none is None
    assert len(ok(hip.hipGraphAddMemsetNode(graph=graph, numDependencies=0, pMemsetParams=filling))) == 2
    assert hip.hipGraphAddDependencies(graph, 0) == (0, None, None)
    assert hip.hipGraphAddDependencies(graph, [first], [node], 1) == (0,)
    params = hip.hipMemsetParams()
    filled(hip.hipGraphMemsetNodeGetParams(node, params))
    assert (params.width, params.dst) == (64, memory)
    executable, error_node = ok(hip.hipGraphInstantiate(graph, None, 0))  # a log of no bytes
    assert error_node is None
    assert len(ok(hip.hipGraphInstantiate(graph, pLogBuffer=ctypes.create_string_buffer(8), bufferSize=8))) == 2
    assert len(ok(hip.hipGraphInstantiate(graph, 0))) == 3
    assert hip.hipGraphExecUpdate(executable, graph) == (0, None, RESULT.hipGraphExecUpdateSuccess)
    other = ok(hip.hipGraphCreate(0))
    code, node, why = hip.hipGraphExecUpdate(executable, other)
    assert code == hip.hipError_t.hipErrorGraphExecUpdateFailure
    assert why != RESULT.hipGraphExecUpdateSuccess
    assert hip.hipGraphLaunch(executable, None) == (0,)
    assert hip.hipDeviceSynchronize() == (0,)
    assert hip.hipGraphAddEmptyNode(graph, 1) == (hip.hipError_t.hipErrorInvalidValue, None, None)
    assert hip.hipFree(memory) == (0,)


LISTS = {name: _Forms.LISTS & inspect.signature(getattr(hip, name)).parameters.keys() for name in FUNCTIONS}


@pytest.mark.parametrize("name", [name for name, lists in LISTS.items() if lists])
def test_each_function_with_lists_can_be_called_without_them(device, name):
    function = getattr(hip, name)
    given = [0] * (len(inspect.signature(function).parameters) - len(LISTS[name]))
    assert function(*given)[1:] == (None,) * (function.outputs + len(LISTS[name]))


def test_a_module_whose_options_are_left_out(device):
    """The options of its compiler are an output there."""
    module, none = ok(hip.hipModuleLoadDataEx(FILL, 0, None))
    assert none is None
    assert hip.hipModuleUnload(module) == (0,)
    assert hip.hipModuleUnload(ok(hip.hipModuleLoadDataEx(FILL, 0, None, None))) == (0,)
    assert hip.hipModuleUnload(ok(hip.hipModuleLoadDataEx(FILL))) == (0,)


@pytest.mark.parametrize(("name", "arguments", "named", "message"), [
    ("hipMalloc3D", (7, 8), {}, "takes 1 positional argument but 2 were given"),
    ("hipMalloc", (4, 5), {}, "takes 1 positional argument but 2 were given"),
    ("hipMalloc", (4,), {"bytes": 5}, "unexpected keyword argument 'bytes'"),
    ("hipGraphAddEmptyNode", (None, []), {}, "missing 1 required positional argument: 'numDependencies'"),
    ("hipGraphAddEmptyNode", (None,), {}, "missing 2 required positional arguments"),
    ("hipGetDeviceProperties", (hip.hipExtent(), 0), {}, "fills in no hipExtent"),
    ("hipGraphInstantiate", (1, 2, 3, 4), {}, "positional arguments but 4 were given"),
])  # fmt: skip
def test_other_arguments_are_refused(device, name, arguments, named, message):
    with pytest.raises((TypeError, ArgumentTypeError), match=message):
        getattr(hip, name)(*arguments, **named)
