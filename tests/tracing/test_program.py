"""``forebay trace -- program``, in processes of their own."""

import json
import os
import signal
import subprocess
import sys

import pytest
from click.testing import CliRunner

from forebay.__main__ import commands
from tests.conftest import DEVICES, on_null_hardware
from tests.helpers.processes import command, python

from .reading import Trace

pytestmark = pytest.mark.needs("no validation layer")

# What a process does at its end is no matter of the driver.
ONCE = pytest.mark.needs("the default device")

START = """
import os, sys
import forebay as fb
device = fb.Device()
program = device.program("kernel void one(global int *a) { a[get_global_id(0)] = 1; }")
queue, buffer = device.queue(), device.empty(64, "i4")
queue.launch(program["one"], 1, 64, buffer)
"""


def traced(path, source, *options, statuses=(0,)):
    """What Python code prints that is traced: by the command, or under null hardware by its variable."""
    environment = {"FOREBAY_DEVICE": DEVICES[0]}
    if command()[0][0] != sys.executable:
        times = {"FOREBAY_TRACE_DEVICE_TIMES": 1} if options else {}
        done = python("-c", source, FOREBAY_TRACE=path, **times, **environment)
    else:
        run = ("--", sys.executable, "-c", source)
        done = python("-m", "forebay", "trace", *options, "-o", path, *run, **environment)
    assert done.returncode in statuses, done.stderr
    return done.stdout


def test_a_program_is_traced_from_its_first_queue_on(path):
    assert traced(path, START + "queue.finish(); print('said')", "--device-times") == "said\n"
    trace = Trace(path)
    assert trace.launches("one") == 1
    assert trace.about["stats"][0]["launches"] == 1
    assert [each["name"] for each in trace.host if each["cat"] == "call"][-1] == "Queue.finish"
    about = trace.about["device times"]
    assert about["commands"] + about["commands without"] == 1
    assert about["commands"] == 1 or on_null_hardware(DEVICES[0])


@ONCE
@pytest.mark.parametrize(("end", "status"), [("sys.exit(7)", 7), ("1 / 0", 1), ("raise KeyboardInterrupt", 130)])
def test_the_exit_status_is_the_programs_and_the_trace_is_written(path, end, status):
    traced(path, START + end, statuses=(status, 128 - status))  # without the command, a signal that ended it
    assert Trace(path).launches("one") == 1


@ONCE
def test_another_trace_is_refused_and_what_a_program_leaves_open_is_traced(path):
    end = f"""
try:
    with fb.trace({str(path) + "2"!r}): pass
except fb.Error as error:
    print(error)
keep = fb.trace('never'); device.finish(); del device; os.chdir('/')
"""
    assert "a trace is running already" in traced(path, START + end)
    assert Trace(path).launches("one") == 1


@ONCE
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_writes_nothing(path):
    source = f"""
for end in (os._exit, sys.exit):
    child = os.fork()
    if child == 0:
        end(0)
    os.waitpid(child, 0)
    assert not os.path.exists({str(path)!r}) or not os.path.getsize({str(path)!r})
queue.launch(program["one"], 1, 64, buffer)
"""
    traced(path, START + source)
    assert Trace(path).launches("one") == 2
    assert len(list(path.parent.iterdir())) == 1


@ONCE
@pytest.mark.long
def test_each_process_of_a_program_writes_a_file(path):
    inner = START + "queue.launch(program['one'], 1, 64, buffer)"
    source = START + f"import subprocess\nsubprocess.run([*{command()[0]!r}, '-c', {inner!r}], check=True)"
    traced(path, source)
    first, second = sorted(path.parent.iterdir(), key=lambda each: len(each.name))
    assert (Trace(first).launches(), Trace(second).launches()) == (1, 2)


@ONCE
def test_the_variable_names_a_file_that_cannot_be_written(tmp_path):
    done = python("-c", START + "print('ran')", FOREBAY_TRACE=tmp_path / "missing" / "t.json")
    assert done.returncode == 2
    assert "ran" not in done.stdout
    assert "no such folder" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.needs("no chosen device")
class TestCommand:
    @pytest.mark.parametrize(("arguments", "status", "words"), [
        (["-o", "{}/missing/t.json", "--", "no-such-command"], 2, "No such file"),
        (["-o", "{}/t.json", "--", "no-such-command"], 127, "no-such-command"),
        ([], 2, "COMMAND"),
    ], ids=["a file that cannot be written", "a program that is not there", "no program"])  # fmt: skip
    def test_what_cannot_be_run(self, tmp_path, arguments, status, words):
        done = CliRunner().invoke(commands, ["trace", *(each.format(tmp_path) for each in arguments)])
        assert (done.exit_code, done.stdout, list(tmp_path.iterdir())) == (status, "", [])
        assert words in done.stderr

    def test_options_after_the_command_are_its_own_and_the_file_of_before_is_gone(self, path):
        path.write_text("old")
        program = (sys.executable, "-c", "import sys; print(sys.argv[1:])", "-o", "--help")
        done = python("-m", "forebay", "trace", "-o", path, *program)
        assert (done.returncode, done.stdout) == (0, "['-o', '--help']\n")
        assert "opened no device" in done.stderr
        assert not path.exists()

    @pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_a_signal_is_the_programs_to_handle(self, path, number):
        source = (
            "import signal, sys, forebay\ndevice = forebay.Device()\n"
            f"signal.signal({int(number)}, lambda *_: sys.exit(5))\n"
            "print('ready', flush=True)\n"
            "while True: signal.pause()\n"
        )
        arguments, env = command("-m", "forebay", "trace", "-o", path, "--", sys.executable, "-c", source)
        process = subprocess.Popen(arguments, env=env, stdout=subprocess.PIPE, text=True, start_new_session=True)
        assert process.stdout.readline() == "ready\n"
        if number == signal.SIGINT:
            os.killpg(process.pid, number)  # as a terminal does
        else:
            process.send_signal(number)
        assert process.wait() == 5
        process.stdout.close()
        assert json.loads(path.read_text())["traceEvents"]

    def test_a_program_that_is_ended_by_force(self, path):
        source = "import os, signal, forebay; os.kill(os.getpid(), signal.SIGKILL)"
        done = python("-m", "forebay", "trace", "-o", path, "--", sys.executable, "-c", source)
        assert done.returncode == 128 + 9
