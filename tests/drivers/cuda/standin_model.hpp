// What CUDA's driver has, without a GPU, over a model of what comes after what: it orders what it is given and executes nothing.
//
// As measured on a GPU: a stream looks at the word that it waits for when it gets there; a host function is called by a
// thread of the driver, and the stream waits for its return; a module is loaded and unloaded when nothing runs, so never
// while a stream waits; nodes of graphs are added and changed with a context current.

#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include "queues/cuda/calls.hpp"

namespace forebay_standin {

using namespace forebay_cuda;

typedef void (*Wake)(void *);

// -- the model

// A command. It is done as soon as all that it comes after is done. Only what it comes after refers to it, and its
// queue and events: so a node that is done keeps nothing, and one without references is freed.
struct Node {
    size_t before = 0;  // how many it comes after that are not done; a closed gate counts as one
    bool done = false;
    int64_t when = 0;   // nanoseconds of a steady clock, once it is done
    std::vector<std::shared_ptr<Node>> after;
    Wake wake = nullptr;
    void *data = nullptr;
};

typedef std::shared_ptr<Node> Link;

struct Event { Link node; };
struct Queue { Link last; };
struct Wakes : std::vector<std::pair<Wake, void *>> {};  // to be called without the lock

inline void order(const Link &first, const Link &then) {
    if (!first || first->done) return;
    first->after.push_back(then);
    then->before++;
}

// All that is before it is done, so it is, and so may be what comes after. A loop, as chains can be long.
inline void reach(const Link &node, Wakes &wakes) {
    std::vector<Link> reached{node};
    while (!reached.empty()) {
        Link each = std::move(reached.back());
        reached.pop_back();
        each->done = true;
        each->when = std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
        if (each->wake) wakes.emplace_back(each->wake, each->data);
        for (Link &next : each->after)
            if (--next->before == 0) reached.push_back(std::move(next));
        each->after.clear();
        each->after.shrink_to_fit();
    }
}

inline Link submit(Queue &queue, uint32_t count, void **waits, Wakes &wakes, Wake wake, void *data) {
    Link node = std::make_shared<Node>();
    node->wake = wake;
    node->data = data;
    order(queue.last, node);
    for (uint32_t i = 0; i < count; i++) order(static_cast<Event *>(waits[i])->node, node);
    queue.last = node;
    if (node->before == 0) reach(node, wakes);
    return node;
}

inline void call(const Wakes &wakes) {
    for (auto &each : wakes) each.first(each.second);
}

// -- the driver

enum : Result {
    OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_DEVICE = 101, INVALID_IMAGE = 200, INVALID_CONTEXT = 201,
    INVALID_HANDLE = 400, NOT_FOUND = 500, NOT_READY = 600, ALREADY_REGISTERED = 712
};

constexpr size_t MEMORY = size_t(8) << 30;
constexpr size_t HOST = size_t(64) << 30;  // what it pins at most
constexpr size_t LARGE = 1 << 16;  // bytes of an allocation that is mapped
constexpr size_t ALIGNMENT = 512;
constexpr int32_t MOST_DEVICES = 2;
// A channel has room for so many commands in flight, on all of its streams. A stream also blocks behind 54 host functions
// of its own, or 27 with a graph between each two: docs/cuda.md. The wait for a word after each is in this.
constexpr size_t CHANNEL_ROOM = 1020, FUNCTION_ROOM = 19, FUNCTION_ROOM_AFTER_GRAPH = 38;
constexpr int32_t UNIT_ITEMS = 2048, UNIT_GROUPS = 32;  // of a multiprocessor at once
constexpr int32_t SHARED_ROOM = 228 << 10;  // bytes of a multiprocessor, of which each group takes 1,024 for the driver

struct Module {
    std::map<std::string, size_t> kernels;  // the number of parameters
    std::map<std::string, uint64_t> variables;
    std::map<std::string, void *> functions;  // those that were asked for
};
struct Function { size_t parameters; };
struct Pool { uint32_t allocation; };
struct Block { size_t nbytes; bool on_device; bool registered = false; };
struct Import { uint64_t address = 0; int opened = 0; };
enum HandleKind : uint32_t { MEMORY_HANDLE = 0x6d656d, EVENT_HANDLE = 0x657674 };
struct SharedHandle { uint32_t kind; int32_t process; uint64_t address, nbytes; };
struct Word { std::atomic<uint32_t> *address; uint32_t value; Link before, closed; bool after_function; };
struct HostCall { void (*function)(void *); void *data; Link returned; };
struct GraphNode { Function *function; bool is_kernel; };
struct Graph { std::vector<GraphNode *> nodes; };
struct Executable { std::set<GraphNode *> nodes; Link last; };
struct Stream {
    size_t channel;
    bool has_graph = false;  // launched since the last host function
    bool has_function = false;  // of which the word is to come
};
struct Taken { Link command; Queue *stream; size_t room; bool is_function; };

struct Driver {
    std::mutex lock;  // of everything
    std::vector<Word> words;  // that streams wait for, or will
    std::deque<HostCall> calls;  // of streams that have got there
    std::condition_variable changed;  // for the thread
    bool has_thread = false;
    std::unordered_map<void *, Stream> streams;
    std::unordered_set<void *> events, modules, functions, graphs, executables;
    size_t streams_made = 0, most_streams = 0;  // ever; at once
    std::map<size_t, std::vector<Taken>> channels;  // what may be in flight in each one
    std::map<uint64_t, Block> blocks;
    std::map<std::pair<int32_t, uint64_t>, Import> imports;  // by process and its address
    size_t used = 0, pinned = 0;  // bytes
    uint64_t faults = 0;  // calls that were refused for what they were given
    uint64_t queries = 0, stream_queries = 0;  // of events, of streams
};

inline Driver &driver() {
    static Driver &only = *new Driver();  // never destroyed: threads may still ask while the process ends
    return only;
}

inline thread_local std::vector<void *> contexts;  // the current one is the last
inline char context[MOST_DEVICES];  // their handles

inline bool is_context(void *handle) { return handle >= &context[0] && handle < &context[MOST_DEVICES]; }

inline int32_t devices() {
    const char *several = std::getenv("FOREBAY_STANDIN_DEVICES");
    return several ? std::atoi(several) : 1;
}

inline Result refuse(Result code) {
    driver().faults++;
    return code;
}

inline IpcHandle shared_handle(HandleKind kind, uint64_t address, uint64_t nbytes) {
    IpcHandle handle;
    SharedHandle written{kind, int32_t(getpid()), address, nbytes};
    std::memcpy(handle.bytes, &written, sizeof written);
    return handle;
}

inline SharedHandle read_handle(const IpcHandle &handle) {
    SharedHandle read;
    std::memcpy(&read, handle.bytes, sizeof read);
    return read;
}

// -- with the lock held

inline void note_arrival(void *data) {  // a node's `wake`
    HostCall *call = static_cast<HostCall *>(data);
    {
        std::lock_guard<std::mutex> guard(driver().lock);
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
        if (there && words[i].address->load(std::memory_order_acquire) == words[i].value) {
            Link closed = std::move(words[i].closed);
            words.erase(words.begin() + i);
            reach(closed, wakes);
            i = 0;  // it may have let another stream get to a word
        } else {
            i++;
        }
    }
}

inline void run() {  // the thread of the driver
    std::unique_lock<std::mutex> guard(driver().lock);
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
    std::unique_lock<std::mutex> guard{driver().lock};

    Entered() { look(wakes); }
    ~Entered() {
        guard.unlock();
        call(wakes);
    }
};

// 0, 1 and 2 are the default streams of the current context.
inline Queue *stream_of(void *handle) {
    static Queue *defaults = new Queue[3];  // never destroyed
    if (uintptr_t(handle) < 3) return contexts.empty() ? nullptr : &defaults[uintptr_t(handle)];
    return driver().streams.count(handle) ? static_cast<Queue *>(handle) : nullptr;
}

inline size_t connections() {
    const char *chosen = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    return chosen ? std::min(std::max(std::atoi(chosen), 1), 32) : 32;
}

// A gate is a word that a stream waits for without a host function, which would be who writes it.
inline bool is_any_gate_closed() {
    for (Word &each : driver().words)
        if (!each.after_function) return true;
    return false;
}

// The driver would block in a full channel. That is wrong for who has locked the interpreter; and as long as a host
// function is in the channel, for anybody: the function can want the queue that the caller has locked. Unless a gate
// is closed: then the caller need not wait for functions alone. Here nobody blocks.
inline void take_room(Queue &queue, size_t room = 1, bool is_function = false) {
    auto found = driver().streams.find(&queue);
    if (found == driver().streams.end() || queue.last->done) return;
    std::vector<Taken> &taken = driver().channels[found->second.channel];
    size_t own = 0;
    bool has_function = false;
    if (taken.size() * FUNCTION_ROOM_AFTER_GRAPH >= CHANNEL_ROOM) {
        auto is_done = [](Taken &each) { return each.command->done; };
        taken.erase(std::remove_if(taken.begin(), taken.end(), is_done), taken.end());
        for (Taken &each : taken) {
            if (each.stream == &queue) own += each.room;
            has_function = has_function || each.is_function;
        }
    }
    bool blocks = std::max(own, taken.size()) >= CHANNEL_ROOM;
    if (blocks && (PyGILState_Check() || (has_function && !is_any_gate_closed()))) driver().faults++;
    taken.push_back({queue.last, &queue, room, is_function});
}

inline Result submit_to(Entered &entered, void *stream) {
    Queue *queue = stream_of(stream);
    if (!queue) return refuse(INVALID_HANDLE);
    submit(*queue, 0, nullptr, entered.wakes, nullptr, nullptr);
    take_room(*queue);
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

// -- for the tests

struct Counts { size_t events, modules, blocks; uint64_t faults, queries, stream_queries; };

inline Counts counts() {
    Entered entered;
    Driver &d = driver();
    return {d.events.size(), d.modules.size(), d.blocks.size(), d.faults, d.queries, d.stream_queries};
}

}
