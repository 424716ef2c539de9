"""HTML of devices, queues, graphs and counters for notebooks."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from forebay.core.stats import Stats
from forebay.queues.device import Device
from forebay.queues.graphs.graph import Graph
from forebay.queues.interop.names import add
from forebay.queues.queue import Queue

if TYPE_CHECKING:
    from collections.abc import Iterable


def table(title: str, rows: Iterable[tuple[str, Any]]) -> str:
    """Return a table of names and values."""
    from html import escape

    body = "".join(
        f"<tr><th style='text-align:left'>{escape(name)}</th><td style='text-align:left'>{escape(str(value))}</td></tr>"
        for name, value in rows
    )
    return f"<table><caption style='text-align:left'>{escape(title)}</caption>{body}</table>"


def device_html(device: Device) -> str:
    """Return a table of what the device is."""
    info = device.info
    return table(
        f"forebay.Device {info.name}",
        [
            ("device", info.description),
            ("driver", f"{info.platform} {info.driver_version}"),
            ("version", info.version),
            ("compute units", info.compute_units),
            ("memory", f"{info.memory / 2**30:.1f} GiB"),
            ("state", "closed" if device.closed else "open"),
        ],
    )


def queue_html(queue: Queue) -> str:
    """Return a table of the queue's state. Makes no driver call."""
    kind = "null queue" if queue.is_null else "blocking" if queue.blocking else "non-blocking"
    state = "closed" if queue.closed else "captured" if queue.capturing else "empty" if queue.empty else "has work"
    stats = queue.stats
    return table(
        f"forebay.Queue {queue.id} of {queue.device.name}",
        [
            ("kind", kind + (", adopted" if queue.adopted else "")),
            ("priority", queue.priority),
            ("state", state),
            ("epoch", f"{queue.epoch}, {queue.completed} known to be done"),
            ("launches, copies, fills", f"{stats.launches}, {stats.copies}, {stats.fills}"),
            ("host synchronizes", stats.host_syncs),
        ],
    )


def stats_html(stats: Stats) -> str:
    """Return a table of the counters that are not 0."""
    counted = [(field.name.replace("_", " "), getattr(stats, field.name)) for field in fields(stats)]
    return table("forebay.Stats", [(name, f"{count:,}") for name, count in counted if count])


def graph_html(graph: Graph) -> str:
    """Return a table of how many nodes of each kind there are; Graphviz draws what `Graph.debug_dot` returns."""
    nodes = graph.nodes
    rows = [(f"{kind} nodes", count) for kind, count in Counter(node.kind for node in nodes).items()]
    return table("forebay.Graph", [*rows, ("dependencies", sum(len(node.dependencies) for node in nodes))])


for _kind, _shown in ((Device, device_html), (Queue, queue_html), (Stats, stats_html), (Graph, graph_html)):
    add(_kind, "_repr_html_", _shown)
