"""Memory that kernels allocate."""

import numpy as np
import pytest

pytestmark = [pytest.mark.executes, pytest.mark.needs("a compiler of its own", "SPIR-V", "atomics on 64 bits")]

SOURCE = """
struct Shape { int id; __device__ virtual float area() = 0; __device__ virtual ~Shape() { id = -1; } };
struct Square : Shape {
    float a;
    __device__ Square(float a) : a(a) {}
    __device__ float area() override { return a * a; }
};
extern "C" __global__ void make(Shape** shapes, int** arrays) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, n = i % 40 + 1;
    shapes[i] = new Square(i);
    arrays[i] = i % 2 ? (int*)malloc(n * sizeof(int)) : new int[n];
    for (int k = 0; k < n; k++) arrays[i][k] = i;
}
extern "C" __global__ void use(Shape** shapes, int** arrays, float* x) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, n = i % 40 + 1;
    x[i] = shapes[i]->area();
    for (int k = 0; k < n; k++) x[i] += arrays[i][k] == i ? 0 : 1000;
    delete shapes[i];
    if (i % 2) free(arrays[i]); else delete[] arrays[i];
}
extern "C" __global__ void fill(int* count) {
    free(nullptr);
    int* none;
    if (malloc((size_t)1 << 40) || cudaMalloc(&none, (size_t)1 << 40) != cudaErrorMemoryAllocation)
        atomicAdd(count, 1000000);
    if (cudaMalloc(&none, 100) != cudaSuccess || cudaFree(none) != cudaSuccess) atomicAdd(count, 1000000);
    while (char* room = (char*)malloc(4000)) { room[3999] = 1; atomicAdd(count, (size_t)room % 16 ? 1000 : 1); }
}
"""


def test_kernels_allocate_and_give_back(compiled, device):
    """Far more than the heap has, round by round; and at last all of it."""
    built = compiled(SOURCE)
    n = 512
    shapes, arrays, x = (device.zeros(n, dtype) for dtype in ("u8", "u8", "f4"))
    make, use = (built.program[name] for name in ("make", "use"))
    for _ in range(300):  # of about 50 KiB
        built.queue.launch(make, n // 64, 64, shapes, arrays)
        built.queue.launch(use, n // 64, 64, shapes, arrays, x)
    assert np.array_equal(x.get(queue=built.queue), np.arange(n, dtype="f4") ** 2)
    assert len(set(arrays.get(queue=built.queue))) == n
    count = np.zeros(1, "i4")
    built.run("fill", 1, 32, count)
    assert 1500 < count < 2048
