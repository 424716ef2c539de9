"""The nodes of graphs: adding them, and asking for them. Dependencies are given as a list and its length."""

from __future__ import annotations

import ctypes
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from penstock.hip.allocations import Place
from penstock.hip.callbacks import host_call
from penstock.hip.copies import CopyOnHost, places
from penstock.hip.enums import hipError_t, hipGraphNodeType
from penstock.hip.errors import HipError, api
from penstock.hip.graph_params import (
    check_params,
    extents_of,
    hipHostNodeParams,
    hipKernelNodeParams,
    hipMemcpy3DParms,
    hipMemsetParams,
    hipPitchedPtr,
    hipPos,
)
from penstock.hip.graphs import executable_of, graph_of, hipGraphNode, ihipGraph, invalid_values, node_of, nodes_in
from penstock.hip.memory import size_of
from penstock.hip.modules import function_of
from penstock.hip.pointers import Pointer, host_view
from penstock.queues.graph import Graph, Node
from penstock.queues.hip_launch import Address, kernel_arguments
from penstock.queues.work import make_kernel

__all__ = [
    "hipGraphAddDependencies",
    "hipGraphAddEmptyNode",
    "hipGraphAddHostNode",
    "hipGraphAddKernelNode",
    "hipGraphAddMemcpyNode",
    "hipGraphAddMemcpyNode1D",
    "hipGraphAddMemsetNode",
    "hipGraphExecKernelNodeSetParams",
    "hipGraphGetEdges",
    "hipGraphGetNodes",
    "hipGraphGetRootNodes",
    "hipGraphKernelNodeSetParams",
    "hipGraphNodeGetDependencies",
    "hipGraphNodeGetDependentNodes",
    "hipGraphNodeGetType",
]

ELEMENTS = {1: "u1", 2: "u2", 4: "u4"}
TYPES = {
    "kernel": hipGraphNodeType.hipGraphNodeTypeKernel,
    "copy": hipGraphNodeType.hipGraphNodeTypeMemcpy,
    "fill": hipGraphNodeType.hipGraphNodeTypeMemset,
    "host": hipGraphNodeType.hipGraphNodeTypeHost,
    "empty": hipGraphNodeType.hipGraphNodeTypeEmpty,
}


def _invalid(message: str) -> HipError:
    return HipError(hipError_t.hipErrorInvalidValue, message)


def _begin(graph: Any, dependencies: Any, count: Any) -> tuple[ihipGraph, Graph, tuple[Node, ...]]:
    """The graph, and what a new node of it comes after."""
    known = graph_of(graph)
    assert known.graph is not None
    after: list[Node] = []
    for each in nodes_in(dependencies, count, "dependencies"):
        assert each.node is not None
        if each.node in after:
            raise _invalid("a dependency is given twice")
        after.append(each.node)
    return known, known.graph, tuple(after)


# -- kernels


def _launch_of(params: Any) -> tuple[Any, ...]:
    """What a kernel node's parameters say: the kernel, grid, block and arguments."""
    check_params(params, hipKernelNodeParams)
    if params.func is None:
        raise _invalid("there is no function: None")
    try:
        function = function_of(params.func)
    except HipError as error:
        raise HipError(hipError_t.hipErrorInvalidDeviceFunction, str(error)) from error
    with invalid_values():
        arguments = kernel_arguments(function, params.sharedMemBytes, params.kernelParams, params.extra)
        return function.kernel, extents_of(params.gridDim), extents_of(params.blockDim), *arguments


@api(outputs=1)
def hipGraphAddKernelNode(graph: Any, pDependencies: Any, numDependencies: int, pNodeParams: Any) -> hipGraphNode:
    """Add a launch; ``(hipError_t, node)``. The arguments' values are those of now.

    Parameters
    ----------
    pDependencies : list of hipGraphNode, or pointer to their numbers
        What it comes after; None when there are none.
    numDependencies : int
        How many of them count.
    pNodeParams : hipKernelNodeParams

    hipErrorInvalidValue for what is none of the graph's nodes, a dependency given twice, and what
    `hipModuleLaunchKernel` would refuse; hipErrorInvalidDeviceFunction for what is no function.
    """
    known, made, after = _begin(graph, pDependencies, numDependencies)
    kernel, grid, block, *arguments = _launch_of(pNodeParams)
    with invalid_values():
        return known.handle_of(made.add_kernel(kernel, grid, block, *arguments, after=after))


def _kernel_node(node: Any) -> hipGraphNode:
    known = node_of(node)
    if known.node is None or known.node.kind != "kernel":
        raise _invalid("this is no kernel node")
    return known


@api()
def hipGraphKernelNodeSetParams(node: Any, pNodeParams: Any) -> None:
    """Let a node launch something else in what is instantiated from now on; ``(hipError_t,)``.

    hipErrorInvalidValue when it is no kernel node, and as for `hipGraphAddKernelNode`.
    """
    known = _kernel_node(node)
    kernel, grid, block, *arguments = _launch_of(pNodeParams)
    assert known.node is not None
    graph = known.node.graph
    assert graph is not None
    with invalid_values():
        known.node.work = make_kernel(graph.device, kernel, grid, block, tuple(arguments))
    graph._own = None


@api()
def hipGraphExecKernelNodeSetParams(hGraphExec: Any, node: Any, pNodeParams: Any) -> None:
    """Let a node launch something else from the next launch of an executable graph on; ``(hipError_t,)``.

    The graph and launches under way are not changed. hipErrorInvalidValue when it is no kernel node of the graph that
    this was instantiated from, or was added since; and as for `hipGraphAddKernelNode`.
    """
    executable, known = executable_of(hGraphExec), _kernel_node(node)
    kernel, grid, block, *arguments = _launch_of(pNodeParams)
    assert known.node is not None
    with invalid_values():
        executable.set_kernel(known.node, kernel, grid, block, *arguments)


# -- memory


def _add_copies(
    known: ihipGraph, to: Place, source: Place, spans: Sequence[tuple[int, int, int]], after: tuple[Node, ...]
) -> hipGraphNode:
    """Rows of a copy, given as where in either place they begin and how long they are."""
    graph = known.graph
    assert graph is not None
    with invalid_values():
        if to.buffer is None and source.buffer is None:
            return known.handle_of(graph.add_host(CopyOnHost(to, source, spans), after=after))
        if spans == [(0, 0, nbytes := spans[0][2])] and all(_size(place) == nbytes for place in (to, source)):
            return known.handle_of(graph.add_copy(to.end, source.end, after=after))
        ends: list[Any] = [place.end if place.buffer is not None else place.bytes() for place in (to, source)]
        rows: list[Node] = []
        for at, of, nbytes in spans:
            row = graph.add_copy(ends[0][at : at + nbytes], ends[1][of : of + nbytes], after=rows[-1:] or after)
            rows.append(row)
        return known.add_rows(rows)


def _size(place: Place) -> int:
    return place.buffer.nbytes if place.buffer is not None else place.bytes().nbytes


@api(outputs=1)
def hipGraphAddMemcpyNode1D(
    graph: Any, pDependencies: Any, numDependencies: int, dst: Any, src: Any, count: int, kind: Any
) -> hipGraphNode:
    """Add a copy; ``(hipError_t, node)``. Memory of the host is read, or written, each time the graph runs.

    See `hipMemcpyAsync` for what is copied and `hipGraphAddKernelNode` for dependencies. hipErrorInvalidValue for 0
    bytes.
    """
    known, _, after = _begin(graph, pDependencies, numDependencies)
    nbytes = size_of(count)
    if nbytes == 0:
        raise _invalid("a copy of 0 bytes")
    to, source = places(dst, src, nbytes, kind)
    return _add_copies(known, to, source, [(0, 0, nbytes)], after)


def _at(ptr: hipPitchedPtr, pos: hipPos) -> int:
    """Where a copy begins."""
    return int(pos.z * ptr.ysize * ptr.pitch + pos.y * ptr.pitch + pos.x)


@api(outputs=1)
def hipGraphAddMemcpyNode(graph: Any, pDependencies: Any, numDependencies: int, pCopyParams: Any) -> hipGraphNode:
    """Add a copy of rows and planes; ``(hipError_t, node)``.

    Parameters
    ----------
    pCopyParams : hipMemcpy3DParms

    One command for each row, or one for all when there are no gaps. hipErrorInvalidValue for an empty extent, and for
    arrays in texture memory, which there are none of; hipErrorInvalidPitchValue for a pitch below the width.
    """
    known, _, after = _begin(graph, pDependencies, numDependencies)
    check_params(pCopyParams, hipMemcpy3DParms)
    params: hipMemcpy3DParms = pCopyParams
    if params.srcArray is not None or params.dstArray is not None:
        raise _invalid("there are no arrays in texture memory")
    width, height, depth = (size_of(each) for each in (params.extent.width, params.extent.height, params.extent.depth))
    if 0 in (width, height, depth):
        raise _invalid(f"a copy of {width} bytes in {height} rows and {depth} planes")
    several = height > 1 or depth > 1
    pitches = []
    for ptr in (params.dstPtr, params.srcPtr):
        if several and ptr.pitch < width:
            raise HipError(hipError_t.hipErrorInvalidPitchValue, f"rows of {width} bytes, {ptr.pitch} apart")
        if depth > 1 and ptr.ysize < height:
            raise _invalid(f"planes of {height} rows, {ptr.ysize} apart")
        pitches.append((ptr.pitch, ptr.pitch * ptr.ysize))
    rows = [(y, z) for z in range(depth) for y in range(height)]
    spans = [(y * pitches[0][0] + z * pitches[0][1], y * pitches[1][0] + z * pitches[1][1], width) for y, z in rows]
    if all(at == of == i * width for i, (at, of, _) in enumerate(spans)):
        spans = [(0, 0, width * len(spans))]
    begins = []
    for ptr, pos, what in ((params.dstPtr, params.dstPos, "dst"), (params.srcPtr, params.srcPos, "src")):
        if ptr.ptr is None:
            raise _invalid(f"{what} is a null pointer")
        begins.append(_moved(ptr.ptr, _at(ptr, pos)))
    ends = [max(span[i] for span in spans) + spans[0][2] for i in range(2)]
    places(begins[0], begins[1], width, params.kind)
    return _add_copies(known, Place(begins[0], ends[0], "dst"), Place(begins[1], ends[1], "src"), spans, after)


def _moved(pointer: Any, nbytes: int) -> Any:
    """So many bytes further on; what knows how much memory it has knows that of the rest."""
    if nbytes == 0:
        return pointer
    view = None if isinstance(pointer, (Address, int, ctypes.c_void_p)) else host_view(pointer)
    return Pointer(pointer) + nbytes if view is None else view[nbytes:]


@api(outputs=1)
def hipGraphAddMemsetNode(graph: Any, pDependencies: Any, numDependencies: int, pMemsetParams: Any) -> hipGraphNode:
    """Add what sets memory of the device to a value; ``(hipError_t, node)``.

    Parameters
    ----------
    pMemsetParams : hipMemsetParams

    One command for each row, or one for all when there are no gaps. hipErrorInvalidValue for memory that is not from
    here or too small, an empty extent, elements of other than 1, 2 or 4 bytes, and a pitch below the width.
    """
    known, made, after = _begin(graph, pDependencies, numDependencies)
    check_params(pMemsetParams, hipMemsetParams)
    params: hipMemsetParams = pMemsetParams
    if params.elementSize not in ELEMENTS:
        raise _invalid(f"elements of {params.elementSize} bytes")
    element = np.dtype(ELEMENTS[params.elementSize])
    height, row = size_of(params.height), size_of(params.width) * element.itemsize
    pitch = size_of(params.pitch) if height > 1 else row
    if row == 0 or height == 0 or pitch < row:
        raise _invalid(f"{height} rows of {row} bytes, {pitch} apart")
    buffer = Place(params.dst, pitch * height if height > 1 else row, "dst").for_device()
    value = operator.index(params.value) & ((1 << 8 * element.itemsize) - 1)
    parts = [(0, row * height)] if pitch == row else [(i * pitch, i * pitch + row) for i in range(height)]
    with invalid_values():
        rows: list[Node] = []
        for at, end in parts:
            rows.append(made.add_fill(buffer[at:end].view(element), value, after=rows[-1:] or after))
        return known.add_rows(rows)


# -- others


@api(outputs=1)
def hipGraphAddHostNode(graph: Any, pDependencies: Any, numDependencies: int, pNodeParams: Any) -> hipGraphNode:
    """Add a host function; ``(hipError_t, node)``.

    Parameters
    ----------
    pNodeParams : hipHostNodeParams

    See `hipLaunchHostFunc`. hipErrorInvalidValue without a function.
    """
    known, made, after = _begin(graph, pDependencies, numDependencies)
    check_params(pNodeParams, hipHostNodeParams)
    return known.handle_of(made.add_host(host_call(pNodeParams.fn, pNodeParams.userData), after=after))


@api(outputs=1)
def hipGraphAddEmptyNode(graph: Any, pDependencies: Any, numDependencies: int) -> hipGraphNode:
    """Add a node that does nothing, for others to depend on; ``(hipError_t, node)``."""
    known, made, after = _begin(graph, pDependencies, numDependencies)
    return known.handle_of(made.add_empty(after=after))


@api()
def hipGraphAddDependencies(graph: Any, from_: Any, to: Any, numDependencies: int) -> None:
    """Let each node of `to` come after the one of `from_` at the same place; ``(hipError_t,)``.

    Nothing has changed after hipErrorInvalidValue: for nodes of another graph, a node that is to come after itself, and
    a dependency that there is already. Whether nodes depend on each other in a circle is for `hipGraphInstantiate`.
    """
    known = graph_of(graph)
    assert known.graph is not None
    edges = []
    for earlier, later in zip(
        nodes_in(from_, numDependencies, "dependencies"), nodes_in(to, numDependencies, "dependencies"), strict=True
    ):
        assert earlier.node is not None
        assert later.first is not None
        if earlier.graph is not known or later.graph is not known:
            raise _invalid("a node belongs to another graph")
        edge = (earlier.node, later.first)
        if earlier == later or edge in edges or earlier.node in later.first.dependencies:
            raise _invalid("a node comes after itself, or after another one already")
        edges.append(edge)
    for edge in edges:
        known.graph.add_dependency(*edge)


# -- asking


def _edges(known: ihipGraph) -> list[tuple[hipGraphNode, hipGraphNode]]:
    found = []
    for later in known.nodes:
        assert later.first is not None
        found += [(known.handle_of(node), later) for node in later.first.dependencies]
    return found


@api(outputs=2)
def hipGraphGetNodes(graph: Any) -> tuple[list[hipGraphNode], int]:
    """Return ``(hipError_t, nodes, count)``: a list, in the order they were added in."""
    nodes = graph_of(graph).nodes
    return nodes, len(nodes)


@api(outputs=2)
def hipGraphGetRootNodes(graph: Any) -> tuple[list[hipGraphNode], int]:
    """Return ``(hipError_t, nodes, count)`` of those that come after no other."""
    nodes = [node for node in graph_of(graph).nodes if node.first is not None and not node.first.dependencies]
    return nodes, len(nodes)


@api(outputs=3)
def hipGraphGetEdges(graph: Any) -> tuple[list[hipGraphNode], list[hipGraphNode], int]:
    """Return ``(hipError_t, from, to, count)``: the second list's nodes come after the first's at the same place."""
    edges = _edges(graph_of(graph))
    return [earlier for earlier, _ in edges], [later for _, later in edges], len(edges)


@api(outputs=2)
def hipGraphNodeGetDependencies(node: Any) -> tuple[list[hipGraphNode], int]:
    """Return ``(hipError_t, nodes, count)`` of what a node comes after."""
    known = node_of(node)
    assert known.graph is not None
    nodes = [earlier for earlier, later in _edges(known.graph) if later == known]
    return nodes, len(nodes)


@api(outputs=2)
def hipGraphNodeGetDependentNodes(node: Any) -> tuple[list[hipGraphNode], int]:
    """Return ``(hipError_t, nodes, count)`` of what comes after a node."""
    known = node_of(node)
    assert known.graph is not None
    nodes = [later for earlier, later in _edges(known.graph) if earlier == known]
    return nodes, len(nodes)


@api(outputs=1)
def hipGraphNodeGetType(node: Any) -> hipGraphNodeType:
    """Return ``(hipError_t, hipGraphNodeType)``."""
    known = node_of(node)
    assert known.node is not None
    if isinstance(getattr(known.node.work, "function", None), CopyOnHost):
        return TYPES["copy"]
    return TYPES[known.node.kind]
