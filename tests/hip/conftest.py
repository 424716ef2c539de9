import itertools

import numpy as np
import pytest

from forebay import hip
from tests.conftest import DEVICES
from tests.drivers.levelzero import validation
from tests.helpers.needs import variable_options
from tests.inside import capture_of, forget_hip_handles, hip_without_mapped_memory, open_hip_devices

SOURCE = """
kernel void fill(global int *values, int value) { values[get_global_id(0)] = value; }
kernel void add(global int *values, int value) { values[get_global_id(0)] += value; }
kernel void copy(global int *to, global const int *from) { to[get_global_id(0)] = from[get_global_id(0)]; }
kernel void mixed(float a, int b, short c, int d, double e, char f, global int *out) {
    out[0] = a; out[1] = b; out[2] = c; out[3] = d; out[4] = e; out[5] = f;
}
kernel void integers(uchar a, ushort b, uint c, ulong d, long e, global long *out) {
    out[0] = a; out[1] = b; out[2] = c; out[3] = d; out[4] = e;
}
typedef struct { int a; float b; } Pair;
kernel void structure(Pair pair, global int *out) { out[0] = pair.a; out[1] = pair.b; }
kernel void nothing(int unused) { }
"""


VARIABLES = b"""
__device__ int count = 5;
__constant__ int by[4] = {1, 2, 3, 4};
__constant__ int later;
__device__ int table[100];
const int fixed = 3;
extern "C" __global__ void step(int* out) {
    out[0] = count; out[1] = by[1]; out[2] = later; out[3] = table[99];
    count += by[0];
}
extern "C" __global__ void fill(int* to, int value) { to[blockIdx.x * blockDim.x + threadIdx.x] = value; }
"""


@pytest.fixture(params=DEVICES, ids=str)
def device(request):
    """The current device of HIP, each that is tested in turn; a `forebay.Device`. Tests leave nothing there."""
    names = [info.name for info in hip.devices.infos()]
    ok(hip.hipSetDevice(names.index(request.param)))
    hip.hipGetLastError()
    yield hip.current_device()
    for number in range(len(names)):
        ok(hip.hipSetDevice(number))
        give_back(number)
    ok(hip.hipSetDevice(0))
    hip.hipGetLastError()


def give_back(number):
    """Forget what was made on the current device. It stays open: a process may have few contexts of a driver."""
    if number not in open_hip_devices():
        return
    if validation.active() or hip.hipDeviceSynchronize()[0] != hip.hipError_t.hipSuccess:
        ok(hip.hipDeviceReset())
    else:
        forget_hip_handles(number)


@pytest.fixture
def fresh(device):
    """The current device, as if nobody had used it; what is set there is gone afterwards, too."""
    ok(hip.hipDeviceReset())
    yield hip.current_device()
    ok(hip.hipDeviceReset())


def ok(result):
    """The outputs of a call that succeeded: nothing, the one, or a tuple."""
    code, *outputs = result
    assert code == hip.hipError_t.hipSuccess, (code.name, hip.last_exception())
    return outputs[0] if len(outputs) == 1 else tuple(outputs) or None


@pytest.fixture
def module(device):
    """The kernels of `SOURCE`."""
    return ok(hip.hipModuleLoadData(SOURCE.encode()))


@pytest.fixture
def function(module):
    """``function("fill")``."""
    return lambda name: ok(hip.hipModuleGetFunction(module, name.encode()))


@pytest.fixture
def hold(device):
    """``hold(stream)``: the stream goes no further until the gate it returns is opened."""
    gates = []

    def hold(stream):
        gates.append(hip.streams.queue_of(stream).gate())
        return gates[-1]

    yield hold
    for gate in gates:
        gate.open()


@pytest.fixture
def streams(device):
    """``streams(2)``: so many, with `flags`."""
    made = []

    def streams(count, flags=0):
        made.extend(ok(hip.hipStreamCreateWithFlags(flags)) for _ in range(count))
        return made[-count:]

    yield streams
    for stream in made:
        if capture_of(stream.queue) is not None:
            capture_of(stream.queue).abandon()


@pytest.fixture
def stream(streams):
    return streams(1)[0]


@pytest.fixture
def number(device):
    """The current device's."""
    return ok(hip.hipGetDevice())


@pytest.fixture
def events(device):
    return [ok(hip.hipEventCreateWithFlags(hip.hipEventDisableTiming)) for _ in range(4)]


@pytest.fixture
def works(device, really):
    """``works(stream)``: it runs what it is given."""

    def works(stream):
        assert ok(hip.hipStreamIsCapturing(stream)) == hip.hipStreamCaptureStatus.hipStreamCaptureStatusNone
        memory, out = ok(hip.hipMalloc(400)), np.zeros(100, "i4")
        ok(hip.hipMemsetD32Async(memory, 7, 100, stream))
        ok(hip.hipStreamSynchronize(stream))
        ok(hip.hipMemcpy(out, memory, 400, hip.hipMemcpyKind.hipMemcpyDeviceToHost))
        if really:
            assert out.tolist() == [7] * 100

    return works


@pytest.fixture
def graph(device):
    return ok(hip.hipGraphCreate(0))


@pytest.fixture
def variables(device):
    """``variables()``: a module of `VARIABLES`, which the host may reach."""
    from .helpers import compiled

    if variable_options(device) is None or device.info.backend == "sycl":
        pytest.skip("the device has no variables, or its driver does not report where they are")
    return lambda: ok(hip.hipModuleLoadData(compiled(VARIABLES)))


@pytest.fixture
def shares_none(device):
    """As a device without fine-grained SVM: it cannot map memory of the host."""
    with hip_without_mapped_memory(device):
        yield


class each(tuple):
    """Values of one argument that are tried in turn."""

    def __new__(cls, *values):
        return super().__new__(cls, values)


@pytest.fixture
def refused(device, works):
    """``refused(code, *rows)``: the calls of each row return this code, or raise this exception, and change nothing.

    A row is the names of functions, or a function, and the arguments; an `each` among them makes several calls of it.
    """

    def outcome(call, arguments):
        try:
            result = call(*arguments)
        except TypeError as error:
            return TypeError, error
        why = hip.last_exception()
        assert hip.hipGetLastError() == result[:1], "the last error is another one"
        assert call is hip.hipGraphExecUpdate or set(result[1:]) <= {None}, "a failed call has outputs"
        return result[0], why

    def refused(expected, *rows):
        wrong = []
        for name, *arguments in rows:
            calls = [getattr(hip, word) for word in name.split()] if isinstance(name, str) else [name]
            choices = [given if isinstance(given, each) else (given,) for given in arguments]
            for call, *given in itertools.product(calls, *choices):
                found, why = outcome(call, given)
                if found != expected:
                    wrong.append(f"{call.__name__}{tuple(given)}: {found} ({why})")
        assert not wrong, "\n".join(wrong)

    yield refused
    works(None)
