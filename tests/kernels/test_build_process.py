"""SPIR-V that Intel's compilers, for CPUs and for GPUs, build in a process of its own."""

import dataclasses
import os
import select
import signal
import struct
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import forebay as fb
from forebay.queues.drivers.opencl import programs
from forebay.queues.kernels import build_process
from forebay.spirv.intel_cpu.runtime import INTEL_CPU
from tests.conftest import on_null_hardware
from tests.helpers import spirv
from tests.helpers.processes import command

pytestmark = pytest.mark.needs("no validation layer")  # which sees its own process only


@pytest.fixture(autouse=True)
def _only_where_it_is_used(request, device, monkeypatch, tmp_path):
    if device.info.platform not in (INTEL_CPU, "Level Zero"):
        pytest.skip("its compiler has not ended a process yet")
    if device.info.backend == "sycl" and "sycl" not in request.function.__name__:
        pytest.skip("SYCL's devices share OpenCL's compiler")
    monkeypatch.setenv("FOREBAY_CACHE", str(tmp_path))
    monkeypatch.delenv("FOREBAY_NO_CACHE", raising=False)


@pytest.fixture
def process():
    """The pids of the process; it ends before and after the test."""

    build_process._end()
    yield lambda: [each.child.pid for each in build_process._idle]
    build_process._end()


def check(device, queue, program, name):
    """Run a kernel, as far as the device runs any."""
    assert list(program) == [name]
    buffer = device.zeros(4, "i4")
    queue.launch(program[name], 1, 4, buffer, 5)
    assert buffer.get(queue=queue).tolist() == [5] * 4 or on_null_hardware(device.name)


def test_programs_are_built_there_and_work_here(device, queue, process):
    for name in ("one", "two"):
        check(device, queue, device.program(spirv.fill_module(name)), name)
        assert len(process()) == 1
    (pid,) = process()
    device.program(spirv.fill_module("one"))
    assert process() == [pid]


def test_a_program_in_the_cache_starts_no_process(device, queue, process, monkeypatch):
    device.program(spirv.fill_module("kept"))
    build_process._end()
    check(device, queue, device.program(spirv.fill_module("kept")), "kept")
    assert process() == []
    monkeypatch.setenv("FOREBAY_NO_CACHE", "1")
    check(device, queue, device.program(spirv.fill_module("kept")), "kept")
    assert len(process()) == 1


@pytest.mark.long
def test_a_compiler_that_ends_its_process_is_an_error(device, queue, process):
    for _ in range(2):
        with pytest.raises(fb.BuildError, match=r"ended its process: (SIG|exit status)") as caught:
            device.program(spirv.deadly_module())
        assert device.name in str(caught.value)
        assert process() == []
    check(device, queue, device.program(spirv.fill_module("after")), "after")


# Intel's CPU runtime 2026.2.0 ends its process while it makes vectors of this (its pass vplan-vec).
STENCIL = """
constexpr int R = 16, X = 64, Y = 16;
__constant__ float cx[2 * R + 1], cy[2 * R + 1], cz[2 * R + 1];
__global__ void stencil(float* to, const float* from, int line, int slice, int width, int depth) {
    const size_t i = R + threadIdx.x + blockIdx.x * blockDim.x;
    if (i >= width) return;
    __shared__ float tile[X * (Y + 2 * R)];
    const size_t at = threadIdx.x + (R + threadIdx.y) * X;
    const size_t start = i + line * (R + threadIdx.y + blockIdx.y * blockDim.y);
    float above[2 * R + 1], sums[R + 1], row[2 * R + 1];
    from += start;
    to += start;
    for (int r = 0; r < R; ++r, from += slice) above[r] = from[0];
    for (int r = R; r < 2 * R; ++r, from += slice) {
        for (int k = 0; k <= 2 * R; ++k) row[k] = from[k - R];
        __syncthreads();
        tile[at - X * R] = from[-R * line];
        tile[at] = row[R];
        tile[at + X * Y] = from[line * Y];
        __syncthreads();
        sums[r - R] = 0;
        for (int k = 0; k <= 2 * R; ++k) {
            sums[r - R] += tile[at + (k - R) * X] * cy[k];
            sums[r - R] += row[k] * cx[k];
        }
        above[r] = row[R];
    }
    for (int z = 0; z < depth; ++z, from += slice, to += slice) {
        for (int k = 0; k <= 2 * R; ++k) row[k] = from[k - R];
        __syncthreads();
        tile[at - X * R] = from[-R * line];
        tile[at] = row[R];
        tile[at + X * Y] = from[line * Y];
        __syncthreads();
        above[2 * R] = row[R];
        sums[R] = 0;
        for (int k = 0; k <= 2 * R; ++k) {
            sums[0] += above[k] * cz[k];
            sums[R] += tile[at + (k - R) * X] * cy[k];
            sums[R] += row[k] * cx[k];
        }
        to[0] = sums[0];
        for (int k = 0; k < 2 * R; ++k) above[k] = above[k + 1];
        for (int k = 0; k < R; ++k) sums[k] = sums[k + 1];
    }
}
"""
RADIUS, WIDTH, DEPTH = 16, 60, 3


@pytest.fixture
def _only_on_the_cpu_runtime(device):
    if (device.info.backend, device.info.platform) != ("opencl", INTEL_CPU):
        pytest.skip("another compiler")


@pytest.mark.executes
def test_what_ends_the_process_over_sycl(device, queue, process):
    """SYCL builds in this process, and must be given what did not end the other one."""
    if (device.info.backend, device.info.platform) != ("sycl", INTEL_CPU):
        pytest.skip("another interface")
    for _ in range(2):  # the second is from the cache
        program = device.program(STENCIL)
        x, o = device.zeros((2 * RADIUS + DEPTH, 3 * RADIUS, 96), "f4"), device.zeros((DEPTH, 3 * RADIUS, 96), "f4")
        o.fill(5, queue=queue)
        queue.launch(program["stencil"], 1, (64, RADIUS), o, x, 96, 3 * RADIUS * 96, RADIUS + WIDTH, DEPTH)
        got = o.get(queue=queue)
        assert (got[:, RADIUS:-RADIUS, RADIUS : RADIUS + WIDTH] == 0).all()
        assert (got == 5).sum() == got.size - DEPTH * RADIUS * WIDTH
    with pytest.raises(fb.BuildError, match="ended its process"):
        device.program(spirv.deadly_module())


@pytest.mark.executes
@pytest.mark.usefixtures("_only_on_the_cpu_runtime")
@pytest.mark.long
def test_what_ends_the_process_is_built_without_vectors(device, queue, process, monkeypatch):
    ended = []
    without_vectors = programs.without_vectors
    monkeypatch.setattr(programs, "without_vectors", lambda module: ended.append(1) or without_vectors(module))
    random = np.random.default_rng(0)
    x = random.integers(-9, 9, (2 * RADIUS + DEPTH, 3 * RADIUS, 96)).astype("f4")
    weights = {name: random.integers(-9, 9, 2 * RADIUS + 1).astype("f4") for name in ("cx", "cy", "cz")}
    expected = np.zeros((DEPTH, 3 * RADIUS, 96), "f4")
    to = expected[:, RADIUS:-RADIUS, RADIUS : RADIUS + WIDTH]
    for k in range(2 * RADIUS + 1):
        inner = slice(RADIUS, RADIUS + DEPTH), slice(RADIUS, -RADIUS), slice(RADIUS, RADIUS + WIDTH)
        for axis, name in enumerate(("cz", "cy", "cx")):
            moved = list(inner)
            first = moved[axis].start - RADIUS + k
            moved[axis] = slice(first, first + to.shape[axis])
            to += weights[name][k] * x[tuple(moved)]
    for _ in range(2):  # the second is from the cache
        program = device.program(STENCIL)
        for name, values in weights.items():
            queue.copy(program.get_global(name).view("f4"), values)
        o = device.zeros(expected.shape, "f4")
        arguments = o, device.array(x), 96, 3 * RADIUS * 96, RADIUS + WIDTH, DEPTH
        queue.launch(program["stencil"], 1, (64, RADIUS), *arguments)
        assert (o.get(queue=queue) == expected).all()
    assert len(ended) == 1


@pytest.mark.usefixtures("_only_on_the_cpu_runtime")
def test_what_ends_it_without_vectors_too_is_tried_once_from_then_on(device, queue, process, monkeypatch):
    tries = []
    build = programs.build_apart
    monkeypatch.setattr(programs, "build_apart", lambda *args: tries.append(args) or build(*args))
    for total in (2, 3):
        with pytest.raises(fb.BuildError, match="ended its process"):
            device.program(spirv.deadly_module("always"))
        assert len(tries) == total


def test_a_process_that_has_ended_is_started_again(device, queue, process):
    device.program(spirv.fill_module("first"))
    (pid,) = process()
    os.kill(pid, signal.SIGKILL)
    build_process._idle[0].child.wait()
    check(device, queue, device.program(spirv.fill_module("second")), "second")
    assert process() != [pid]


@pytest.mark.threads
def test_threads_build_at_once(device, queue, process):
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
    assert 1 <= len(set(process())) <= os.cpu_count()


@pytest.mark.threads
@pytest.mark.parametrize("turn", range(3))
def test_a_device_closes_while_it_builds(device, process, monkeypatch, turn):
    answer, asked, closed = build_process._Process.answer, threading.Event(), threading.Event()

    def answer_when_closed(self):
        asked.set()
        if turn:
            closed.wait(60)
        return answer(self)

    monkeypatch.setattr(build_process._Process, "answer", answer_when_closed)
    told = []

    def build(opened):
        try:
            told.append(list(opened.program(spirv.fill_module("late"))))
        except fb.Error as error:
            told.append(error)

    with fb.Device(device.name, private=True) as opened:
        thread = threading.Thread(target=build, args=(opened,))
        thread.start()
        asked.wait(60)
    closed.set()
    thread.join()
    monkeypatch.undo()
    assert isinstance(told[0], fb.ClosedError) or told == [["late"]]
    with device.program(spirv.fill_module("after")) as program:
        assert list(program) == ["after"]


@pytest.mark.threads
def test_one_build_does_not_wait_for_another(device, process, monkeypatch):
    answer, both = build_process._Process.answer, threading.Barrier(2, timeout=60)

    def answer_when_both_are_asked(self):
        both.wait()
        return answer(self)

    monkeypatch.setattr(build_process, "_turns", threading.BoundedSemaphore(2))
    monkeypatch.setattr(build_process._Process, "answer", answer_when_both_are_asked)
    other = threading.Thread(target=device.program, args=(spirv.fill_module("other"),))
    other.start()
    device.program(spirv.fill_module("one"))
    other.join()
    assert len(set(process())) == 2


def test_where_no_process_can_be_started_it_is_built_here(device, queue, process, monkeypatch):
    monkeypatch.setattr(build_process.sys, "executable", "")
    check(device, queue, device.program(spirv.fill_module("here")), "here")
    assert process() == []


def test_a_device_that_the_process_does_not_find_is_built_for_here(device, queue, process, monkeypatch):
    device.program(spirv.fill_module("before"))  # so that a device of SYCL's has found its driver
    monkeypatch.setattr(device.driver, "info", dataclasses.replace(device.info, driver_version="of another machine"))
    check(device, queue, device.program(spirv.fill_module("here")), "here")
    assert len(process()) == 1


@pytest.mark.parametrize("started", [sys.executable, None])
def test_python_that_was_started_by_a_loader(started):
    """Its libraries may be those that the driver needs: the process for building is started as this one was."""
    loader = Path("/lib64/ld-linux-x86-64.so.2")
    if not loader.exists():
        pytest.skip("another machine")
    before = [] if started else [str(loader), "--argv0", sys.executable, "--library-path", "/lib/x86_64-linux-gnu"]
    code = "from forebay.queues.kernels import build_process; print(build_process._loader())"
    done = subprocess.run(
        [*before, sys.executable, "-c", code, "an argument", ""], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == str(before)


def test_what_does_not_build_says_so(device, process):
    if device.info.platform != INTEL_CPU:
        pytest.skip("the compiler for GPUs takes any capability")
    module = spirv.fill_module()
    words = list(struct.unpack(f"<{len(module) // 4}I", module))
    words[5 + 1] = 5297  # a capability of no CPU
    with pytest.raises(fb.BuildError) as caught:
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


@pytest.mark.long
def test_it_goes_with_its_parent(device, tmp_path):
    code = (
        "import os, sys, forebay as fb\n"
        "from tests.helpers import spirv\n"
        "from forebay.queues.kernels import build_process\n"
        "fb.Device(sys.argv[2]).program(spirv.fill_module())\n"
        "print(build_process._idle[0].child.pid, flush=True)\n"
        "os._exit(0) if sys.argv[1] == 'killed' else None"
    )
    for how in ("killed", "ended"):
        arguments, env = command("-c", code, how, device.name, FOREBAY_CACHE=tmp_path / how)
        done = subprocess.run(arguments, env=env, capture_output=True, text=True, check=True)
        assert done.stderr == ""
        pid = int(done.stdout)
        assert is_gone(pid)


def is_gone(pid):
    """Wait until a process has ended. Its input ends when its parent does; it is no child of this one to wait for."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([process], [], [], 60)[0])
    finally:
        os.close(process)


def build(info, source, options):
    """A build that takes for ever, with the GIL given back, as drivers' do."""
    Path(source).write_bytes(b"")
    threading.Event().wait()


def test_a_build_that_takes_for_ever_ends_with_its_parent(device, tmp_path):
    begun = tmp_path / "begun"
    os.mkfifo(begun)
    code = (
        "import sys, forebay as fb\n"
        "from forebay.queues.kernels import build_process\n"
        "class Process(build_process._Process):\n"
        "    def answer(self):\n"
        "        print(self.child.pid, flush=True)\n"
        "        return super().answer()\n"
        "build_process._Process = Process\n"
        "build_process.build_apart(sys.argv[1], fb.Device(sys.argv[2]).info, sys.argv[3], ())"
    )
    arguments, env = command("-c", code, __name__, device.name, begun, FOREBAY_CACHE=tmp_path)
    parent = subprocess.Popen(arguments, env=env, stdout=subprocess.PIPE, text=True)
    pid = int(parent.stdout.readline())
    begun.read_bytes()  # waits until the build opens it
    parent.kill()
    parent.communicate()
    assert is_gone(pid)


def test_a_build_that_takes_too_long_is_an_error(device, queue, process, monkeypatch):
    """The time is the processor's, so that a busy machine takes none away."""
    monkeypatch.setenv("FOREBAY_BUILD_SECONDS", "1")
    with pytest.raises(fb.BuildError, match="had not finished after 1 seconds of processor time") as caught:
        build_process.build_apart("tests.helpers.endless_build", device.info, b"", ())
    assert device.info.name in str(caught.value)
    assert isinstance(caught.value, build_process.CompilerEndedError)
    assert process() == []
    monkeypatch.delenv("FOREBAY_BUILD_SECONDS")
    check(device, queue, device.program(spirv.fill_module("patient")), "patient")


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


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5", "soon"])
def test_a_limit_that_is_no_number_of_seconds(device, monkeypatch, text):
    monkeypatch.setenv("FOREBAY_BUILD_SECONDS", text)
    with pytest.raises(fb.InvalidArgumentError, match=f"FOREBAY_BUILD_SECONDS .* not {text!r}"):
        device.program(spirv.fill_module("limited"))
