"""Addresses that no machine has."""

import numpy as np
import pytest

from forebay import hip


@pytest.mark.parametrize("address", [-(2**70), -1, 2**64, 2**70])
def test_addresses_of_hip_that_no_machine_has_are_invalid_values(address):
    _, pointer = hip.hipMalloc(64)
    host, kind = np.zeros(64, "u1"), hip.hipMemcpyKind.hipMemcpyDefault
    answers = [
        hip.hipFree(address),
        hip.hipFreeAsync(address, 0),
        hip.hipHostFree(address),
        hip.hipMemcpy(address, host, 64, kind),
        hip.hipMemcpy(pointer, address, 64, kind),
        hip.hipMemcpyAsync(address, pointer, 64, kind, None),
        hip.hipMemset(address, 0, 4),
        hip.hipMemPtrGetInfo(address),
        hip.hipPointerGetAttributes(hip.hipPointerAttribute_t(), address),
    ]
    hip.hipFree(pointer)
    assert {answer[0] for answer in answers} == {hip.hipError_t.hipErrorInvalidValue}
