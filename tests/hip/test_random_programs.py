"""Random programs of HIP's functions leave what a model says (`random_program`)."""

import random
import threading

import pytest

from forebay import hip

from .conftest import ok
from .random_program import KERNELS, SOURCE, HipProgram


@pytest.fixture
def functions(device):
    module = ok(hip.hipModuleLoadData(SOURCE.encode()))
    functions = {name: ok(hip.hipModuleGetFunction(module, name.encode())) for name in KERNELS}
    if device.driver.has_addresses:
        functions["follow"].kernel.follow_pointers()
    else:
        del functions["follow"]
    yield functions
    ok(hip.hipModuleUnload(module))


def run(seed, device, functions, hold):
    """Run the program of this seed: some have two threads, which share the device and its null stream."""
    draw = random.Random(seed)
    counts = [draw.randint(1, 80) for _ in range(2 if draw.random() < 0.2 else 1)]
    seeds, failed, compared = [draw.random() for _ in counts], [], []

    def work(i):
        try:
            program = HipProgram(random.Random(seeds[i]), functions, hold, len(counts) == 1)
            compared.append(program.run(counts[i]))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(1, len(counts))]
    for thread in threads:
        thread.start()
    work(0)
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return sum(compared)


@pytest.mark.executes(run=False)  # on null hardware host functions stay, with the device that they are for
@pytest.mark.parametrize("first", range(0, 60, 20))
def test_programs_leave_what_the_model_does(device, functions, hold, first):
    assert sum(run(seed, device, functions, hold) for seed in range(first, first + 20)) > 20 * 1000
