"""What is remembered of the driver's kernels, for traces."""

import gc

from forebay.queues.kernels import kernel as kernels

SOURCE = "kernel void named_NUMBER(global int *a, int n) { a[0] = n + NUMBER; }"


def known():
    """The names of the driver's kernels, by handle."""
    return kernels.names()


def own():
    return sorted(name for name in known().values() if name.startswith("named_"))


def test_names_go_when_the_drivers_kernels_do(device, make_queue):
    buffer, queue = device.zeros(1, "i4"), make_queue()
    kept = device.program(SOURCE.replace("NUMBER", "0"))
    queue.launch(kept["named_0"], 1, 1, buffer, 1)
    assert own() == ["named_0"]
    for number in range(1, 4):
        program = device.program(SOURCE.replace("NUMBER", str(number)))
        queue.launch(program[f"named_{number}"], 1, 1, buffer, 1)
        bound = program[f"named_{number}"].bind(queue, 1, 1, buffer, 1)
        bound()
        assert own() == ["named_0", f"named_{number}", f"named_{number}"]
        del bound, program
        gc.collect()
        queue.finish()
        queue.launch(kept["named_0"], 1, 1, buffer, 2)
        queue.finish()
        assert own() == ["named_0"]


def test_a_handle_that_is_used_again_has_the_later_name(device, queue):
    buffer = device.zeros(1, "i4")
    for number in range(30):
        with device.program(SOURCE.replace("NUMBER", str(number % 3))) as program:
            before = known()
            queue.launch(program[f"named_{number % 3}"], 1, 1, buffer, 1)
            (new,) = {handle: name for handle, name in known().items() if before.get(handle) != name}.values()
            assert new == f"named_{number % 3}"
        queue.finish()
    assert len(own()) <= 2
