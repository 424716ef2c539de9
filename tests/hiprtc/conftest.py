import pytest

import forebay as ps
from forebay.hiprtc.clang import find_clang

from .running import Built


@pytest.fixture
def build(device, queue):
    """``build(source)``: see `Built`; translated to OpenCL C."""
    return lambda source, options=(), names=(): Built(device, queue, source, options, names)


@pytest.fixture(params=["translator", "clang"])
def build_both(device, queue, request):
    """``build_both(source)``: the same, in both ways that a device may take a program."""
    if request.param == "clang" and not ("SPIR-V" in device.languages and find_clang()[0]):
        pytest.skip("no SPIR-V for this device")
    return lambda source, options=(), names=(): Built(device, queue, source, options, names, request.param)


@pytest.fixture
def compiled(device, queue):
    """``compiled(source)``: see `Built`; compiled by clang."""
    clang, why = find_clang()
    if clang is None:
        pytest.skip(why)
    return lambda source, options=(), names=(): Built(device, queue, source, options, names, "clang")


@pytest.fixture
def needs_line_directives(device):
    with pytest.raises(ps.BuildError) as caught:
        device.program("#line 4321\nkernel void k(global int *p) { p[0] = no_such_name; }")
    if "4321" not in caught.value.log:
        pytest.skip("the device's compiler does not follow #line, and tells lines of the translated text")
