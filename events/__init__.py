"""Events, markers and what keeps resources alive until the device is done with them."""
