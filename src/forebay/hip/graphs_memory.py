"""Memory that graphs allocate: nodes, and how much there is (HIP, graph memory nodes).

The memory is there from the making of its node on, until the node's graph and what was instantiated from it are gone;
when a launch has handed it out then, until it is freed.
"""

from __future__ import annotations

import ctypes
from typing import Any

from forebay.hip import allocations
from forebay.hip.allocations import Place
from forebay.hip.devices import device_number, device_of, infos, number_of
from forebay.hip.errors import HipError, api, check_params
from forebay.hip.facts import (
    hipError_t,
    hipGraphMemAttributeType,
    hipMemAllocationType,
    hipMemAllocNodeParams,
    hipMemLocation,
    hipMemLocationType,
    hipMemoryType,
    hipMemPoolProps,
)
from forebay.hip.graph_nodes import begin_node
from forebay.hip.graphs import hipGraphNode, node_of
from forebay.hip.memory import hand_out, size_of
from forebay.hip.pointers import DeviceArray, address_of
from forebay.queues.graphs.executable import figures_of

Attr = hipGraphMemAttributeType
ATTRIBUTES = {
    Attr.hipGraphMemAttrUsedMemCurrent: "used",
    Attr.hipGraphMemAttrUsedMemHigh: "used_high",
    Attr.hipGraphMemAttrReservedMemCurrent: "reserved",
    Attr.hipGraphMemAttrReservedMemHigh: "reserved_high",
}
PINNED, ON_DEVICE = hipMemAllocationType.hipMemAllocationTypePinned, hipMemLocationType.hipMemLocationTypeDevice


def _invalid(message: str) -> HipError:
    return HipError(hipError_t.hipErrorInvalidValue, message)


# -- nodes


@api(outputs=1)
def hipGraphAddMemAllocNode(graph: Any, pDependencies: Any, numDependencies: int, pNodeParams: Any) -> hipGraphNode:
    """Add what allocates memory; ``(hipError_t, node)``. ``pNodeParams.dptr`` is set to the pointer.

    `pDependencies` and `numDependencies` as for `hipGraphAddKernelNode`.

    The address stays the same in every launch. The memory is in use from the launch on until a node of the graph frees
    it, or else until hipFree or hipFreeAsync after the launch, or a node of another graph; before that the graph can be
    launched again only with hipGraphInstantiateFlagAutoFreeOnLaunch. See `forebay.Graph`.

    Parameters
    ----------
    pNodeParams : hipMemAllocNodeParams
        Pinned memory of the graph's device.

    hipErrorInvalidValue for other memory, for 0 bytes, and as for `hipGraphAddKernelNode`; hipErrorOutOfMemory;
    hipErrorNotSupported for memory of another device than the graph's.
    """
    known, made, after = begin_node(graph, pDependencies, numDependencies)
    check_params(pNodeParams, hipMemAllocNodeParams)
    params: hipMemAllocNodeParams = pNodeParams
    check_params(params.poolProps, hipMemPoolProps)
    check_params(params.poolProps.location, hipMemLocation)
    where, nbytes = params.poolProps.location, size_of(params.bytesize)
    if params.poolProps.allocType != PINNED or where.type != ON_DEVICE:
        raise _invalid("a graph allocates pinned memory of a device only")
    if nbytes == 0:
        raise _invalid("an allocation of 0 bytes")
    if not 0 <= where.id < len(infos()) or not 0 <= params.accessDescCount <= len(infos()):
        raise _invalid(f"there is no device {where.id}, or there are no {params.accessDescCount}")
    if where.id != number_of(made.device):
        raise HipError(hipError_t.hipErrorNotSupported, f"the graph is of device {number_of(made.device)}")
    node = made.add_alloc(nbytes, "u1", after=after)
    params.dptr = hand_out(DeviceArray, node.work.buffer, hipMemoryType.hipMemoryTypeDevice, pooled=True)  # type: ignore[attr-defined]
    return known.handle_of(node)


@api(outputs=1)
def hipGraphMemAllocNodeGetParams(node: Any) -> hipMemAllocNodeParams:
    """Return ``(hipError_t, hipMemAllocNodeParams)``; hipErrorInvalidValue when the node allocates no memory."""
    work = _work_of(node, "alloc")
    number = number_of(work.buffer.device)
    props = hipMemPoolProps(allocType=PINNED, location=hipMemLocation(type=ON_DEVICE, id=number))
    return hipMemAllocNodeParams(poolProps=props, bytesize=work.buffer.nbytes, dptr=_pointer(work))


def _work_of(node: Any, kind: str) -> Any:
    known = node_of(node)
    if known.node is None or known.node.kind != kind:
        raise _invalid(f"this node does not {kind} memory")
    return known.node.work


def _pointer(work: Any) -> DeviceArray:
    return DeviceArray(allocations.base_of(work.memory), (work.memory.nbytes,))


def _add_free(graph: Any, dependencies: Any, count: Any, pointer: Any) -> hipGraphNode:
    known, made, after = begin_node(graph, dependencies, count)
    address, _ = address_of(pointer)
    allocation = allocations.peek(address)
    if allocation is None:
        raise _invalid(f"no allocation begins at {address:#x}")
    return known.handle_of(made.add_free(allocation.memory, after=after))


@api(outputs=1)
def hipGraphAddMemFreeNode(graph: Any, pDependencies: Any, numDependencies: int, dev_ptr: Any) -> hipGraphNode:
    """Add what frees memory that this graph allocates, or a launch of another one before; ``(hipError_t, node)``.

    `pDependencies` and `numDependencies` as for `hipGraphAddKernelNode`. `dev_ptr` is the memory: what was set as
    ``dptr`` by `hipGraphAddMemAllocNode`.

    hipErrorInvalidValue for other memory, for what this graph frees already, for what another graph both allocates and
    frees, and as for `hipGraphAddKernelNode`.
    """
    return _add_free(graph, pDependencies, numDependencies, dev_ptr)


@api(outputs=1)
def hipDrvGraphAddMemFreeNode(hGraph: Any, dependencies: Any, numDependencies: int, dptr: Any) -> hipGraphNode:
    """Do what `hipGraphAddMemFreeNode` does.

    `hGraph` is the graph, `dptr` the memory; `dependencies` and `numDependencies` as for `hipGraphAddKernelNode`.
    """
    return _add_free(hGraph, dependencies, numDependencies, dptr)


@api()
def hipGraphMemFreeNodeGetParams(node: Any, dev_ptr: Any) -> None:
    """Write the pointer to the memory that a node frees to where `dev_ptr` points; ``(hipError_t,)``.

    hipErrorInvalidValue when the node frees no memory, and for None.
    """
    work = _work_of(node, "free")
    if dev_ptr is None:
        raise _invalid("nowhere to write the pointer")
    Place(dev_ptr, 8, "dev_ptr").bytes()[:] = bytearray(ctypes.c_uint64(_pointer(work).address))


# -- figures


def _attribute(attr: Any) -> str:
    try:
        return ATTRIBUTES[Attr(attr)]
    except ValueError:
        raise _invalid(f"memory of graphs has no attribute {attr!r}") from None


def _at(value: Any) -> Any:
    if value is None:
        raise _invalid("the value is None")
    return Place(value, 8, "value").bytes()


@api()
def hipDeviceGetGraphMemAttribute(device: int, attr: int, value: Any) -> None:
    """Write a figure of the memory of graphs to where `value` points, 64 bits; ``(hipError_t,)``.

    Parameters
    ----------
    device : int
    attr : hipGraphMemAttributeType
        Used is what launches have handed out and that is not freed, reserved what was allocated from the driver for
        graphs: memory is from the making of its node on. The peak of what was used has what graphs free themselves.
    value : object
        ctypes.c_uint64, an array, a pointer.

    hipErrorInvalidDevice for another device, hipErrorInvalidValue for another attribute and None.
    """
    figures = figures_of(device_of(device_number(device)))
    name = _attribute(attr)
    _at(value)[:] = bytearray(ctypes.c_uint64(getattr(figures, name)))


@api()
def hipDeviceSetGraphMemAttribute(device: int, attr: int, value: Any) -> None:
    """Begin a peak anew; ``(hipError_t,)``. See `hipDeviceGetGraphMemAttribute`.

    `device` is a device's number, and `attr` a hipGraphMemAttributeType.

    hipErrorInvalidValue for anything but a peak, and for a value other than 0. The value is read from where it points.
    """
    figures = figures_of(device_of(device_number(device)))
    name = _attribute(attr)
    if not name.endswith("high") or ctypes.c_uint64.from_buffer_copy(_at(value)).value:
        raise _invalid(f"{Attr(attr).name} cannot be set, or to 0 only")
    figures.reset(name)


@api()
def hipDeviceGraphMemTrim(device: int) -> None:
    """Check the device; ``(hipError_t,)``. Memory of graphs goes back to the driver by itself, with what uses it."""
    device_of(device_number(device))
