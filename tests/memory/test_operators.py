"""What Buffers do not do as arrays do: operators, functions of NumPy."""

import inspect

import numpy as np
import pytest

import forebay as fb
from tests.helpers.refusals import refused


@pytest.fixture
def x(device):
    return device.zeros((8, 8), "i4")


y = x


# Without np.add.reduce(x): NumPy 2.4 keeps a reference for ever to what refuses it.
@pytest.mark.parametrize("written", [
    "x + y", "1 - x", "np.float32(2) * x", "x @ y", "-x", "abs(x)", "x > 3", "x += 1", "np.ones(8) + x", "np.sin(x)",
    "np.ones(8) == x", "float(x)", "int(x[0, 0])", "range(x[0, 0])", "f'{x:.2f}'", "np.exp(1, out=x)",
])  # fmt: skip
def test_arithmetic_copies_nothing_unseen(device, written, x, y):
    for left, right in ((x, y), (x[:, 0:1], y[:, 0:1])):
        epoch = device.null_queue.epoch
        with pytest.raises(TypeError):
            exec(written, {"x": left, "y": right, "np": np})
        assert device.null_queue.epoch == epoch, "it was copied"


TRUE = [
    "x == x", "(x != x) is False", "x in [y, x]", "x not in [y, y[0]]", "x in (y, 3, 'text', x)", "x != 3",
    "[y, x, y].index(x) == 1", "[y, x].count(y) == 1", "{x: 1, y: 2}[y] == 2", "len({x, y, x}) == 2",
    "(np.shape(x), np.ndim(x), np.size(x)) == ((8, 8), 2, 64)", "np.shape(x[:, 0]) == (8,)", "f'{x}' == str(x)",
    *[f"not hasattr({thing}, '{name}') and '{name}' not in dir({thing})" for thing in ("x", "x[:, 0]")
      for name in ("__float__", "__int__", "__index__", "__add__", "__complex__")],
    "queue == queue and queue != queue.device.null_queue", "event in [queue.record(), event]",
]  # fmt: skip


@pytest.mark.parametrize("written", TRUE)
def test_what_looks_at_no_element_is_as_for_any_object(x, y, queue, written):
    names = {"x": x, "y": y, "np": np, "queue": queue, "event": queue.record()}
    assert eval(written, names)


def test_a_class_of_the_programs_own_is_refused_alike(device):
    class Own(fb.Device):
        """Device is what programs derive from."""

    assert "synchronize" not in dir(Own)
    with pytest.raises(AttributeError, match=r"Own.*finish\(\)"):
        Own.synchronize  # noqa: B018
    assert inspect.getmro(Own)[:2] == (Own, fb.Device)


@pytest.mark.parametrize("settings", [{"debug": True}, {"check": "races"}], ids=str)
def test_a_closed_buffer_says_where_it_was_made(device, settings):
    with fb.Device(device.name, private=True, **settings) as own:
        queue, here = own.queue(), f"test_operators.py:{inspect.currentframe().f_lineno}"
        made = [own.zeros(8, "f4"), own.array([1.5]), queue.alloc(4) if own.check else own.empty(4)]
        after = f"test_operators.py:{int(here.partition(':')[2]) + 1}"
        for buffer in made:
            part = buffer[1:]
            buffer.close()
            for use in (buffer.get, part.get, lambda b=buffer: queue.fill(b, 1), lambda b=part: b.view("u1")):
                with refused(fb.ClosedError, RuntimeError, "is closed: (", f"{own.name}, made at ", after):
                    use()
