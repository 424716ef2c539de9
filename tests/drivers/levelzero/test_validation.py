"""Under the validation layer a test that makes a mistake fails, and a test that makes none passes.

Each test here runs small ones in a separate process, under Intel's driver without a GPU.
"""

import re
import subprocess

import pytest

from tests.helpers.processes import ROOT
from tools import null_levelzero

from .children import why_not

pytestmark = pytest.mark.needs("no chosen device")

CONFTEST = """
from tests.drivers.levelzero import validation

validation.begin()

def pytest_configure(config):
    validation.register(config)
"""

START = """
import ctypes, os, struct
from ctypes import byref, c_uint32, c_void_p

import pytest

CONTEXT, QUEUE, POOL, EVENT, HOST_MEMORY, COUNTER = 0x0D, 0x0E, 0x10, 0x11, 0x16, 0x2003A

def desc(stype, *fields):
    return struct.pack(f"I4xP{len(fields)}I4x", stype, 0, *fields)

ze = ctypes.CDLL("libze_loader.so.1")

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
    context = made("zeContextCreate", driver, desc(CONTEXT, 0))
    yield context
    assert ze.zeContextDestroy(context) == 0

@pytest.fixture
def queue(context, gpu):
    queue = new_queue(context, gpu)
    yield queue
    assert ze.zeCommandListDestroy(queue) == 0

def new_queue(context, gpu, ordinal=0, mode=2):
    return made("zeCommandListCreateImmediate", context, gpu, desc(QUEUE, ordinal, 0, 2, mode, 0))

def new_event(context, gpu):
    return made("zeEventCounterBasedCreate", context, gpu, desc(COUNTER, 1, 2, 2))
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


# A correct use, which the layer calls invalid; a test before the mistakes, and one that fails anyway.
GOOD = """
def test_good(context, gpu, queue):
    event = new_event(context, gpu)
    other = new_queue(context, gpu)
    for _ in range(3):
        assert ze.zeCommandListAppendSignalEvent(queue, event) == 0
        assert ze.zeCommandListAppendWaitOnEvents(other, 1, byref(event)) == 0
    assert ze.zeEventQueryStatus(event) in (0, 1)
    assert ze.zeCommandListDestroy(other) == 0
    assert ze.zeEventDestroy(event) == 0

def test_mistaken_that_fails(context, gpu):
    event = new_event(context, gpu)
    assert event is None
"""
MISTAKES = [
    ('made("zeContextCreate", driver, desc(CONTEXT, 0))', "left behind: Context 0x"),
    ("new_event(context, gpu)", "left behind: Event 0x"),
    ("new_queue(context, gpu)", "left behind: CommandList 0x"),
    ('made("zeMemAllocHost", context, desc(HOST_MEMORY, 0), ctypes.c_size_t(64), ctypes.c_size_t(0))',
     "left behind: memory 0x"),
    ("ze.zeEventHostSignal(None)", "ZE_RESULT_ERROR_INVALID_NULL_HANDLE in zeEventHostSignal"),
    ("ze.zeEventHostSynchronize(None, 0)", "ZE_RESULT_ERROR_INVALID_NULL_HANDLE in zeEventHostSynchronize"),
    ("ze.zeContextCreate(driver, None, byref(c_void_p()))", "ZE_RESULT_ERROR_INVALID_NULL_POINTER"),
    ("with pytest.raises(AssertionError): new_queue(context, gpu, ordinal=99)",
     "ZE_RESULT_ERROR_INVALID_ARGUMENT in zeCommandListCreateImmediate"),
    ("with pytest.raises(AssertionError): new_queue(context, gpu, mode=77)",
     "ZE_RESULT_ERROR_INVALID_ENUMERATION in zeCommandListCreateImmediate"),
    ('pool = made("zeEventPoolCreate", context, desc(POOL, 1, 1), 0, None)\n'
     '    event = made("zeEventCreate", pool, desc(EVENT, 0, 0, 0))\n'
     "    ze.zeEventPoolDestroy(pool)\n"
     "    ze.zeEventDestroy(event)", "destroyed before its Event"),
    *((f"os.write(2, b'{said}\\n')", f"the validation layer printed: {said}") for said in (
        "Warning: hSignalEvent {0x1} might be an invalid event in call to zeX",
        "Warning: phWaitEvents {5} might be an invalid event in call to zeX",
        "Warning: There may be a potential event deadlock!",
    )),
]  # fmt: skip


def test_a_mistake_fails_its_test_and_no_other(validated):
    mistaken = "\n".join(
        f"def test_mistaken_{number}(driver, context, gpu, queue):\n    {code}\n"
        f"def test_after_{number}(context):\n    pass\n"
        for number, (code, _) in enumerate(MISTAKES)
    )
    status, said = validated(GOOD + mistaken)
    assert status == 1, said
    errors = dict(
        re.findall(r"^_+ ERROR at teardown of (\w+) _+\n(.*?)(?=^_{4}|^={4})", said, re.MULTILINE | re.DOTALL)
    )
    expected = {f"test_mistaken_{number}": words for number, (_, words) in enumerate(MISTAKES)}
    expected["test_mistaken_that_fails"] = "left behind: Event 0x"
    assert errors.keys() == expected.keys()
    for name, words in expected.items():
        assert words in errors[name]
    assert "assert event is None" in said
    assert f"1 failed, {1 + 2 * len(MISTAKES)} passed," in said
    # The layer calls correct uses of a counter-based event invalid, and counts those that it did not see made.
    assert "Warning: hSignalEvent" in said
    assert "Warning: phWaitEvents" in said


def test_what_several_tests_used_is_gone_at_the_end(validated):
    status, said = validated("""
@pytest.fixture(scope="session", autouse=True)
def for_all():
    ze.zeInit(0)
    return made("zeContextCreate", made("zeDriverGet", byref(c_uint32(1))), desc(CONTEXT, 0))

def test_good():
    pass
""")
    assert status == 1, said
    assert "left behind" in said
