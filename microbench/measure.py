"""Measures the subjects of a point in turn, so that disturbances of the machine affect all of them alike."""

from __future__ import annotations

import random
from collections.abc import Mapping

from .layers import Subject

WARM_UP = 2


def measure(subjects: Mapping[str, Subject], calls: int, rounds: int, warm_up: int = WARM_UP) -> dict[str, list[float]]:
    """Run every subject once a round, in an order that is shuffled anew, each in its own surroundings, untimed.

    Before these, `warm_up` rounds are not counted.

    Returns
    -------
    dict of list of float
        Microseconds of one operation, one for each round, in the order of the rounds.
    """
    taken: dict[str, list[float]] = {name: [] for name in subjects}
    names = list(subjects)
    shuffle = random.Random(1)
    for number in range(-warm_up, rounds):
        shuffle.shuffle(names)
        for name in names:
            subject = subjects[name]
            with subject.around():
                seconds = subject.run(calls)
            if number >= 0:
                taken[name].append(seconds / calls * 1e6)
    return taken
