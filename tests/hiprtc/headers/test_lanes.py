"""AMD's movements between lanes, compared with NumPy."""

import numpy as np
import pytest

pytestmark = [pytest.mark.executes, pytest.mark.needs("a compiler of its own", "SPIR-V")]

LANE = np.arange(32)
ROW, AT = LANE & ~15, LANE & 15
# control -> the source of each lane, -1 for none
CONTROLS = {
    0x1B: LANE ^ 3,
    0x4E: LANE ^ 2,
    0x101: np.where(AT < 15, LANE + 1, -1),
    0x10F: np.where(AT < 1, LANE + 15, -1),
    0x112: np.where(AT >= 2, LANE - 2, -1),
    0x118: np.where(AT >= 8, LANE - 8, -1),
    0x123: ROW | (AT - 3) % 16,
    0x130: np.where(LANE < 31, LANE + 1, -1),
    0x134: (LANE + 1) % 32,
    0x138: LANE - 1,
    0x13C: (LANE - 1) % 32,
    0x140: ROW | (15 - AT),
    0x141: LANE ^ 7,
    0x142: np.where(LANE < 16, -1, 15),
    0x143: np.full(32, -1),
    0x155: ROW | 5,
    0x16A: LANE ^ 10,
}


def moves():
    lines = [
        f"out[{3 * n} * 32 + i] = __builtin_amdgcn_update_dpp(y[i], x[i], {control}, 0xf, 0xf, false);"
        f"out[{3 * n + 1} * 32 + i] = __builtin_amdgcn_update_dpp(y[i], x[i], {control}, 0xf, 0xf, true);"
        f"out[{3 * n + 2} * 32 + i] = __builtin_amdgcn_update_dpp(y[i], x[i], {control}, 0x2, 0x5, true);"
        for n, control in enumerate(CONTROLS)
    ]
    return "\n".join(lines)


def test_dpp(compiled):
    random = np.random.default_rng(9)
    x, y = (random.integers(1, 1000, 32, dtype="i4") for _ in range(2))
    out = np.zeros((len(CONTROLS), 3, 32), "i4")
    text = f'extern "C" __global__ void all(const int* x, const int* y, int* out) {{ int i = threadIdx.x;\n{moves()} }}'
    compiled(text).run("all", 1, 32, x, y, out)
    chosen = (LANE >= 16) & (AT // 4 % 2 == 0)
    for (control, source), (kept, zero, masked) in zip(CONTROLS.items(), out, strict=True):
        assert np.array_equal(kept, np.where(source < 0, y, x[source])), hex(control)
        assert np.array_equal(zero, np.where(source < 0, 0, x[source])), hex(control)
        assert np.array_equal(masked, np.where(chosen, zero, y)), hex(control)


OTHERS = r"""
extern "C" __global__ void all(const int* x, int* out, float* f, unsigned low, unsigned high) {
    int i = threadIdx.x;
    out[i] = __builtin_amdgcn_permlane16(0, x[i], low, high, false, false);
    out[32 + i] = __builtin_amdgcn_permlanex16(0, x[i], low, high, false, false);
    out[64 + i] = __builtin_amdgcn_ds_permute(4 * (i * 5 % 32), x[i]);
    out[96 + i] = __builtin_amdgcn_ds_permute(4 * (i / 2), x[i]);
    out[128 + i] = __builtin_amdgcn_writelane(-7, 3, x[i]);
    out[160 + i] = __builtin_amdgcn_mov_dpp(x[i], 0x111, 0xf, 0xf, true);
    // A sum of a row as rocPRIM has it, of floats.
    float sum = x[i];
    sum += __builtin_amdgcn_update_dpp(0.0f, sum, 0x111, 0xf, 0xf, true);
    sum += __builtin_amdgcn_update_dpp(0.0f, sum, 0x112, 0xf, 0xf, true);
    sum += __builtin_amdgcn_update_dpp(0.0f, sum, 0x114, 0xf, 0xf, true);
    sum += __builtin_amdgcn_update_dpp(0.0f, sum, 0x118, 0xf, 0xf, true);
    f[i] = sum;
    f[32 + i] = __hip_ds_swizzlef((float)x[i], 0x041f);
    __builtin_amdgcn_sched_group_barrier(8, 1, 0); __builtin_amdgcn_iglp_opt(0);
}
"""


def test_permutations(compiled):
    x, out, f = (
        np.random.default_rng(10).integers(1, 1000, 32, dtype="i4"),
        np.zeros((6, 32), "i4"),
        np.zeros((2, 32), "f4"),
    )
    low, high = 0x89ABCDEF, 0x01233210
    compiled(OTHERS).run("all", 1, 32, x, out, f, np.uint32(low), np.uint32(high))
    chosen = np.array([(high << 32 | low) >> 4 * at & 15 for at in AT.tolist()])
    assert np.array_equal(out[0], x[ROW | chosen])
    assert np.array_equal(out[1], x[(ROW ^ 16) | chosen])
    pushed = np.zeros(32, "i4")
    pushed[LANE * 5 % 32] = x
    assert np.array_equal(out[2], pushed)
    assert np.array_equal(out[3], np.append(x[1::2], np.zeros(16, "i4")))
    assert np.array_equal(out[4], np.where(LANE == 3, -7, x))
    assert np.array_equal(out[5], np.where(AT == 0, 0, np.roll(x, 1)))
    assert np.array_equal(f[0], np.cumsum(x.reshape(2, 16), 1).ravel())
    assert np.array_equal(f[1], x[LANE ^ 1])
