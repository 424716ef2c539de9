"""Measures several things in one run, in turn, so that disturbances of the machine affect all of them alike."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass

import numpy as np

Sample = Callable[[int], float]  # does it n times, returns the seconds they took


@dataclass
class Measured:
    """Microseconds per call, one for each round, in the order of the rounds."""

    microseconds: np.ndarray

    @classmethod
    def joined(cls, parts: Iterable[Measured]) -> Measured:
        """The rounds of several measurements."""
        return cls(np.concatenate([part.microseconds for part in parts]))

    @property
    def minimum(self) -> float:
        """The least disturbed round."""
        return float(self.microseconds.min())

    @property
    def median(self) -> float:
        """The usual round."""
        return float(np.median(self.microseconds))


def measure(
    samples: dict[str, Sample], calls: int, rounds: int, state: Callable[[], AbstractContextManager[None]]
) -> dict[str, Measured]:
    """Run every sample once a round, inside a fresh `state()` that is not timed; two more rounds first warm up."""
    taken: dict[str, list[float]] = {name: [] for name in samples}
    names = list(samples)
    shuffle = random.Random(1)
    for number in range(-2, rounds):
        shuffle.shuffle(names)
        for name in names:
            with state():
                seconds = samples[name](calls)
            if number >= 0:
                taken[name].append(seconds / calls * 1e6)
    return {name: Measured(np.array(values)) for name, values in taken.items()}


def ratio_interval(above: Measured, below: Measured, confidence: float = 0.95) -> tuple[float, float]:
    """Bootstrap interval of the ratio of the medians. For two runs of the same thing it is the A/A interval."""
    generator = np.random.default_rng(1)
    n = len(above.microseconds)
    picks = generator.integers(0, n, (2000, n))  # the same rounds of both, because disturbances affect both
    ratios = np.median(above.microseconds[picks], axis=1) / np.median(below.microseconds[picks], axis=1)
    low, high = np.quantile(ratios, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)
