"""Asking what nodes of graphs do, and changing it: in a graph, or in what was instantiated from it.

What was instantiated before does not see a change of the graph, nor the graph one of what was instantiated; launches
under way see neither.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from forebay.core.errors import NotSupportedError
from forebay.hip.errors import api, check_params
from forebay.hip.facts import hipHostNodeParams, hipKernelNodeParams, hipMemcpy3DParms, hipMemcpyKind, hipMemsetParams
from forebay.hip.graph_nodes import copies_on_host
from forebay.hip.graphs import (
    executable_of,
    graph_of,
    hipGraphNode,
    invalid_values,
    node_of,
)
from forebay.hip.graphs_works import (
    copy_params,
    copy_work,
    has_rows,
    host_work,
    invalid,
    kernel_work,
    memset_work,
)
from forebay.queues.graphs.executable import Work

KINDS = {"kernel": "launches a kernel", "copy": "copies", "fill": "sets memory", "host": "calls a host function"}


def _node(node: Any, kind: str) -> hipGraphNode:
    """The node, which has to do this."""
    known = node_of(node)
    assert known.node is not None
    if ("copy" if copies_on_host(known.node.work) else known.node.kind) != kind:
        raise invalid(f"this is not a node that {KINDS[kind]}")
    return known


def _get(node: Any, kind: str) -> Any:
    known = _node(node, kind)
    if known.params is None:
        raise NotSupportedError("this node was captured, so it has no parameters to return")
    return known.params.copy()


def set_node(node: Any, kind: str, params: Any, make: Callable[[Any, Any], Work]) -> None:
    """Let a node of this kind do what `make` makes from a structure, of which it keeps a copy."""
    known = _node(node, kind)
    assert known.node is not None
    graph = known.node.graph
    assert graph is not None
    graph._replace({known.node: make(graph.device, params)})
    known.params = params.copy()


def _set_in(executable: Any, node: Any, kind: str, params: Any, make: Callable[[Any, Any], Work]) -> None:
    made, known = executable_of(executable), _node(node, kind)
    assert known.node is not None
    work = make(made.device, params)
    with invalid_values():
        made._set(known.node, known.node.kind, lambda: work)


# -- kernels


@api(outputs=1)
def hipGraphKernelNodeGetParams(node: Any) -> hipKernelNodeParams:
    """Return ``(hipError_t, hipKernelNodeParams)``: a copy of what a node was made from, or set to last.

    hipErrorInvalidValue when it is not a kernel node, hipErrorNotSupported when it was captured.
    """
    params: hipKernelNodeParams = _get(node, "kernel")
    return params


@api()
def hipGraphKernelNodeSetParams(node: Any, pNodeParams: Any) -> None:
    """Let a node launch something else in what is instantiated from now on; ``(hipError_t,)``.

    `node` is a kernel node, and `pNodeParams` a hipKernelNodeParams.

    hipErrorInvalidValue when it is not a kernel node, and as for `hipGraphAddKernelNode`.
    """
    set_node(node, "kernel", pNodeParams, kernel_work)


@api()
def hipGraphExecKernelNodeSetParams(hGraphExec: Any, node: Any, pNodeParams: Any) -> None:
    """Let a node launch something else from the next launch of an executable graph on; ``(hipError_t,)``.

    `hGraphExec` is the executable graph, `node` a kernel node, and `pNodeParams` a hipKernelNodeParams.

    The graph and launches under way are not changed. hipErrorInvalidValue when it is not a kernel node of the graph
    that this was instantiated from, or was added since; and as for `hipGraphAddKernelNode`.
    """
    _set_in(hGraphExec, node, "kernel", pNodeParams, kernel_work)


# -- copies


@api(outputs=1)
def hipGraphMemcpyNodeGetParams(node: Any) -> hipMemcpy3DParms:
    """Return ``(hipError_t, hipMemcpy3DParms)``, of one row for `hipGraphAddMemcpyNode1D`.

    `node` is a copy node; hipErrorInvalidValue for another.

    See `hipGraphKernelNodeGetParams`.
    """
    params: hipMemcpy3DParms = _get(node, "copy")
    return params


@api()
def hipGraphMemcpyNodeSetParams(node: Any, pNodeParams: Any) -> None:
    """Let a node copy something else in what is instantiated from now on, also the other way; ``(hipError_t,)``.

    `node` is a copy node, and `pNodeParams` a hipMemcpy3DParms.

    hipErrorInvalidValue when it copies nothing, and as for `hipGraphAddMemcpyNode`.
    """
    set_node(node, "copy", pNodeParams, copy_work)


@api()
def hipGraphMemcpyNodeSetParams1D(node: Any, dst: Any, src: Any, count: int, kind: int) -> None:
    """Do what `hipGraphMemcpyNodeSetParams` does, for bytes in one row; ``(hipError_t,)``.

    `node` is a copy node; `count` bytes from `src` to `dst`, of this `kind`.
    """
    set_node(node, "copy", copy_params(dst, src, count, kind), copy_work)


def set_copy_in(executable: Any, node: Any, params: Any) -> None:
    """Let a copy node of an executable graph copy something else."""
    known = _node(node, "copy")
    check_params(params, hipMemcpy3DParms)
    if has_rows(params) or (known.params is not None and has_rows(known.params)):
        raise invalid("copies of rows are not changed in an executable graph")

    def make(device: Any, given: Any) -> Work:
        work = copy_work(device, given)
        if known.params is not None and hipMemcpyKind(known.params.kind) != given.kind:
            raise invalid(f"the node copies {hipMemcpyKind(known.params.kind).name}: that is not changed")
        return work

    _set_in(executable, node, "copy", params, make)


@api()
def hipGraphExecMemcpyNodeSetParams(hGraphExec: Any, node: Any, pNodeParams: Any) -> None:
    """Let a node copy something else from the next launch of an executable graph on; ``(hipError_t,)``.

    `hGraphExec` is the executable graph, `node` a copy node, and `pNodeParams` a hipMemcpy3DParms.

    hipErrorInvalidValue for a copy of more than one row, before or now; for another kind than the node was made with,
    and between other kinds of memory; and as for `hipGraphExecKernelNodeSetParams` and `hipGraphAddMemcpyNode`.
    """
    set_copy_in(hGraphExec, node, pNodeParams)


@api()
def hipGraphExecMemcpyNodeSetParams1D(hGraphExec: Any, node: Any, dst: Any, src: Any, count: int, kind: int) -> None:
    """Do what `hipGraphExecMemcpyNodeSetParams` does, for bytes in one row; ``(hipError_t,)``.

    `hGraphExec` and `node` as there; `count` bytes from `src` to `dst`, of this `kind`.
    """
    set_copy_in(hGraphExec, node, copy_params(dst, src, count, kind))


# -- memsets


@api(outputs=1)
def hipGraphMemsetNodeGetParams(node: Any) -> hipMemsetParams:
    """Return ``(hipError_t, hipMemsetParams)``; see `hipGraphKernelNodeGetParams`.

    `node` is a memset node; hipErrorInvalidValue for another.
    """
    params: hipMemsetParams = _get(node, "fill")
    return params


@api()
def hipGraphMemsetNodeSetParams(node: Any, pNodeParams: Any) -> None:
    """Let a node set something else in what is instantiated from now on; ``(hipError_t,)``.

    `node` is a memset node, and `pNodeParams` a hipMemsetParams.

    hipErrorInvalidValue when it is not a memset node, and as for `hipGraphAddMemsetNode`.
    """
    set_node(node, "fill", pNodeParams, memset_work)


@api()
def hipGraphExecMemsetNodeSetParams(hGraphExec: Any, node: Any, pNodeParams: Any) -> None:
    """Let a node set something else from the next launch of an executable graph on; ``(hipError_t,)``.

    `hGraphExec` is the executable graph, `node` a memset node, and `pNodeParams` a hipMemsetParams.

    hipErrorInvalidValue for more than one row, before or now, and as for `hipGraphExecKernelNodeSetParams` and
    `hipGraphAddMemsetNode`.
    """
    known = _node(node, "fill")
    check_params(pNodeParams, hipMemsetParams)
    if has_rows(pNodeParams) or (known.params is not None and has_rows(known.params)):
        raise invalid("rows are not changed in an executable graph")
    _set_in(hGraphExec, node, "fill", pNodeParams, memset_work)


# -- host functions and graphs


def _host_work(_: Any, params: Any) -> Work:
    return host_work(params)


@api(outputs=1)
def hipGraphHostNodeGetParams(node: Any) -> hipHostNodeParams:
    """Return ``(hipError_t, hipHostNodeParams)``; see `hipGraphKernelNodeGetParams`.

    `node` is a host node; hipErrorInvalidValue for another.
    """
    params: hipHostNodeParams = _get(node, "host")
    return params


@api()
def hipGraphHostNodeSetParams(node: Any, pNodeParams: Any) -> None:
    """Let a node call something else in what is instantiated from now on; ``(hipError_t,)``.

    `node` is a host node, and `pNodeParams` a hipHostNodeParams.

    hipErrorInvalidValue when it is not a host node, and without a function.
    """
    set_node(node, "host", pNodeParams, _host_work)


@api()
def hipGraphExecHostNodeSetParams(hGraphExec: Any, node: Any, pNodeParams: Any) -> None:
    """Let a node call something else from the next launch of an executable graph on; ``(hipError_t,)``.

    `hGraphExec` is the executable graph, `node` a host node, and `pNodeParams` a hipHostNodeParams.

    hipErrorInvalidValue when it is not a host node, without a function, and as for `hipGraphExecKernelNodeSetParams`.
    """
    _set_in(hGraphExec, node, "host", pNodeParams, _host_work)


@api()
def hipGraphExecChildGraphNodeSetParams(hGraphExec: Any, node: Any, childGraph: Any) -> None:
    """Let a node do what a graph does now, from the next launch of an executable graph on; ``(hipError_t,)``.

    `hGraphExec` is the executable graph, `node` the node, and `childGraph` the graph.

    hipErrorInvalidValue when the graph's nodes are of other kinds, or copy another way, than those of the graph that
    the node was made from; and as for `hipGraphExecKernelNodeSetParams` and `hipGraphAddChildGraphNode`.
    """
    executable, known, child = executable_of(hGraphExec), node_of(node), graph_of(childGraph)
    assert known.node is not None
    assert child.graph is not None
    with invalid_values():
        executable.set_graph(known.node, child.graph)
