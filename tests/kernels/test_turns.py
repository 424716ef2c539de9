"""Processes that build one program at once take turns with PoCL: see queues/opencl/discovery.py."""

import itertools
import os
import subprocess
import sys
import threading
from pathlib import Path
from unittest import mock

import pytest

from forebay.queues.opencl.discovery import POCL, open_slot, turn

fcntl = pytest.importorskip("fcntl")
SOURCE = "kernel void k(global int *a) {{ a[0] = {}; }}"
numbers = itertools.count()
LOCKS = Path("/proc/locks")

HOLDER = """
import sys
from forebay.queues.opencl.discovery import POCL, turn
with turn(POCL, sys.argv[1]):
    print("has it", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path):
    with mock.patch.dict(os.environ, POCL_CACHE_DIR=str(tmp_path / "cache")):
        yield


def is_free(source):
    with open_slot(source) as slot:
        try:
            fcntl.flock(slot, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def test_only_one_has_its_turn():
    assert is_free(SOURCE)
    with turn(POCL, SOURCE):
        assert not is_free(SOURCE)
        assert not is_free(SOURCE.encode())
    assert is_free(SOURCE)
    with pytest.raises(KeyError), turn(POCL, SOURCE):
        raise KeyError
    assert is_free(SOURCE)


def test_it_ends_with_the_process_that_had_it():
    child = subprocess.Popen(
        [sys.executable, "-c", HOLDER, SOURCE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with child:
        assert child.stdout.readline() == "has it\n"
        assert not is_free(SOURCE)
        child.kill()
    with turn(POCL, SOURCE):  # waits for the process to be gone
        assert not is_free(SOURCE)


def test_a_forked_child_does_not_keep_it():
    read, write = os.pipe()
    with turn(POCL, SOURCE):
        child = os.fork()
        if child == 0:
            os.close(write)
            os.read(read, 1)  # until the parent closes its end
            os._exit(0)
    os.close(read)
    assert is_free(SOURCE)
    os.close(write)
    assert os.waitpid(child, 0)[1] == 0


def test_other_drivers_and_folders_that_cannot_be_need_none(tmp_path):
    with turn("another platform", SOURCE):
        assert is_free(SOURCE)
    (tmp_path / "file").touch()
    os.environ["POCL_CACHE_DIR"] = str(tmp_path / "file")
    assert open_slot(SOURCE) is None
    with turn(POCL, SOURCE), turn(POCL, SOURCE):
        pass


def test_many_turns_leave_few_files(tmp_path):
    for number in range(2000):
        with turn(POCL, SOURCE.format(number)):
            pass
    assert len(list((tmp_path / "cache").iterdir())) == 64


@pytest.mark.skipif(not LOCKS.exists(), reason="nothing tells who waits for a lock")
def test_a_build_waits_for_its_turn(device):
    if device.info.platform != POCL:
        pytest.skip("only PoCL's cache needs turns")
    source = SOURCE.format(next(numbers))
    thread = threading.Thread(target=device.program, args=(source,))
    with turn(POCL, source):
        thread.start()
        while thread.is_alive() and not waits_for_lock():
            pass
        assert thread.is_alive()
    thread.join()


def waits_for_lock():
    """Whether a thread of this process waits for a lock of a file."""
    return any("-> FLOCK" in line and f" {os.getpid()} " in line for line in LOCKS.read_text().splitlines())
