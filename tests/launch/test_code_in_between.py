"""Code that runs in the middle of a command: a grid's `__index__`, an argument's `__float__`, a destructor, a thread.

It may close or free what the command uses, launch the same kernel, raise. Memory that it frees gets another owner at
once, whose bytes must stay what they are. The command is refused with ClosedError, or does what it was asked for.
"""

import contextlib
import gc
import sys

import numpy as np
import pytest
from hypothesis import strategies as st

import forebay as fb
from tests.helpers.device_data import device_data
from tests.helpers.examples import MANY, on_examples
from tests.helpers.observer import EXECUTES
from tests.helpers.threads import together

SOURCE = """
kernel void numbers(global int *x, int value, float real) { x[get_global_id(0)] = value + (int) real; }
kernel void vector(global int *x, int value, float real, int2 pair)
{
    x[get_global_id(0)] = value + (int) real + pair.x - pair.y;
}
kernel void bytes(global int *x, int value, float real, global const int *more)
{
    x[get_global_id(0)] = value + (int) real + more[0];
}
"""
SIZE, GRID, BLOCK = 256, 4, 16
UNTOUCHED, OWNED, VALUE = -1, -2, 7


class Interrupted(Exception):  # noqa: N818 - what the code of a program raises
    pass


class Code:
    """Stands for a number. Where it is asked for it, it runs the code, once."""

    def __init__(self, number, run):
        self.number, self.run = number, run

    def asked(self):
        run, self.run = self.run, lambda: None
        run()
        return self.number

    def __index__(self):
        return self.asked()

    def __float__(self):
        return float(self.asked())

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.asked(), dtype)


class Tensor:
    """Memory of the host in another package's hands, which runs the code when it is asked for."""

    def __init__(self, array, run):
        self.array, self.run = array, run

    def __dlpack__(self, **wanted):
        self.run()
        return self.array.__dlpack__(**wanted)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Dies:
    """Runs the code when the garbage collector finds it."""

    def __init__(self, run):
        self.me, self.run = self, run

    def __del__(self):
        with contextlib.suppress(Interrupted, fb.Error):
            self.run()


class Example:
    """A command, the place where code runs in it, and what that does."""

    def __init__(self, device, program, command, place, action, kernel, threshold, by_thread):
        self.device, self.kernel = device, program["vector" if place == "pair" else kernel]
        self.command, self.place, self.action = command, place, action
        self.threshold, self.by_thread = threshold, by_thread
        self.queue = device.queue(blocking=False)
        self.acting = device.queue(blocking=False) if command == "capture" else self.queue
        self.x = self.queue.alloc(SIZE, "i4")
        self.queue.fill(self.x, UNTOUCHED)
        if self.acting is not self.queue:
            self.acting.wait(self.queue)
        self.other = self.raised = None
        self.ran = False

    # -- what the code does

    def act(self):
        self.ran = True
        if self.action == "free":
            self.acting.free(self.x)
            self.other = self.acting.alloc(SIZE, "i4")
            self.acting.fill(self.other, OWNED)
        elif self.action == "launch":
            self.acting.launch(self.kernel, 1, (2, 2), self.x, *self.numbers())
            if self.acting is not self.queue:
                self.acting.finish()
        elif self.action == "raise":
            raise Interrupted
        else:
            {"close": self.x.close, "close queue": self.queue.close, "collect": gc.collect}[self.action]()

    def run(self):
        if self.ran:
            return
        if self.by_thread:
            together(self.caught)
        else:
            self.act()

    def caught(self):
        with contextlib.suppress(Interrupted):
            self.act()

    # -- commands

    def given(self, place, number):
        return Code(number, self.run) if self.place == place else number

    def numbers(self):
        """The other arguments, for which no code runs."""
        last = {"numbers": (), "vector": ((3, 3),), "bytes": (bytes(16),)}
        return VALUE, 0.5, *last[self.kernel.name]

    def arguments(self):
        value, real, *last = self.numbers()
        if self.place == "pair":
            last = [Code((3, 3), self.run)]
        return self.x, self.given("value", value), self.given("real", real), *last

    def geometry(self):
        if self.place == "grid in a tuple":
            return (Code(GRID, self.run), 1), (BLOCK, 1)
        return self.given("grid", GRID), self.given("block", BLOCK)

    def launch(self):
        self.queue.launch(self.kernel, *self.geometry(), *self.arguments())

    def subscript(self):
        self.kernel[(*self.geometry(), self.queue)](*self.arguments())

    def launch_again(self):
        self.queue.launch(self.kernel, GRID, BLOCK, self.x, *self.numbers())
        self.launch()

    def bind(self):
        self.kernel.bind(self.queue, *self.geometry(), *self.arguments())()

    def bound(self):
        bound = self.kernel.bind(self.queue, GRID, BLOCK, self.x, *self.numbers())
        self.device.empty(1).close()  # so that the call looks at its buffers
        self.begin()
        bound()

    def capture(self):
        with self.queue.capture(mode="relaxed") as graph:
            self.launch()
        graph.launch(self.queue)

    def node(self):
        graph = self.device.graph()
        graph.add_kernel(self.kernel, *self.geometry(), *self.arguments())
        graph.launch(self.queue)

    def set_kernel(self):
        graph = self.device.graph()
        node = graph.add_kernel(self.kernel, GRID, BLOCK, self.x, *self.numbers())
        with graph.instantiate() as made:
            made.launch(self.queue)
            made.set_kernel(node, self.kernel, *self.geometry(), *self.arguments())
            made.launch(self.queue)

    def in_a_step(self):
        step = self.queue.step()
        for _ in range(2):
            with step:
                self.launch()

    def fill(self):
        self.queue.fill(self.x[: GRID * BLOCK], self.given("value", VALUE))

    def copy(self):
        source = np.full(GRID * BLOCK, VALUE, "i4")
        self.queue.copy(self.x[: GRID * BLOCK], Tensor(source, self.run) if self.place == "source" else source)

    # -- judging it

    def begin(self):
        if self.place == "destructor":
            Dies(self.run)
            gc.set_threshold(self.threshold, 1, 1)
            gc.enable()

    def check(self):
        gc.disable()
        try:
            if self.command != "bound":
                self.begin()
            getattr(self, self.command.replace(" ", "_"))()
        except (fb.Error, Interrupted) as error:
            self.raised = error
        finally:
            gc.set_threshold(700, 10, 10)
            gc.enable()
            ran, self.ran = self.ran, True  # what the collector finds later does nothing
        self.judge(ran)

    def judge(self, ran):
        refused = isinstance(self.raised, fb.ClosedError)
        assert self.raised is None or refused or isinstance(self.raised, Interrupted)
        assert not isinstance(self.raised, Interrupted) or self.action == "raise"
        if refused:
            assert ran
            assert self.action in ("close", "free", "close queue")
        elif ran and self.place != "destructor":
            assert self.action not in ("close", "free", "close queue")
        queue = self.device.queue(blocking=False) if self.queue.closed else self.queue
        self.device.finish()
        if EXECUTES and self.other is not None:
            assert (device_data(self.other.get(queue=queue)) == OWNED).all()
        elif EXECUTES and not self.x.closed and self.raised is None:
            got = self.x.get(queue=queue)
            assert (got[: GRID * BLOCK] == VALUE).all()
            assert (got[GRID * BLOCK :] == UNTOUCHED).all()
        self.queue.close()


PLACES = ["grid", "block", "grid in a tuple", "value", "real", "pair", "destructor"]
COMMANDS = {
    **dict.fromkeys(
        ["launch", "launch again", "subscript", "bind", "capture", "node", "set kernel", "in a step"], PLACES
    ),
    "bound": ["destructor"],
    "fill": ["value", "destructor"],
    "copy": ["source", "destructor"],
}
ACTIONS = ["close", "free", "launch", "close queue", "collect", "raise"]
EXAMPLES = st.sampled_from(sorted(COMMANDS)).flatmap(
    lambda command: st.tuples(
        st.just(command),
        st.sampled_from(COMMANDS[command]),
        st.sampled_from(ACTIONS),
        st.sampled_from(["numbers", "vector", "bytes"]),
        st.integers(1, 60),
        st.booleans(),
    )
)


@pytest.mark.threads
@pytest.mark.parametrize("checked", [False, True], ids=["", "checked for races"])
@pytest.mark.parametrize("count", MANY)
def test_code_in_the_middle_of_a_command(count, checked):
    """Whatever it does, no memory is used that has another owner."""
    with fb.Device(private=True, check="races" if checked else None) as device:
        program = device.program(SOURCE)
        gc.collect()
        gc.freeze()  # the collector runs often, and need not look at what was there before
        on_examples(lambda example: Example(device, program, *example).check(), EXAMPLES, count // 2)
        gc.unfreeze()


def test_a_kernel_object_is_made_without_python_code_of_other_packages(device):
    """A destructor that ran there could wait for another thread that makes one; pyopencl is entered by one alone."""
    queue, x = device.queue(blocking=False), device.zeros(SIZE, "i4")
    kernel, files = device.program(SOURCE)["numbers"], set()
    sys.setprofile(lambda frame, event, argument: files.add(frame.f_code.co_filename))
    try:
        bound = kernel.bind(queue, GRID, BLOCK, x, VALUE, 0.5)
    finally:
        sys.setprofile(None)
    assert not [name for name in files if "/pyopencl/" in name or "/pytools/" in name]
    bound()
    assert (device_data(x.get(queue=queue)[: GRID * BLOCK]) == VALUE).all()


def test_sizes_in_a_tuple_are_asked_for_at_each_launch(device):
    """Though the tuple is the same one, what its elements stand for may differ."""
    queue, x = device.queue(blocking=False), device.zeros(SIZE, "i4")
    kernel, sizes = device.program(SOURCE)["numbers"], []
    grid = (Code(1, lambda: sizes.append(1)),)
    device.finish()
    for number in (1, 2, 3):
        grid[0].number, grid[0].run = number, lambda: sizes.append(1)
        queue.launch(kernel, grid, BLOCK, x, number, 0.0)
    assert len(sizes) == 3
    assert device_data(x.get(queue=queue)[: 4 * BLOCK]).tolist() == [3] * (3 * BLOCK) + [0] * BLOCK


def test_a_buffer_is_closed_by_the_collector_while_a_graph_is_instantiated(device):
    """The driver gets no memory that is gone: the graph is refused, or was given it before."""
    queue, kernel = device.queue(blocking=False), device.program(SOURCE)["numbers"]
    gc.disable()
    gc.freeze()  # as above
    try:
        for threshold in range(1, 700):
            x = device.empty(SIZE, "i4")
            with queue.capture(mode="relaxed") as graph:
                for value in range(20):
                    queue.launch(kernel, 1, BLOCK, x, value, 0.0)
            Dies(x.close)
            gc.set_threshold(threshold, 1, 1)
            gc.enable()
            with contextlib.suppress(fb.ClosedError):
                graph.instantiate()
            gc.disable()
            gc.collect()
    finally:
        gc.unfreeze()
        gc.set_threshold(700, 10, 10)
        gc.enable()
