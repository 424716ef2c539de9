"""A driver that executes nothing: written from docs/driver.md, and the shortest that is complete.

Its device accepts every command, and memory never changes; but what is asked of events and queues is answered by a
model of what comes after what, so that a closed gate holds up all that is behind it. It tests the page, and that
forebay knows nothing of a driver but the contract. Tests name it in `forebay.queues.drivers.selection.DRIVERS`, as
"nothing".
"""
