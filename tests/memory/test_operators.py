"""What Buffers do not do as arrays do: operators, functions of NumPy. Each is refused with what to write instead."""

import collections
import inspect
import operator

import numpy as np
import pytest

import forebay as fb
from tests.helpers.refusals import refused
from tests.helpers.threads import together

# What is written, and what the message says to write.
OPERATORS = {
    "x + y": "x.get() + y.get()", "x - 1": "x.get() - 1", "1 - x": "1 - x.get()", "2.5 * x": "2.5 * x.get()",
    "x / y": "x.get() / y.get()", "x // 2": "x.get() // 2", "x % 2": "x.get() % 2", "x ** 2": "x.get() ** 2",
    "x @ y": "x.get() @ y.get()", "x << 1": "x.get() << 1", "x >> 1": "x.get() >> 1", "x & y": "x.get() & y.get()",
    "x | 1": "x.get() | 1", "x ^ y": "x.get() ^ y.get()", "divmod(x, 2)": "divmod(x.get(), 2)", "pow(x, 2)":
    "x.get() ** 2", "-x": "-x.get()", "+x": "+x.get()", "~x": "~x.get()", "abs(x)": "abs(x.get())",
    "x > 3": "x.get() > 3", "x < y": "x.get() < y.get()", "x >= 1": "x.get() >= 1", "x <= y": "x.get() <= y.get()",
    "x += 1": "x.get() + 1", "x -= y": "x.get() - y.get()", "x *= 2": "x.get() * 2", "x /= 2": "x.get() / 2",
    "x //= 2": "x.get() // 2", "x **= 2": "x.get() ** 2", "x %= 2": "x.get() % 2", "x @= y": "x.get() @ y.get()",
    "x <<= 1": "x.get() << 1", "x >>= 1": "x.get() >> 1", "x &= y": "x.get() & y.get()", "x |= y": "x.get() | y.get()",
    "x ^= 1": "x.get() ^ 1", "x + [1, 2]": "x.get() + y",
}  # fmt: skip


@pytest.fixture
def x(device):
    return device.zeros((8, 8), "i4")


y = x


@pytest.mark.parametrize("written", OPERATORS)
def test_operators_say_what_to_write(device, written, x, y):
    for kind, left, right in (("Buffer", x, y), ("StridedView", x[:, 0], y[:, 1])):
        epoch = device.null_queue.epoch
        with pytest.raises(fb.ArgumentTypeError, match=r"is not defined.*a kernel of fb\.elementwise") as caught:
            exec(written, {"x": left, "y": right})
        assert kind in str(caught.value)
        assert f"write {OPERATORS[written]} on the host" in str(caught.value)
        assert device.null_queue.epoch == epoch, "it was copied"


TRUE = [
    "x == x", "(x != x) is False", "x in [y, x]", "x not in [y, y[0]]", "x in (y, 3, 'text', x)",
    "[y, x, y].index(x) == 1", "[y, x].count(y) == 1", "x in collections.deque([y, x])", "{x: 1, y: 2}[y] == 2",
    "len({x, y, x}) == 2", "operator.eq(x, x)", "queue != x",
    *[f"(x == {other}) is False and (x != {other}) and ({other} == x) is False"
      for other in ("None", "'text'", "object()", "{}", "np")],
    "(np.shape(x), np.ndim(x), np.size(x)) == ((8, 8), 2, 64)", "np.shape(x[:, 0]) == (8,)", "f'{x}' == str(x)",
    *[f"not hasattr({thing}, '{name}') and '{name}' not in dir({thing})" for thing in ("x", "x[:, 0]")
      for name in ("__float__", "__int__", "__index__", "__add__", "__bool__", "__complex__")],
    "queue == queue and queue != queue.device.null_queue", "event in [queue.record(), event]",
]  # fmt: skip


@pytest.mark.parametrize("written", TRUE)
def test_what_looks_at_no_element_is_as_for_any_object(x, y, queue, written):
    names = {"x": x, "y": y, "np": np, "queue": queue, "event": queue.record()}
    assert eval(written, names | {"collections": collections, "operator": operator})


def test_a_comparison_in_a_thread_and_in_a_long_function(x, y):
    """The instruction is found where it is, whatever comes before it."""
    lines = "\n".join(f"  a{i} = {i}" for i in range(2000))
    names = {}
    exec(f"def long(x, y):\n{lines}\n  assert x in [y, x]\n  return x == y", names)

    def run():
        for _ in range(20):  # CPython specializes what runs often
            with pytest.raises(fb.ArgumentTypeError):
                names["long"](x, y)

    together(run)


@pytest.mark.parametrize("written", ["x == y", "x != y", "y[0] == x", "x == [1]", "x == 1.5", "(x, 1) == (y, 1)",
                                     "any(each == x for each in [y])", "x == x[:, 0]", "x[:, 0] == x",
                                     "x == np.int32(3)", "[each for each in [y] if each == x]"])  # fmt: skip
def test_a_comparison_that_is_written_is_refused(x, y, written):
    with refused(fb.ArgumentTypeError, TypeError, "is not defined: write"):
        eval(written, {"x": x, "y": y, "np": np})


class Answers:
    """An object of another package that knows what to do with a Buffer."""

    def __radd__(self, other):
        return "added"

    def __add__(self, other):
        return "added"

    def __gt__(self, other):
        return "compared"

    def __lt__(self, other):
        return "compared"

    def __eq__(self, other):
        return "equal"

    __hash__ = None


def test_objects_of_other_packages_may_answer(x):
    assert x + Answers() == Answers() + x == "added"
    assert (x < Answers()) == (Answers() > x) == "compared"
    assert (x == Answers()) == "equal"
    with pytest.raises(TypeError, match="unsupported operand"):
        x - Answers()


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
