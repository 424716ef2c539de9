"""Variables of modules as symbols: hipMemcpyToSymbol and its like, and nodes of graphs."""

import numpy as np
import pytest

from forebay import hip

from ..conftest import ok
from ..helpers import E, K, code, instantiate, ints
from .test_variables import SOURCE, compiled, int4, load, step, variable  # noqa: F401


def test_wrong_symbols(load, works):  # noqa: F811
    module = load()
    by, data, memory = variable(module, b"by"), int4(1, 2, 3, 4), ints(4)
    for wrong in (None, 0, memory, by + 4, data, 12345):
        for result in (
            hip.hipGetSymbolAddress(wrong),
            hip.hipGetSymbolSize(wrong),
            hip.hipMemcpyToSymbol(wrong, data, 4, 0, K.hipMemcpyHostToDevice),
            hip.hipMemcpyFromSymbol(data, wrong, 4, 0, K.hipMemcpyDeviceToHost),
            hip.hipMemcpyToSymbolAsync(wrong, data, 4, 0, K.hipMemcpyHostToDevice, None),
        ):
            assert code(result) == E.hipErrorInvalidSymbol
    for size, offset in ((17, 0), (16, 1), (1, 16), (4, -1), (-1, 0)):
        assert code(hip.hipMemcpyToSymbol(by, data, size, offset, K.hipMemcpyDefault)) == E.hipErrorInvalidValue
        assert code(hip.hipMemcpyFromSymbol(data, by, size, offset, K.hipMemcpyDefault)) == E.hipErrorInvalidValue
    assert code(hip.hipMemcpyToSymbol(by, None, 4, 0, K.hipMemcpyDefault)) == E.hipErrorInvalidValue
    for kind in (K.hipMemcpyDeviceToHost, K.hipMemcpyHostToHost, 99):
        assert code(hip.hipMemcpyToSymbol(by, data, 4, 0, kind)) == E.hipErrorInvalidMemcpyDirection
    for kind in (K.hipMemcpyHostToDevice, K.hipMemcpyHostToHost, 99):
        assert code(hip.hipMemcpyFromSymbol(data, by, 4, 0, kind)) == E.hipErrorInvalidMemcpyDirection
    ok(hip.hipMemcpyToSymbol(by, data, 0, 16, K.hipMemcpyDefault))
    ok(hip.hipModuleUnload(module))
    assert code(hip.hipMemcpyToSymbol(by, data, 4, 0, K.hipMemcpyDefault)) == E.hipErrorInvalidSymbol
    works(None)


@pytest.mark.executes(run=False)
def test_nodes(load, graph, streams):  # noqa: F811
    module, (stream,) = load(), streams(1)
    by, given, got = variable(module, b"by"), int4(10, 20, 30, 40), np.zeros(4, "i4")
    to = ok(hip.hipGraphAddMemcpyNodeToSymbol(graph, None, 0, by, given, 16, 0, K.hipMemcpyHostToDevice))
    back = ok(hip.hipGraphAddMemcpyNodeFromSymbol(graph, [to], 1, got, by, 8, 8, K.hipMemcpyDeviceToHost))
    assert ok(hip.hipGraphNodeGetType(to)) == hip.hipGraphNodeType.hipGraphNodeTypeMemcpy
    executable = instantiate(graph)
    ok(hip.hipGraphLaunch(executable, stream))
    ok(hip.hipStreamSynchronize(stream))
    assert got.tolist() == [30, 40, 0, 0]
    other = int4(1, 2, 3, 4)
    ok(hip.hipGraphExecMemcpyNodeSetParamsToSymbol(executable, to, by, other, 8, 8, K.hipMemcpyHostToDevice))
    ok(hip.hipGraphExecMemcpyNodeSetParamsFromSymbol(executable, back, got, by, 16, 0, K.hipMemcpyDeviceToHost))
    ok(hip.hipGraphLaunch(executable, stream))
    ok(hip.hipStreamSynchronize(stream))
    assert got.tolist() == [10, 20, 1, 2]
    ok(hip.hipGraphMemcpyNodeSetParamsToSymbol(to, by, other, 16, 0, K.hipMemcpyHostToDevice))
    ok(hip.hipGraphMemcpyNodeSetParamsFromSymbol(back, got, by, 12, 4, K.hipMemcpyDeviceToHost))
    ok(hip.hipGraphLaunch(instantiate(graph), stream))
    ok(hip.hipStreamSynchronize(stream))
    assert got.tolist() == [2, 3, 4, 2]


def test_wrong_nodes(load, graph):  # noqa: F811
    by, data, memory = variable(load(), b"by"), int4(1, 2, 3, 4), ints(4)
    to = hip.hipGraphAddMemcpyNodeToSymbol
    assert code(to(graph, None, 0, memory, data, 4, 0, K.hipMemcpyHostToDevice)) == E.hipErrorInvalidSymbol
    assert code(to(graph, None, 0, by, data, 20, 0, K.hipMemcpyHostToDevice)) == E.hipErrorInvalidValue
    assert code(to(graph, None, 0, by, data, 0, 0, K.hipMemcpyHostToDevice)) == E.hipErrorInvalidValue
    assert code(to(graph, None, 0, by, data, 4, 0, K.hipMemcpyDeviceToHost)) == E.hipErrorInvalidMemcpyDirection
    assert code(to(None, None, 0, by, data, 4, 0, K.hipMemcpyHostToDevice)) == E.hipErrorInvalidValue
    assert ok(hip.hipGraphGetNodes(graph))[1] == 0
