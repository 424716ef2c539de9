import numpy as np
import pytest

from forebay import hip
from forebay.core.driver import Language
from forebay.core.errors import BuildError
from forebay.hiprtc.code import pack_code

from .conftest import SOURCE, ok
from .helpers import E, code


@pytest.mark.parametrize(
    "image",
    [SOURCE, SOURCE.encode(), bytearray(SOURCE.encode() + b"\0"), np.frombuffer(SOURCE.encode(), "u1")],
    ids=["str", "bytes", "bytearray", "numpy"],
)
def test_images(device, image):
    module = ok(hip.hipModuleLoadData(image))
    assert ok(hip.hipModuleGetFunctionCount(module)) == 8
    assert ok(hip.hipModuleGetFunction(module, "fill")) == ok(hip.hipModuleGetFunction(int(module), b"fill"))
    ok(hip.hipModuleUnload(module))


def test_files(device, tmp_path):
    path = tmp_path / "module.cl"
    path.write_text(SOURCE)
    for name in (str(path), str(path).encode()):
        ok(hip.hipModuleGetFunction(ok(hip.hipModuleLoad(name)), b"add"))


def test_images_that_cannot_be(device):
    """`last_exception` has the log."""
    assert code(hip.hipModuleLoadData("kernel void wrong(int x) { no such thing; }")) == E.hipErrorInvalidImage
    assert isinstance(hip.last_exception(), BuildError)
    whole = pack_code("damaged", Language.OPENCL_C, SOURCE)
    ok(hip.hipModuleGetFunction(ok(hip.hipModuleLoadData(bytearray(whole))), b"fill"))
    assert code(hip.hipModuleLoadData(whole[:-3])) == E.hipErrorInvalidImage
    assert "damaged" in str(hip.last_exception())


def test_dim3():
    assert list(hip.dim3()) == [1, 1, 1]
    assert list(hip.dim3(2, 3)) == [2, 3, 1]
    assert hip.dim3(8.0).x == hip.dim3(8)[0] == hip.dim3(8)["x"] == 8
    assert hip.dim3(1, 2) == hip.dim3(1, 2, 1)
    for wrong in (8.5, "8", None, -1, 1 << 32):
        with pytest.raises((TypeError, ValueError)):
            hip.dim3(wrong)
