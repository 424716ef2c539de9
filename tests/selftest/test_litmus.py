"""Each litmus test on each device, and that it can fail."""

import contextlib
import importlib

import pytest

import forebay as fb
from forebay.queues.drivers.selection import select
from forebay.selftest import kernels, work
from forebay.selftest.litmus import LITMUS, RACES
from forebay.selftest.messages import Controlled, Ended, Latency, Opened, Ran, Request
from forebay.selftest.scene import Bench, WrongError
from tests.conftest import DEVICES
from tests.drivers.levelzero import validation

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
    driver = importlib.import_module(f"tests.observers.{select().backend}")
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
                bench.run(test.run)


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


@pytest.mark.needs("OpenCL", "real hardware", "the default device")
class TestLostWaits:
    def test_one_in_a_hundred(self, watched):
        watched.drop_waits(100)
        found = next(problems(rounds=100))
        assert "element" in found.problem
        assert watched.waits_dropped() > 0

    @pytest.mark.parametrize(
        ("call", "chapters"),
        [
            ("clEnqueueNDRangeKernel", {"pairs of queues", "events", "chains", "graphs", "steps", "copies", "closing"}),
            ("clEnqueueMarkerWithWaitList", {"host"}),
            ("clEnqueueBarrierWithWaitList", {"host"}),
            ("clEnqueueReadBuffer", {"copies"}),
            ("clEnqueueWriteBuffer", {"host"}),
            ("clEnqueueCopyBuffer", {"copies"}),
            ("clEnqueueFillBuffer", {"copies", "memory pool"}),
        ],
    )
    def test_all_of_one_call(self, watched, monkeypatch, call, chapters):
        monkeypatch.setattr(work, "LITMUS", tuple(test for test in LITMUS if test.chapter in chapters))
        watched.drop_waits(1, [call])
        left = set(chapters)
        for message in problems(rounds=100):
            left.discard(message.what.partition(":")[0])
            if not left:
                break
        assert left == set()

    @pytest.mark.long
    def test_none(self, watched):
        assert list(problems(rounds=1)) == []


@pytest.mark.needs("SYCL")
class TestLostWaitsOfSycl:
    def test_one_in_ten(self, watched):
        watched.drop_waits(10)
        assert "element" in next(problems(rounds=100)).problem

    @pytest.mark.parametrize(
        ("call", "chapter"),
        [
            ("DPCTLQueue_SubmitNDRange", "pairs of queues"),
            ("DPCTLQueue_MemcpyWithEvents", "copies"),
            ("DPCTLQueue_SubmitBarrierForEvents", "host"),
        ],
    )
    def test_all_of_one_call(self, watched, monkeypatch, call, chapter):
        monkeypatch.setattr(work, "LITMUS", tuple(test for test in LITMUS if test.chapter == chapter))
        watched.drop_waits(1, [call])
        assert next(problems(rounds=100)).problem


@pytest.mark.needs("OpenCL", "real hardware")  # SYCL's queues on a CPU seldom run side by side
def test_a_race_on_purpose_is_seen(bench):
    """So the device runs queues side by side, and the tests above mean something."""

    def is_seen(race):
        try:
            bench.run(race.run)
        except WrongError:
            return True
        return False

    for race in RACES:
        assert any(is_seen(race) for _ in range(200)), race


# -- the whole of it in this process


@pytest.mark.threads
@pytest.mark.needs("real hardware", "the default device")
@pytest.mark.long
def test_a_run_tells_everything(device, really):
    told = list(work.work(Request(device.name, 1, 300, 300, calls_only=not really)))
    kinds = [type(message) for message in told]
    opened = next(message for message in told if isinstance(message, Opened))
    assert opened.facts["name"] == device.name
    assert opened.executes == really
    assert kinds.count(Ran) == len(LITMUS)
    assert kinds.count(Controlled) == really
    latencies = [message for message in told if isinstance(message, Latency)]
    assert len(latencies) == 8
    assert all(0 < row.minimum <= row.median for row in latencies)
    assert told[-1].rounds == 1
    assert isinstance(told[-1], Ended)
    assert told[-1].stats["launches"] > len(LITMUS)


@pytest.mark.threads
def test_time_that_is_over_ends_it_after_the_first_round(device, really, monkeypatch):
    monkeypatch.setattr(work, "LITMUS", LITMUS[::20])  # where queues run one after the other, kernels become slow
    told = list(work.work(Request(device.name, 1000, 0, 300, calls_only=not really)))
    assert told[-1].rounds == 1
    assert [type(message) for message in told].count(Ran) == len(work.LITMUS) + 1


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
        bench.run(test.run)


def test_with_no_compiler_at_all_it_says_why(device, monkeypatch):
    monkeypatch.setattr(kernels, "IN_OPENCL_C", "kernel void broken(")
    monkeypatch.setattr(kernels, "IN_CPP", 'extern "C" __global__ void broken(')
    told = list(work.work(Request(device.name, 1, 300, 300)))
    assert "BuildError" in told[-1].problem
    assert isinstance(told[-2], Opened)


@pytest.mark.parametrize(("wrong_from", "slower", "seen"), [(1, 1, 24), (16, 16, 24), (17, 1, 0)])
def test_kernels_become_as_slow_as_it_takes_to_see_a_race(monkeypatch, wrong_from, slower, seen):
    bench = Bench(None, None, 100)

    def run(_):
        if bench.steps >= 100 * wrong_from:
            raise WrongError("seen")

    monkeypatch.setattr(bench, "run", run)
    assert work._control(bench) == Controlled(seen, 24, slower)
    assert bench.steps == 100 * slower
