"""The pictures of docs/architecture.md fit the code: the rooms what is imported, the way of a launch what is called."""

import re
from xml.etree import ElementTree

import pytest

from tests.helpers.processes import ROOT
from tests.helpers.rooms import FLOORS, read_imports, read_rooms, room_of

if not (ROOT / "setup.py").exists():
    pytest.skip("only in a checkout", allow_module_level=True)

from docs.pictures import launch, rooms

pytestmark = pytest.mark.needs("no chosen device")

SVG = "{http://www.w3.org/2000/svg}"
ANEW = "the picture is not that of the code any more: python -m docs.pictures draws it anew"


@pytest.mark.parametrize("drawn", [rooms, launch])
@pytest.mark.long
def test_the_picture_is_the_one_that_is_drawn_from_the_code(drawn):
    path = ROOT / "docs" / "pictures" / f"{drawn.__name__.rpartition('.')[2]}.svg"
    assert path.read_text(encoding="utf-8") == drawn.draw(), ANEW


def test_every_room_is_in_the_picture():
    tree = ElementTree.parse(ROOT / "docs" / "pictures" / "rooms.svg")
    words = " ".join(text.text for text in tree.iter(f"{SVG}text"))
    assert {room_of(module) for module in read_imports()} == set(FLOORS)
    for room in FLOORS:
        assert " ".join(rooms.lines_of(room)) in words


def test_arrows_lead_down_and_say_all_that_is_imported():
    imports = read_rooms()
    tree = ElementTree.parse(ROOT / "docs" / "pictures" / "rooms.svg")
    arrows = [path.find(f"{SVG}title").text.split(" imports ") for path in tree.iter(f"{SVG}path") if len(path)]
    rows = rooms.rows_of(imports)
    reached = {room: set() for room in imports}
    for importer, imported in sorted(arrows, key=lambda arrow: -rows[arrow[0].replace("forebay", "")]):
        importer, imported = importer.replace("forebay", ""), imported.replace("forebay", "")
        assert rows[importer] < rows[imported]
        assert imported in imports[importer]
        reached[importer] |= {imported} | reached[imported]
    assert all(imports[room] <= reached[room] for room in imports)


@pytest.mark.parametrize("step", [*launch.SHORT, *launch.LONG], ids=lambda step: step[-3])
def test_what_a_launch_goes_through_is_where_the_picture_says(step):
    *_, function, path, _ = step
    assert re.search(rf"\b{function}\)?\(", (ROOT / path).read_text(encoding="utf-8"))


def calls_of(name, source):
    """The text of an inline function, with those of the same file that it calls in place of the calls."""
    (text,) = re.findall(rf"^cdef (?:inline )?[^\n]*\b{name}\((?:.|\n)*?(?=^cdef |\Z)", source, re.MULTILINE)
    text = text.split(":\n", 1)[1]
    for inner in ("launch_packed", "launch_ready", "submit_launch"):
        if inner != name and f" {inner}(" in text and re.search(rf"^cdef [^\n]*\b{inner}\(", source, re.MULTILINE):
            text = re.sub(rf"\b{inner}\(", lambda _, inner=inner: calls_of(inner, source), text)
    return text


def test_the_short_way_is_in_the_order_of_the_calls():
    text = calls_of("launch", (ROOT / "queues/launch/launch.pxd").read_text(encoding="utf-8"))
    names = [function for _, function, *_ in launch.SHORT[1:]]
    found = [re.search(rf"(?<![\w_]){name}\(", text).start() for name in names]
    assert found == sorted(found)


def test_the_long_way_is_in_the_order_of_the_calls():
    source = (ROOT / "queues/launch/launch.pyx").read_text(encoding="utf-8")
    text = calls_of("launch_gathered", source)
    found = [text.index(f"{name}(") for name in ("begin_command", "submit_launch", "end_uploads")]
    assert found == sorted(found)
