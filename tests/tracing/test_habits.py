import os
import sys
import threading

import numpy as np
import pytest

import forebay as fb
from forebay.tracing import findings, host_waits, queue_waits, repetitions, watching
from tests.conftest import DEVICES
from tests.helpers.processes import command, python


def lines_of(found, what):
    return {habit.line.rpartition(":")[2]: habit.times for habit in found if habit.what == what}


def test_a_good_program_has_none(find, device, own, program, buffer):
    def run():
        for value in range(5):
            own.launch(program["add"], 10, 10, buffer, value)
            own.copy(buffer, np.full(100, value, "i4"))
            own.finish()
        own.launch(program["add"], 10, 10, buffer, 1)
        own.record().wait()
        buffer.get(queue=own)
        own.launch(program["add"], 10, 10, buffer, 1)
        device.finish()

    assert find(run) == {}


def test_waits_for_what_is_done(find, device, own, program, buffer):
    def run():
        own.finish()
        own.launch(program["add"], 10, 10, buffer, 1)
        event = own.record()
        own.finish()
        for _ in range(3):
            own.finish()
        device.finish()
        event.wait()

    assert find(run) == {host_waits.NEEDLESS: 6}
    assert sorted(lines_of(find.all, host_waits.NEEDLESS).values()) == [1, 1, 1, 3]
    assert all(habit.ticks > 0 for habit in find.all)


def test_the_finish_inside_another_call_is_not_the_programs(find, own, program, buffer):
    def run():
        for _ in range(2):
            own.launch(program["add"], 10, 10, buffer, 1)
            buffer.get(queue=own)

    assert find(run) == {}


def test_a_value_that_is_read_twice_is_no_habit(find, own, device):
    last = device.program("kernel void last(global int *to) { to[0] = 3; }")["last"]

    def run():
        value = own.launch(last, 1, 1, result="i4")
        value.get()
        value.get()

    assert find(run) == {}


@pytest.mark.executes(run=False)
def test_a_wait_that_is_needed_counts_however_little_was_submitted(find, make_queue, program, buffer, hold):
    first, second = make_queue(blocking=False), make_queue(blocking=False)

    def run():
        gate = hold(second)
        first.launch(program["add"], 10, 10, buffer, 1)
        event = second.record()
        first.finish()
        gate.open()
        event.wait()

    assert find(run) == {}


@pytest.mark.executes
def test_queues_finished_one_after_another(find, make_queue, program, buffer):
    queues = [make_queue(blocking=False) for _ in range(4)]

    def run():
        for _ in range(2):
            for queue in queues:
                queue.launch(program["add"], 10, 10, buffer, 1)
            for queue in queues:
                queue.finish()
        for queue in queues:
            queue.launch(program["add"], 10, 10, buffer, 1)
            queue.finish()

    assert find(run) == {host_waits.ONE_BY_ONE: 2 * 3}


def test_the_null_queue_and_blocking_queues_that_wait_for_each_other(find, device, make_queue, program, buffer, hold):
    queue, null = make_queue(), device.null_queue
    hold(queue)

    def run(turns):
        for _ in range(turns):
            queue.launch(program["add"], 10, 10, buffer, 1)
            null.launch(program["add"], 10, 10, buffer, 1)

    before = device.stats.waits_made
    assert find(lambda: run(findings.OFTEN + 1)) == {queue_waits.SERIALIZED: 2 * findings.OFTEN + 1}
    assert sorted(lines_of(find.all, queue_waits.SERIALIZED).values()) == [findings.OFTEN, findings.OFTEN + 1]
    waits = device.stats.waits_made - before
    assert sum(habit.waits for habit in find.all) == waits == 2 * findings.OFTEN + 1
    assert find(lambda: run(findings.OFTEN - 2)) == {}  # to be joined by the null queue now and then is no loop


def test_waits_that_the_program_asked_for_are_none(find, make_queue, program, buffer):
    first, second = make_queue(blocking=False), make_queue(blocking=False)

    def run():
        first.launch(program["add"], 10, 10, buffer, 1)
        second.wait(first)
        second.launch(program["add"], 10, 10, buffer, 1)

    assert find(run) == {}


def test_bytes_that_are_there_already(find, device, own, program, buffer):
    host = np.arange(100, dtype="i4")
    with device.empty(100, "i4") as other:

        def run():
            for _ in range(4):
                own.copy(buffer, host)  # 3
            own.launch(program["copy"], 10, 10, other, buffer)  # only reads
            buffer.set(host, queue=own)  # 1
            host[0] += 1
            own.copy(buffer, host)
            own.launch(program["add"], 10, 10, buffer, 1)
            own.copy(buffer, host)
            own.copy(buffer[:50], host[:50])
            own.copy(buffer[:50], host[:50])  # 1

        assert find(run) == {repetitions.UNCHANGED: 5}
        assert sum(habit.nbytes for habit in find.all) == 4 * 400 + 200
        own.finish()


def test_a_program_that_is_built_again(find, device):
    source = "kernel void again(global int *a) { a[0] = 1; }"

    def run():
        for _ in range(3):
            device.program(source)
        device.program(source, "-DOTHER")
        device.program(source + " ")
        with pytest.raises(fb.BuildError):
            device.program("no kernel")
        with pytest.raises(fb.BuildError):
            device.program("no kernel")

    assert find(run) == {repetitions.COMPILED_AGAIN: 2}


@pytest.mark.needs("Level Zero")
def test_steps_that_do_not_repeat(find, make_queue, program, buffer):
    good, bad = make_queue(blocking=False), make_queue(blocking=False)

    def run():
        repeats, differs = good.step(), bad.step()
        for turn in range(8):
            with repeats:
                for _ in range(4):
                    good.launch(program["add"], 10, 10, buffer, turn)
            with differs:
                for _ in range(turn + 1):
                    bad.launch(program["add"], 10, 10, buffer, turn)
        repeats.close()
        differs.close()

    assert list(find(run)) == [repetitions.UNLIKE]


def test_wrong_arguments_are_the_same_errors(find, device, own, buffer):
    def run():
        for call in (
            lambda: own.copy(buffer, np.zeros(3, "i4")),
            lambda: own.copy(buffer, object()),
            lambda: own.copy(buffer),
            lambda: own.copy(dst=buffer, src=np.zeros(3, "i4")),
            lambda: device.program(3),
            lambda: own.finish("soon"),
        ):
            with pytest.raises((TypeError, ValueError)):
                call()

    assert find(run) == {}


def test_the_counters_of_devices_that_are_gone_count(find, device, program):
    def run():
        for _ in range(2):
            with fb.Device(device.name, private=True) as another:
                another.queue().launch(another.program("kernel void mine() { }")["mine"], 1, 1)

    assert set(find(run)) == {repetitions.COMPILED_AGAIN}
    assert [name for name, stats in find.stats if stats.launches == 1] == [device.name] * 2


@pytest.mark.threads
def test_each_thread_is_judged_for_itself(find, make_queue, program, device):
    def run():
        def work():
            queue = make_queue(blocking=False)
            with device.empty(100, "i4") as mine:
                for value in range(20):
                    queue.launch(program["add"], 10, 10, mine, value)
                    queue.finish()

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    find(run)
    assert sum(stats.launches for _, stats in find.stats) >= 80
    assert set(watching._originals) == set()


def test_the_report_has_the_line_and_the_cost():
    stats = fb.Stats(launches=1234567, waits_made=1, waits_elided_ordered=3)
    habits = [
        findings.Habit(repetitions.UNCHANGED, "app.py:12", 3, 2_000_000, 4096),
        findings.Habit(queue_waits.SERIALIZED, "", 5, waits=7),
    ]
    text = findings.report([("opencl:cpu:0", stats)], habits, 0.5)
    assert "1,234,567 launches" in text
    assert "3 of 4 waits" in text
    assert "app.py:12: 3 ×, 1.000 ms, 4,096 bytes" in text
    assert "unknown line: 5 ×, 7 waits" in text


# The command

START = """
import os, sys
import forebay as fb
device = fb.Device()
queue = device.queue()
queue.launch(device.program("kernel void one() { }")["one"], 1, 1)
queue.finish(); queue.finish()
"""


def with_stats(source, **environment):
    if command()[0][0] != sys.executable:  # null hardware
        return python("-c", source, FOREBAY_STATS=1, FOREBAY_DEVICE=DEVICES[0], **environment)
    return python(
        "-m", "forebay", "stats", "--", sys.executable, "-c", source, FOREBAY_DEVICE=DEVICES[0], **environment
    )


@pytest.mark.needs("no validation layer", "the default device")
@pytest.mark.parametrize(("end", "status"), [("", 0), ("sys.exit(3)", 3), ("1 / 0", 1)])
def test_a_program_ends_with_a_report(end, status):
    done = with_stats(START + end)
    assert done.returncode == status
    assert done.stdout == ""
    assert "1 launches" in done.stderr
    assert "<string>:7: 1 ×" in done.stderr
    assert host_waits.NEEDLESS in done.stderr


@pytest.mark.needs("no validation layer", "the default device")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_reports_nothing():
    done = with_stats(START + "child = os.fork()\nif child == 0: sys.exit(0)\nos.waitpid(child, 0)")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("what process") == 1


@pytest.mark.needs("no validation layer", "the default device")
def test_a_trace_and_stats_at_once(tmp_path):
    done = with_stats(START, FOREBAY_TRACE=tmp_path / "t.json")
    assert done.returncode == 0, done.stderr
    assert host_waits.NEEDLESS in done.stderr
    assert (tmp_path / "t.json").stat().st_size > 1000
