"""Each litmus test on each device, and that it can fail."""

import contextlib
from unittest import mock

import pytest

import forebay as fb
from forebay.queues.selection import select
from forebay.selftest import kernels, work
from forebay.selftest.litmus import LITMUS, RACES
from forebay.selftest.scene import Bench, WrongError
from forebay.selftest.work import Controlled, Ended, Opened, Ran, Request
from tests.conftest import DEVICES
from tests.drivers.levelzero import validation
from tests.helpers.observer import observer_of
from tests.inside import control_of

SLOW = 200_000  # steps
CHAPTERS = sorted({test.chapter for test in LITMUS})


@pytest.fixture
def bench(device, bench_program, really):
    return Bench(device, bench_program, SLOW if really else 1, really)


@pytest.fixture(scope=validation.device_scope)
def bench_program(device):
    return kernels.build(device)[0]


@pytest.fixture
def watched():
    """The observer of the driver's calls, which can lose waits."""
    driver = observer_of(select().backend)
    driver.start()
    yield driver
    driver.stop()


def problems(rounds):
    """What the tests say that is wrong, one by one. A machine that is busy may hide a lost wait for a while."""
    for message in work.work(Request(DEVICES[0], rounds, 300, 300)):
        if isinstance(message, Ran) and message.problem:
            yield message


def test_each_has_a_name_of_its_own():
    names = [str(test) for test in (*LITMUS, *RACES)]
    assert len(set(names)) == len(names) > 190


@pytest.mark.threads
@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_holds(bench, chapter, really):
    for test in LITMUS:
        if test.chapter == chapter and (really or not test.needs_execution):
            with contextlib.suppress(fb.NotSupportedError):
                bench.run(test)


def test_what_would_wait_for_ever_says_so(device):
    """Null hardware calls no host function."""
    for test in LITMUS:
        if "host function" in test.name.lower():
            assert test.needs_execution, test


@pytest.mark.needs("real hardware")
def test_memory_that_is_wrong_is_told(bench, really):
    def program(scene):
        (x,) = scene.cells(1)
        scene.quick(scene.queue(), x)
        x.model[3] += 1

    if not really:
        pytest.skip("nothing executes")
    with pytest.raises(WrongError, match=r"element 3 is \d+ and not \d+; 1 of 16"):
        bench.run(program)


def test_a_counter_that_is_wrong_is_told_also_where_nothing_executes(bench):
    with pytest.raises(WrongError, match="never"):
        bench.run(lambda scene: scene.expect_that(False, "never"))


def test_an_error_leaves_the_bench_as_it_was(bench, works, queue):
    def program(scene):
        (x,) = scene.cells(1)
        scene.slow(scene.queue(), x)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        bench.run(program)
    works(queue)


# -- lost waits: each of these would be silent otherwise


OPENCL = [pytest.mark.needs("OpenCL", "real hardware", "the default device")]
SYCL = [pytest.mark.needs("SYCL")]
CALLS_OF_OPENCL = {
    "clEnqueueNDRangeKernel": "pairs of queues, events, chains, graphs, steps, copies, closing",
    "clEnqueueMarkerWithWaitList": "host",
    "clEnqueueBarrierWithWaitList": "host",
    "clEnqueueReadBuffer": "copies",
    "clEnqueueWriteBuffer": "host",
    "clEnqueueCopyBuffer": "copies",
    "clEnqueueFillBuffer": "copies, memory pool",
}
CALLS_OF_SYCL = {
    "DPCTLQueue_SubmitNDRange": "pairs of queues",
    "DPCTLQueue_MemcpyWithEvents": "copies",
    "DPCTLQueue_SubmitBarrierForEvents": "host",
}


@pytest.mark.parametrize("one_in", [pytest.param(100, marks=OPENCL), pytest.param(10, marks=SYCL)])
def test_a_few_lost_waits_are_seen(watched, one_in):
    watched.drop_waits(one_in)
    assert "element" in next(problems(rounds=100)).problem
    assert watched.waits_dropped() > 0


@pytest.mark.parametrize(
    ("call", "chapters"),
    [
        *(pytest.param(call, chapters, marks=OPENCL) for call, chapters in CALLS_OF_OPENCL.items()),
        *(pytest.param(call, chapters, marks=SYCL) for call, chapters in CALLS_OF_SYCL.items()),
    ],
)
def test_all_lost_waits_of_a_call_are_seen_in_each_chapter_that_makes_it(watched, call, chapters):
    left = set(chapters.split(", "))
    watched.drop_waits(1, [call])
    with mock.patch.object(work, "LITMUS", tuple(test for test in LITMUS if test.chapter in left)):
        for message in problems(rounds=100):
            left.discard(message.what.partition(":")[0])
            if not left:
                break
    assert left == set()


@pytest.mark.needs("OpenCL", "real hardware")  # SYCL's queues on a CPU seldom run side by side
def test_a_race_on_purpose_is_seen(bench):
    """So the device runs queues side by side, and the tests above mean something."""

    def is_seen(race):
        try:
            bench.run(race)
        except WrongError:
            return True
        return False

    for race in RACES:
        assert any(is_seen(race) for _ in range(200)), race


# -- the whole of it in this process


@pytest.mark.threads
def test_time_that_is_over_ends_it_after_the_first_round(device, really):
    some = LITMUS[::20]  # where queues run one after the other, kernels become slow
    with mock.patch.object(work, "LITMUS", some):
        told = list(work.work(Request(device.name, 1000, 0, 300, calls_only=not really)))
    assert isinstance(told[-1], Ended)
    assert told[-1].rounds == 1
    assert [type(message) for message in told].count(Ran) == len(some) + 1


def test_a_kernel_that_writes_nothing_is_a_failure(device, monkeypatch):
    """But where the driver says so itself."""
    monkeypatch.setattr(kernels, "IN_OPENCL_C", kernels.IN_OPENCL_C.replace("to[at] =", "if (at == 77) to[at] ="))
    if not device.driver.executes:
        pytest.skip("nothing executes")
    told = list(work.work(Request(device.name, 1, 300, 300)))
    assert told[-1].problem.startswith("a kernel was launched and finished without an error, and has written nothing")
    assert Ran not in map(type, told)


@pytest.mark.needs("a compiler of HIP C++", "real hardware")
def test_without_a_compiler_of_opencl_c_the_kernels_are_built_from_cpp(device, monkeypatch):
    monkeypatch.setattr(kernels, "IN_OPENCL_C", "kernel void broken(")
    program, language = kernels.build(device)
    assert language == "C++"
    bench = Bench(device, program, SLOW, True)
    for test in LITMUS[:6]:
        bench.run(test)


def test_with_no_compiler_at_all_it_says_why(device, monkeypatch):
    monkeypatch.setattr(kernels, "IN_OPENCL_C", "kernel void broken(")
    monkeypatch.setattr(kernels, "IN_CPP", 'extern "C" __global__ void broken(')
    told = list(work.work(Request(device.name, 1, 300, 300)))
    assert "BuildError" in told[-1].problem
    assert isinstance(told[-2], Opened)


@pytest.mark.parametrize(("wrong_from", "slower", "seen"), [(1, 1, 24), (16, 16, 24), (17, 1, 0)])
def test_kernels_become_as_slow_as_it_takes_to_see_a_race(wrong_from, slower, seen):
    class Seeing(Bench):
        def run(self, program):
            if self.steps >= 100 * wrong_from:
                raise WrongError("seen")

    bench = Seeing(None, None, 100)
    assert control_of(bench) == Controlled(seen, 24, slower)
    assert bench.steps == 100 * slower
