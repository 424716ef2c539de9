"""HTML of devices, queues, graphs and counters for notebooks."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from forebay.core.stats import Stats
from forebay.queues.device import Device
from forebay.queues.graphs.graph import Graph
from forebay.queues.interop.names import add
from forebay.queues.queue import Queue

if TYPE_CHECKING:
    from collections.abc import Iterable

WIDTH, HEIGHT, GAP = 150, 28, 24  # pixels: a node's size, and the space between nodes


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
    """Return a drawing of the graph: each node is below all that it depends on."""
    from html import escape

    nodes = graph.nodes
    level: dict[Any, int] = {}
    for node in nodes:  # dependencies come before their dependents
        level[node] = 1 + max((level[other] for other in node.dependencies), default=-1)
    seats: dict[Any, tuple[int, int]] = {}
    taken: dict[int, int] = {}
    for node in nodes:
        column = taken.get(level[node], 0)
        taken[level[node]] = column + 1
        seats[node] = (GAP + column * (WIDTH + GAP), GAP + level[node] * (HEIGHT + GAP))
    lines, boxes = [], []
    for node, (x, y) in seats.items():
        for other in node.dependencies:
            lines.append(
                f"<path d='{_arrow(seats[other], (x, y))}' fill='none' stroke='currentColor' "
                "marker-end='url(#forebay-arrow)'/>"
            )
        name = node.work.kernel.name if node.kind == "kernel" else node.kind
        label = escape(name if len(name) <= 20 else f"{name[:19]}…")
        boxes.append(
            f"<g><title>{escape(repr(node))}</title><rect x='{x}' y='{y}' width='{WIDTH}' height='{HEIGHT}' rx='5' "
            f"fill='none' stroke='currentColor'/><text x='{x + WIDTH // 2}' y='{y + HEIGHT // 2 + 4}' "
            f"text-anchor='middle' font-size='12' fill='currentColor'>{label}</text></g>"
        )
    width = GAP + max(taken.values(), default=1) * (WIDTH + GAP)
    height = GAP + max(len(taken), 1) * (HEIGHT + GAP)
    arrow = (
        "<defs><marker id='forebay-arrow' viewBox='0 0 8 8' refX='8' refY='4' markerWidth='7' markerHeight='7' "
        "orient='auto'><path d='M0 0L8 4L0 8z' fill='currentColor'/></marker></defs>"
    )
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{height}' role='img' "
        f"aria-label='a graph of {len(nodes)} nodes'>{arrow}{''.join(lines)}{''.join(boxes)}</svg>"
    )


def _arrow(start: tuple[int, int], end: tuple[int, int]) -> str:
    """Return the path from a node to a lower one: between the rows, and past other nodes beside the end's column."""
    x, y, to_x, to_y = start[0] + WIDTH // 2, start[1] + HEIGHT, end[0] + WIDTH // 2, end[1]
    if to_y - y == GAP:
        return f"M{x} {y}L{to_x} {to_y}"
    beside = end[0] + WIDTH + GAP // 2
    aside = f"C{x} {y + GAP} {beside} {y} {beside} {y + GAP}"
    back = f"C{beside} {to_y} {to_x} {to_y - GAP} {to_x} {to_y}"
    return f"M{x} {y}{aside}V{to_y - GAP}{back}"


for _kind, _shown in ((Device, device_html), (Queue, queue_html), (Stats, stats_html), (Graph, graph_html)):
    add(_kind, "_repr_html_", _shown)
