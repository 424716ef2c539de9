"""What public programs use beside HIP's own functions: built-in functions for AMD's GPUs, names of CUDA, strings of C."""

import numpy as np
import pytest

from tests.helpers.device_data import device_data
from tests.hiprtc.results.tables import Calls, call_differences

pytestmark = pytest.mark.needs("a compiler of its own", "SPIR-V", "doubles")

RANDOM = np.random.default_rng(9)
LANE = np.arange(32)
ROW, AT = LANE & ~15, LANE & 15
X, Y = (RANDOM.integers(1, 1000, 32, dtype="i4") for _ in range(2))
# The control of a movement between lanes, and the source of each lane; -1 for none.
CONTROLS = {
    0x1B: LANE ^ 3, 0x4E: LANE ^ 2, 0x101: np.where(AT < 15, LANE + 1, -1), 0x10F: np.where(AT < 1, LANE + 15, -1),
    0x112: np.where(AT >= 2, LANE - 2, -1), 0x118: np.where(AT >= 8, LANE - 8, -1), 0x123: ROW | (AT - 3) % 16,
    0x130: np.where(LANE < 31, LANE + 1, -1), 0x134: (LANE + 1) % 32, 0x138: LANE - 1, 0x13C: (LANE - 1) % 32,
    0x140: ROW | (15 - AT), 0x141: LANE ^ 7, 0x142: np.where(LANE < 16, -1, 15), 0x143: np.full(32, -1),
    0x155: ROW | 5, 0x16A: LANE ^ 10,
}  # fmt: skip
CHOSEN = (LANE >= 16) & (AT // 4 % 2 == 0)
LOW, HIGH = 0x89ABCDEF, 0x01233210
PERMUTED = np.array([(HIGH << 32 | LOW) >> 4 * at & 15 for at in AT.tolist()])
PUSHED = np.zeros(32, "i4")
PUSHED[LANE * 5 % 32] = X
STEPS = "".join(
    f"sum += __builtin_amdgcn_update_dpp(0.0f, sum, {step}, 0xf, 0xf, true); " for step in (0x111, 0x112, 0x114, 0x118)
)


def moved(source, other):
    return lambda x, y: np.where(source < 0, y if other is None else other, x[source])


LANES = {
    **{f"__builtin_amdgcn_update_dpp(y, x, {control}, 0xf, 0xf, false)": moved(source, None)
       for control, source in CONTROLS.items()},
    **{f"__builtin_amdgcn_update_dpp(y, x, {control}, 0xf, 0xf, true)": moved(source, 0)
       for control, source in CONTROLS.items()},
    **{f"__builtin_amdgcn_update_dpp(y, x, {control}, 0x2, 0x5, true)":
       lambda x, y, source=source: np.where(CHOSEN, np.where(source < 0, 0, x[source]), y) for control, source in CONTROLS.items()},
    f"__builtin_amdgcn_permlane16(0, x, {LOW}u, {HIGH}u, false, false)": lambda x, y: x[ROW | PERMUTED],
    f"__builtin_amdgcn_permlanex16(0, x, {LOW}u, {HIGH}u, false, false)": lambda x, y: x[(ROW ^ 16) | PERMUTED],
    "__builtin_amdgcn_ds_permute(4 * (i * 5 % 32), x)": lambda x, y: PUSHED,
    "__builtin_amdgcn_ds_permute(4 * (i / 2), x)": lambda x, y: np.append(x[1::2], np.zeros(16)),
    "__builtin_amdgcn_writelane(-7, 3, x)": lambda x, y: np.where(LANE == 3, -7, x),
    "__builtin_amdgcn_mov_dpp(x, 0x111, 0xf, 0xf, true)": lambda x, y: np.where(AT == 0, 0, np.roll(x, 1)),
    f"float sum = x; {STEPS}r = sum": lambda x, y: np.cumsum(x.reshape(2, 16), 1).ravel(),  # as rocPRIM has it
    "r = __hip_ds_swizzlef((float)x, 0x041f); __builtin_amdgcn_sched_group_barrier(8, 1, 0); __builtin_amdgcn_iglp_opt(0)":
        lambda x, y: x[LANE ^ 1],
    "__builtin_amdgcn_readfirstlane(i + 5)": lambda x, y: 5, "__builtin_amdgcn_ds_bpermute(4 * (i ^ 1), i)": lambda x, y: LANE ^ 1,
    "r = __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0)); __builtin_amdgcn_s_barrier()": lambda x, y: LANE,
    "(int)__builtin_amdgcn_fmed3f(5.f, (float)i, 9.f)": lambda x, y: np.clip(LANE, 5, 9),
    "__builtin_amdgcn_wavefrontsize()": lambda x, y: 32,
    "__builtin_amdgcn_workgroup_id_x() * __builtin_amdgcn_workgroup_size_x() + __builtin_amdgcn_workitem_id_x()": lambda x, y: LANE,
}  # fmt: skip
HEAD = """
#include <cuda_pipeline.h>
using namespace std;
struct complex { float r, i; __device__ complex operator*(complex o) { return {r * o.r - i * o.i, r * o.i + i * o.r}; } };
struct cuComplex { float r; __device__ cuComplex(float a) : r(a) {} };
struct twice : std::unary_function<int, int> { __device__ int operator()(int x) const { return 2 * x; } };
"""
BEGIN = """
    const char* text = "hello"; char copy[32]; int word[] = {7, 3, i, 9};
    auto block = cooperative_groups::this_thread_block();
    __shared__ __device__ float reversed[64]; __device__ __shared__ int counts[2]; __shared__ int4 room[2];
    if (i < 2) counts[i] = 0; __syncthreads();"""
NAMES = {
    "__isnanf(x) + 2 * __isinff(x) + 4 * __finitef(x) + 8 * (x == x && __signbitf(x) != 0)":
        lambda x, y: np.isnan(x) + 2 * np.isinf(x) + 4 * np.isfinite(x) + 8 * np.signbit(x),
    "__builtin_amdgcn_fractf(y)": lambda x, y: y - np.floor(y), "__builtin_amdgcn_sinf(y)": lambda x, y: np.sin(2 * np.pi * y),
    "std::find(word, word + 4, i) - word": lambda x, y: [{7: 0, 3: 1}.get(i, 2) for i in range(64)],
    "reversed[i] = y; __syncthreads(); r = reversed[63 - i]": lambda x, y: y[::-1],
    "__nv_atomic_fetch_add(counts, 1, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE); "
    "__nv_atomic_fetch_max(counts + 1, i, __NV_ATOMIC_RELAXED); auto token = block.barrier_arrive(); "
    "block.barrier_wait(std::move(token)); r = __nv_atomic_load_n(counts, __NV_ATOMIC_ACQUIRE) + 1000 * counts[1]; "
    "__barrier_sync(0); __nv_atomic_store_n(counts, 5, __NV_ATOMIC_RELEASE)": lambda x, y: 63064,
    "strlen(text) + strcmp(text, \"hello\") + 10 * (strcmp(text, \"hellp\") < 0)": lambda x, y: 15,
    "memcmp(text, \"help\", 3) == 0 && memcmp(text, \"help\", 4) < 0 && strncmp(text, \"hex\", 2) == 0": lambda x, y: 1,
    "strlen(strcpy(copy, text)) + copy[4]": lambda x, y: 5 + ord("o"),
    "int4 in = {1, 20, 300, 4000}; if (i < 1) __pipeline_memcpy_async(room, &in, 16), __pipeline_memcpy_async(room + 1, &in, 16, 8); "
    "__pipeline_commit(); __pipeline_wait_prior(0); __syncthreads(); r = room[0].w + room[1].y + room[1].z + room[1].w":
        lambda x, y: 4020,
    "float4(7).w": lambda x, y: 7,
    # What nvcc takes: own names beside those of `std`, `register`, narrowing, `unary_function`.
    "complex z = complex{1, 2} * complex{3, 4}; r = z.r + 100 * z.i": lambda x, y: 995,
    "register int three = 3; int zeros[3] = {0.0, 1.0, 2.0}; r = twice()(three) + zeros[2] + cuComplex(0.5f).r": lambda x, y: 8.5,
}  # fmt: skip


def test_movements_between_lanes(device, queue):
    assert device_data(call_differences(device, queue, [Calls(LANES, "i4", {"x": X, "y": Y}, block=32)])) == []


def test_names_of_cuda_and_strings(device, queue):
    y = (RANDOM.standard_normal(64) * 5).astype("f4")
    x = y.copy()
    x[:4] = np.nan, np.inf, -np.inf, -0.0
    table = Calls(NAMES, "f4", {"x": x, "y": y}, HEAD, BEGIN, rtol=1e-5, atol=1e-5)
    assert device_data(call_differences(device, queue, [table])) == []
