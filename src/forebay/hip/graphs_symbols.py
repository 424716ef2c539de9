"""Nodes that copy to and from variables of modules. They are copy nodes, with a symbol as one of their ends."""

from __future__ import annotations

from typing import Any

from forebay.hip.errors import api
from forebay.hip.facts import hipMemcpy3DParms
from forebay.hip.graph_nodes import add_node
from forebay.hip.graphs import hipGraphNode
from forebay.hip.graphs_node_params import set_copy_in, set_node
from forebay.hip.graphs_works import copy_params, copy_work
from forebay.hip.transfers_symbols import (
    FROM,
    TO,
    check_symbol_kind,
    within,
)


def _to(symbol: Any, src: Any, count: Any, offset: Any, kind: Any) -> hipMemcpy3DParms:
    check_symbol_kind(kind, TO)
    return copy_params(within(symbol, offset), src, count, kind)


def _from(dst: Any, symbol: Any, count: Any, offset: Any, kind: Any) -> hipMemcpy3DParms:
    check_symbol_kind(kind, FROM)
    return copy_params(dst, within(symbol, offset), count, kind)


@api(outputs=1)
def hipGraphAddMemcpyNodeToSymbol(
    graph: Any, pDependencies: Any, numDependencies: int, symbol: Any, src: Any, count: int, offset: int, kind: int
) -> hipGraphNode:
    """Add a copy into a variable; ``(hipError_t, node)``.

    `count` bytes from `src`, to `offset` bytes into the variable `symbol`, of this `kind`; `graph`, `pDependencies` and
    `numDependencies` as for `hipGraphAddKernelNode`.

    See `hipMemcpyToSymbol` for the variable and `hipGraphAddMemcpyNode1D` for the rest.
    """
    return add_node(graph, pDependencies, numDependencies, _to(symbol, src, count, offset, kind), copy_work)


@api(outputs=1)
def hipGraphAddMemcpyNodeFromSymbol(
    graph: Any, pDependencies: Any, numDependencies: int, dst: Any, symbol: Any, count: int, offset: int, kind: int
) -> hipGraphNode:
    """Add a copy from a variable; ``(hipError_t, node)``. See `hipGraphAddMemcpyNodeToSymbol`.

    `graph`, `pDependencies`, `numDependencies`, `symbol`, `count`, `offset` and `kind` as there; `dst` gets the bytes.
    """
    return add_node(graph, pDependencies, numDependencies, _from(dst, symbol, count, offset, kind), copy_work)


@api()
def hipGraphMemcpyNodeSetParamsToSymbol(node: Any, symbol: Any, src: Any, count: int, offset: int, kind: int) -> None:
    """Let a node copy into a variable in what is instantiated from now on; ``(hipError_t,)``.

    `symbol`, `src`, `count`, `offset` and `kind` as for `hipGraphAddMemcpyNodeToSymbol`.

    See `hipGraphMemcpyNodeSetParams` and `hipMemcpyToSymbol`.
    """
    set_node(node, "copy", _to(symbol, src, count, offset, kind), copy_work)


@api()
def hipGraphMemcpyNodeSetParamsFromSymbol(node: Any, dst: Any, symbol: Any, count: int, offset: int, kind: int) -> None:
    """Let a node copy from a variable in what is instantiated from now on; ``(hipError_t,)``.

    `dst`, `symbol`, `count`, `offset` and `kind` as for `hipGraphAddMemcpyNodeFromSymbol`. Errors as for
    `hipGraphMemcpyNodeSetParams`.
    """
    set_node(node, "copy", _from(dst, symbol, count, offset, kind), copy_work)


@api()
def hipGraphExecMemcpyNodeSetParamsToSymbol(
    hGraphExec: Any, node: Any, symbol: Any, src: Any, count: int, offset: int, kind: int
) -> None:
    """Let a node copy into a variable from the next launch of an executable graph on; ``(hipError_t,)``.

    `hGraphExec` is the executable graph; `symbol`, `src`, `count`, `offset` and `kind` as for
    `hipGraphAddMemcpyNodeToSymbol`.

    See `hipGraphExecMemcpyNodeSetParams` and `hipMemcpyToSymbol`.
    """
    set_copy_in(hGraphExec, node, _to(symbol, src, count, offset, kind))


@api()
def hipGraphExecMemcpyNodeSetParamsFromSymbol(
    hGraphExec: Any, node: Any, dst: Any, symbol: Any, count: int, offset: int, kind: int
) -> None:
    """Let a node copy from a variable from the next launch of an executable graph on; ``(hipError_t,)``.

    `hGraphExec` is the executable graph; `dst`, `symbol`, `count`, `offset` and `kind` as for
    `hipGraphAddMemcpyNodeFromSymbol`. Errors as for `hipGraphExecMemcpyNodeSetParams`.
    """
    set_copy_in(hGraphExec, node, _from(dst, symbol, count, offset, kind))
