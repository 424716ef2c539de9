// CUDA's driver without a GPU: the functions of libcuda.so.1 that forebay calls, over the model of ../model.hpp. They
// check what they are given, order it, and execute nothing.
//
// As measured on a GPU: a stream looks at the word that it waits for when it gets there; a host function is called by a
// thread of the driver, and the stream waits for its return; a module is loaded and unloaded when nothing runs, so never
// while a stream waits; nodes of graphs are added and changed with a context current.

#pragma once

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>

#include <sys/mman.h>

#include "queues/drivers/cuda/calls.hpp"
#include "tests/drivers/model.hpp"

namespace forebay_standin {

using namespace forebay_cuda;
using namespace forebay_model;

enum : Result {
    OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_DEVICE = 101, INVALID_IMAGE = 200, INVALID_CONTEXT = 201,
    INVALID_HANDLE = 400, NOT_FOUND = 500, NOT_READY = 600
};

constexpr size_t MEMORY = size_t(8) << 30;
constexpr size_t HOST = size_t(64) << 30;  // what it pins at most
constexpr size_t LARGE = 1 << 16;  // bytes of an allocation that is mapped
constexpr size_t ALIGNMENT = 512;
constexpr int32_t DEVICES = 1;

struct Module {
    std::map<std::string, size_t> kernels;  // the number of parameters
    std::map<std::string, uint64_t> variables;
    std::map<std::string, void *> functions;  // those that were asked for
};
struct Function { Module *module; size_t parameters; };
struct Pool { uint32_t allocation; };
struct Block { size_t nbytes; bool on_device; };
struct Word { volatile uint32_t *address; uint32_t value; Link before, closed; };
struct HostCall { void (*function)(void *); void *data; Link returned; };
struct GraphNode { Function *function; bool is_kernel; };
struct Graph { std::vector<GraphNode *> nodes; };
struct Executable { std::set<GraphNode *> nodes; Link last; };

// Guarded by the model's lock, like the model.
struct Driver {
    std::vector<Word> words;  // that streams wait for, or will
    std::deque<HostCall> calls;  // of streams that have got there
    std::condition_variable changed;  // for the thread
    bool has_thread = false;
    std::unordered_set<void *> streams, events, modules, functions, graphs, executables, nodes;
    std::map<uint64_t, Block> blocks;
    size_t used = 0, pinned = 0;  // bytes
    uint64_t faults = 0;  // calls that were refused for what they were given
};

inline Driver &driver() {
    static Driver &only = *new Driver();  // never destroyed: threads may still ask while the process ends
    return only;
}

inline thread_local std::vector<void *> contexts;  // the current one is the last
inline char context[DEVICES];  // their handles

inline Result refuse(Result code) {
    driver().faults++;
    return code;
}

// -- with the lock held

inline void note_arrival(void *data) {  // the model's `wake`
    HostCall *call = static_cast<HostCall *>(data);
    {
        std::lock_guard<std::mutex> guard(model().lock);
        driver().calls.push_back(*call);
        driver().changed.notify_all();
    }
    delete call;
}

// Streams that wait for words look at them. What arrives at a host function stays in `wakes`.
inline void look(Wakes &wakes) {
    std::vector<Word> &words = driver().words;
    for (size_t i = 0; i < words.size();) {
        bool there = !words[i].before || words[i].before->done;
        if (there && *words[i].address == words[i].value) {
            Link closed = std::move(words[i].closed);
            words.erase(words.begin() + i);
            reach(closed, wakes);
            model().advanced.notify_all();
            i = 0;  // it may have let another stream get to a word
        } else {
            i++;
        }
    }
}

inline void run() {  // the thread of the driver
    std::unique_lock<std::mutex> guard(model().lock);
    for (;;) {
        Wakes wakes;
        look(wakes);
        while (!driver().calls.empty()) {
            HostCall next = driver().calls.front();
            driver().calls.pop_front();
            guard.unlock();
            next.function(next.data);
            guard.lock();
            reach(next.returned, wakes);
            model().advanced.notify_all();
        }
        guard.unlock();
        call(wakes);
        guard.lock();
        if (!driver().calls.empty()) continue;
        if (driver().words.empty()) driver().changed.wait(guard);
        else driver().changed.wait_for(guard, std::chrono::microseconds(200));
    }
}

inline void need_thread() {
    if (!driver().has_thread) std::thread(run).detach();
    driver().has_thread = true;
    driver().changed.notify_all();
}

// What every call does first: it holds the lock, and streams have looked at their words.
struct Entered {
    Wakes wakes;
    std::unique_lock<std::mutex> guard{model().lock};

    Entered() { look(wakes); }
    ~Entered() {
        guard.unlock();
        call(wakes);
    }
};

inline Queue *stream_of(void *handle) {
    return driver().streams.count(handle) ? static_cast<Queue *>(handle) : nullptr;
}

inline Result submit_to(Entered &entered, void *stream) {
    Queue *queue = stream_of(stream);
    if (!queue) return refuse(INVALID_HANDLE);
    submit(*queue, 0, nullptr, entered.wakes, nullptr, nullptr);
    return OK;
}

inline bool has(uint64_t address, size_t nbytes) {
    auto after = driver().blocks.upper_bound(address);
    if (after == driver().blocks.begin()) return false;
    auto found = std::prev(after);
    return address + nbytes <= found->first + found->second.nbytes;
}

inline void *take(size_t nbytes) {
    void *memory = nullptr;
    if (nbytes < LARGE) {
        if (posix_memalign(&memory, ALIGNMENT, nbytes)) return nullptr;
        return std::memset(memory, 0, nbytes);
    }
    memory = mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? nullptr : memory;
}

inline Result allocate(uint64_t *address, size_t nbytes, bool on_device) {
    size_t &used = on_device ? driver().used : driver().pinned;
    void *memory = nbytes <= (on_device ? MEMORY : HOST) - used ? take(nbytes) : nullptr;
    if (!memory) return OUT_OF_MEMORY;
    used += nbytes;
    *address = uint64_t(memory);
    driver().blocks[*address] = {nbytes, on_device};
    return OK;
}

inline Result give_back(uint64_t address) {
    auto found = driver().blocks.find(address);
    if (found == driver().blocks.end()) return refuse(INVALID_VALUE);
    Block block = found->second;
    (block.on_device ? driver().used : driver().pinned) -= block.nbytes;
    driver().blocks.erase(found);
    if (block.nbytes < LARGE) std::free((void *) address);
    else munmap((void *) address, block.nbytes);
    return OK;
}

// Blocks until nothing runs. Streams that wait for a word run; a host function may open it.
inline void wait_until_idle(Entered &entered) {
    while (!driver().words.empty() || !driver().calls.empty()) {
        Wakes wakes;
        std::swap(wakes, entered.wakes);
        entered.guard.unlock();
        call(wakes);
        std::this_thread::sleep_for(std::chrono::microseconds(200));
        entered.guard.lock();
        look(entered.wakes);
    }
}

// -- PTX: what it declares

inline bool is_word(char letter) { return std::isalnum((unsigned char) letter) || std::strchr("_$%", letter); }

inline std::string word_at(const std::string &text, size_t &at) {
    while (at < text.size() && !is_word(text[at])) at++;
    size_t begin = at;
    while (at < text.size() && is_word(text[at])) at++;
    return text.substr(begin, at - begin);
}

// `.entry name ( .param …, .param … )`, and `.visible .global .align 4 .b8 name[12]` or `.u32 name`.
inline bool read(const std::string &text, Module &module) {
    if (text.find(".version") == std::string::npos || text.find(".target") == std::string::npos) return false;
    for (size_t at = text.find(".entry"); at != std::string::npos; at = text.find(".entry", at)) {
        at += 6;
        std::string name = word_at(text, at);
        size_t body = text.find_first_of("{;", at), open = text.find('(', at), parameters = 0;
        if (name.empty() || body == std::string::npos) return false;
        if (open < body)
            for (size_t next = open; (next = text.find(".param", next)) < body; next += 6) parameters++;
        module.kernels[name] = parameters;
        at = body;
    }
    for (size_t at = text.find(".visible .global"); at != std::string::npos; at = text.find(".visible .global", at)) {
        size_t end = text.find_first_of(";=", at += 16), type = text.rfind('.', end), size = 1;
        if (end == std::string::npos || type < at) return false;
        size_t bits = std::strtoul(text.c_str() + type + 2, nullptr, 10);
        at = type + 1;
        word_at(text, at);
        std::string name = word_at(text, at);
        size_t bracket = text.find('[', at);
        if (bracket < end) size = std::strtoul(text.c_str() + bracket + 1, nullptr, 10);
        if (allocate(&module.variables[name], std::max<size_t>(bits / 8, 1) * size, true)) return false;
        at = end;
    }
    return true;
}

inline bool fits(Function *function, uint32_t x, uint32_t y, uint32_t z, uint32_t block_x, uint32_t block_y,
                 uint32_t block_z, void **values) {
    uint64_t block = uint64_t(block_x) * block_y * block_z;
    if (!x || !y || !z || !block || block > 1024 || y > 65535 || z > 65535) return false;
    for (size_t i = 0; i < function->parameters; i++)
        if (!values || !values[i]) return false;
    return true;
}

inline bool fits(const KernelNode *params) {
    return driver().functions.count(params->function)
        && fits(static_cast<Function *>(params->function), params->groups[0], params->groups[1], params->groups[2],
                params->block[0], params->block[1], params->block[2], params->values);
}

inline Result add(void **made, void *graph, void *const *after, size_t count, Function *function) {
    if (contexts.empty()) return refuse(INVALID_CONTEXT);
    if (!driver().graphs.count(graph)) return refuse(INVALID_HANDLE);
    std::vector<GraphNode *> &nodes = static_cast<Graph *>(graph)->nodes;
    for (size_t i = 0; i < count; i++)
        if (std::find(nodes.begin(), nodes.end(), after[i]) == nodes.end()) return refuse(INVALID_VALUE);
    nodes.push_back(new GraphNode{function, function != nullptr});
    *made = nodes.back();
    return OK;
}

}

// -- the functions, as the library exports them

#define EXPORTED extern "C" __attribute__((visibility("default"))) forebay_cuda::Result

using namespace forebay_standin;

EXPORTED cuInit(unsigned) { return OK; }

EXPORTED cuDriverGetVersion(int *version) {
    *version = 13000;
    return OK;
}

EXPORTED cuDeviceGetCount(int *count) {
    *count = DEVICES;
    return OK;
}

EXPORTED cuDeviceGet(int *device, int ordinal) {
    *device = ordinal;
    return ordinal >= 0 && ordinal < DEVICES ? OK : refuse(INVALID_DEVICE);
}

EXPORTED cuDeviceGetName(char *name, int size, int) {
    std::strncpy(name, "Stand-in", size);
    return OK;
}

EXPORTED cuDeviceTotalMem_v2(size_t *nbytes, int) {
    *nbytes = MEMORY;
    return OK;
}

EXPORTED cuDeviceGetAttribute(int *value, int which, int) {
    static const std::map<int, int> known{
        {1, 1024}, {2, 1024}, {3, 1024}, {4, 64}, {5, 0x7fffffff}, {6, 65535}, {7, 65535}, {9, 65536}, {13, 1000000},
        {16, 2}, {18, 0}, {20, 0}, {33, 1}, {34, 0}, {38, 1 << 20}, {50, 0}, {75, 9}, {76, 0}, {83, 1}, {97, 232448},
        {115, 1},
    };
    auto found = known.find(which);
    *value = found == known.end() ? 0 : found->second;
    return found == known.end() ? INVALID_VALUE : OK;
}

EXPORTED cuDevicePrimaryCtxGetState(int, unsigned *flags, int *active) {
    *flags = 0;
    *active = 0;
    return OK;
}

EXPORTED cuGetErrorName(Result code, const char **name) {
    static const std::map<Result, const char *> names{
        {OK, "CUDA_SUCCESS"}, {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"}, {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
        {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE"}, {INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE"},
        {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT"}, {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE"},
        {NOT_FOUND, "CUDA_ERROR_NOT_FOUND"}, {NOT_READY, "CUDA_ERROR_NOT_READY"},
        {719, "CUDA_ERROR_LAUNCH_FAILED"},
    };
    auto found = names.find(code);
    if (found == names.end()) return INVALID_VALUE;
    *name = found->second;
    return OK;
}

EXPORTED cuDevicePrimaryCtxRetain(void **handle, int32_t device) {
    if (device < 0 || device >= DEVICES) return refuse(INVALID_DEVICE);
    *handle = &context[device];
    return OK;
}

EXPORTED cuCtxPushCurrent_v2(void *handle) {
    if (handle < &context[0] || handle >= &context[DEVICES]) return refuse(INVALID_CONTEXT);
    contexts.push_back(handle);
    return OK;
}

EXPORTED cuCtxPopCurrent_v2(void **handle) {
    if (contexts.empty()) return refuse(INVALID_CONTEXT);
    *handle = contexts.back();
    contexts.pop_back();
    return OK;
}

EXPORTED cuCtxGetStreamPriorityRange(int32_t *least, int32_t *greatest) {
    *least = 0;
    *greatest = -5;
    return contexts.empty() ? refuse(INVALID_CONTEXT) : OK;
}

// Streams

EXPORTED cuStreamCreateWithPriority(void **stream, uint32_t, int32_t) {
    Entered entered;
    if (contexts.empty()) return refuse(INVALID_CONTEXT);
    *stream = new Queue();
    driver().streams.insert(*stream);
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
    *handle = &context[0];
    return stream_of(stream) ? OK : refuse(INVALID_HANDLE);
}

EXPORTED cuStreamQuery(void *stream) {
    Entered entered;
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
    driver().words.push_back({(volatile uint32_t *) address, value, before, closed});
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

EXPORTED cuMemsetD8Async(uint64_t to, unsigned char, size_t count, void *stream) {
    Entered entered;
    return has(to, count) ? submit_to(entered, stream) : refuse(INVALID_VALUE);
}

EXPORTED cuMemsetD16Async(uint64_t to, uint16_t, size_t count, void *stream) {
    Entered entered;
    return has(to, 2 * count) ? submit_to(entered, stream) : refuse(INVALID_VALUE);
}

EXPORTED cuMemsetD32Async(uint64_t to, uint32_t, size_t count, void *stream) {
    Entered entered;
    return has(to, 4 * count) ? submit_to(entered, stream) : refuse(INVALID_VALUE);
}

// Events

EXPORTED cuEventCreate(void **event, uint32_t) {
    Entered entered;
    if (contexts.empty()) return refuse(INVALID_CONTEXT);
    *event = new Event();
    driver().events.insert(*event);
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
    *graph = new Graph();
    driver().graphs.insert(*graph);
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
    return same && of == &context[0] ? add(node, graph, after, count, nullptr) : refuse(INVALID_VALUE);
}

EXPORTED cuGraphAddMemsetNode(void **node, void *graph, void *const *after, size_t count, const FillNode *params,
                              void *of) {
    Entered entered;
    bool fits = has(params->to, params->width * params->size) && of == &context[0];
    return fits ? add(node, graph, after, count, nullptr) : refuse(INVALID_VALUE);
}

EXPORTED cuGraphInstantiateWithFlags(void **executable, void *graph, unsigned long long) {
    Entered entered;
    if (contexts.empty()) return refuse(INVALID_CONTEXT);
    if (!driver().graphs.count(graph)) return refuse(INVALID_HANDLE);
    std::vector<GraphNode *> &nodes = static_cast<Graph *>(graph)->nodes;
    *executable = new Executable{{nodes.begin(), nodes.end()}, nullptr};
    driver().executables.insert(*executable);
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
    return OK;
}

EXPORTED cuGraphExecDestroy(void *executable) {
    Entered entered;
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
    *pool = new Pool{props->allocation == 2 || props->location.type != 2};
    return OK;
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

// Modules

EXPORTED cuModuleLoadDataEx(void **module, const void *image, uint32_t, uint32_t *, void **) {
    Entered entered;
    if (contexts.empty()) return refuse(INVALID_CONTEXT);
    wait_until_idle(entered);
    const char *text = static_cast<const char *>(image);
    auto made = std::make_unique<Module>();
    if (!std::memcmp(text, "\x7f" "ELF", 4) || !read(text, *made)) return INVALID_IMAGE;
    *module = made.release();
    driver().modules.insert(*module);
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
    if (!made) made = new Function{module, found->second};
    driver().functions.insert(made);
    *function = made;
    return OK;
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
    *value = attribute == 0 ? 1024 : 0;
    return driver().functions.count(function) ? OK : refuse(INVALID_HANDLE);
}

EXPORTED cuFuncSetAttribute(void *function, uint32_t, int32_t) {
    Entered entered;
    return driver().functions.count(function) ? OK : refuse(INVALID_HANDLE);
}

EXPORTED cuOccupancyMaxActiveBlocksPerMultiprocessor(int32_t *blocks, void *function, int32_t, size_t) {
    Entered entered;
    *blocks = 2;
    return driver().functions.count(function) ? OK : refuse(INVALID_HANDLE);
}

// -- for the tests

namespace forebay_standin {

struct Counts { size_t streams, events, modules, graphs, executables, blocks, words; uint64_t faults; };

inline Counts counts() {
    Entered entered;
    Driver &d = driver();
    return {d.streams.size(), d.events.size(), d.modules.size(), d.graphs.size(), d.executables.size(),
            d.blocks.size(), d.words.size(), d.faults};
}

}
