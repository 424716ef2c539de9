"""Events, which wrap markers, and the anchors that keep things alive until the device is done."""
