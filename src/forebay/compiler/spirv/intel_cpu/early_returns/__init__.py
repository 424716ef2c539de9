"""Lets threads return before a barrier that others of their block reach, on devices where a barrier waits for all.

GPUs count a thread that has returned as one that has arrived. OpenCL leaves the case undefined, and Intel's CPU runtime
goes on where the last thread of the block is. So a kernel whose threads may part before a barrier gets a second body.

- The first body is the one that it had. Where threads may part in it, they vote first. As long as all of them stay they
  go on there, at the price of the vote. Else the whole block goes on in the second body, each thread its own way.
- In the second body threads that have returned go on to the barriers of the others. There are two ways to make it:
  `inactive`, which the runtime can make into vectors, and `waiting`, which does for every flow of control.

What goes from one part of a second body to another is kept in variables, of which the device's compiler makes
registers again. `divergence` finds out which kernels need one.
"""

from forebay.compiler.spirv.intel_cpu.early_returns.module import (
    RETURNS_EARLY,
    Found,
    find_early_returns,
    let_threads_return,
)

__all__ = ["RETURNS_EARLY", "Found", "find_early_returns", "let_threads_return"]
