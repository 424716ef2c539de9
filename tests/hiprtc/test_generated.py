"""Random kernels leave the same on the device as on the host, see `tests.hiprtc.results.generated`."""

import pytest

from forebay.hiprtc.clang import find_clang

from .results import generated

pytestmark = [pytest.mark.executes(reads="differences how"), pytest.mark.needs("a compiler of its own", "SPIR-V")]

KERNELS = 8


@pytest.mark.long
def test_the_same_as_on_the_host(queue):
    if find_clang()[0] is None:
        pytest.skip("no clang")
    kernels = [generated.generated(seed) for seed in range(KERNELS)]
    assert [how for _, how in generated.differences(kernels, queue)] == []


@pytest.mark.long
def test_a_difference_is_found(queue, monkeypatch):
    """One that the device is given on purpose."""
    kernel = generated.generated(3)
    compile_hip = generated.compile_hip

    def other(clang, source, *rest):
        return compile_hip(clang, source.replace("+ 7 * d", "+ 8 * d"), *rest)

    monkeypatch.setattr(generated, "compile_hip", other)
    ((_, how),) = generated.differences([kernel], queue)
    assert how.startswith("out[")


def test_a_kernel_is_made_as_short_as_it_stays_wrong():
    def is_wrong(kernel):
        return kernel.source().count("atomicMin") > 0

    kernel = next(each for each in map(generated.generated, range(99)) if is_wrong(each) and len(each.statements) > 3)
    (left,) = generated.shortened(kernel, is_wrong).statements
    assert "atomicMin" in left.text
    assert left.inside is None
