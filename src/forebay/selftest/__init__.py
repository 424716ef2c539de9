"""``forebay selftest``: whether commands run in the order in which they have to, on a device of somebody's own.

`litmus` has the tests as a table, in the notation of `programs`; `scene` has what they work with, and the sequential
model of it; `latencies` has the times of the main calls. `work` runs them, in a process of its own that `supervisor`
watches, because a driver may hang or end the process that uses it. `report` has what comes out.
"""
