"""SPIR-V that Intel's CPU runtime builds in a process of its own."""

import os
import signal
import struct
import subprocess
import threading
from pathlib import Path

import pytest

import forebay as ps
from forebay.queues.opencl import build_process
from forebay.queues.opencl.discovery import INTEL_CPU
from tests.helpers import spirv
from tests.helpers.processes import command


@pytest.fixture(autouse=True)
def _only_intel(device, monkeypatch, tmp_path):
    if device.info.platform != INTEL_CPU:
        pytest.skip("its compiler has not ended a process yet")
    monkeypatch.setenv("FOREBAY_CACHE", str(tmp_path))
    monkeypatch.delenv("FOREBAY_NO_CACHE", raising=False)


@pytest.fixture
def process():
    """The pids of the process; it ends before and after the test."""

    def end():
        while build_process._running:
            build_process._drop()

    end()
    yield lambda: [each.child.pid for each in build_process._running]
    end()


def deadly_module(name="fill"):
    """A module whose function says that its result is of a type that is none; Intel's compiler ends the process."""
    words = list(struct.unpack(f"<{len(spirv.fill_module(name)) // 4}I", spirv.fill_module(name)))
    at = 5
    while words[at] & 0xFFFF != spirv.OP_FUNCTION:
        at += words[at] >> 16
    words[at + (words[at] >> 16) - 1] = words[3] - 1
    return struct.pack(f"<{len(words)}I", *words)


def check(device, queue, program, name):
    buffer = device.zeros(4, "i4")
    queue.launch(program[name], 1, 4, buffer, 5)
    assert buffer.get(queue=queue).tolist() == [5] * 4


@pytest.mark.executes
def test_programs_are_built_there_and_work_here(device, queue, process):
    for name in ("one", "two"):
        check(device, queue, device.program(spirv.fill_module(name)), name)
        assert len(process()) == 1
    (pid,) = process()
    device.program(spirv.fill_module("one"))
    assert process() == [pid]


@pytest.mark.executes
def test_a_program_in_the_cache_starts_no_process(device, queue, process, monkeypatch):
    device.program(spirv.fill_module("kept"))
    build_process._drop()
    check(device, queue, device.program(spirv.fill_module("kept")), "kept")
    assert process() == []
    monkeypatch.setenv("FOREBAY_NO_CACHE", "1")
    check(device, queue, device.program(spirv.fill_module("kept")), "kept")
    assert len(process()) == 1


@pytest.mark.executes
def test_a_compiler_that_ends_its_process_is_an_error(device, queue, process):
    for _ in range(2):
        with pytest.raises(ps.BuildError, match="ended its process: SIG") as caught:
            device.program(deadly_module())
        assert device.name in str(caught.value)
        assert process() == []
    check(device, queue, device.program(spirv.fill_module("after")), "after")


@pytest.mark.executes
def test_a_process_that_has_ended_is_started_again(device, queue, process):
    device.program(spirv.fill_module("first"))
    (pid,) = process()
    os.kill(pid, signal.SIGKILL)
    build_process._running[0].child.wait()
    check(device, queue, device.program(spirv.fill_module("second")), "second")
    assert process() != [pid]


@pytest.mark.executes
@pytest.mark.threads
def test_threads_take_turns(device, queue, process):
    failed = []

    def build(name):
        try:
            check(device, queue, device.program(spirv.fill_module(name)), name)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=build, args=(f"k{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert len(process()) == 1


@pytest.mark.executes
def test_where_no_process_can_be_started_it_is_built_here(device, queue, process, monkeypatch):
    monkeypatch.setattr(build_process.sys, "executable", "")
    check(device, queue, device.program(spirv.fill_module("here")), "here")
    assert process() == []


def test_what_does_not_build_says_so(device, process):
    module = spirv.fill_module()
    words = list(struct.unpack(f"<{len(module) // 4}I", module))
    words[5 + 1] = 5297  # a capability of no CPU
    with pytest.raises(ps.BuildError) as caught:
        device.program(struct.pack(f"<{len(words)}I", *words))
    assert caught.value.log


def test_ctrl_c_while_it_builds(device, process, monkeypatch):
    device.program(spirv.fill_module("before"))
    (pid,) = process()

    def interrupted(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(build_process._Process, "answer", interrupted)
    with pytest.raises(KeyboardInterrupt):
        device.program(spirv.fill_module("lost"))
    assert process() == []
    monkeypatch.undo()
    with device.program(spirv.fill_module("after")) as program:
        assert "after" in program
    assert process() != [pid]


def test_it_goes_with_its_parent(tmp_path):
    code = (
        "import os, forebay as ps; from tests.helpers import spirv; from forebay.queues.opencl import build_process\n"
        "ps.Device('opencl:cpu').program(spirv.fill_module())\n"
        "print(build_process._running[0].child.pid, flush=True)\n"
        "import sys; os._exit(0) if sys.argv[1] == 'killed' else None"
    )
    for how in ("killed", "ended"):
        arguments, env = command("-c", code, how, FOREBAY_CACHE=tmp_path / how)
        done = subprocess.run(arguments, env=env, capture_output=True, text=True, check=True)
        assert done.stderr == ""
        pid = int(done.stdout)
        for _ in range(2000):  # its input ends when the parent does; it is not this process's child to wait for
            try:
                if Path(f"/proc/{pid}/stat").read_text().split(")")[1].split()[0] == "Z":
                    break
            except OSError:
                break
            os.sched_yield()
            subprocess.run(["true"], check=True)
        else:
            pytest.fail("the process outlives its parent")


@pytest.mark.parametrize("step", ["accepts", "answer"])
def test_an_answer_that_nobody_waited_for_is_not_taken_for_another(device, process, monkeypatch, step):
    whole = getattr(build_process._Process, step)

    def interrupted(self, *arguments):
        whole(self, *arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(build_process._Process, step, interrupted)
    with pytest.raises(KeyboardInterrupt):
        device.program(spirv.fill_module("lost"))
    monkeypatch.undo()
    with device.program(spirv.fill_module("next")) as program:
        assert list(program) == ["next"]


def test_it_is_started_while_a_program_is_made(device, process):
    device.driver.expect_spirv()
    (pid,) = process()
    device.driver.expect_spirv()
    device.program(spirv.fill_module("expected"))
    assert process() == [pid]
