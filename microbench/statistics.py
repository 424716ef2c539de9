"""What the samples say: quantiles, and intervals of ratios by SciPy's bootstrap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

CONFIDENCE = 0.95
RESAMPLES = 999


@dataclass(frozen=True)
class Summary:
    """Microseconds of one operation."""

    minimum: float
    median: float
    p10: float
    p90: float


def summary(samples: Sequence[float]) -> Summary:
    """The quantiles of samples."""
    p10, median, p90 = np.quantile(samples, [0.1, 0.5, 0.9])
    return Summary(float(min(samples)), float(median), float(p10), float(p90))


@dataclass(frozen=True)
class Interval:
    """A ratio of medians, and its interval."""

    median: float
    low: float
    high: float


@dataclass(frozen=True)
class Ratio(Interval):
    """The same, and the ratio of the minimums."""

    minimum: float


def _of_medians(above: Any, below: Any, axis: int = -1) -> Any:
    return np.median(above, axis=axis) / np.median(below, axis=axis)


def ratio(above: Sequence[float], below: Sequence[float]) -> Ratio:
    """The ratio to samples of the same rounds. For two runs of the same thing its interval is the A/A interval."""
    medians = float(np.median(above) / np.median(below))
    minimums = min(above) / min(below)
    if len(above) < 2 or above is below:
        return Ratio(medians, medians, medians, minimums)
    from scipy import stats  # late, because it takes a second

    found = stats.bootstrap(
        (above, below),
        _of_medians,
        paired=True,  # the same rounds of both, because disturbances affect both
        vectorized=True,
        n_resamples=RESAMPLES,
        confidence_level=CONFIDENCE,
        method="percentile",
        random_state=np.random.default_rng(1),
    ).confidence_interval
    return Ratio(medians, float(found.low), float(found.high), minimums)


def _of_medians_of_ratios(ratios: Any, before: Any, axis: int = -1) -> Any:
    return np.median(ratios, axis=axis) / np.median(before, axis=axis)


def per_round(above: Sequence[float], below: Sequence[float]) -> Any:
    """The ratio of each round: what disturbs a round disturbs both."""
    return np.asarray(above) / np.asarray(below)


def growth(ratios: Any, before: Any) -> Interval:
    """How the ratios of two subjects at one point compare with those at another point."""
    from scipy import stats

    found = stats.bootstrap(
        (ratios, before),
        _of_medians_of_ratios,
        vectorized=True,
        n_resamples=RESAMPLES,
        confidence_level=CONFIDENCE,
        method="percentile",
        random_state=np.random.default_rng(1),
    ).confidence_interval
    return Interval(float(np.median(ratios) / np.median(before)), float(found.low), float(found.high))
