"""``python -m docs.pictures`` writes the pictures anew."""

from pathlib import Path

from docs.pictures import launch, rooms

for drawn in (rooms, launch):
    Path(__file__).with_name(f"{drawn.__name__.rpartition('.')[2]}.svg").write_text(drawn.draw(), encoding="utf-8")
