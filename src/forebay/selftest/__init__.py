"""``forebay selftest``: whether commands run in the order in which they have to, on a device of somebody's own.

`scene` has what a litmus test works with, and the sequential model of it; `litmus` has the tests, `latencies` the times
of the main calls. `work` runs them, in a process of its own that `supervisor` watches, because a driver may hang or end
the process that uses it. `report` has what comes out.
"""
