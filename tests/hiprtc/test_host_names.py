"""What code of the host beside kernels names: HIP's numbers and functions, and threads of the standard library."""

import pytest

from forebay.hip.facts import FACTS

pytestmark = pytest.mark.needs("a compiler of its own", "SPIR-V")

KERNEL = '\nextern "C" __global__ void kernel(int* x) { x[0] = 1; }'
HOST = r"""
#include <condition_variable>
#include <future>
#include <mutex>
#include <shared_mutex>
#include <thread>
class Pool {
    std::mutex mutex;
    std::condition_variable changed;
    std::thread thread;
    std::shared_timed_mutex shared;
    bool ready = false;

  public:
    void start() {
        thread = std::thread([this] { std::lock_guard<std::mutex> held(mutex); ready = true; changed.notify_all(); });
        std::unique_lock<std::mutex> held(mutex);
        changed.wait(held, [this] { return ready; });
        auto made = std::async(std::launch::async, [](int a) { return a + 1; }, 3);
        std::promise<int> promise;
        promise.set_value(made.get());
        std::packaged_task<int(int)> task([](int a) { return a; });
        std::future<int> later = task.get_future();
        task(3);
        std::scoped_lock both(mutex, shared);
        std::this_thread::yield();
        thread.join();
    }
};
int main() {
    static Pool pool;
    pool.start();
    struct Own { int a; } own;
    std::packaged_task<void()> task([&own] { own.a = 1; });
    hipLaunchHostFunc(hipStreamPerThread, [](void*) {}, &own);
    hipEventCreateWithFlags(nullptr, hipEventDisableTiming | hipEventInterprocess);
    return hipDeviceEnablePeerAccess(1, 0) == hipErrorPeerAccessAlreadyEnabled;
}
"""


def test_numbers_are_those_of_forebay_hip(compiled):
    kinds = {name: each["members"] for kind in ("IntEnum", "IntFlag") for name, each in FACTS[kind].items()}
    numbers = {
        name: value
        for kind in (kinds, {"": FACTS["constants"]})
        for each in kind.values()
        for name, value in each.items()
    }
    wanted = {name: value for name, value in numbers.items() if not name.startswith("HIPRTC")}
    checks = " ".join(f"static_assert((long long){name} == {value}ll);" for name, value in wanted.items())
    assert len(wanted) > 600
    assert compiled(KERNEL.replace("x[0] = 1;", checks)).made.log == ""


SIZES = {
    "mutex": 40,
    "shared_timed_mutex": 56,
    "condition_variable": 48,
    "thread": 8,
    "future<int>": 16,
    "promise<int>": 24,
    "packaged_task<int(int)>": 16,
}


def test_classes_with_threads_are_as_large_as_the_host_has_them(compiled):
    checks = " ".join(f"static_assert(sizeof(std::{name}) == {nbytes});" for name, nbytes in SIZES.items())
    compiled(HOST + KERNEL.replace("x[0] = 1;", checks))  # libstdc++'s, on x86-64


@pytest.mark.parametrize("standard", ["17", "20"])
def test_code_of_the_host_with_threads_is_read(compiled, standard):
    assert compiled(HOST + KERNEL, [f"-std=c++{standard}"]).made.log == ""


def test_types_of_cuda_are_there_and_may_be_declared_again(compiled):
    again = "#include <cuda.h>\nCUresult of(CUdeviceptr, CUstream);\nstruct CUstream_st;\nusing cudaStream_t = CUstream_st*;\ntypedef struct CUevent_st* cudaEvent_t;\n"
    modes = "cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;"
    assert (
        compiled(f"{again}int main() {{ {modes} return mode == cudaStreamCaptureModeGlobal; }}{KERNEL}").made.log == ""
    )
