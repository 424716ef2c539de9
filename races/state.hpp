// What the race checker knows of queues and memory, in the order that the program gives them. The GIL guards all of it.
// Nothing here runs Python code, so no other command comes between what one is judged by and what is noted of it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <iterator>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/ownership.hpp"
#include "core/vector_clock.hpp"

namespace forebay::races {

enum Flags : uint8_t {
    WRITES = 1,  // the use may write
    NOT_CONST = 2,  // which is known of nothing but a pointer that is not const
    DOUBTFUL = 4,  // whether there is such a use is unknown
    ATOMIC = 8,  // by atomic operations only
    GIVEN = 16,  // of memory that a launch was given, beside one that may use any
};

constexpr size_t MOST_USES = 128;  // of one piece of memory; the oldest are forgotten
constexpr size_t FIRST_SWEEP = 1024;  // pieces of memory

struct Counted {  // how each `Usage` begins
    std::atomic<int32_t> references;
};

// A record, or what a wait names: all that its queue was given before.
struct Point {
    std::atomic<int32_t> references{1};
    uint64_t queue, epoch;
    uint32_t line;
    Ref<Clock> past;

    Point(uint64_t queue, uint64_t epoch, uint32_t line, Ref<Clock> past)
        : queue(queue), epoch(epoch), line(line), past(std::move(past)) {}
    static void destroy(Point *point) { delete point; }
};

// Let what comes after `past` come after another clock, too. Returns whether that is new.
inline bool join(Ref<Clock> &past, const Clock *other) {
    if (covers(past, other)) return false;
    merge_clock(past, other);
    return true;
}

// Let the host know all of this as done. What any thread has waited for precedes what any thread submits later: locks of
// Python cannot be seen, and without this rule every threaded program would produce false positives.
inline void reach(const Clock *past) {
    std::vector<ClockEntry> entries;
    list_entries(past, entries);
    for (auto &entry : entries) raise_completed(entry.queue, entry.epoch);
}

inline void reach(const Point *point) {
    if (point) reach(point->past);
}

// A queue. Its epochs are the checker's own, because forebay's clocks drop what is done: `submitted` rises only where
// something may have come after it, so uses of one epoch merge; `completed` is what the host has waited for.
struct Order {
    Ref<Epochs> epochs;
    Order *null;  // the null queue of its context, which may be itself
    bool blocking, adopted;
    bool observed = false;  // something comes after its epoch, and not after what follows
    bool vague = false;  // what it comes after cannot all be seen
    size_t checking = 0, raising = 0;  // of a null queue: Devices that check its context, and those that want an error
    Ref<Clock> past;  // of its next command, but for the null queue's rules
    std::unordered_map<uint64_t, std::pair<uint64_t, uint32_t>> waited;  // the newest epoch of each queue, and its line

    Order(uint64_t id, Order *null, bool blocking, bool adopted)
        : epochs(new_epochs(id)), null(null ? null : this), blocking(blocking), adopted(adopted) {
        advance_submitted(epochs);
    }

    uint64_t id() const { return epochs->queue_id; }
    uint64_t epoch() const { return submitted_epoch(epochs); }

    void begin_epoch() {
        advance_submitted(epochs, observed);
        observed = false;
    }

    // What comes after an epoch comes after all of its past, so a queue with more of a past has a new epoch.
    void come_after(const Clock *other) {
        if (join(past, other)) begin_epoch();
    }

    // Let what comes after `before` come after all of this queue's commands.
    void precede(Ref<Clock> &before) {
        observed = true;
        join(before, past);
        if (clock_epoch(before, epochs) < epoch()) raise_clock(before, epochs, epoch());
    }

    Ref<Clock> moment() {
        Ref<Clock> past;
        precede(past);
        return past;
    }

    // A wait orders what it names, and no more. Where that is done already it is no command (HIP's and forebay's are
    // dropped then), so the null queue's rules hold for the queue's next command.
    void wait(const Point *point) {
        if (!point || point->queue == id()) return;  // it was recorded before checking began
        come_after(point->past);
        if (waited.size() >= MOST_USES) waited.clear();
        waited[point->queue] = std::max(waited[point->queue], std::pair(point->epoch, point->line));
    }
};

struct Side {  // one of the two uses of a conflict
    uint64_t queue = 0;  // its id; 0 for the host, and for nodes of a graph
    uint32_t what = 0, line = 0;  // numbers of the checker
    uint8_t flags = 0;
};

// What a command does with a piece of memory.
struct Use : Side {
    Counted *memory = nullptr;  // its `Usage`, by which it is known
    uint64_t begin = 0, end = 0;  // bytes
    uint64_t pitch = 0, width = 0;  // bytes between rows, and of a row; 0: all of it
    uint64_t choice = 0;  // which part the kernel may have chosen by its arguments; 0: none
    const Order *order = nullptr;  // these once it is noted
    uint64_t epoch = 0, number = 0;
    Ref<Clock> past;

    bool is_done() const { return epoch <= completed_epoch(order->epochs); }

    int strength() const {
        if (flags & DOUBTFUL) return flags & WRITES;
        return !(flags & WRITES) ? 2 : flags & NOT_CONST ? 3 : 4;
    }

    // Whether what races with an earlier use of the queue races with this one, too.
    bool stands_for(const Use &earlier) const {
        return queue == earlier.queue && begin <= earlier.begin && earlier.end <= end
            && (!pitch || (pitch == earlier.pitch && width == earlier.width && begin == earlier.begin))
            && (!choice || choice == earlier.choice) && (flags & WRITES) >= (earlier.flags & WRITES)
            && !(flags & ~earlier.flags & (ATOMIC | GIVEN)) && strength() >= earlier.strength();
    }

    // Whether uses of one epoch lie side by side: nothing comes after the one and not after the other.
    bool continues(const Use &earlier) const {
        return queue == earlier.queue && epoch == earlier.epoch && flags == earlier.flags && choice == earlier.choice
            && !pitch && !earlier.pitch && begin <= earlier.end && earlier.begin <= end && line == earlier.line
            && what == earlier.what;
    }
};

enum Overlap { APART, MAYBE, SHARED };

inline Overlap overlap(const Use &one, const Use &other) {
    if (one.end <= other.begin || other.end <= one.begin) return APART;
    if (!one.pitch && !other.pitch) return SHARED;
    if (!other.pitch || (one.pitch && one.begin > other.begin)) return overlap(other, one);
    if (!one.pitch) {
        uint64_t row = other.begin;
        if (one.begin >= row + other.width)
            row += ((one.begin - row - other.width) / other.pitch + 1) * other.pitch;
        return row < one.end && row < other.end ? SHARED : APART;
    }
    if (one.pitch != other.pitch) return MAYBE;
    uint64_t apart = (other.begin - one.begin) % one.pitch;
    return apart < one.width || apart + other.width > one.pitch ? SHARED : APART;
}

// Whether a kernel may have chosen a part by its arguments that the other use does not touch.
inline bool may_miss(const Use &first, const Use &second) {
    if (first.choice && second.choice) return first.choice != second.choice;
    if (!first.choice && !second.choice) return false;
    if (second.choice) return may_miss(second, first);
    return second.pitch || first.begin < second.begin || second.end < first.end;
}

struct Conflict {  // two uses of memory that nothing orders, of which one writes
    Side first, second;
    uint64_t context = 0;  // the id of the first one's null queue
    uint64_t begin, end;  // the bytes that both use
    uint64_t nbytes = 0;  // of the memory
    uint32_t made = 0;  // the line that made it
    uint32_t early = 0;  // the line of the newest point of the first one's queue that the second comes after
    bool chosen;  // a kernel may have chosen a part by its arguments
    bool host_between = false;  // a host function comes between, which may have told the program
    bool foreign = false;  // the first one's queue is another package's, which may have waited for it
    bool certain;

    Conflict(const Use &first, const Use &second)
        : first(first), second(second), begin(std::max(first.begin, second.begin)),
          end(std::min(first.end, second.end)), chosen(may_miss(first, second)) {
        certain = !(chosen || first.flags & second.flags & ATOMIC || (first.flags | second.flags) & DOUBTFUL
                    || overlap(first, second) != SHARED);
    }
};

// A command, from before it is submitted until it is settled.
struct Command {
    std::vector<Use> uses;
    Order *queue = nullptr;  // NULL: it was not announced, or is settled
    Ref<Clock> past;  // what precedes it
    Ref<Clock> tells;  // what a host function of it may tell the program
};

struct Memory {
    uint64_t nbytes = 0;
    uint32_t made = 0;
    std::vector<Use> uses;  // that the host does not know as done, the oldest first
    Ref<Clock> forgotten;  // what comes after uses that were forgotten because there are too many
    Ref<Clock> creation;  // each use of it comes after that
};

template <class List, class Condition> void remove_if(List &list, Condition condition) {
    list.erase(std::remove_if(list.begin(), list.end(), condition), list.end());
}

class State {
    std::unordered_map<uint64_t, Order> queues;
    std::unordered_map<Counted *, Memory> memories;
    Ref<Clock> told;  // everything that host functions come after
    Ref<Clock> running;  // what the host function that runs now comes after
    uint64_t last_number = 0;
    size_t sweep_at = FIRST_SWEEP;

    // What comes after a use comes after its past as well.
    static void add_past(Ref<Clock> &past, const Use &use) {
        join(past, use.past);
        raise_clock(past, use.order->epochs, use.epoch);
        if (use.order->epoch() == use.epoch) const_cast<Order *>(use.order)->observed = true;
    }

  public:
    Order *find(uint64_t id) {
        auto found = queues.find(id);
        return found == queues.end() ? nullptr : &found->second;
    }

    Order *add_queue(uint64_t id, Order *null, bool blocking, bool adopted) {
        return &queues.try_emplace(id, id, null, blocking, adopted).first->second;
    }

    Memory &memory_of(Counted *usage) {
        auto [place, is_new] = memories.try_emplace(usage);
        if (is_new) usage->references.fetch_add(1, std::memory_order_relaxed);
        return place->second;
    }

    // Begin a command of a queue, a record too: it comes after what the null queue's rules say, and on the host thread
    // after what the running function comes after.
    void begin(Command &command, Order *queue, bool on_host_thread) {
        command.queue = queue;
        command.past = queue->past;
        if (on_host_thread) join(command.past, running);
        if (queue->null == queue) {
            for (auto &[id, other] : queues)
                if (other.null == queue && &other != queue && other.blocking) other.precede(command.past);
        } else if (queue->blocking) {
            queue->null->precede(command.past);
        }
    }

    // The conflicts with earlier commands. Without a queue the host itself uses the memory, at once.
    std::vector<Conflict> judge(Command &command, uint32_t line) {
        std::vector<Conflict> found;
        for (Use &use : command.uses) {
            use.line = line;
            if (command.queue) {
                use.queue = command.queue->id();
                use.flags |= command.queue->vague ? DOUBTFUL : 0;
            }
            auto place = memories.find(use.memory);
            if (place == memories.end()) continue;
            for (const Use &first : place->second.uses) {
                if (first.queue == use.queue || !((first.flags | use.flags) & WRITES)
                    || first.flags & use.flags & GIVEN  // what they were given is judged by itself
                    || first.is_done() || overlap(first, use) == APART
                    || (command.queue && first.epoch <= clock_epoch(command.past, first.order->epochs)))
                    continue;
                Conflict conflict = between(first, use);
                conflict.context = first.order->null->id();
                conflict.foreign = first.order->adopted;
                conflict.host_between = first.epoch <= clock_epoch(told, first.order->epochs);
                conflict.certain = conflict.certain && !conflict.foreign && !conflict.host_between;
                if (command.queue) {
                    auto point = command.queue->waited.find(first.queue);
                    if (point != command.queue->waited.end()) conflict.early = point->second.second;
                }
                found.push_back(conflict);
            }
        }
        return found;
    }

    Conflict between(const Use &first, const Use &second) const {
        Conflict conflict(first, second);
        auto place = memories.find(first.memory);
        if (place != memories.end()) {
            conflict.nbytes = place->second.nbytes;
            conflict.made = place->second.made;
        }
        return conflict;
    }

    // Judge a command that has begun, and note its uses unless it will be refused for what was found.
    std::vector<Conflict> announce(Command &command, uint32_t line) {
        for (const Use &use : command.uses) {
            auto place = memories.find(use.memory);
            if (place != memories.end()) join(command.past, place->second.creation);
        }
        auto found = judge(command, line);
        Order *queue = command.queue;
        if (queue->null->raising && is_certain(found)) {
            command.queue = nullptr;
            return found;
        }
        queue->begin_epoch();
        for (Use &use : command.uses) {
            use.order = queue;
            use.epoch = queue->epoch();
            use.number = ++last_number;
            use.past = command.past;
            Memory &memory = memory_of(use.memory);
            memory.nbytes = std::max(memory.nbytes, use.end);
            if (memory.uses.size() >= MOST_USES) {
                auto end = memory.uses.begin() + MOST_USES / 4;
                for (auto old = memory.uses.begin(); old != end; ++old) add_past(memory.forgotten, *old);
                memory.uses.erase(memory.uses.begin(), end);
            }
            memory.uses.push_back(use);
        }
        return found;
    }

    static bool is_certain(const std::vector<Conflict> &found) {
        return std::any_of(found.begin(), found.end(), [](const Conflict &each) { return each.certain; });
    }

    // A host function of the command may tell the program all that precedes it. Returns that.
    Ref<Clock> tell(Command &command) {
        command.tells = command.past;
        command.queue->precede(command.tells);
        return command.tells;
    }

    void begin_function(const Ref<Clock> &past) {
        running = past;
        join(told, past);  // its command may not be settled yet
    }
    void end_function() { running.clear(); }

    // End a command. If it was submitted, its queue has its order, and its uses stand for earlier ones. If it was
    // refused, it leaves nothing.
    void settle(Command &command, bool submitted) {
        if (!command.queue) return;
        if (submitted) {
            command.queue->come_after(command.past);
            join(told, command.tells);
        }
        command.queue = nullptr;
        for (Use &use : command.uses) {
            auto place = memories.find(use.memory);
            if (place == memories.end()) continue;
            auto &uses = place->second.uses;
            remove_if(uses, [&](const Use &other) {
                if (other.number == use.number) return true;
                if (!submitted) return false;
                if (!use.continues(other)) return other.is_done() || use.stands_for(other);
                use.begin = std::min(use.begin, other.begin);
                use.end = std::max(use.end, other.end);
                return true;
            });
            if (submitted) uses.push_back(use);
        }
    }

    Ref<Point> record(Order *queue, bool on_host_thread, uint32_t line) {
        Command command;
        begin(command, queue, on_host_thread);
        settle(command, true);
        return Ref<Point>::adopt(new Point(queue->id(), queue->epoch(), line, queue->moment()));
    }

    // What comes after all uses of memory, or the writes among them. Take it before looking for the uses to wait for, and
    // join it when the wait was made: other threads may submit more meanwhile.
    Ref<Clock> past_of_uses(Counted *usage, bool writers_only) {
        Ref<Clock> past;
        auto place = memories.find(usage);
        if (place == memories.end()) return past;
        past = place->second.forgotten;
        for (const Use &use : place->second.uses)
            if (!writers_only || use.flags & WRITES) add_past(past, use);
        return past;
    }

    // A queue waits for a value in memory, which any other queue may write. What it does then is possible only.
    void wait_for_unseen(Order *queue) {
        for (auto &[id, other] : queues)
            if (other.null == queue->null && &other != queue) other.precede(queue->past);
        queue->begin_epoch();
        queue->vague = true;
    }

    // The host has waited for all queues of a context, or those that block.
    void reach_all(Order *null, bool blocking_only) {
        for (auto &[id, queue] : queues)
            if (queue.null == null && (queue.blocking || !blocking_only)) reach(queue.moment());
    }

    // Checking of a context ends, and all counts as ordered: what comes later is not seen.
    void forget_order(Order *null) {
        reach_all(null, false);
        for (auto &[id, queue] : queues) queue.vague = queue.vague && queue.null != null;
    }

    bool is_crowded() const { return queues.size() + memories.size() > sweep_at; }

    // Forget uses that the host knows as done, queues among `gone` that have no others, and memory that nothing else has.
    // The caller releases that memory.
    std::vector<Counted *> sweep(const std::vector<uint64_t> &gone) {
        std::vector<Counted *> unused;
        for (auto place = memories.begin(); place != memories.end();) {
            auto [usage, memory] = std::tie(place->first, place->second);
            remove_if(memory.uses, [](const Use &use) { return use.is_done(); });
            bool is_unused = usage->references.load(std::memory_order_relaxed) == 1;
            if (is_unused) unused.push_back(usage);
            place = is_unused ? memories.erase(place) : std::next(place);
        }
        for (uint64_t id : gone) {
            Order *queue = find(id);
            if (queue && queue->null != queue && is_empty(queue->epochs)) queues.erase(id);
        }
        sweep_at = std::max(FIRST_SWEEP, 2 * (queues.size() + memories.size()));
        return unused;
    }

    size_t memory_count() const { return memories.size(); }
    size_t queue_count() const { return queues.size(); }
    size_t use_count() const {
        size_t count = 0;
        for (auto &[usage, memory] : memories) count += memory.uses.size();
        return count;
    }
};

}  // namespace forebay::races
