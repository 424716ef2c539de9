"""Events, the markers they are made of, and the anchors that keep things alive until the device is done."""
