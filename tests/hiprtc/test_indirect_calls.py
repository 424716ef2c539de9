"""Calls through pointers to functions and of virtual functions."""

import numpy as np
import pytest

pytestmark = [pytest.mark.executes, pytest.mark.needs("a compiler of its own", "a compiler of HIP C++")]

SOURCE = """
struct Pair { float a; double b; float c[3]; };
typedef float (*Op)(float, float);
typedef Pair (*Make)(const float*, int);
typedef void (*Change)(float&);
__device__ float add(float a, float b) { return a + b; }
__device__ float multiply(float a, float b) { return a * b; }
template <int N> __device__ float scaled(float a, float b) { return N * a + b; }
__device__ Pair make(const float* x, int i) { return {x[i], 2.0 * x[i], {0, 0, -x[i]}}; }
__device__ void negate(float& x) { x = -x; }
__device__ Op ops[] = {add, multiply, scaled<3>};
__device__ Op kept = multiply;
struct Table { int n; Op first; };
struct Shape {
    int id = 1;
    __device__ virtual float area(float by) const = 0;
    __device__ virtual float sides() const { return 0; }
    __device__ virtual ~Shape() {}
};
struct Square : Shape {
    float a;
    __device__ Square(float a) : a(a) {}
    __device__ float area(float by) const override { return by * a * a; }
    __device__ float sides() const override { return 4; }
};
struct Circle final : Shape {
    float r;
    __device__ Circle(float r) : r(r) {}
    __device__ float area(float by) const override { return by * 3 * r * r; }
};
__device__ __attribute__((noinline)) float through(Op op, float a, float b) { return op ? op(a, b) : -1; }
extern "C" __global__ void by_pointer(float* x, const int* which, Op given, Table table) {
    int i = threadIdx.x, n = which[i];
    Make maker = n ? make : (Make) nullptr;
    Change change = n == 2 ? negate : [](float& x) { x += 1; };
    x[i] = through(n < 3 ? ops[n] : nullptr, x[i], 3) + 100 * given(1, 2) + 1000 * through(table.first, 3, 4);
    if (maker) x[i] += maker(x, i).c[2] * 2;
    change(x[i]);
}
extern "C" __global__ void by_object(float* x, const int* which) {
    int i = threadIdx.x;
    Square square(x[i]);
    Circle circle(x[i]);
    const Shape* shape = which[i] % 2 ? (const Shape*)&square : &circle;
    x[i] = shape->area(2) + shape->sides();
}
extern "C" __global__ void ignore(Op given, int* x) { x[0] = given ? 1 : 2; }
extern "C" __global__ void choose(Op* at) { *at = ops[0]; }
"""
WHICH = (np.arange(32) % 4).astype("i4")
X = np.arange(32, dtype="f4")


def test_pointers_to_functions_are_called(compiled):
    """One from a table, one that the host read from a variable and passes, one in a structure."""
    built = compiled(SOURCE)
    kept = built.variable("kept", "u8").get()[0]
    assert kept
    chosen = np.zeros(1, "u8")
    built.run("choose", 1, 1, chosen)
    assert chosen[0] not in (0, kept)
    table = np.array([(5, chosen[0])], np.dtype([("n", "i4"), ("first", "u8")], align=True))[0]
    given = np.zeros(1, "i4")
    built.run("ignore", 1, 1, kept, given)
    assert given == 1
    x = X.copy()
    built.run("by_pointer", 1, 32, x, WHICH.copy(), kept, table)
    expected = np.choose(WHICH, [X + 3, X * 3, 3 * X + 3, np.full(32, -1.0)]) + 100 * 2 + 1000 * 7
    expected = np.where(WHICH, -expected, expected)
    assert np.array_equal(x, np.where(WHICH == 2, -expected, expected + 1))


def test_virtual_functions_are_called(compiled):
    x = X.copy()
    compiled(SOURCE).run("by_object", 1, 32, x, WHICH.copy())
    assert np.array_equal(x, np.where(WHICH % 2, 2 * X * X + 4, 6 * X * X))
