"""A kernel whose threads mostly go home leaves the kernels after it as they are."""

import numpy as np
import pytest

pytestmark = [pytest.mark.executes, pytest.mark.needs("a compiler of its own", "a compiler of HIP C++")]

INDEX = "(blockIdx.x * blockDim.x + threadIdx.x)"
GUARDS = {
    "first thread": f"if ({INDEX} == 0) y[0] = n;",
    "all but the first return": f"if ({INDEX} != 0) return; y[0] = n;",
    "below one": f"if ({INDEX} < 1u) y[0] = n;",
    "of two axes": f"if ({INDEX} == 0 && blockIdx.y * blockDim.y + threadIdx.y == 0) y[0] = n;",
    "negative": f"int i = -(int){INDEX}; if (i < n) y[0] = n;",
    "from the end": "if (n - (int)threadIdx.x < 5) y[0] = n;",
}
SOURCE = """
__global__ void guarded(const int* x, int* y, int n) {{ {} }}
__global__ void below(const int* x, int* y, int n) {{ int i = {}; if (i < n) y[i] = x[i] + 1; }}
__global__ void above(const int* x, int* y, int n) {{ int i = {}; if (i > n) y[i] = x[i] + 1; }}
"""


@pytest.mark.parametrize("guard", GUARDS)
def test_kernels_after_one_that_few_threads_run(compiled, guard):
    program = compiled(SOURCE.format(GUARDS[guard], INDEX, INDEX))
    x = np.arange(128, dtype="i4")
    for name, part in (("below", slice(None, 100)), ("above", slice(101, None))):
        y, expected = np.zeros(128, "i4"), np.zeros(128, "i4")
        program.run(name, 2, 64, x, y, 100)
        expected[part] = x[part] + 1
        assert y.tolist() == expected.tolist()
