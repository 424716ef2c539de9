"""How races are told: as objects, by logging, as errors; and what checking leaves as it was."""

import gc
import logging
import os
import sys
import threading
from functools import partial
from unittest import mock

import numpy as np
import pytest

import forebay as fb
from forebay.queues.selection import select
from forebay.races import reports
from tests.helpers.observer import EXECUTES, observe
from tests.helpers.processes import python
from tests.helpers.threads import beside, switching, together
from tests.inside import come_after_unseen, natives_of

SIZE = 64
LARGE = 1 << 20  # what the pool has no room for beside it
GRID = SIZE // 16, 16


@pytest.fixture
def queues(device):
    return [device.queue(blocking=False) for _ in range(3)]


def race(device, kernels):
    a, b = device.queue(blocking=False), device.queue(blocking=False)
    x = device.empty(SIZE)
    a.launch(kernels["scale"], *GRID, x, 2.0)
    b.launch(kernels["scale"], *GRID, x, 3.0)


def test_what_a_race_says(device, kernels, caplog):
    race(device, kernels)
    (told,) = device.races
    assert told.certain
    assert (told.first.kind, told.first.kernel, told.first.argument) == ("launch", "scale", "float* y")
    assert (told.first.file, told.first.function) == (__file__, "race")
    assert told.second.line == told.first.line + 1
    assert told.first.queue.startswith("a (queue ")
    assert told.missing == "b.wait(a)"
    assert told.where == f"before {told.second.place}"
    assert (told.begin, told.end) == (0, SIZE * 4)
    if not natives_of(kernels).accesses("scale"):  # or the compiled code shows the write
        assert "is not const" in told.basis[0]
    (record,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert record.name == "forebay.races"
    assert record.getMessage() == str(told)


def test_a_race_that_two_threads_find_is_told_once(device, kernels):
    made_of = reports.made_of

    def made_of_meanwhile(told):
        with mock.patch.object(reports, "made_of", made_of):
            together(partial(reports.tell, told))
        return made_of(told)

    with mock.patch.object(reports, "made_of", made_of_meanwhile):
        race(device, kernels)
    assert len(device.races) == 1


def test_an_event_recorded_too_early_is_named(device, kernels, queues):
    a, b, _ = queues
    x = device.empty(SIZE)
    event = a.record()
    line = sys._getframe().f_lineno - 1
    a.fill(x, 1)
    b.wait(event)
    b.fill(x, 2)
    assert f"{__file__}:{line}" in device.races[0].early


def test_of_several_waits_the_newest_for_that_queue_is_named(device, queues):
    a, b, c = queues
    x = device.empty(SIZE)
    events = []
    for _ in range(2):
        a.fill(device.empty(SIZE), 1)
        events.append(a.record())
        newest = a.record()
        line = sys._getframe().f_lineno - 1
    a.fill(x, 1)
    b.wait(c.record())
    b.wait(newest)
    b.wait(events[0])
    b.fill(x, 2)
    assert f"{__file__}:{line}" in device.races[0].early


def test_names_are_those_of_the_function_that_has_both(device, kernels):
    class Worker:
        def __init__(self):
            self.queue = device.queue(blocking=False)

        def work(self, x):
            self.queue.fill(x, 1)

    workers = [Worker(), Worker()]
    queues = [worker.queue for worker in workers]
    x = device.empty(SIZE)
    for worker in workers:
        worker.work(x)
    assert device.races[0].missing == "queues[1].wait(queues[0])"
    assert device.races[0].where == f"before {__file__}:{sys._getframe().f_lineno - 2}"
    assert len(queues) == 2


def test_a_function_that_two_files_have_is_told_of_both(device, kernels, queues, tmp_path):
    """Their code objects are equal."""
    work = []
    for name in ("one.py", "other.py"):
        path = tmp_path / name
        path.write_text("def fill(queue, x):\n    queue.fill(x, 1)\n")
        names = {"__name__": name}
        exec(compile(path.read_text(), str(path), "exec"), names)
        work.append((names["fill"], f"{path}:2"))
    x = device.empty(SIZE)
    for queue, (fill, _) in zip(queues, work, strict=False):
        fill(queue, x)
    (race,) = device.races
    assert [race.first.place, race.second.place] == [place for _, place in work]


def test_an_error_instead_of_the_second_command():
    with fb.Device(private=True, check="races,error") as device:
        a, b = device.queue(blocking=False), device.queue(blocking=False)
        x = device.empty(SIZE)
        a.fill(x, 1)
        epoch = b.epoch
        for _ in range(2):
            with pytest.raises(fb.RaceError, match=r"b\.wait\(a\)") as raised:
                b.fill(x, 2)
            assert raised.value.race is device.races[0]
        assert b.epoch == epoch
        a.fill(x, 1)  # with which the command that was refused cannot race
        b.wait(a)
        b.fill(x, 2)
        host = np.zeros(SIZE, "f4")
        b.copy(host, x)
        with pytest.raises(fb.RaceError):
            b.copy(x, host)
        pooled = a.alloc(SIZE)
        with pytest.raises(fb.RaceError):
            b.fill(pooled, 1)
        b.finish()
        assert not EXECUTES or (host == 2).all()


@pytest.mark.parametrize("check", ["race", "errors", "races, error", "1"])
def test_settings_that_are_none(monkeypatch, check):
    with pytest.raises(fb.InvalidArgumentError, match="check"):
        fb.Device(check=check)
    monkeypatch.setenv("FOREBAY_CHECK", check)
    with pytest.raises(fb.InvalidArgumentError, match="FOREBAY_CHECK"):
        fb.Device()
    with pytest.raises(fb.ArgumentTypeError):
        fb.Device(check=True)


def test_the_environment_decides(monkeypatch):
    monkeypatch.setenv("FOREBAY_CHECK", "races")
    with fb.Device(private=True) as device:
        assert (device.check, device.null_queue.checked) == ("races", True)
    with fb.Device(private=True, check="") as device:
        assert (device.check, device.null_queue.checked) == ("", False)


@pytest.mark.needs("OpenCL")
def test_what_another_package_orders_is_possible_at_most(device, monkeypatch):
    cl = pytest.importorskip("pyopencl")
    context = cl.Context([device.info.native])
    theirs = cl.CommandQueue(context)
    monkeypatch.setenv("FOREBAY_CHECK", "races")
    with fb.Device.adopt(context) as own:
        a, b = fb.Device.adopt_queue(theirs, blocking=False), own.queue(blocking=False)
        assert a.checked
        x = own.empty(SIZE)
        a.fill(x, 1)
        theirs.finish()
        b.fill(x, 2)
        assert own.races == ()
        (race,) = own.possible_races
        assert "another package" in race.basis[-1]
        a.fill(x, 3)  # nobody but forebay can have waited for its own queue
        assert [race.missing for race in own.races] == ["a.wait(b)"]
        b.wait(a)
        b.fill(x, 4)
        assert (len(own.races), len(own.possible_races)) == (1, 1)
        own.finish()
        a.close()


def test_nothing_is_checked_without_being_asked():
    with fb.Device(private=True) as device:
        a, b = device.queue(), device.queue()
        assert not a.checked
        x = device.empty(SIZE)
        a.fill(x, 1)
        b.fill(x, 1)
        assert device.races == ()


def test_checking_begins_for_queues_that_are_there():
    with fb.Device() as plain:
        a = plain.queue(blocking=False)
        with fb.Device(check="races") as device:
            assert a.checked
            b = device.queue(blocking=False)
            x = device.empty(SIZE)
            a.fill(x, 1)
            b.fill(x, 1)
            assert len(device.races) == 1


def raced(device):
    a, b, x = device.queue(blocking=False), device.queue(blocking=False), device.empty(SIZE)
    a.fill(x, 1)
    b.fill(x, 2)


def test_checking_ends_with_the_last_device_that_asked_for_it():
    with fb.Device() as plain:
        kept = plain.queue(blocking=False)
        first, second = fb.Device(check="races"), fb.Device(check="races,error")
        with pytest.raises(fb.RaceError):
            raced(plain)
        second.close()
        raced(plain)  # the other Device wants no error
        told = first.races
        assert len(told) == 1  # once for each pair of lines
        first.close()
        raced(plain)
        assert (first.races, plain.races, kept.checked, plain.queue().checked) == (told, (), False, False)


def test_checking_that_begins_again_knows_nothing_of_before():
    with fb.Device() as plain:
        a, b, blocking = plain.queue(blocking=False), plain.queue(blocking=False), plain.queue()
        x = plain.empty(SIZE)
        for _ in range(2):
            with fb.Device(check="races") as device:
                assert device.races == ()
                blocking.fill(x, 1)
                plain.null_queue.fill(x, 2)  # comes after it, as ever
                assert device.races == ()
                b.fill(x, 3)
                assert len(device.races) == 2
                blocking.record()  # so the null queue would have to come after it
            a.fill(x, 4)
            b.wait(a)
        with fb.Device(check="races") as device:
            b.fill(x, 5)
            blocking.fill(x, 6)
            assert len(device.races) == 1


def test_a_checked_device_that_is_dropped_checks_no_more():
    with fb.Device() as plain:
        a, b, x = plain.queue(blocking=False), plain.queue(blocking=False), plain.empty(SIZE)
        fb.Device(check="races")
        gc.collect()
        raced(plain)
        assert plain.races == ()
        device = fb.Device(check="races")
        a.fill(x, 1)
        del device
        gc.collect()
        with fb.Device(check="races") as device:
            b.fill(x, 2)  # b may have been ordered after it meanwhile
            assert device.races == ()


# -- threads and host functions


@pytest.mark.threads
@pytest.mark.executes
def test_what_a_host_function_submits_comes_after_its_queue(device, queues, found):
    a, b, _ = queues
    x = device.empty(SIZE)
    a.fill(x, 1)
    a.host(lambda: b.fill(x, 2))
    a.finish()
    device.finish()
    assert (found(), device.possible_races) == ((), ())
    before = len(device.possible_races)
    a.fill(x, 1)
    a.host(lambda: None)
    b.fill(x, 2)  # the function may have told the program that it ran
    assert found() == ()
    assert len(device.possible_races) == before + 1
    a.fill(x, 1)
    b.fill(x, 2)
    assert len(found()) >= 1


@pytest.mark.threads
@pytest.mark.executes
def test_what_another_thread_submits_while_a_host_function_runs_does_not_come_after_it(device, queues, found):
    a, b, _ = queues
    x = device.empty(SIZE)
    runs, submitted = threading.Event(), threading.Event()

    def function():
        runs.set()
        assert submitted.wait(60)

    a.fill(x, 1)
    a.host(function)
    assert runs.wait(60)
    try:
        b.fill(x, 2)
    finally:
        submitted.set()
    device.finish()
    assert found() == ()
    assert len(device.possible_races) == 1


# -- what an order is made of


def test_what_follows_a_wait_for_a_value_is_possible(device, queues, found):
    a, b, _ = queues
    x, y = device.empty(SIZE), device.empty(SIZE)
    a.fill(x, 1)
    come_after_unseen(b)
    b.fill(x, 2)
    assert (found(), device.possible_races) == ((), ())
    a.fill(y, 1)
    b.fill(y, 2)
    assert found() == ()
    (race,) = device.possible_races
    assert "wait for a value" in race.basis[-1]


@pytest.mark.executes
@pytest.mark.parametrize("seen", [False, True])
def test_a_queue_that_was_seen_empty_is_done(device, kernels, queues, found, seen):
    """What forebay finds out for itself, here for memory that was freed, orders nothing."""
    a, b, _ = queues
    x = device.empty(SIZE)
    a.launch(kernels["scale"], *GRID, x, 2.0)
    a.free(a.alloc(LARGE))
    kept = []  # or the queue would get these again
    while a.completed < a.epoch:
        kept.append(b.alloc(LARGE))
    assert not seen or a.empty
    b.launch(kernels["scale"], *GRID, x, 3.0)
    assert len(found()) == (not seen)


# -- what is remembered


def test_memory_and_queues_without_commands_are_forgotten(device):
    from forebay.races.checker import statistics

    for i in range(3000):
        device.empty(4)
        queue = device.queue(blocking=i % 2 == 0)
        queue.record()
        queue.finish()
    assert sum(statistics().values()) < 3000


@pytest.mark.threads
@pytest.mark.needs("OpenCL")  # whose observer can stop a call
def test_checking_begins_while_a_thread_is_in_the_driver():
    """It waits for the lock of that thread's queue, without the GIL."""
    with fb.Device() as plain, observe(plain) as calls, plain.queue(blocking=False).gate():
        queue, x = plain.queue(blocking=False), plain.empty(SIZE)
        calls.driver.pause(calls.name_of("FILL"))
        with beside(lambda: queue.fill(x, 1)):
            calls.driver.wait_until_paused()
            with beside(lambda: fb.Device(check="races").close()) as (beginning,):
                beginning.join(0.05)
                calls.driver.go_on()


@pytest.mark.long
def test_what_is_remembered_is_bounded(device, kernels, queues):
    from forebay.races.checker import statistics

    a, b, _ = queues
    x = device.empty(1 << 16, "u1")
    gc.collect()
    device.finish()
    before = statistics()
    for i in range(20_000):
        a.fill(x[i % 60_000 : i % 60_000 + 1], 1)  # they merge
    assert statistics()["uses"] - before["uses"] <= 2
    for i in range(20_000):
        a.fill(x[2 * i : 2 * i + 1], 1)
        a.record()
    assert statistics()["uses"] - before["uses"] <= 128 + 2
    for _ in range(20_000):
        buffer = b.alloc(64)
        b.fill(buffer, 1)
        b.free(buffer)
    del buffer, x
    device.finish()
    assert statistics()["memories"] < 5000


# -- the command line

APP = """
import forebay as fb
device = fb.Device()
a, b = device.queue(blocking=False), device.queue(blocking=False)
x = device.empty(64)
a.fill(x, 1)
{}
b.fill(x, 2)
device.finish()
raise SystemExit({})
"""


def check(*options, insert="", status=0):
    return run("check", *options, "--", sys.executable, "-c", APP.format(insert, status))


def run(*arguments):
    return python("-m", "forebay", *arguments, FOREBAY_DEVICE=os.environ.get("FOREBAY_DEVICE"))


@pytest.mark.needs("no chosen device")
@pytest.mark.long
def test_forebay_check():
    found = check()
    assert found.returncode == 1
    assert "b.wait(a)" in found.stderr
    assert "1 race, 0 possible" in found.stderr
    found = check(insert="b.wait(a)")
    assert (found.returncode, "0 races, 0 possible" in found.stderr) == (0, True), found.stderr
    assert check(status=3).returncode == 3
    found = check("--error")
    assert found.returncode == 1
    assert "RaceError" in found.stderr


def test_forebay_check_of_what_makes_no_device():
    found = run("check", "--", sys.executable, "-c", "")
    assert (found.returncode, "nothing was checked" in found.stderr) == (0, True)


@pytest.mark.threads
def test_queues_that_are_gone_are_forgotten_while_other_threads_make_some():
    """The checker looks through the queues that it knows, when it knows many."""

    def use():
        with fb.Device(private=True, check="races") as device:
            x, kept = device.zeros(SIZE), []
            for _ in range(600):
                kept.append(device.queue(blocking=False))
                kept[-1].fill(x[:1], 1)

    with switching(1e-6):
        together(*[use] * 6)


# Which memory a race is about: parts, rows, the host's memory, the pool's


def test_a_part_chosen_by_a_structure_is_possible(device, queues, found):
    a, b, _ = queues
    try:
        kernel = device.program(
            "typedef struct { int at, step; } Part;"
            "kernel void of(global float *y, const Part p) { y[p.at + p.step * get_global_id(0)] = 1; }"
        )["of"]
        parts = [np.array((at, 1), dtype=[("at", "i4"), ("step", "i4")])[()] for at in (0, 32)]
        x, before = device.empty(SIZE), len(device.possible_races)
        a.launch(kernel, 2, 16, x, parts[0])
    except fb.NotSupportedError as error:
        pytest.skip(str(error))
    b.launch(kernel, 2, 16, x, parts[1])
    assert (len(found()), len(device.possible_races)) == (0, before + 1)
    b.launch(kernel, 2, 16, x, parts[0])
    assert len(found()) == 1


def test_a_pointer_that_is_not_const_can_be_said_to_be_read(device, queues, found):
    source = "kernel void peek(global float *x, global float *y) { y[get_global_id(0)] = x[get_global_id(0)]; }"
    program = device.program(source)
    kernel = program["peek"]
    a, b, _ = queues
    x = device.empty(SIZE)
    a.launch(kernel, *GRID, x, device.empty(SIZE))
    b.launch(kernel, *GRID, x, device.empty(SIZE))
    if natives_of(program).accesses("peek"):  # the compiled code shows it
        assert found() == ()
    else:
        (race,) = found()
        (reason,) = race.basis
        assert 'kernel.reads("x")' in reason

    kernel = device.program(source + " ")["peek"]
    kernel.reads("x")
    x = device.empty(SIZE)
    a.launch(kernel, *GRID, x, device.empty(SIZE))
    b.launch(kernel, *GRID, x, device.empty(SIZE))
    assert found() == ()


def test_what_reads_and_writes_refuse(device, kernels):
    kernel = kernels["slots"]
    with pytest.raises(fb.InvalidArgumentError, match="no parameter 'z'"):
        kernel.reads("z")
    with pytest.raises(fb.InvalidArgumentError, match="may write through"):
        kernel.writes("x")
    with pytest.raises(fb.InvalidArgumentError, match="pointer"):
        kernel.reads("first")
    with pytest.raises(fb.ArgumentTypeError, match="slice"):
        kernel.writes("y", 3)
    with pytest.raises(fb.InvalidArgumentError, match="known by arguments"):
        kernel.writes("y", slice(fb.MaxOver("x"), None))


def test_a_kernel_that_follows_pointers_is_no_matter_of_later_devices():
    """Which may have the address of the one it was for."""
    for _ in range(20):
        with fb.Device(private=True, check="races") as device:
            kernel = device.program("kernel void set(global float *y) { y[get_global_id(0)] = 1; }")["set"]
            queues = [device.queue(blocking=False) for _ in range(2)]
            for queue in queues:
                queue.launch(kernel, *GRID, device.empty(SIZE))
            assert device.possible_races == ()
            kernel.follow_pointers()
            queues[0].launch(kernel, *GRID, device.empty(SIZE))


@pytest.mark.skipif(select().backend == "cuda", reason="the stand-in has no shared memory")
def test_a_view_of_shared_memory_is_possible(device, queues, found):
    a, _, _ = queues
    try:
        x = device.empty(SIZE, usm_type="shared")
    except fb.NotSupportedError:
        pytest.skip("the device has no shared memory")
    before = len(device.possible_races)
    view = x.host
    assert len(device.possible_races) == before
    a.fill(x, 1)
    assert x.host is not view
    assert found() == ()
    assert len(device.possible_races) == before + 1
