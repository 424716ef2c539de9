"""SPIR-V that Intel's compilers, for CPUs and for GPUs, build in a process of its own."""

import contextlib
import dataclasses
import os
import select
import signal
import struct
import subprocess
import sys
import threading
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

import forebay as fb
from forebay.core.intel_cpu import INTEL_CPU
from forebay.queues.kernels import build as building
from forebay.queues.opencl import programs
from tests.helpers import spirv
from tests.helpers.device_data import device_data
from tests.helpers.processes import build_processes, command
from tests.helpers.threads import together
from tests.inside import around_builds, end_build_processes

pytestmark = pytest.mark.needs("no validation layer")  # which sees its own process only


@pytest.fixture(autouse=True)
def _only_where_it_is_used(request, device, own_cache):
    if device.info.platform not in (INTEL_CPU, "Level Zero"):
        pytest.skip("its compiler has not ended a process yet")
    if device.info.backend == "sycl" and "sycl" not in request.function.__name__:
        pytest.skip("SYCL's devices share OpenCL's compiler")


@pytest.fixture(autouse=True)
def _no_process_before_and_after():
    end_build_processes()
    yield
    end_build_processes()


def build_and_check(device, name):
    """Build a program and run its kernel, as far as the device runs any."""
    with device.program(spirv.fill_module(name)) as program, device.queue() as queue:
        assert list(program) == [name]
        buffer = device.zeros(4, "i4")
        queue.launch(program[name], 1, 4, buffer, 5)
        assert device_data(buffer.get(queue=queue).tolist()) == [5] * 4


def test_programs_are_built_there_and_work_here(device):
    device.driver.expect_spirv()
    (pid,) = build_processes()
    device.driver.expect_spirv()
    for name in ("one", "two", "one"):
        build_and_check(device, name)
        assert build_processes() == [pid]


def test_a_program_in_the_cache_starts_no_process(device):
    build_and_check(device, "kept")
    end_build_processes()
    build_and_check(device, "kept")
    assert build_processes() == []
    with mock.patch.dict(os.environ, FOREBAY_NO_CACHE="1"):
        build_and_check(device, "kept")
    assert len(build_processes()) == 1


@pytest.mark.long
def test_a_compiler_that_ends_its_process_is_an_error(device):
    for _ in range(2):
        with pytest.raises(fb.BuildError, match=r"ended its process: (SIG|exit status)") as caught:
            device.program(spirv.deadly_module())
        assert device.name in str(caught.value)
        assert build_processes() == []
    build_and_check(device, "after")


# Intel's CPU runtime 2026.2.0 ends its process while it makes vectors of this (its pass vplan-vec).
STENCIL = """
constexpr int R = 16, X = 64, Y = 16;
__global__ void stencil(float* to, const float* from, const float* c, int line, int slice, int depth) {
    __shared__ float tile[X * (Y + 2 * R)];
    const size_t at = threadIdx.x + (R + threadIdx.y) * X;
    float above[2 * R + 1] = {}, sums[R + 1] = {}, row[2 * R + 1];
    for (int r = R; r < 2 * R; ++r, from += slice) {
        for (int k = 0; k <= 2 * R; ++k) row[k] = from[k - R];
        __syncthreads();
        tile[at - X * R] = from[-R * line];
        tile[at] = row[R];
        tile[at + X * Y] = from[line * Y];
        above[r] = row[R];
    }
    __syncthreads();
    for (int z = 0; z < depth; ++z, from += slice) {
        for (int k = 0; k <= 2 * R; ++k) row[k] = from[k - R];
        for (int k = 0; k <= 2 * R; ++k) sums[R] += (tile[at + (k - R) * X] + row[k]) * c[k];
        for (int k = 0; k < 2 * R; ++k) above[k] = above[k + 1];
        for (int k = 0; k < R; ++k) sums[k] = sums[k + 1];
    }
    to[threadIdx.x + X * threadIdx.y] = tile[at] + sums[R];
}
"""
RADIUS, ROWS, LINE, SLICE, DEPTH = 16, 16, 48, 96, 3


@pytest.mark.long
def test_what_ends_the_process_is_built_without_vectors_for_sycl_too(device, queue):
    """SYCL builds in this process, and must be given what did not end the other one."""
    if device.info.platform != INTEL_CPU:
        pytest.skip("another compiler")
    first, size, random = RADIUS * LINE, 2 * RADIUS + 1, np.random.default_rng(0)
    x, weights = (random.integers(-9, 9, count).astype("f4") for count in (8192, size))
    last = first + (RADIUS - 1) * SLICE
    column = x[[last - RADIUS * LINE, last, last + ROWS * LINE]].repeat(ROWS)
    planes = (first + (RADIUS + z) * SLICE - RADIUS for z in range(DEPTH))
    lines = sum(x[at : at + size] @ weights for at in planes)
    expected = [x[last] + DEPTH * (column[row : row + size] @ weights) + lines for row in range(ROWS)]
    with mock.patch.object(programs, "without_vectors", wraps=programs.without_vectors) as ended:
        for _ in range(2):  # the second is from the cache
            program, o, there = device.program(STENCIL), device.empty((ROWS, 64), "f4"), device.array(x)
            arguments = o, there[first:], device.array(weights), LINE, SLICE, DEPTH
            queue.launch(program["stencil"], 1, (64, ROWS), *arguments)
            assert np.array_equal(device_data(o.get(queue=queue)), np.repeat(expected, 64).reshape(ROWS, 64))
    assert device.info.backend == "sycl" or ended.call_count == 1
    with pytest.raises(fb.BuildError, match="ended its process"):
        device.program(spirv.deadly_module())


def test_what_ends_it_without_vectors_too_is_tried_once_from_then_on(device):
    if (device.info.backend, device.info.platform) != ("opencl", INTEL_CPU):
        pytest.skip("another compiler")
    with mock.patch.object(programs, "build_apart", wraps=programs.build_apart) as tries:
        for total in (2, 3):
            with pytest.raises(fb.BuildError, match="ended its process"):
                device.program(spirv.deadly_module("always"))
            assert tries.call_count == total


def test_a_process_that_has_ended_is_started_again(device):
    build_and_check(device, "first")
    (pid,) = build_processes()
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    build_and_check(device, "second")
    assert build_processes() != [pid]


@pytest.mark.threads
def test_threads_build_at_once(device):
    together(*[lambda name=f"k{number}": build_and_check(device, name) for number in range(4)])
    assert 1 <= len(build_processes()) <= os.cpu_count()


@pytest.mark.threads
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="as many build at once as there are processors")
@pytest.mark.needs("builds at once")
def test_one_build_does_not_wait_for_another(device):
    with around_builds("answer", before=threading.Barrier(2, timeout=60).wait):
        together(*[lambda name=name: device.program(spirv.fill_module(name)) for name in ("one", "other")])
    assert len(build_processes()) == 2


@pytest.mark.threads
@pytest.mark.parametrize("turn", range(3))
def test_a_device_closes_while_it_builds(device, turn):
    asked, closed, told = threading.Event(), threading.Event(), []

    def wait():
        asked.set()
        if turn:
            closed.wait(60)

    def build(opened):
        try:
            told.append(list(opened.program(spirv.fill_module("late"))))
        except fb.Error as error:
            told.append(error)

    with around_builds("answer", before=wait):
        with fb.Device(device.name, private=True) as opened:
            thread = threading.Thread(target=build, args=(opened,))
            thread.start()
            asked.wait(60)
        closed.set()
        thread.join()
    assert isinstance(told[0], fb.ClosedError) or told == [["late"]]
    build_and_check(device, "after")


@pytest.mark.parametrize(("step", "when"), [("answer", "before"), ("accepts", "after"), ("answer", "after")])
def test_ctrl_c_while_it_builds(device, step, when):
    """The answer that no caller has waited for is not taken for the next one."""
    build_and_check(device, "before")
    before = build_processes()
    with around_builds(step, **{when: mock.Mock(side_effect=KeyboardInterrupt)}), pytest.raises(KeyboardInterrupt):
        device.program(spirv.fill_module("lost"))
    assert build_processes() == []
    build_and_check(device, "after")
    assert build_processes() != before


def test_where_no_process_can_be_started_it_is_built_here(device):
    with mock.patch.object(sys, "executable", ""):
        build_and_check(device, "here")
    assert build_processes() == []


def test_a_device_that_the_process_does_not_find_is_built_for_here(device):
    build_and_check(device, "before")  # so that a device of SYCL's has found its driver
    other = dataclasses.replace(device.info, driver_version="of another machine")
    with mock.patch.object(device.driver, "info", other):
        build_and_check(device, "here")
    assert len(build_processes()) == 1


@pytest.mark.parametrize("started", [sys.executable, None])
def test_python_that_was_started_by_a_loader(started):
    """Its libraries may be those that the driver needs: the process for building is started as this one was."""
    loader = Path("/lib64/ld-linux-x86-64.so.2")
    if not loader.exists():
        pytest.skip("another machine")
    before = [] if started else [str(loader), "--argv0", sys.executable, "--library-path", "/lib/x86_64-linux-gnu"]
    code = "from forebay.queues.kernels import build as building; print(building.python_command('')[:-3])"
    arguments = [*before, sys.executable, "-c", code, "an argument", ""]
    assert subprocess.check_output(arguments, text=True).strip() == str(before)


def test_what_does_not_build_says_so(device):
    if device.info.platform != INTEL_CPU:
        pytest.skip("the compiler for GPUs takes any capability")
    module = spirv.fill_module()
    words = list(struct.unpack(f"<{len(module) // 4}I", module))
    words[5 + 1] = 5297  # a capability of no CPU
    with pytest.raises(fb.BuildError) as caught:
        device.program(struct.pack(f"<{len(words)}I", *words))
    assert caught.value.log


@pytest.mark.long
@pytest.mark.parametrize("end", ["os._exit(0)", ""], ids=["killed", "ended"])
def test_it_goes_with_its_parent(device, own_cache, end):
    code = (
        "import os, sys, forebay as fb\n"
        "from tests.helpers import spirv, processes\n"
        "fb.Device(sys.argv[1]).program(spirv.fill_module())\n"
        f"print(*processes.build_processes(), flush=True)\n{end}"
    )
    arguments, env = command("-c", code, device.name, FOREBAY_CACHE=own_cache)
    done = subprocess.run(arguments, env=env, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert is_gone(int(done.stdout))


def is_gone(pid):
    """Wait until a process has ended. Its input ends when its parent does; it is no child of this one to wait for."""
    with contextlib.suppress(ProcessLookupError):
        process = os.pidfd_open(pid)
        try:
            return bool(select.select([process], [], [], 60)[0])
        finally:
            os.close(process)
    return True


def open_again(info):
    """Return what `build` is given."""
    return info


def build(opened, source, options):
    """Build for ever: on the processor, or without the GIL, as drivers do, having written its process's number."""
    while not source:
        pass
    Path(source).write_text(str(os.getpid()))
    threading.Event().wait()


def test_a_build_that_takes_for_ever_ends_with_its_parent(device, own_cache):
    begun = own_cache / "begun"
    os.mkfifo(begun)
    code = (
        "import sys, forebay as fb\n"
        "from forebay.queues.kernels import build as building\n"
        "building.build_apart(sys.argv[1], fb.Device(sys.argv[2]).info, sys.argv[3], ())"
    )
    arguments, env = command("-c", code, __name__, device.name, begun, FOREBAY_CACHE=own_cache)
    with subprocess.Popen(arguments, env=env) as parent:
        pid = int(begun.read_text())  # waits until the build opens it
        parent.kill()
    assert is_gone(pid)


def test_a_build_that_takes_too_long_is_an_error(device):
    """The time is the processor's, so that a busy machine takes none away."""
    too_long = pytest.raises(fb.BuildError, match="had not finished after 1 seconds of processor time")
    with mock.patch.dict(os.environ, FOREBAY_BUILD_SECONDS="1"), too_long as caught:
        building.build_apart(__name__, device.info, b"", ())
    assert device.info.name in str(caught.value)
    assert isinstance(caught.value, building.CompilerEndedError)
    assert build_processes() == []
    build_and_check(device, "patient")


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5", "soon"])
def test_a_limit_that_is_no_number_of_seconds(device, text):
    refused = pytest.raises(fb.InvalidArgumentError, match=f"FOREBAY_BUILD_SECONDS .* not {text!r}")
    with mock.patch.dict(os.environ, FOREBAY_BUILD_SECONDS=text), refused:
        device.program(spirv.fill_module("limited"))
