"""``forebay selftest``: whether commands run in the order in which they have to, on a device of somebody's own.

`litmus` has the tests as a table; `scene` has the notation, what the tests work with, and the sequential model of it.
`work` runs them, and measures the main calls, in a process of its own that `supervisor` watches: a driver may hang or
end the process that uses it. `command` reports what comes out.
"""
