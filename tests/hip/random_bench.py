"""What random programs of HIP's functions run on: the current device of HIP, and a thread or two for each."""

import random
import threading

from forebay import hip

from .conftest import ok
from .random_program import KERNELS, SOURCE, HipProgram


def functions_of(device):
    """The module, and its functions by name."""
    module = ok(hip.hipModuleLoadData(SOURCE.encode()))
    functions = {name: ok(hip.hipModuleGetFunction(module, name.encode())) for name in KERNELS}
    if device.driver.has_addresses:
        functions["follow"].kernel.follow_pointers()
    else:
        del functions["follow"]
    return module, functions


def give_back(module):
    ok(hip.hipModuleUnload(module))


def run(seed, functions, hold, threads=None):
    """Run the program of this seed: some have two threads, which share the device and its null stream, or all have so
    many. Returns the number of bytes that were compared.
    """
    draw = random.Random(seed)
    few = 2 if draw.random() < 0.2 else 1
    counts = [draw.randint(1, 80) for _ in range(threads or few)]
    seeds, failed, compared = [draw.random() for _ in counts], [], []
    number = ok(hip.hipGetDevice())

    def work(i):
        try:
            ok(hip.hipSetDevice(number))  # a thread begins with the first
            program = HipProgram(random.Random(seeds[i]), functions, hold, len(counts) == 1)
            compared.append(program.run(counts[i]))
        except BaseException as error:
            failed.append(error)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(1, len(counts))]
    for worker in workers:
        worker.start()
    work(0)
    for worker in workers:
        worker.join()
    if failed:
        raise failed[0]
    return sum(compared)


class HipBench:
    """The current device of HIP, for a campaign (`tools.campaign`): odd seeds are programs of two threads."""

    def __init__(self):
        self.devices = [hip.current_device()]
        self.module, self.functions = functions_of(self.devices[0])
        self.gates = []

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        give_back(self.module)

    def hold(self, stream):
        self.gates.append(hip.streams.queue_of(stream).gate())
        return self.gates[-1]

    def run(self, seed):
        """Run the program of this seed. Raises what `run` raises."""
        try:
            return run(seed, self.functions, self.hold, threads=2 if seed % 2 else None)
        finally:
            for gate in self.gates:
                gate.open()
            self.gates.clear()
