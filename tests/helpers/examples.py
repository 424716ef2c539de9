"""Runs a check on generated examples: a thousand in `make test`, the same each time; ten thousand in the long tests.

HYPOTHESIS_EXAMPLES=100000 is for a long search, with others each time. It takes longer than a test may: --timeout 0.
"""

import os

import pytest
from hypothesis import HealthCheck, Phase, given, settings

MANY = [
    pytest.param(1000, id="1000"),
    pytest.param(10_000, id="10000", marks=[pytest.mark.long, pytest.mark.needs("no chosen device")]),
]


def many(count):
    """The number of examples to run for a test that asks for `count`."""
    return int(os.environ.get("HYPOTHESIS_EXAMPLES", count))


def on_examples(check, strategy, count):
    """Call `check` with generated examples, and shrink one that fails."""
    settings(
        max_examples=many(count),
        derandomize="HYPOTHESIS_EXAMPLES" not in os.environ,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )(given(strategy)(check))()
