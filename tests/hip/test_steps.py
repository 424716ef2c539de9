"""Steps of streams, which are forebay's own."""

import pytest

from forebay import hip

from .conftest import ok
from .helpers import E, N, code, ints, launch, read


@pytest.mark.executes
@pytest.mark.parametrize("kind", ["a stream", "the null stream", "the per-thread stream"])
def test_a_step_that_repeats(function, kind):
    stream = {"a stream": hip.hipStreamCreate, "the null stream": lambda: (E.hipSuccess, None)}.get(
        kind, lambda: (E.hipSuccess, hip.hipStreamPerThread)
    )()[1]
    memory = ints()
    for i in range(6):
        ok(hip.hipStreamStepBegin(stream))
        for k in (i, 1, 2):
            launch(function("add"), stream, memory, k)
        ok(hip.hipStreamStepEnd(stream))
    ok(hip.hipStreamSynchronize(stream))
    assert read(memory) == [sum(range(6)) + 18] * N


def test_a_stream_that_is_destroyed_in_its_step(function):
    stream, memory = ok(hip.hipStreamCreate()), ints()
    for _ in range(3):
        ok(hip.hipStreamStepBegin(stream))
        launch(function("add"), stream, memory, 1)
        launch(function("add"), stream, memory, 2)
        ok(hip.hipStreamStepEnd(stream))
    ok(hip.hipStreamStepBegin(stream))
    launch(function("add"), stream, memory, 1)
    ok(hip.hipStreamDestroy(stream))
    assert code(hip.hipStreamStepEnd(stream)) == E.hipErrorContextIsDestroyed
    other = ok(hip.hipStreamCreate())
    ok(hip.hipStreamStepBegin(other))
    ok(hip.hipStreamStepEnd(other))
