"""Exact numbers, rounded to a type as the modes of CUDA's functions say."""

from fractions import Fraction

import numpy as np

MODES = ("rn", "rz", "ru", "rd")


def exact(number):
    """Return a float as a fraction; infinity is where the next number would be."""
    if np.isinf(number):
        return int(np.sign(number)) * Fraction(2) ** int(np.finfo(number.dtype).maxexp)
    return Fraction(float(number))


def rounded(guess, side, mode, dtype):
    """Return a number of a type on the side that `mode` says.

    `side(c)` is positive where the fraction c is above the exact number, and negative below. `guess` is near it.
    """
    with np.errstate(all="ignore"):
        low, infinity = dtype(guess), dtype(np.inf)
        low = np.nextafter(low, -infinity) if np.isinf(low) and low > 0 else low
        while low > -infinity and side(exact(low)) > 0:
            low = np.nextafter(low, -infinity)
        while (above := np.nextafter(low, infinity)) < infinity and side(exact(above)) <= 0:
            low = above
        if side(exact(low)) == 0:
            return low
        high = np.nextafter(low, infinity)
    if mode == "rn":
        middle = side((exact(low) + exact(high)) / 2)
        is_even = low.tobytes()[0] & 1 == 0
        return low if middle > 0 or (middle == 0 and is_even) else high
    is_up = mode == "ru" or (mode == "rz" and high <= 0)
    return high if is_up else low


def nearest(true, mode, dtype):
    """Return a fraction rounded to a type."""
    try:
        guess = float(true)
    except OverflowError:
        guess = float("inf") if true > 0 else -float("inf")
    return rounded(guess, lambda each: each - true, mode, dtype)


def exactly(function, mode, dtype):
    """Return a function of arrays that computes with fractions and rounds once."""
    return lambda *arrays: np.array(
        [nearest(Fraction(function(*map(Fraction, each))), mode, dtype) for each in zip(*arrays, strict=True)]
    )
