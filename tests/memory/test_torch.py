"""Tensors of PyTorch on the host: both ways by DLPack, without copies. Runs where PyTorch is installed."""

import gc
import weakref

import numpy as np
import pytest

import forebay as fb

torch = pytest.importorskip("torch")

pytestmark = [pytest.mark.usefixtures("takes_host")]

COUNT = 1 << 10
MUCH = 1 << 22  # elements, whose memory the host gives back to the system when it is freed


@pytest.fixture
def tensor():
    return torch.arange(COUNT, dtype=torch.int32)


def test_a_buffer_lies_over_a_tensor(device, queue, program, tensor):
    buffer = device.as_buffer(tensor.reshape(32, 32)[4])  # a row
    assert buffer.shape == (32,)
    bound = program["add"].bind(queue, 32, 1, buffer, 1)
    for _ in range(10):
        bound()
    queue.finish()
    expected = torch.arange(COUNT, dtype=torch.int32)
    expected[128:160] += 10
    assert torch.equal(tensor, expected)


@pytest.mark.parametrize("through", ["as_buffer", "an argument", "a graph"])
def test_a_dropped_tensor_lives_until_the_launch_is_done(device, make_queue, hold, through):
    """Its memory would be gone, and reading it would end the process."""
    copy = device.program(
        "kernel void copy(global int *to, global const int *from) { to[get_global_id(0)] = from[get_global_id(0)]; }"
    )["copy"]
    queue, out = make_queue(), device.zeros(MUCH, "i4")
    device.finish()
    tensor = torch.arange(MUCH, dtype=torch.int32)
    gone = weakref.ref(tensor)
    if through == "a graph":
        with queue.capture() as graph:
            queue.launch(copy, MUCH // 64, 64, out, device.as_buffer(tensor))
    gate = hold(queue)
    if through == "a graph":
        graph.launch(queue)
        graph.close()
    else:
        queue.launch(copy, MUCH // 64, 64, out, device.as_buffer(tensor) if through == "as_buffer" else tensor)
    del tensor
    gc.collect()
    gate.open()
    assert np.array_equal(out.get(queue=queue), np.arange(MUCH, dtype="i4"))
    device.finish()
    del gone


def test_copies_take_tensors(device, make_queue, tensor):
    queue, buffer, to = make_queue(), device.zeros(COUNT, "i4"), torch.zeros(COUNT, dtype=torch.int32)
    device.finish()
    queue.copy(buffer, tensor)
    queue.copy(to, buffer)
    queue.finish()
    assert torch.equal(to, tensor)
    with queue.capture() as graph:
        queue.copy(buffer, tensor)
        queue.copy(to, buffer)
    tensor.add_(1)
    graph.launch(queue)
    queue.finish()
    assert torch.equal(to, tensor)
    buffer[::2] = tensor[::2] * 0
    assert torch.equal(torch.as_tensor(buffer.get(queue=queue))[::2], torch.zeros(COUNT // 2, dtype=torch.int32))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "uint8", "int64", "bool", "complex64"])
def test_types_both_ways(device, dtype):
    tensor = torch.ones(8, dtype=getattr(torch, dtype))
    buffer = device.as_buffer(tensor)
    assert buffer.dtype == np.dtype(dtype)
    assert torch.equal(torch.from_dlpack(buffer), tensor)
    assert torch.from_dlpack(buffer).data_ptr() == tensor.data_ptr()


def test_bytes_of_a_type_that_numpy_lacks(device, queue, program, refuses):
    tensor = torch.ones(8, dtype=torch.bfloat16)
    with refuses(fb.ArgumentTypeError, TypeError, "torch.Tensor of torch.bfloat16", ".view(torch.uint8)"):
        device.as_buffer(tensor)
    queue.copy(device.as_buffer(tensor.view(torch.uint8)), np.zeros(8, "u2"))
    queue.finish()
    assert not tensor.any()


UNFIT = {
    "gradients": (lambda: torch.zeros(8, requires_grad=True), TypeError, "detach()"),
    "a parameter": (lambda: torch.nn.Parameter(torch.zeros(8)), TypeError, "detach()"),
    "a column": (lambda: torch.zeros(8, 8)[:, 1], ValueError, "not C-contiguous"),
    "transposed": (lambda: torch.zeros(8, 4).t(), ValueError, ".contiguous()"),
    "broadcast": (lambda: torch.zeros(1).expand(8), ValueError, ".contiguous()"),
    "conjugate": (lambda: torch.zeros(8, dtype=torch.complex64).conj(), TypeError, "conjugate"),
    "no memory": (lambda: torch.zeros(8, device="meta"), TypeError, "meta"),
    "sparse": (lambda: torch.eye(3).to_sparse(), TypeError, "strided"),
}


@pytest.mark.parametrize("what", UNFIT)
def test_tensors_that_are_refused(device, queue, program, refuses, what):
    make, builtin, word = UNFIT[what]
    kind = fb.ArgumentTypeError if builtin is TypeError else fb.InvalidArgumentError
    tensor = make()
    with refuses(kind, builtin, "as_buffer", word):
        device.as_buffer(tensor)
    with refuses(kind, builtin, "argument 0", "int* values", word):
        queue.launch(program["fill"], 1, 1, tensor, 1)
    with refuses(kind, builtin, "copy", word):
        queue.copy(device.empty(8, "f4"), tensor)


def test_what_needs_gradients_is_not_copied_silently(device, refuses):
    tensor = torch.zeros(8, requires_grad=True)
    with refuses(fb.ArgumentTypeError, TypeError, "array", "detach()"):
        device.array(tensor)
    with refuses(fb.ArgumentTypeError, TypeError, "set", "detach()"):
        device.empty(8, "f4").set(tensor)
