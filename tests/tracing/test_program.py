"""``forebay trace -- program``, in processes of their own."""

import json
import os
import signal
import subprocess
import sys

import pytest

from tests.conftest import DEVICES
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


@pytest.fixture
def path(tmp_path):
    return tmp_path / "trace.json"


def traced(path, source, *options):
    """Run Python code as a program that is traced: by the command, or under null hardware by its variable."""
    environment = {"FOREBAY_DEVICE": DEVICES[0]}
    if command()[0][0] != sys.executable:
        return python("-c", source, FOREBAY_TRACE=path, **environment)
    return python("-m", "forebay", "trace", *options, "-o", path, "--", sys.executable, "-c", source, **environment)


def test_a_program_is_traced_from_its_first_queue_on(path):
    done = traced(path, START + "queue.finish(); print('said')")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "said\n"
    trace = Trace(path)
    assert trace.launches("one") == 1
    assert trace.about["stats"][0]["launches"] == 1
    assert [each["name"] for each in trace.host if each["cat"] == "call"][-1] == "Queue.finish"


@ONCE
@pytest.mark.parametrize(
    ("end", "status"),
    [("sys.exit(7)", 7), ("1 / 0", 1), ("raise SystemExit('no')", 1), ("raise KeyboardInterrupt", 130)],
)
def test_the_exit_status_is_the_programs_and_the_trace_is_written(path, end, status):
    done = traced(path, START + end)
    assert done.returncode in (status, 128 - status)  # without the command, a signal that ended it
    assert Trace(path).launches("one") == 1


@ONCE
def test_what_a_program_leaves_open_is_traced(path):
    done = traced(path, START + "keep = fb.trace('never'); device.finish(); del device; os.chdir('/')")
    assert done.returncode == 0, done.stderr
    assert Trace(path).launches("one") == 1


@ONCE
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("end", ["os._exit(0)", "sys.exit(0)"])
def test_a_forked_child_writes_nothing(path, end):
    source = f"""
child = os.fork()
if child == 0:
    {end}
os.waitpid(child, 0)
assert not os.path.exists({str(path)!r}) or not os.path.getsize({str(path)!r})
queue.launch(program["one"], 1, 64, buffer)
"""
    done = traced(path, START + source)
    assert done.returncode == 0, done.stderr
    assert Trace(path).launches("one") == 2
    assert len(list(path.parent.iterdir())) == 1


@ONCE
@pytest.mark.long
def test_each_process_of_a_program_writes_a_file(path):
    inner = START + "queue.launch(program['one'], 1, 64, buffer)"
    source = START + f"import subprocess\nsubprocess.run([*{command()[0]!r}, '-c', {inner!r}], check=True)"
    done = traced(path, source)
    assert done.returncode == 0, done.stderr
    first, second = sorted(path.parent.iterdir(), key=lambda each: len(each.name))
    assert (Trace(first).launches(), Trace(second).launches()) == (1, 2)


@ONCE
def test_another_trace_in_a_traced_program_is_refused(path):
    done = traced(path, START + f"with fb.trace({str(path) + '2'!r}): pass")
    assert "a trace is running already" in done.stderr
    assert done.returncode == 1
    assert Trace(path).launches("one") == 1


@ONCE
def test_the_variable_names_a_file_that_cannot_be_written(tmp_path):
    done = python("-c", START + "print('ran')", FOREBAY_TRACE=tmp_path / "missing" / "t.json")
    assert done.returncode == 2
    assert "ran" not in done.stdout
    assert "no such folder" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.needs("no chosen device")
class TestCommand:
    def run(self, *arguments, **environment):
        return python("-m", "forebay", "trace", *arguments, **environment)

    def test_an_unwritable_file_is_an_error_before_the_program_runs(self, tmp_path):
        done = self.run("-o", tmp_path / "missing" / "t.json", "--", sys.executable, "-c", "print('ran')")
        assert (done.returncode, done.stdout) == (2, "")
        assert "No such file" in done.stderr

    def test_the_file_of_before_is_gone(self, path):
        path.write_text("old")
        done = self.run("-o", path, sys.executable, "-c", "")
        assert done.returncode == 0
        assert "opened no device" in done.stderr
        assert not path.exists()

    def test_a_command_that_is_not_there(self, path):
        done = self.run("-o", path, "--", "no-such-command")
        assert done.returncode == 127
        assert "no-such-command" in done.stderr
        assert not path.exists()

    def test_without_a_command(self):
        done = self.run()
        assert done.returncode == 2
        assert "COMMAND" in done.stderr

    def test_options_after_the_command_are_its_own(self, path):
        done = self.run("-o", path, sys.executable, "-c", "import sys; print(sys.argv[1:])", "-o", "--help")
        assert done.stdout == "['-o', '--help']\n"

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
        done = self.run("-o", path, "--", sys.executable, "-c", source)
        assert done.returncode == 128 + 9
