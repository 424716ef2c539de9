"""Minimum, maximum and sum of integer buffers. The device computes them, and they are remembered with the memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from forebay.queues.device import Device
    from forebay.queues.kernels.kernel import Kernel
    from forebay.queues.memory.buffer import Buffer
    from forebay.queues.queue import Queue

__all__ = ["Reductions"]

TYPES = {"i1": "char", "u1": "uchar", "i2": "short", "u2": "ushort", "i4": "int", "u4": "uint", "i8": "long",
         "u8": "ulong"}  # fmt: skip
BLOCK = 64
MOST_GROUPS = 64
PER_THREAD = 64  # elements, before it takes another group

# Each group leaves (minimum, maximum, sum) of its share; the host combines those of the groups.
SOURCE = """
kernel void reduce_TYPE(global const TYPE *values, const ulong count, global WIDE *partial,
    const ulong at)
{
    partial += 3 * at;
    local WIDE least[BLOCK], greatest[BLOCK], sums[BLOCK];
    size_t mine = get_local_id(0);
    WIDE low = values[0], high = values[0], sum = 0;
    for (ulong i = get_global_id(0); i < count; i += get_global_size(0)) {
        WIDE value = values[i];
        low = min(low, value);
        high = max(high, value);
        sum += value;
    }
    least[mine] = low;
    greatest[mine] = high;
    sums[mine] = sum;
    for (size_t rest = BLOCK / 2; rest > 0; rest /= 2) {
        barrier(CLK_LOCAL_MEM_FENCE);
        if (mine < rest) {
            least[mine] = min(least[mine], least[mine + rest]);
            greatest[mine] = max(greatest[mine], greatest[mine + rest]);
            sums[mine] += sums[mine + rest];
        }
    }
    if (mine == 0) {
        partial[3 * get_group_id(0)] = least[0];
        partial[3 * get_group_id(0) + 1] = greatest[0];
        partial[3 * get_group_id(0) + 2] = sums[0];
    }
}
"""


class Reductions:
    """The reduction kernels of a device."""

    def __init__(self, device: Device) -> None:
        names = TYPES.values()
        source = "".join(
            SOURCE.replace("TYPE", name).replace("WIDE", "ulong" if name.startswith("u") else "long") for name in names
        )
        program = device.program(f"#define BLOCK {BLOCK}\n{source}")
        self._kernels: dict[str, Kernel] = {code: program[f"reduce_{name}"] for code, name in TYPES.items()}
        self._device = device

    def run(self, queue: Queue, buffers: list[Buffer]) -> list[tuple[int, int, int]]:
        """Return (minimum, maximum, sum) of each. Blocks: one launch for each on `queue`, and one host synchronize."""
        shares = [min(-(-buffer.size // (BLOCK * PER_THREAD)), MOST_GROUPS) for buffer in buffers]
        partial = self._device._lend(queue, (sum(shares), 3), "i8")
        start = 0
        for buffer, groups in zip(buffers, shares, strict=True):
            queue.launch(self._kernels[buffer.dtype.str[1:]], groups, BLOCK, buffer, buffer.size, partial, start)
            start += groups
        host = self._read(queue, partial)
        queue.free(partial)
        found = []
        start = 0
        for buffer, groups in zip(buffers, shares, strict=True):
            own = host[start : start + groups].view("u8" if buffer.dtype.kind == "u" else "i8")
            found.append((int(own[:, 0].min()), int(own[:, 1].max()), int(own[:, 2].sum())))
            start += groups
        return found

    def _read(self, queue: Queue, partial: Buffer) -> np.ndarray[Any, Any]:
        staged = self._device.driver.stage(partial.nbytes)
        staged[:] = 0  # on a device that executes nothing, garbage must not become a size
        queue._copy_to_staging(staged, partial).wait()
        return np.asarray(staged)[: partial.nbytes].view("i8").reshape(partial.shape)
