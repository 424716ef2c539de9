"""The rooms on their floors, and arrows to what each imports, as far as no other arrow implies it."""

import itertools

from docs.pictures.svg import Drawing
from tools.checks.layers import LAYERS, read_packages

WIDTH, ROW, BOX, MARGIN, LANE = 400, 46, 26, 26, 10
NAMES = {"": "import forebay", "__main__": "command line", "queues.queue": "Queue", "queues.device": "Device"}
KINDS = {
    "core": "e",
    "sync": "c",
    "lifetimes": "d",
    "events": "d",
    "races": "e",
    "queues": "a",
}  # the rest is the face


def reduced(rooms):
    """The imports without those that follow from others."""

    def below(room):
        return set().union(*({other} | below(other) for other in rooms[room]))

    return {
        room: sorted(other for other in others if not any(other in below(each) for each in others))
        for room, others in rooms.items()
    }


def rows_of(rooms):
    """The row of each room, 0 at the top: floors in turn, and in a floor each room below those that import it."""

    def depth(room):
        above = [other for other in rooms if room in rooms[other] and LAYERS[other] == LAYERS[room]]
        return 1 + max(map(depth, above), default=-1)

    places = {room: (-LAYERS[room], depth(room)) for room in rooms}
    order = sorted(set(places.values()))
    return {room: order.index(place) for room, place in places.items()}


def lines_of(room):
    """The words in the box of a room."""
    return NAMES.get(room, room.rpartition(".")[2]).split("_" if room != "__main__" else None)


def width_of(node):
    """How wide a room's box is; where an arrow passes a row, a lane."""
    return LANE if isinstance(node, tuple) else 12 + 6.6 * max(map(len, lines_of(node)))


def lay_out(rooms, imports):
    """Where the middle of each room and of each lane is: by row, from left to right."""
    at = rows_of(rooms)
    rows = [[] for _ in range(max(at.values()) + 1)]
    for room in sorted(rooms):
        rows[at[room]].append(room)
    pairs = []
    for room in sorted(imports):
        for other in imports[room]:
            chain = [room, *((room, other, row) for row in range(at[room] + 1, at[other])), other]
            for row, lane in enumerate(chain[1:-1], at[room] + 1):
                rows[row].append(lane)
            pairs += itertools.pairwise(chain)
    near = {node: [] for row in rows for node in row}
    for upper, lower in pairs:
        near[upper].append(lower)
        near[lower].append(upper)
    place = {}

    def spread(row):
        room_left = (WIDTH - MARGIN - 6 - sum(map(width_of, row))) / (len(row) + 1)
        x = MARGIN + room_left
        for node in row:
            place[node] = x + width_of(node) / 2
            x += width_of(node) + room_left

    for row in rows:
        spread(row)
    for sweep in range(40):
        for row in rows if sweep % 2 == 0 else rows[::-1]:
            wish = {node: sum(place[each] for each in near[node]) / max(1, len(near[node])) for node in row}
            row.sort(key=lambda node: (wish[node], str(node)))
            spread(row)
    return rows, place


def draw():
    """Return the picture, an SVG."""
    rooms = read_packages()
    imports = reduced(rooms)
    rows, place = lay_out(rooms, imports)
    at = rows_of(rooms)
    drawing = Drawing(WIDTH, ROW * len(rows) + 10, "The rooms of forebay, and what each imports")
    for floor in sorted({LAYERS[room] for room in rooms}):
        inside = [at[room] for room in rooms if LAYERS[room] == floor]
        top, height = 6 + ROW * min(inside), ROW * (max(inside) - min(inside) + 1) - 4
        drawing.box(3, top, WIDTH - 6, height, "floor")
        drawing.words(13, top + height / 2, str(floor), "quiet")
    middle = [6 + ROW * row + (ROW - 4) / 2 for row in range(len(rows))]
    for room, others in sorted(imports.items()):
        for other in others:
            points = [(place[room], middle[at[room]] + BOX / 2)]
            for row in range(at[room] + 1, at[other]):
                x = place[(room, other, row)]
                points += [(x, middle[row] - BOX / 2), (x, middle[row] + BOX / 2)]
            points.append((place[other], middle[at[other]] - BOX / 2))
            drawing.arrow(points, f"{room or 'forebay'} imports {other or 'forebay'}")
    for room in sorted(rooms):
        lines = lines_of(room)
        kind = KINDS.get(room.partition(".")[0], "b")
        drawing.box(place[room] - width_of(room) / 2, middle[at[room]] - BOX / 2, width_of(room), BOX, kind)
        for number, line in enumerate(lines):
            drawing.words(place[room], middle[at[room]] + 11 * (number - (len(lines) - 1) / 2), line)
    return drawing.text()
