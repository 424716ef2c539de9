"""Another process, which the tests of memory that processes share tell what to do."""

import contextlib
import multiprocessing

import numpy as np

import forebay as fb

SOURCE = """
kernel void add(global uint *x, uint k) { x[get_global_id(0)] += k; }
kernel void mix(global uint *x, uint k) { x[get_global_id(0)] = x[get_global_id(0)] * 3 + k; }
"""
SECONDS = 60


class Other:
    """What a process can be told to do."""

    def __init__(self, name):
        self.device = fb.Device(name)
        self.queue = self.device.queue(blocking=False)
        self.program = self.device.program(SOURCE)
        self.buffers, self.events, self.read = {}, {}, None

    def open(self, handle, dtype="u4"):
        self.buffers[handle] = self.device.open_ipc_memory(handle, dtype=dtype)
        return self.buffers[handle].nbytes

    def open_event(self, handle):
        self.events[handle] = self.device.open_ipc_event(handle)

    def make(self, count):
        """Make memory, and return its handle."""
        buffer = self.device.empty(count, "u4", ipc_enabled=True)
        self.buffers[buffer.ipc_handle] = buffer
        return buffer.ipc_handle

    def make_event(self):
        event = self.device.ipc_event()
        self.events[event.ipc_handle] = event
        return event.ipc_handle

    def add(self, handle, k, name="add"):
        self.queue.launch(self.program[name], self.buffers[handle].size // 64, 64, self.buffers[handle], k)

    def clear(self, handle):
        self.queue.fill(self.buffers[handle], 0)

    def copy(self, handle):
        self.read = fb.host_empty(self.buffers[handle].size, "u4", self.device)
        self.queue.copy(self.read, self.buffers[handle])

    def record(self, handle):
        self.queue.record(self.events[handle])

    def wait(self, handle):
        self.queue.wait(self.events[handle])

    def wait_on_host(self, handle):
        self.events[handle].wait()

    def finish(self):
        """Return what was copied last."""
        self.queue.finish()
        return None if self.read is None else np.array(self.read)

    def close(self, handle):
        self.device.close_ipc_memory(self.buffers.pop(handle))


def serve(pipe, name, standin):
    """What the other process does."""
    if standin:
        from tests.drivers.cuda import standing_in

        standing_in.begin()
    other = Other(name)
    pipe.send((True, None))
    with contextlib.suppress(EOFError):
        while True:
            what, *args = pipe.recv()
            try:
                pipe.send((True, getattr(other, what)(*args)))
            except Exception as error:
                pipe.send((False, f"{type(error).__name__}: {error}"))


class ToldError(AssertionError):
    """What the other process raised."""


class Told:
    """The other process, from here: ``told("add", handle, 3)`` returns what the method did."""

    def __init__(self, name, standin):
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, name, standin), daemon=True)
        self.process.start()
        theirs.close()
        self.answer()

    def __call__(self, what, *args):
        self.pipe.send((what, *args))
        return self.answer()

    def answer(self):
        assert self.pipe.poll(SECONDS), "no answer from the other process"
        good, answer = self.pipe.recv()
        if not good:
            raise ToldError(answer)
        return answer

    def end(self):
        self.pipe.close()
        self.process.join(SECONDS)

    def kill(self):
        self.process.kill()
        self.process.join(SECONDS)
