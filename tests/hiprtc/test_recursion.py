"""Functions that call themselves, also with pointers and beside barriers, in kernels with blocks of many threads."""

import subprocess
import sys

import numpy as np
import pytest

from forebay.compiler.spirv.recursion import recursive
from tests.helpers.device_data import device_data

from .results.tables import case, kernel_differences

pytestmark = pytest.mark.needs("a compiler of its own", "a compiler of HIP C++")

FUNCTIONS = """
__device__ unsigned even(unsigned x, int n);
__device__ unsigned odd(unsigned x, int n) { return n == 0 ? x : even(x * 3, n - 1) + 1; }
__device__ unsigned even(unsigned x, int n) {
    return n == 0 ? x : x & 1 ? odd(x * 5, n - 1) * 2 : even(x + 7, n - 1) + 3; }
__device__ unsigned down(unsigned x, int n) {
    if (x < 2 || n == 0) return x;
    return x & 1 ? down(x / 2, n - 1) + down(x / 5, n - 1) + 1 : down(x / 3, n - 1) * 2; }
"""
NUMBERS = """
    __global__ void k(unsigned* p) {
        int i = blockIdx.x * blockDim.x + threadIdx.x; p[i] = down(p[i], 14) + even(p[i], 10); }"""
BESIDE_BARRIERS = """
    __global__ void k(unsigned* p) {
        __shared__ unsigned s[64]; unsigned i = threadIdx.x, n = blockDim.x;
        s[i] = down(p[i], 9); __syncthreads(); unsigned other = s[n - 1 - i];
        p[i] = other + 1000 * __popcll(__ballot(other & 1)); }"""
SORT = """
    struct range { int low, high; };
    __device__ range split(int* x, range r) {
        int pivot = x[(r.low + r.high) / 2];
        while (r.low <= r.high) {
            while (x[r.low] < pivot) r.low++;
            while (x[r.high] > pivot) r.high--;
            if (r.low <= r.high) { int t = x[r.low]; x[r.low++] = x[r.high]; x[r.high--] = t; } }
        return r; }
    __device__ void sort(int* x, range r) {
        range left = split(x, r);
        if (r.low < left.high) sort(x, {r.low, left.high});
        if (left.low < r.high) sort(x, {left.low, r.high}); }"""
STRUCTURES = """
    struct tree { int left, right; __device__ range ends(const tree* all, int depth) const {
        if (left < 0) return {right, right};
        range a = all[left].ends(all, depth + 1), b = all[right].ends(all, depth + 1);
        return {a.low < b.low ? a.low : b.low, a.high > b.high ? a.high : b.high}; } };
    extern "C" __global__ void k(int* x, const int* nodes, int* ends) {
        int i = threadIdx.x; sort(x + 32 * i, {0, 31});
        range r = ((const tree*)nodes)[0].ends((const tree*)nodes, 0); ends[2 * i] = r.low; ends[2 * i + 1] = r.high; }"""
VIRTUAL = """
    struct thing { __device__ virtual int hit(int ray, int depth) const = 0; };
    struct ball : thing { int size; __device__ ball(int size) : size(size) { }
        __device__ int hit(int ray, int depth) const override { return ray % size + depth; } };
    struct list : thing { const thing* of[2]; __device__ list(const thing* a, const thing* b) : of{a, b} { }
        __device__ int hit(int ray, int depth) const override {
            int a = of[0]->hit(ray, depth + 1), b = of[1]->hit(ray + 1, depth + 1); return a > b ? a : b; } };
    __device__ thing* world;
    __global__ void k(int* p) {
        if (threadIdx.x == 0) world = new list(new list(new ball(5), new ball(7)), new ball(3));
        __syncthreads();
        p[threadIdx.x] = world->hit(p[threadIdx.x], 0); }"""
DEEP = """
    __device__ unsigned sum(unsigned n, unsigned so_far) { return n == 0 ? so_far : sum(n - 1, so_far + n); }
    __global__ void k(unsigned* p) { p[threadIdx.x] = sum(p[threadIdx.x], 0); }"""
SORTS = (
    f"""
#include <algorithm>
{SORT}"""
    + """
__global__ void in_shared(int* x, int n) {
    __shared__ int room[64];
    for (int i = 0; i < n; ++i) room[i] = x[i];
    sort(room, {0, n - 1});
    for (int i = 0; i < n; ++i) x[i] = room[i];
}
__global__ void in_thread(int* x, int n) {
    int room[64];
    for (int i = 0; i < n; ++i) room[i] = x[i];
    sort(room, {0, n - 1});
    sort(x, {0, n - 1});
    for (int i = 0; i < n; ++i) x[i] = x[i] == room[i] ? x[i] : -1;
}
__global__ void by_library(int* x, int n) { std::sort(x, x + n); }
__global__ void by_lambda(int* x, int n) { std::sort(x, x + n, [](int a, int b) { return a > b; }); }
"""
)
TREES = """
struct Node { Node* left; Node* right; int value; };
__device__ Node* insert(Node* root, Node* node) {
    if (!root) return node;
    Node*& side = node->value < root->value ? root->left : root->right;
    side = insert(side, node);
    return root;
}
__device__ const Node* find(const Node* root, int value) {
    if (!root || root->value == value) return root;
    return find(value < root->value ? root->left : root->right, value);
}
template <class F> __device__ int visit(const Node* root, F& function) {
    return root ? function(root->value) + visit(root->left, function) + visit(root->right, function) : 0;
}
__device__ Node nodes[64];
__global__ void k(const int* values, int n, int* out) {
    Node* root = nullptr;
    for (int i = 0; i < n; ++i) {
        nodes[i] = {nullptr, nullptr, values[i]};
        root = insert(root, nodes + i);
    }
    int calls = 0;
    auto count = [&](int value) { ++calls; return value > 30; };
    out[0] = visit(root, count);
    out[1] = calls;
    out[2] = find(root, values[7]) - nodes;
    out[3] = find(root, 1000) == nullptr;
}
"""
N = 60
VALUES = (np.arange(N) * 37 % 61).astype("i4")
TREE = np.array([[1, 2], [3, 4], [-1, 17], [-1, 40], [-1, 5]], "i4")

OF_ANY_COMPILER = {
    "structures and members": case(
        SORT + STRUCTURES, 1, 16, np.random.default_rng(2).integers(-99, 99, 512).astype("i4"), TREE, np.zeros(32, "i4")),
    "virtual functions": case(VIRTUAL, 1, 64, np.arange(64, dtype="i4")),
    "what becomes a loop may be deep": case(DEEP, 1, 64, np.arange(64, dtype="u4") * 16),
}  # fmt: skip
# NVIDIA's compiler loses barriers and votes after a recursion in which the work-items of a warp part: CUDA 13.0 on an H100.
WITH_POINTERS = {
    "trees": case(TREES, 1, 1, VALUES, N, np.zeros(4, "i4")),
    **{f"sort {name}": case(SORTS, 1, 1, VALUES, N, kernel=name) for name in (
        "in_shared", "in_thread", "by_library", "by_lambda")},
    **{f"barriers, {n} threads": case(FUNCTIONS + BESIDE_BARRIERS, 1, n, np.arange(n, dtype="u4") * 333) for n in (64, 40)},
}  # fmt: skip


def test_the_same_is_left_as_on_the_host(device, queue):
    assert device_data(kernel_differences(device, queue, OF_ANY_COMPILER)) == []


@pytest.mark.needs("SPIR-V")
def test_with_pointers_and_beside_barriers(device, queue):
    assert device_data(kernel_differences(device, queue, WITH_POINTERS)) == []


@pytest.mark.parametrize("options", [(), ("-g", "-O0")])
@pytest.mark.long
def test_functions_that_call_themselves_and_each_other(device, queue, options):
    numbers = case(FUNCTIONS + NUMBERS, 2, 64, np.arange(128, dtype="u4") * 7777)
    assert device_data(kernel_differences(device, queue, {"numbers": numbers}, options)) == []


def test_which_functions_are_recursive():
    calls = {1: [2, 3], 2: [2], 3: [4, 6], 4: [5], 5: [3, 7], 6: [7], 7: [], 8: [9], 9: [8]}
    bodies = {number: [[4 << 16 | 57, 0, 0, other] for other in others] for number, others in calls.items()}
    assert recursive(bodies) == {2, 3, 4, 5, 8, 9}


TOO_DEEP = """
import numpy as np, forebay as fb
with fb.Device() as device:
    queue = device.queue()
    program = device.program('''__device__ unsigned f(unsigned n, unsigned x) {
        return n == 0 ? 1 : x & 1 ? f(n - 1, x * 5) + f(n - 1, 0) % 3 : f(n - 1, x / 2) * 2; }
    __global__ void k(unsigned* p) { p[threadIdx.x] = f(p[threadIdx.x], 2); }''')
    p = device.array(np.array([10, 500], "u4"))
    queue.launch(program["k"], 1, 2, p)
    print(int(p.get(queue=queue)[0]))
"""


@pytest.mark.long
def test_too_deep_is_printed(device):
    if device.info.kind != "cpu":
        pytest.skip("GPUs have a stack")
    done = subprocess.run([sys.executable, "-c", TOO_DEEP], capture_output=True, text=True, timeout=100, check=True)
    assert "calls of itself are open" in done.stdout
    assert done.stdout.splitlines()[-1].strip().isdigit()
