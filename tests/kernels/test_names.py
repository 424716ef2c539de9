"""What is remembered of the driver's kernels, for traces."""

from forebay.queues.kernels import kernel as kernels

SOURCE = "kernel void named_NUMBER(global int *a, int n) { a[0] = n + NUMBER; }"


def known():
    """The names of the driver's kernels, by handle."""
    return kernels.names()


def own():
    return sorted(name for name in known().values() if name.startswith("named_"))


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
