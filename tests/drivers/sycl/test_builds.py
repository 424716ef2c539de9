"""Programs that the driver's compiler cannot build, over Level Zero."""

from tests.drivers.levelzero.children import output_under_driver

CODE = """
import faulthandler
faulthandler.enable()  # with it the compiler catches no fault of its own
import forebay as fb
from tests.helpers import spirv
device = fb.Device("sycl:gpu:0")
try:
    device.program(spirv.deadly_module())
except fb.BuildError as error:
    print("BuildError", "ended its process" in error.log)
print(list(device.program(spirv.fill_module("after"))))
"""


def test_a_compiler_that_ends_its_process_is_an_error(tmp_path):
    assert output_under_driver(CODE, FOREBAY_CACHE=tmp_path).split("\n")[:2] == ["BuildError True", "['after']"]
