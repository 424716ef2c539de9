"""Which public classes a program calls to make an object. Of all others the owner makes it, as `Device.queue`."""

MADE_BY_CALLING = {
    "Device",
    "by_value",
    "elementwise",
    "local",
    "reduction",
    "trace",
    "Argument",
    "MaxOver",
    "MinOver",
    "SumOver",
    "RawModule",
}
