"""Under the validation layer a test that makes a mistake fails, and a test that makes none passes.

Each test here runs a few small ones in a separate process, under Intel's driver without a GPU.
"""

import re
import subprocess

import pytest

from tests.helpers.processes import ROOT
from tools import null_levelzero

from .children import why_not
from .validation import Ledger

pytestmark = pytest.mark.needs("no chosen device")

CONFTEST = """
from tests.drivers.levelzero import validation

validation.begin()

def pytest_configure(config):
    validation.register(config)
"""

START = """
import ctypes, os
from ctypes import byref, c_uint32, c_void_p

import pytest

from forebay.queues.drivers.levelzero.loader import Described, HEAD

ze = ctypes.CDLL("libze_loader.so.1")

class ContextDesc(Described):
    STYPE = 0x0D
    _fields_ = [*HEAD, ("flags", c_uint32)]

class CommandQueueDesc(Described):
    STYPE = 0x0E
    _fields_ = [*HEAD, *((name, c_uint32) for name in ("ordinal", "index", "flags", "mode", "priority"))]

class CounterBasedEventDesc(Described):
    STYPE = 0x2003A
    _fields_ = [*HEAD, ("flags", c_uint32), ("signal", c_uint32), ("wait", c_uint32)]

class PoolDesc(Described):
    STYPE = 0x10
    _fields_ = [*HEAD, ("flags", c_uint32), ("count", c_uint32)]

class EventDesc(Described):
    STYPE = 0x11
    _fields_ = [*HEAD, ("index", c_uint32), ("signal", c_uint32), ("wait", c_uint32)]

def made(name, *arguments):
    handle = c_void_p()
    assert getattr(ze, name)(*arguments, byref(handle)) == 0
    return handle

@pytest.fixture
def driver():
    ze.zeInit(0)
    return made("zeDriverGet", byref(c_uint32(1)))

@pytest.fixture
def gpu(driver):
    return made("zeDeviceGet", driver, byref(c_uint32(1)))

@pytest.fixture
def context(driver):
    context = made("zeContextCreate", driver, byref(ContextDesc()))
    yield context
    assert ze.zeContextDestroy(context) == 0

@pytest.fixture
def queue(context, gpu):
    desc = CommandQueueDesc(flags=2, mode=2)
    queue = made("zeCommandListCreateImmediate", context, gpu, byref(desc))
    yield queue
    assert ze.zeCommandListDestroy(queue) == 0

def new_event(context, gpu):
    return made("zeEventCounterBasedCreate", context, gpu, byref(CounterBasedEventDesc(flags=1, signal=2, wait=2)))
"""


@pytest.fixture
def validated(tmp_path):
    """``validated(code)``: (exit status, what was printed) of a run with the plugin."""
    if why_not():
        pytest.skip(f"Intel's Level Zero driver cannot be had here: {why_not()}")

    def validated(code):
        (tmp_path / "conftest.py").write_text(CONFTEST)
        (tmp_path / "test_it.py").write_text(START + code)
        command, environment = null_levelzero.child_command(
            *("python", "-m", "pytest", "-rA", "--tb=short", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)),
            str(tmp_path),
            validate=True,
        )
        environment["PYTHONPATH"] = ":".join(filter(None, [environment.get("PYTHONPATH"), str(ROOT)]))
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        return done.returncode, done.stdout + done.stderr

    return validated


GOOD = """
def test_good(context, gpu, queue):
    event = new_event(context, gpu)
    memory = c_void_p()
    other = made("zeCommandListCreateImmediate", context, gpu, byref(CommandQueueDesc(flags=2, mode=2)))
    for _ in range(3):
        assert ze.zeCommandListAppendSignalEvent(queue, event) == 0
        assert ze.zeCommandListAppendWaitOnEvents(other, 1, byref(event)) == 0
    assert ze.zeEventQueryStatus(event) in (0, 1)
    assert ze.zeCommandListDestroy(other) == 0
    assert ze.zeEventDestroy(event) == 0
"""


def test_correct_use_passes_though_the_layer_calls_it_invalid(validated):
    status, said = validated(GOOD)
    assert status == 0, said
    assert "Warning: hSignalEvent" in said
    assert "Warning: phWaitEvents" in said
    assert "LEAK = -1" in said  # what the layer itself thinks at exit


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        ('made("zeContextCreate", driver, byref(ContextDesc()))', "left behind: Context 0x"),
        ("new_event(context, gpu)", "left behind: Event 0x"),
        (
            'made("zeCommandListCreateImmediate", context, gpu, byref(CommandQueueDesc(flags=2, mode=2)))',
            "left behind: CommandList 0x",
        ),
        (
            'made("zeMemAllocHost", context, byref(ContextDesc(stype=0x16)), ctypes.c_size_t(64), ctypes.c_size_t(0))',
            "left behind: memory 0x",
        ),
        ("ze.zeEventHostSignal(None)", "ZE_RESULT_ERROR_INVALID_NULL_HANDLE in zeEventHostSignal"),
        ("ze.zeEventHostSynchronize(None, 0)", "ZE_RESULT_ERROR_INVALID_NULL_HANDLE in zeEventHostSynchronize"),
        ("ze.zeContextCreate(driver, None, byref(c_void_p()))", "ZE_RESULT_ERROR_INVALID_NULL_POINTER"),
        (
            "ze.zeCommandListCreateImmediate(context, gpu, byref(CommandQueueDesc(ordinal=99)), byref(c_void_p()))",
            "ZE_RESULT_ERROR_INVALID_ARGUMENT in zeCommandListCreateImmediate",
        ),
        (
            "ze.zeCommandListCreateImmediate(context, gpu, byref(CommandQueueDesc(mode=77)), byref(c_void_p()))",
            "ZE_RESULT_ERROR_INVALID_ENUMERATION in zeCommandListCreateImmediate",
        ),
        (
            'pool = made("zeEventPoolCreate", context, byref(PoolDesc(flags=1, count=1)), 0, None)\n'
            '    event = made("zeEventCreate", pool, byref(EventDesc()))\n'
            "    ze.zeEventPoolDestroy(pool)\n"
            "    ze.zeEventDestroy(event)",
            "destroyed before its Event",
        ),
        (
            'os.write(2, b"Warning: hSignalEvent {0x1} might be an invalid event in call to zeX\\n")',
            "the validation layer printed: Warning: hSignalEvent {0x1}",
        ),
        (
            'os.write(2, b"Warning: phWaitEvents {5} might be an invalid event in call to zeX\\n")',
            "the validation layer printed: Warning: phWaitEvents {5}",
        ),
        (
            'os.write(2, b"Warning: There may be a potential event deadlock!\\n")',
            "the validation layer printed: Warning: There may be",
        ),
    ],
    ids=lambda value: re.sub(r"\W+", " ", value)[:30].strip(),
)
@pytest.mark.long
def test_a_mistake_fails_its_test_and_no_other(validated, mistake, words):
    status, said = validated(
        f"""
def test_before(context):
    pass

def test_mistaken(driver, context, gpu, queue):
    {mistake}

def test_after(context):
    pass
"""
    )
    assert status == 1, said
    assert words in said
    assert re.findall(r"^ERROR .*::(\w+)", said, re.MULTILINE) == ["test_mistaken"]
    assert "3 passed, 1 error" in said


def test_what_several_tests_used_is_gone_at_the_end(validated):
    status, said = validated(
        """
@pytest.fixture(scope="session")
def for_all():
    ze.zeInit(0)
    return made("zeContextCreate", made("zeDriverGet", byref(c_uint32(1))), byref(ContextDesc()))

@pytest.fixture(scope="session", autouse=True)
def begun(for_all):
    pass

def test_good():
    pass
"""
    )
    assert status == 1, said
    assert "left behind" in said


def test_a_test_that_fails_anyway_says_both(validated):
    status, said = validated(
        """
def test_mistaken(context, gpu):
    event = new_event(context, gpu)
    assert event is None
"""
    )
    assert status == 1
    assert "assert event is None" in said
    assert "left behind: Event 0x" in said


# Reading the trace


def test_handles_that_are_used_again_may_be_told_in_any_order():
    line = "[trace] SUCCESS (ZE_RESULT_SUCCESS) in "
    ledger = Ledger()
    first = line + "zeKernelCreate(hModule=0xa, desc={flags=0}, phKernel=0xb)"
    ended = line + "zeKernelDestroy(hKernel=0xb)"
    ledger.note([first, first, ended])  # another thread's line was written before that of the destruction it came after
    assert list(ledger.alive()) == [("Kernel", "0xb")]
    ledger.note([ended])
    assert not ledger.alive()
    assert not ledger.errors


def test_threads_that_take_turns_are_told_from_one_that_another_waits_for():
    def lines(*threads, call="zeEventHostSignal(hEvent=0x1)"):
        return [f"[time] [thread-id: {thread}] [trace] SUCCESS (ZE_RESULT_SUCCESS) in {call}" for thread in threads]

    ledger = Ledger()
    ledger.note(lines(1, 1, 2, 2, 1))
    ledger.note(lines(2, call="zeEventQueryStatus(hEvent=0x1)"))
    assert len(ledger.turns) == 3
    ledger.note(lines(2, call="zeCommandListAppendSignalEvent(hCommandList=0x1, hEvent=0x1)"))
    assert len(ledger.turns) == 4


def test_a_failed_build_leaves_its_log():
    ledger = Ledger()
    ledger.note(
        [
            "[trace] ERROR (ZE_RESULT_ERROR_MODULE_BUILD_FAILURE) in zeModuleCreate(hContext=0x1, hDevice=0x2, "
            "desc={}, phModule=0x3, phBuildLog=0x4)"
        ]
    )
    assert list(ledger.alive()) == [("ModuleBuildLog", "0x4")]
    assert len(ledger.errors) == 1
