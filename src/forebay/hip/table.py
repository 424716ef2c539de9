"""Which functions of HIP there are, and on which driver: ``forebay hip`` prints it."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass

from forebay import hip
from forebay.hip.facts import FACTS
from forebay.hip.generated import SUBJECTS

DRIVERS: list[str] = FACTS["drivers"]
FUNCTIONS = [name for name in hip.__all__ if name.startswith("hip") and inspect.isroutine(getattr(hip, name))]
REASONS = {subject.name: subject.reason for subject in SUBJECTS}  # of the chapters of what no device can do
_SUBJECT_OF = {name: subject.name for subject in SUBJECTS for name in subject.outputs}


@dataclass(frozen=True)
class Row:
    """One function: its chapter, and what each driver has of it."""

    chapter: str
    name: str
    drivers: tuple[str, ...]

    @property
    def there(self) -> bool:
        """Whether any driver has it."""
        return any(state != "no" for state in self.drivers)


def chapter_of(name: str) -> str | None:
    """Return the chapter of HIP's interface that a function belongs to; None for any other name."""
    if name not in FUNCTIONS:
        return None
    fit = (chapter for chapter, given in FACTS["chapters"].items() if re.match(given["names"], name[3:]))
    return _SUBJECT_OF.get(name) or list(fit)[-1]


def _row(name: str) -> Row:
    chapter = chapter_of(name) or ""
    if chapter in REASONS:
        return Row(chapter, name, ("no",) * len(DRIVERS))
    states = FACTS["chapters"][chapter].get("drivers", "yes")
    for names, given in FACTS["conditions"].items():
        if re.fullmatch(names, name[3:]):
            states = given
    return Row(chapter, name, (states,) * len(DRIVERS) if isinstance(states, str) else tuple(states))


def table() -> list[Row]:
    """Return what there is, by chapter and name."""
    order = [*FACTS["chapters"], *REASONS]
    return sorted(map(_row, FUNCTIONS), key=lambda row: (order.index(row.chapter), row.name))
