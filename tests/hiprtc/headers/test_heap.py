"""Memory that kernels allocate."""

import numpy as np
import pytest

from tests.helpers.device_data import device_data

pytestmark = pytest.mark.needs("a compiler of its own", "SPIR-V", "atomics on 64 bits")

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
    assert np.array_equal(device_data(x.get(queue=built.queue)), np.arange(n, dtype="f4") ** 2)
    assert device_data(len(set(arrays.get(queue=built.queue)))) == n
    count = np.zeros(1, "i4")
    built.run("fill", 1, 32, count)
    assert 1500 < device_data(count) < 2048


HEAP = (8 << 20) - 16
"""Bytes of the largest block."""

EDGES = """
extern "C" __global__ void one(size_t nbytes, char** block) { *block = (char*)malloc(nbytes); }
extern "C" __global__ void give_back(char** blocks, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { free(blocks[i]); blocks[i] = nullptr; }
}
extern "C" __global__ void many(size_t nbytes, char** blocks, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && (blocks[i] = (char*)malloc(nbytes)) != nullptr)
        for (size_t k = 0; k < nbytes; k++) blocks[i][k] = (char)i;
}
extern "C" __global__ void check(size_t nbytes, char** blocks, int n, int* wrong) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && blocks[i])
        for (size_t k = 0; k < nbytes; k++) if (blocks[i][k] != (char)i) atomicAdd(wrong, 1);
}
extern "C" __global__ void churn(int rounds, int seed, int* wrong) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x, x = seed + i * 2654435761u;
    for (int round = 0; round < rounds; round++) {
        x = x * 1664525 + 1013904223;
        unsigned n = x >> 26;
        unsigned* block = (unsigned*)malloc(n * sizeof(unsigned));
        if (!block) { atomicAdd(wrong, 1); continue; }
        for (unsigned k = 0; k < n; k++) block[k] = x + k;
        for (unsigned k = 0; k < n; k++) if (block[k] != x + k) atomicAdd(wrong, 1);
        free(block);
    }
}
"""


class Heap:
    """The kernels above, on a queue."""

    def __init__(self, device, program, queue):
        self.device, self.program, self.queue = device, program, queue

    def one(self, nbytes):
        """The address of a block; 0 if there is no room."""
        block = self.device.zeros(1, "u8")
        self.queue.launch(self.program["one"], 1, 1, nbytes, block)
        return int(block.get(queue=self.queue)[0])

    def many(self, nbytes, count):
        blocks = self.device.zeros(count, "u8")
        self.queue.launch(self.program["many"], (count + 31) // 32, 32, nbytes, blocks, count)
        return blocks

    def give_back(self, blocks):
        self.queue.launch(self.program["give_back"], (blocks.size + 31) // 32, 32, blocks, blocks.size)

    def check(self, nbytes, blocks):
        wrong = self.device.zeros(1, "i4")
        self.queue.launch(self.program["check"], (blocks.size + 31) // 32, 32, nbytes, blocks, blocks.size, wrong)
        assert device_data(wrong.get(queue=self.queue)[0]) == 0


@pytest.fixture
def heap(compiled, device, queue):
    return Heap(device, compiled(EDGES).program, queue)


def test_the_largest_block_and_more(heap):
    block = heap.one(HEAP)
    assert device_data(block) % 16 == 0
    assert device_data(block) != 0
    assert device_data(heap.one(0)) == 0
    assert device_data(heap.one(1)) == 0
    heap.give_back(heap.device.array(np.array([block], "u8")))
    for nbytes in (HEAP + 1, HEAP + 15, HEAP + 16, HEAP + 17, 2**32, 2**63, 2**64 - 1):
        assert device_data(heap.one(nbytes)) == 0
    assert device_data(heap.one(HEAP)) == block


def test_a_large_block_that_was_given_back_becomes_small_ones(heap):
    block = heap.one(HEAP)
    heap.give_back(heap.device.array(np.array([block], "u8")))
    blocks = heap.many(48, 10_000)
    heap.check(48, blocks)
    addresses = np.sort(blocks.get(queue=heap.queue))
    assert (np.diff(device_data(addresses.astype("i8"))) >= 64).all()
    assert device_data(addresses[0]) >= block
    assert device_data(addresses[-1]) + 48 <= block + HEAP
    heap.give_back(blocks)
    assert device_data(heap.one(HEAP)) == 0  # parts are never joined


def test_many_queues_at_once(heap, device):
    """More than 10^5 blocks, and far more bytes than the heap has."""
    queues = [device.queue() for _ in range(8)]
    wrong = [device.zeros(1, "i4") for _ in queues]
    device.finish()
    for turn in range(4):
        for queue, count in zip(queues, wrong, strict=True):
            queue.launch(heap.program["churn"], 2, 64, 32, turn, count)
    device.finish()
    assert device_data([int(count.get()[0]) for count in wrong]) == [0] * len(queues)


def test_allocated_on_one_queue_and_given_back_on_another(heap, device):
    one, other = Heap(device, heap.program, device.queue()), Heap(device, heap.program, device.queue())
    waiting = []
    for turn in range(200):
        blocks = one.many(100, 300)
        other.queue.wait(one.queue)
        other.check(100, blocks)
        waiting.append(blocks)
        if turn % 3 == 2:  # meanwhile the first one allocates
            while waiting:
                other.give_back(waiting.pop())
    device.finish()
    assert device_data(heap.one(1 << 20)) != 0


def test_each_program_has_a_heap(compiled, device, queue):
    heaps = [Heap(device, compiled(EDGES).program, queue) for _ in range(2)]
    first, second = (heap.one(HEAP) for heap in heaps)
    assert device_data(first) > 0
    assert device_data(second) > 0
    assert abs(device_data(first) - second) > HEAP


@pytest.mark.long
def test_programs_that_end_with_blocks_allocated(compiled, device):
    """Their heaps go with them: 400 MiB in all."""
    with open("/proc/self/statm") as file:
        for turn in range(60):
            if turn == 10:
                file.seek(0)
                before = int(file.read().split()[1])
            with compiled(EDGES).program as program:
                heap = Heap(device, program, device.queue())
                heap.many(1000, 4000).close()
                heap.queue.finish()
        file.seek(0)
        assert (int(file.read().split()[1]) - before) * 4096 < 100 << 20
