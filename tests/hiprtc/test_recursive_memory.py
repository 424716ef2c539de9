"""Functions that call themselves with pointers: sorts and trees."""

import numpy as np
import pytest

from forebay.spirv.recursion import recursive

pytestmark = [pytest.mark.executes(reads="total"), pytest.mark.needs("a compiler of its own", "SPIR-V")]

N = 60
VALUES = (np.arange(N) * 37 % 61).astype("i4")

SORTS = """
#include <algorithm>
__device__ void swap_values(int& a, int& b) { int c = a; a = b; b = c; }
__device__ void quick(int* first, int* last, bool down) {
    if (last - first < 2) return;
    int pivot = first[(last - first) / 2], *a = first, *b = last - 1;
    while (a <= b) {
        while (down ? *a > pivot : *a < pivot) ++a;
        while (down ? *b < pivot : *b > pivot) --b;
        if (a <= b) swap_values(*a++, *b--);
    }
    quick(first, b + 1, down);
    quick(a, last, down);
}
struct Less { bool down; __device__ bool operator()(int a, int b) const { return down ? a > b : a < b; } };
extern "C" __global__ void in_memory(int* x, int n) { quick(x, x + n, true); }
extern "C" __global__ void in_shared(int* x, int n) {
    __shared__ int room[64];
    for (int i = 0; i < n; ++i) room[i] = x[i];
    quick(room, room + n, false);
    for (int i = 0; i < n; ++i) x[i] = room[i];
}
extern "C" __global__ void in_thread(int* x, int n) {
    int room[64];
    for (int i = 0; i < n; ++i) room[i] = x[i];
    quick(room, room + n, true);
    quick(x, x + n, false);
    for (int i = 0; i < n; ++i) x[i] = x[i] == room[n - 1 - i] ? x[i] : -1;
}
extern "C" __global__ void by_library(int* x, int n) { std::sort(x, x + n); }
extern "C" __global__ void by_less(int* x, int n) { std::sort(x, x + n, std::less<int>()); }
extern "C" __global__ void by_lambda(int* x, int n) { std::sort(x, x + n, [](int a, int b) { return a > b; }); }
extern "C" __global__ void by_object(int* x, int n) { std::sort(x, x + n, Less{true}); }
"""
DOWN = {"in_memory", "by_lambda", "by_object"}


@pytest.mark.parametrize(
    "name", ["in_memory", "in_shared", "in_thread", "by_library", "by_less", "by_lambda", "by_object"]
)
def test_sorts(device, queue, name):
    x = device.array(VALUES)
    queue.launch(device.program(SORTS)[name], 1, 1, x, N)
    expected = np.sort(VALUES)
    assert x.get(queue=queue).tolist() == (expected[::-1] if name in DOWN else expected).tolist()


TREES = """
struct Node { Node* left; Node* right; int value; };
struct Total { int sum; int depth; };
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
__device__ void even(const Node* root, Total& total, int depth);
__device__ void odd(const Node* root, Total& total, int depth) {
    if (!root) return;
    total.sum -= root->value;
    even(root->left, total, depth + 1);
    even(root->right, total, depth + 1);
}
__device__ void even(const Node* root, Total& total, int depth) {
    total.depth = total.depth > depth ? total.depth : depth;
    if (!root) return;
    total.sum += root->value;
    odd(root->left, total, depth + 1);
    odd(root->right, total, depth + 1);
}
template <class F> __device__ int visit(const Node* root, F& function) {
    return root ? function(root->value) + visit(root->left, function) + visit(root->right, function) : 0;
}
extern "C" __global__ void trees(Node* nodes, const int* values, int n, int* out) {
    Node* root = nullptr;
    for (int i = 0; i < n; ++i) {
        nodes[i] = {nullptr, nullptr, values[i]};
        root = insert(root, nodes + i);
    }
    Total total{0, 0};
    even(root, total, 0);
    int calls = 0;
    auto count = [&](int value) { ++calls; return value > 30; };
    out[0] = total.sum;
    out[1] = total.depth;
    out[2] = visit(root, count);
    out[3] = calls;
    out[4] = find(root, values[7]) - nodes;
    out[5] = find(root, 1000) == nullptr;
}
"""


def insert(tree, value):
    if tree is None:
        return [None, None, value]
    side = 0 if value < tree[2] else 1
    tree[side] = insert(tree[side], value)
    return tree


def alternating(tree, sign=1):
    return 0 if tree is None else sign * tree[2] + alternating(tree[0], -sign) + alternating(tree[1], -sign)


def test_trees(device, queue):
    nodes, values, out = device.zeros(24 * N, "u1"), device.array(VALUES), device.zeros(6, "i4")
    queue.launch(device.program(TREES)["trees"], 1, 1, nodes, values, N, out)
    tree = None
    for value in VALUES.tolist():
        tree = insert(tree, value)
    total, depth, above, calls, place, none = out.get(queue=queue).tolist()
    assert (total, above, calls, place, none) == (alternating(tree), int((VALUES > 30).sum()), N, 7, 1)
    assert 6 < depth <= N


def test_which_functions_are_recursive():
    calls = {1: [2, 3], 2: [2], 3: [4, 6], 4: [5], 5: [3, 7], 6: [7], 7: [], 8: [9], 9: [8]}
    bodies = {number: [[4 << 16 | 57, 0, 0, other] for other in others] for number, others in calls.items()}
    assert recursive(bodies) == {2, 3, 4, 5, 8, 9}
