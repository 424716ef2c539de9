// CUDA's driver without a GPU: the functions of libcuda.so.1 that forebay calls. They check what they are given, and order
// it by standin_model.hpp.

#pragma once

#include "tests/drivers/cuda/standin_model.hpp"

#define EXPORTED extern "C" __attribute__((visibility("default"))) forebay_cuda::Result

using namespace forebay_standin;

template <class T, class V> Result answer(T *place, V value, Result result = OK) {
    *place = static_cast<T>(value);
    return result;
}

EXPORTED cuInit(unsigned) { return OK; }
EXPORTED cuDriverGetVersion(int *version) { return answer(version, 13000); }
EXPORTED cuDeviceGetCount(int *count) { return answer(count, devices()); }
EXPORTED cuDeviceTotalMem_v2(size_t *nbytes, int) { return answer(nbytes, MEMORY); }

EXPORTED cuDeviceGet(int *device, int ordinal) {
    return answer(device, ordinal, ordinal >= 0 && ordinal < devices() ? OK : refuse(INVALID_DEVICE));
}

EXPORTED cuDeviceGetName(char *name, int size, int) {
    std::strncpy(name, "Stand-in", size);
    return OK;
}

EXPORTED cuDeviceGetAttribute(int *value, int which, int) {
    static const std::map<int, int> known{
        {1, 1024}, {2, 1024}, {3, 1024}, {4, 64}, {5, 0x7fffffff}, {6, 65535}, {7, 65535}, {9, 65536}, {13, 1000000},
        {16, 2}, {18, 0}, {20, 0}, {33, 1}, {34, 0}, {38, 1 << 20}, {39, UNIT_ITEMS}, {50, 0}, {75, 9}, {76, 0}, {83, 1},
        {89, 1}, {97, SHARED_ROOM - 1024}, {106, UNIT_GROUPS}, {115, 1}, {125, 1},
    };
    auto found = known.find(which);
    return found == known.end() ? answer(value, 0, INVALID_VALUE) : answer(value, found->second);
}

EXPORTED cuDevicePrimaryCtxGetState(int, unsigned *flags, int *active) {
    *flags = 0;
    return answer(active, 0);
}

EXPORTED cuGetErrorName(Result code, const char **name) {
    static const std::map<Result, const char *> names{
        {OK, "CUDA_SUCCESS"}, {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"}, {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
        {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE"}, {INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE"},
        {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT"}, {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE"},
        {NOT_FOUND, "CUDA_ERROR_NOT_FOUND"}, {NOT_READY, "CUDA_ERROR_NOT_READY"},
        {ALREADY_REGISTERED, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"}, {719, "CUDA_ERROR_LAUNCH_FAILED"},
    };
    auto found = names.find(code);
    return found == names.end() ? INVALID_VALUE : answer(name, found->second);
}

EXPORTED cuDevicePrimaryCtxRetain(void **handle, int32_t device) {
    return device < 0 || device >= devices() ? refuse(INVALID_DEVICE) : answer(handle, &context[device]);
}

EXPORTED cuCtxPushCurrent_v2(void *handle) {
    if (handle < &context[0] || handle >= &context[MOST_DEVICES]) return refuse(INVALID_CONTEXT);
    contexts.push_back(handle);
    return OK;
}

EXPORTED cuDeviceCanAccessPeer(int32_t *can, int32_t device, int32_t peer) {
    return answer(can, device != peer, device < devices() && peer < devices() ? OK : refuse(INVALID_DEVICE));
}

EXPORTED cuCtxEnablePeerAccess(void *peer, uint32_t) {
    Entered entered;
    wait_until_idle(entered);
    return contexts.empty() || contexts.back() == peer ? refuse(INVALID_CONTEXT) : OK;
}

EXPORTED cuCtxPopCurrent_v2(void **handle) {
    if (contexts.empty()) return refuse(INVALID_CONTEXT);
    *handle = contexts.back();
    contexts.pop_back();
    return OK;
}

EXPORTED cuCtxGetCurrent(void **handle) {  // for the tests: forebay does not call it
    return answer(handle, contexts.empty() ? nullptr : contexts.back());
}

EXPORTED cuCtxGetStreamPriorityRange(int32_t *least, int32_t *greatest) {
    *least = 0;
    return answer(greatest, -5, contexts.empty() ? refuse(INVALID_CONTEXT) : OK);
}

// Streams

EXPORTED cuStreamCreateWithPriority(void **stream, uint32_t, int32_t) {
    Entered entered;
    if (contexts.empty()) return refuse(INVALID_CONTEXT);
    size_t count = driver().streams.size() + 1;
    if (count > driver().most_streams && !driver().words.empty()) return refuse(INVALID_VALUE);  // it waits for all words
    driver().most_streams = std::max(driver().most_streams, count);
    *stream = new Queue();
    driver().streams[*stream] = {driver().streams_made++ % connections()};
    return OK;
}

EXPORTED cuStreamDestroy_v2(void *stream) {
    Entered entered;
    if (!driver().streams.erase(stream)) return refuse(INVALID_HANDLE);
    delete static_cast<Queue *>(stream);
    return OK;
}

EXPORTED cuStreamGetCtx(void *stream, void **handle) {
    Entered entered;
    return answer(handle, &context[0], stream_of(stream) ? OK : refuse(INVALID_HANDLE));
}

EXPORTED cuStreamQuery(void *stream) {
    Entered entered;
    driver().stream_queries++;
    Queue *queue = stream_of(stream);
    if (!queue) return refuse(INVALID_HANDLE);
    return !queue->last || queue->last->done ? OK : NOT_READY;
}

EXPORTED cuStreamSynchronize(void *stream) {
    Result result;
    while ((result = cuStreamQuery(stream)) == NOT_READY) std::this_thread::yield();
    return result;
}

EXPORTED cuStreamWaitEvent(void *stream, void *event, uint32_t) {
    Entered entered;
    Queue *queue = stream_of(stream);
    if (!queue || !driver().events.count(event)) return refuse(INVALID_HANDLE);
    submit(*queue, 1, &event, entered.wakes, nullptr, nullptr);
    return OK;
}

EXPORTED cuStreamWaitValue32_v2(void *stream, uint64_t address, uint32_t value, uint32_t flags) {
    Entered entered;
    Queue *queue = stream_of(stream);
    if (!queue) return refuse(INVALID_HANDLE);
    if (flags != 1 || !has(address, 4)) return refuse(INVALID_VALUE);
    Link before = queue->last, closed = std::make_shared<Node>(), held = std::make_shared<Node>();
    closed->before = 1;
    order(before, held);
    order(closed, held);
    queue->last = held;
    auto found = driver().streams.find(stream);
    bool after_function = found != driver().streams.end() && std::exchange(found->second.has_function, false);
    driver().words.push_back({(std::atomic<uint32_t> *) address, value, before, closed, after_function});
    if (after_function) {
        bool after_graph = std::exchange(found->second.has_graph, false);
        take_room(*queue, after_graph ? FUNCTION_ROOM_AFTER_GRAPH : FUNCTION_ROOM, true);
    }
    need_thread();
    return OK;
}

EXPORTED cuLaunchHostFunc(void *stream, void (*function)(void *), void *data) {
    Entered entered;
    Queue *queue = stream_of(stream);
    if (!queue) return refuse(INVALID_HANDLE);
    Link returned = std::make_shared<Node>(), after = std::make_shared<Node>();
    returned->before = 1;
    submit(*queue, 0, nullptr, entered.wakes, note_arrival, new HostCall{function, data, returned});
    order(queue->last, after);
    order(returned, after);
    queue->last = after;
    auto found = driver().streams.find(stream);
    if (found != driver().streams.end()) found->second.has_function = true;
    need_thread();
    return OK;
}

EXPORTED cuLaunchKernel(void *function, uint32_t x, uint32_t y, uint32_t z, uint32_t block_x, uint32_t block_y,
                        uint32_t block_z, uint32_t, void *stream, void **values, void **) {
    Entered entered;
    if (!driver().functions.count(function)) return refuse(INVALID_HANDLE);
    if (!fits(static_cast<Function *>(function), x, y, z, block_x, block_y, block_z, values))
        return refuse(INVALID_VALUE);
    return submit_to(entered, stream);
}

EXPORTED cuMemcpyAsync(uint64_t to, uint64_t source, size_t nbytes, void *stream) {
    Entered entered;
    return has(to, nbytes) && has(source, nbytes) ? submit_to(entered, stream) : refuse(INVALID_VALUE);
}

inline Result fill(uint64_t to, size_t nbytes, void *stream) {
    Entered entered;
    return has(to, nbytes) ? submit_to(entered, stream) : refuse(INVALID_VALUE);
}

EXPORTED cuMemsetD8Async(uint64_t to, unsigned char, size_t n, void *stream) { return fill(to, n, stream); }
EXPORTED cuMemsetD16Async(uint64_t to, uint16_t, size_t n, void *stream) { return fill(to, 2 * n, stream); }
EXPORTED cuMemsetD32Async(uint64_t to, uint32_t, size_t n, void *stream) { return fill(to, 4 * n, stream); }

EXPORTED cuMemPrefetchAsync_v2(uint64_t address, size_t nbytes, forebay_cuda::Location to, uint32_t, void *stream) {
    Entered entered;
    bool fits = has(address, nbytes) && (to.type == 1 || to.type == 2) && to.id == 0;
    return fits ? submit_to(entered, stream) : refuse(INVALID_VALUE);
}

// Events

EXPORTED cuEventCreate(void **event, uint32_t) {
    Entered entered;
    if (contexts.empty()) return refuse(INVALID_CONTEXT);
    driver().events.insert(*event = new Event());
    return OK;
}

EXPORTED cuEventDestroy_v2(void *event) {
    Entered entered;
    if (!driver().events.erase(event)) return refuse(INVALID_HANDLE);
    delete static_cast<Event *>(event);
    return OK;
}

EXPORTED cuEventRecord(void *event, void *stream) {
    Entered entered;
    Queue *queue = stream_of(stream);
    if (!queue || !driver().events.count(event)) return refuse(INVALID_HANDLE);
    static_cast<Event *>(event)->node = submit(*queue, 0, nullptr, entered.wakes, nullptr, nullptr);
    return OK;
}

EXPORTED cuEventQuery(void *event) {
    Entered entered;
    driver().queries++;
    if (!driver().events.count(event)) return refuse(INVALID_HANDLE);
    const Link &node = static_cast<Event *>(event)->node;
    return !node || node->done ? OK : NOT_READY;
}

EXPORTED cuEventElapsedTime_v2(float *milliseconds, void *first, void *second) {
    Entered entered;
    if (!driver().events.count(first) || !driver().events.count(second)) return refuse(INVALID_HANDLE);
    const Link &from = static_cast<Event *>(first)->node, &to = static_cast<Event *>(second)->node;
    if (!from || !to) return refuse(INVALID_HANDLE);
    if (!from->done || !to->done) return NOT_READY;
    *milliseconds = float(to->when - from->when) / 1e6f;
    return OK;
}

// Graphs

EXPORTED cuGraphCreate(void **graph, uint32_t) {
    Entered entered;
    driver().graphs.insert(*graph = new Graph());
    return OK;
}

EXPORTED cuGraphAddKernelNode_v2(void **node, void *graph, void *const *after, size_t count, const KernelNode *params) {
    Entered entered;
    return fits(params) ? add(node, graph, after, count, static_cast<Function *>(params->function))
                        : refuse(INVALID_VALUE);
}

EXPORTED cuGraphAddMemcpyNode(void **node, void *graph, void *const *after, size_t count, const CopyNode *params,
                              void *of) {
    Entered entered;
    bool same = params->source.type == 4 && params->to.type == 4 && params->width && params->height && params->depth;
    return same && is_context(of) ? add(node, graph, after, count, nullptr) : refuse(INVALID_VALUE);
}

EXPORTED cuGraphAddMemsetNode(void **node, void *graph, void *const *after, size_t count, const FillNode *params,
                              void *of) {
    Entered entered;
    bool fits = has(params->to, params->width * params->size) && is_context(of);
    return fits ? add(node, graph, after, count, nullptr) : refuse(INVALID_VALUE);
}

EXPORTED cuGraphInstantiateWithFlags(void **executable, void *graph, unsigned long long) {
    Entered entered;
    if (contexts.empty()) return refuse(INVALID_CONTEXT);
    if (!driver().graphs.count(graph)) return refuse(INVALID_HANDLE);
    wait_until_idle(entered);  // the driver does so for some graphs only
    std::vector<GraphNode *> &nodes = static_cast<Graph *>(graph)->nodes;
    driver().executables.insert(*executable = new Executable{{nodes.begin(), nodes.end()}, nullptr});
    return OK;
}

EXPORTED cuGraphExecKernelNodeSetParams_v2(void *executable, void *node, const KernelNode *params) {
    Entered entered;
    if (contexts.empty()) return refuse(INVALID_CONTEXT);
    GraphNode *changed = static_cast<GraphNode *>(node);
    if (!driver().executables.count(executable)) return refuse(INVALID_HANDLE);
    if (!static_cast<Executable *>(executable)->nodes.count(changed) || !changed->is_kernel || !fits(params))
        return refuse(INVALID_VALUE);
    return OK;
}

// Comes after the launch before of the same executable, whatever the stream was.
EXPORTED cuGraphLaunch(void *executable, void *stream) {
    Entered entered;
    Queue *queue = stream_of(stream);
    if (!queue || !driver().executables.count(executable)) return refuse(INVALID_HANDLE);
    Executable *launched = static_cast<Executable *>(executable);
    Event before{launched->last};
    void *waits[] = {&before};
    launched->last = submit(*queue, 1, waits, entered.wakes, nullptr, nullptr);
    auto found = driver().streams.find(stream);
    if (found != driver().streams.end()) found->second.has_graph = true;
    take_room(*queue);
    return OK;
}

EXPORTED cuGraphExecDestroy(void *executable) {
    Entered entered;
    wait_until_idle(entered);
    if (!driver().executables.erase(executable)) return refuse(INVALID_HANDLE);
    delete static_cast<Executable *>(executable);
    return OK;
}

EXPORTED cuGraphDestroy(void *graph) {
    Entered entered;
    if (!driver().graphs.erase(graph)) return refuse(INVALID_HANDLE);
    for (GraphNode *node : static_cast<Graph *>(graph)->nodes) delete node;
    delete static_cast<Graph *>(graph);
    return OK;
}

// Memory

EXPORTED cuMemPoolCreate(void **pool, const PoolProps *props) {
    return answer(pool, new Pool{props->allocation == 2 || props->location.type != 2});
}

EXPORTED cuMemPoolDestroy(void *pool) {
    delete static_cast<Pool *>(pool);
    return OK;
}

EXPORTED cuMemPoolSetAttribute(void *, uint32_t, void *) { return OK; }
EXPORTED cuMemPoolSetAccess(void *, const AccessDesc *, size_t) { return OK; }
EXPORTED cuMemPoolTrimTo(void *, size_t) { return OK; }

EXPORTED cuMemAllocFromPoolAsync(uint64_t *address, size_t nbytes, void *pool, void *stream) {
    Entered entered;
    if (!stream_of(stream)) return refuse(INVALID_HANDLE);
    return allocate(address, nbytes, static_cast<Pool *>(pool)->allocation);
}

EXPORTED cuMemFreeAsync(uint64_t address, void *stream) {
    Entered entered;
    return stream_of(stream) ? give_back(address) : refuse(INVALID_HANDLE);
}

EXPORTED cuMemHostAlloc(void **address, size_t nbytes, uint32_t) {
    Entered entered;
    if (contexts.empty()) return refuse(INVALID_CONTEXT);
    return allocate((uint64_t *) address, nbytes, false);
}

EXPORTED cuMemAlloc_v2(uint64_t *address, size_t nbytes) {
    Entered entered;
    return contexts.empty() ? refuse(INVALID_CONTEXT) : allocate(address, nbytes, true);
}

EXPORTED cuMemFree_v2(uint64_t address) {
    Entered entered;
    wait_until_idle(entered);
    return contexts.empty() ? refuse(INVALID_CONTEXT) : give_back(address);
}

EXPORTED cuMemGetAddressRange_v2(uint64_t *base, size_t *nbytes, uint64_t address) {
    Entered entered;
    auto found = driver().blocks.find(address);
    if (found == driver().blocks.end()) return refuse(INVALID_VALUE);
    *base = address;
    *nbytes = found->second.nbytes;
    return OK;
}

// What other processes share. A handle tells the process, and how large the memory is.

EXPORTED cuIpcGetMemHandle(IpcHandle *handle, uint64_t address) {
    Entered entered;
    auto found = driver().blocks.find(address);
    if (found == driver().blocks.end()) return refuse(INVALID_VALUE);
    *handle = shared_handle(MEMORY_HANDLE, address, found->second.nbytes);
    return contexts.empty() ? refuse(INVALID_CONTEXT) : OK;
}

EXPORTED cuIpcOpenMemHandle_v2(uint64_t *address, IpcHandle handle, uint32_t flags) {
    Entered entered;
    SharedHandle read = read_handle(handle);
    if (contexts.empty() || flags != 1) return refuse(INVALID_VALUE);
    if (read.kind != MEMORY_HANDLE) return INVALID_VALUE;
    if (read.process == getpid()) return INVALID_CONTEXT;
    Import &import = driver().imports[{read.process, read.address}];
    if (!import.opened) {
        Result result = allocate(&import.address, read.nbytes, true);
        if (result) return result;
    }
    import.opened++;
    return answer(address, import.address);
}

EXPORTED cuIpcCloseMemHandle(uint64_t address) {
    Entered entered;
    wait_until_idle(entered);
    for (auto &each : driver().imports) {
        if (each.second.opened && each.second.address == address)
            return --each.second.opened ? OK : give_back(address);
    }
    return refuse(INVALID_VALUE);
}

EXPORTED cuIpcGetEventHandle(IpcHandle *handle, void *event) {
    Entered entered;
    if (contexts.empty() || !driver().events.count(event)) return refuse(INVALID_HANDLE);
    return answer(handle, shared_handle(EVENT_HANDLE, (uint64_t) event, 0));
}

// Nothing that the other process does is seen: the event is one that was never recorded.
EXPORTED cuIpcOpenEventHandle(void **event, IpcHandle handle) {
    SharedHandle read = read_handle(handle);
    if (read.kind != EVENT_HANDLE) return INVALID_HANDLE;
    return read.process == getpid() ? INVALID_CONTEXT : cuEventCreate(event, 0);
}

EXPORTED cuMemHostRegister_v2(uint64_t address, size_t nbytes, uint32_t flags) {
    Entered entered;
    if (contexts.empty()) return refuse(INVALID_CONTEXT);
    if (flags != 3 || !address || !nbytes) return refuse(INVALID_VALUE);
    if (driver().blocks.count(address)) return ALREADY_REGISTERED;
    driver().blocks[address] = {nbytes, false, true};
    return OK;
}

EXPORTED cuMemHostUnregister(uint64_t address) {
    Entered entered;
    wait_until_idle(entered);
    auto found = driver().blocks.find(address);
    if (found == driver().blocks.end() || !found->second.registered) return refuse(INVALID_VALUE);
    driver().blocks.erase(found);
    return OK;
}

// Modules

EXPORTED cuModuleLoadDataEx(void **module, const void *image, uint32_t, uint32_t *, void **) {
    Entered entered;
    if (contexts.empty()) return refuse(INVALID_CONTEXT);
    wait_until_idle(entered);
    auto made = std::make_unique<Module>();
    if (!read(static_cast<const char *>(image), *made)) return INVALID_IMAGE;
    driver().modules.insert(*module = made.release());
    return OK;
}

EXPORTED cuModuleUnload(void *handle) {
    Entered entered;
    wait_until_idle(entered);
    if (!driver().modules.erase(handle)) return refuse(INVALID_HANDLE);
    Module *module = static_cast<Module *>(handle);
    for (auto &each : module->variables) give_back(each.second);
    for (auto &each : module->functions) {
        driver().functions.erase(each.second);
        delete static_cast<Function *>(each.second);
    }
    delete module;
    return OK;
}

EXPORTED cuModuleGetFunction(void **function, void *handle, const char *name) {
    Entered entered;
    if (!driver().modules.count(handle)) return refuse(INVALID_HANDLE);
    Module *module = static_cast<Module *>(handle);
    auto found = module->kernels.find(name);
    if (found == module->kernels.end()) return NOT_FOUND;
    void *&made = module->functions[name];
    if (!made) made = new Function{found->second};
    driver().functions.insert(made);
    return answer(function, made);
}

EXPORTED cuModuleGetGlobal_v2(uint64_t *address, size_t *nbytes, void *handle, const char *name) {
    Entered entered;
    if (!driver().modules.count(handle)) return refuse(INVALID_HANDLE);
    Module *module = static_cast<Module *>(handle);
    auto found = module->variables.find(name);
    if (found == module->variables.end()) return NOT_FOUND;
    *address = found->second;
    *nbytes = driver().blocks[*address].nbytes;
    return OK;
}

EXPORTED cuFuncGetAttribute(int32_t *value, uint32_t attribute, void *function) {
    Entered entered;
    return answer(value, attribute == 0 ? 1024 : 0, driver().functions.count(function) ? OK : refuse(INVALID_HANDLE));
}

EXPORTED cuFuncSetAttribute(void *function, uint32_t, int32_t) {
    Entered entered;
    return driver().functions.count(function) ? OK : refuse(INVALID_HANDLE);
}

EXPORTED cuOccupancyMaxActiveBlocksPerMultiprocessor(int32_t *blocks, void *function, int32_t items, size_t shared) {
    Entered entered;
    const int32_t room = int32_t(SHARED_ROOM / (shared + 1024));
    *blocks = std::min({UNIT_GROUPS, UNIT_ITEMS / items, room});
    return driver().functions.count(function) ? OK : refuse(INVALID_HANDLE);
}
