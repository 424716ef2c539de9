// The model of a device that executes nothing: what comes after what, and what is done.

#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace forebay_model {

typedef void (*Wake)(void *);
typedef int (*Interrupted)();

// A command. It is done as soon as all that it comes after is done. Only what it comes after refers to it, and its
// queue and events: so a node that is done keeps nothing, and one that nobody asks for any more is freed.
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
struct Kernel { std::vector<bool> set; };  // which arguments are
struct Wakes : std::vector<std::pair<Wake, void *>> {};  // to be called without the lock

struct Model {
    std::mutex lock;  // of everything
    std::condition_variable advanced;
};

inline Model &model() {
    static Model &only = *new Model();  // never destroyed: threads may still ask while the process ends
    return only;
}

// -- with the lock held

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

// -- the operations

// A command that comes after the queue's last one and after the events. `event`, if not NULL, gets a new one of it.
inline void submit_command(void *queue, uint32_t count, void **waits, void **event) {
    Wakes wakes;
    std::lock_guard<std::mutex> guard(model().lock);
    Link node = submit(*static_cast<Queue *>(queue), count, waits, wakes, nullptr, nullptr);
    if (event) *event = new Event{node};
}

inline void submit_hold(void *handle, uint32_t count, void **waits, Wake wake, void *data, void **gate) {
    Wakes wakes;
    {
        std::lock_guard<std::mutex> guard(model().lock);
        Queue &queue = *static_cast<Queue *>(handle);
        submit(queue, count, waits, wakes, wake, data);  // the arrival
        Link closed = std::make_shared<Node>(), held = std::make_shared<Node>();
        closed->before = 1;
        *gate = new Event{closed};  // before `wake`, whose thread may open it at once
        order(queue.last, held);
        order(closed, held);
        queue.last = held;
    }
    call(wakes);
}

inline void reach_gate(void *gate) {
    Wakes wakes;
    {
        std::lock_guard<std::mutex> guard(model().lock);
        Link node = static_cast<Event *>(gate)->node;
        if (!node->done) reach(node, wakes);
        model().advanced.notify_all();
    }
    call(wakes);
}

inline bool is_done(void *event) {
    std::lock_guard<std::mutex> guard(model().lock);
    return static_cast<Event *>(event)->node->done;
}

inline bool is_idle(void *queue) {
    std::lock_guard<std::mutex> guard(model().lock);
    const Link &last = static_cast<Queue *>(queue)->last;
    return !last || last->done;
}

// Blocks until what was submitted so far is done.
inline void wait_for_queue(void *queue) {
    std::unique_lock<std::mutex> guard(model().lock);
    Link last = static_cast<Queue *>(queue)->last;
    model().advanced.wait(guard, [&] { return !last || last->done; });
}

// Blocks until all are done. False when `interrupted` said yes before.
inline bool wait_for_events(uint32_t count, void **events, Interrupted interrupted) {
    std::unique_lock<std::mutex> guard(model().lock);
    std::vector<Link> nodes;  // an event may be released meanwhile
    for (uint32_t i = 0; i < count; i++) nodes.push_back(static_cast<Event *>(events[i])->node);
    for (const Link &node : nodes) {
        while (!node->done) {
            if (!interrupted) {
                model().advanced.wait(guard);
            } else if (model().advanced.wait_for(guard, std::chrono::milliseconds(10)) == std::cv_status::timeout) {
                guard.unlock();  // it runs signal handlers of Python, which may submit and open gates
                if (interrupted()) return false;
                guard.lock();
            }
        }
    }
    return true;
}

inline double time_between(void *first, void *second) {
    std::lock_guard<std::mutex> guard(model().lock);
    return double(static_cast<Event *>(second)->node->when - static_cast<Event *>(first)->node->when);
}

inline void *same_event(void *event) {
    std::lock_guard<std::mutex> guard(model().lock);
    return new Event{static_cast<Event *>(event)->node};
}

inline void forget_event(void *event) {
    std::lock_guard<std::mutex> guard(model().lock);
    delete static_cast<Event *>(event);
}

inline void forget_queue(void *queue) {
    std::lock_guard<std::mutex> guard(model().lock);
    delete static_cast<Queue *>(queue);
}

// -- kernel objects, which forebay uses under the lock of their queue

inline bool set_argument(void *kernel, uint32_t index) {
    std::vector<bool> &set = static_cast<Kernel *>(kernel)->set;
    if (index >= set.size()) return false;
    set[index] = true;
    return true;
}

inline bool all_set(void *kernel) {
    for (bool each : static_cast<Kernel *>(kernel)->set)
        if (!each) return false;
    return true;
}

}
