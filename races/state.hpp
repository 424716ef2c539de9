// What the race checker knows of queues and memory, in the order that the program gives them. The GIL guards all of it.
// Nothing here runs Python code, so no other command comes between what one is judged by and what is noted of it.
#pragma once

#include <Python.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <iterator>
#include <map>
#include <unordered_map>
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

enum Others { ALONE, BLOCKING, ALL };  // whom the null queue speaks for beside itself

constexpr size_t MOST_USES = 128;  // of one piece of memory, and records of a queue; the oldest are forgotten
constexpr size_t FIRST_SWEEP = 1024;  // queues and pieces of memory
constexpr uint64_t PENDING = UINT64_MAX;  // the epoch of a use until its command is submitted: nothing comes after it

// Let what comes after `past` come after another clock, too. Returns whether that is new.
inline bool join(Ref<Clock> &past, const Clock *other) {
    if (covers(past, other)) return false;
    merge_clock(past, other);
    return true;
}

// The host knows all of this as done. What any thread has waited for precedes what any thread submits later: locks of
// Python cannot be seen, and without this rule every threaded program would produce false positives. Not inlined, as
// `settle` is not: the code around its calls would pay for it where nothing is checked.
[[gnu::noinline]] inline void reach(const Clock *past) {
    std::vector<ClockEntry> entries;
    list_entries(past, entries);
    for (auto &entry : entries) raise_completed(entry.queue, entry.epoch);
}

// A queue. Its epochs are the checker's own, because forebay's clocks drop what is done: `submitted` rises only where
// something may have come after it, so uses of one epoch merge; `completed` is what the host has waited for.
struct Order {
    Ref<Epochs> epochs;
    Order *null;  // the null queue of its context, which may be itself
    bool blocking, adopted;
    PyObject *reference;  // the Queue's weak one to itself
    bool observed = false;  // something comes after its epoch, and not after what follows
    uint64_t vague = 0;  // from this epoch on, if not 0: what it comes after cannot all be seen
    size_t checking = 0, raising = 0;  // of a null queue: Devices that check its context, and those that want an error
    Ref<Clock> past;  // of its next command, but for the null queue's rules
    std::map<uint64_t, uint32_t> records;  // the lines of its newest records, by epoch

    Order(uint64_t id, Order *null, bool blocking, bool adopted, PyObject *reference)
        : epochs(new_epochs(id)), null(null ? null : this), blocking(blocking), adopted(adopted), reference(reference) {
        Py_XINCREF(reference);
        advance_submitted(epochs);
    }
    Order(const Order &) = delete;
    ~Order() { Py_XDECREF(reference); }

    uint64_t id() const { return epochs->queue_id; }
    uint64_t epoch() const { return submitted_epoch(epochs); }

    void begin_epoch() {
        advance_submitted(epochs, observed);
        observed = false;
    }

    // A wait orders what it names, and no more. Where that is done already it is no command (HIP's and forebay's are
    // dropped then), so the null queue's rules hold for the queue's next command. What comes after an epoch comes after
    // all of its past, so a queue with more of a past has a new epoch.
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
        Ref<Clock> made;
        precede(made);
        return made;
    }
};

struct Side {  // one of the two uses of a conflict
    uint64_t queue = 0;  // its id; 0 for the host
    uint32_t what = 0, line = 0;  // numbers of the checker
    uint8_t flags = 0;
};

// What a command does with a piece of memory.
struct Use : Side {
    void *memory = nullptr;  // its `Usage`, by which it is known
    uint64_t begin = 0, end = 0;  // bytes
    uint64_t pitch = 0, width = 0;  // bytes between rows, and of a row; 0: all of it
    uint64_t choice = 0;  // which part the kernel may have chosen by its arguments; 0: none
    Order *order = nullptr;  // this and the following once it is noted
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

    // Whether they share a byte. Rows of two pitches may.
    bool overlaps(const Use &other) const {
        if (end <= other.begin || other.end <= begin) return false;
        if (!pitch && !other.pitch) return true;
        if (!other.pitch || (pitch && begin > other.begin)) return other.overlaps(*this);
        if (pitch) {
            uint64_t apart = (other.begin - begin) % pitch;
            return pitch != other.pitch || apart < width || apart + other.width > pitch;
        }
        uint64_t row = other.begin;
        if (begin >= row + other.width) row += ((begin - row - other.width) / other.pitch + 1) * other.pitch;
        return row < end && row < other.end;
    }

    // Whether a kernel may have chosen a part by its arguments that the other use does not touch.
    bool may_miss(const Use &other) const {
        if (!choice) return other.choice && other.may_miss(*this);
        return other.choice ? choice != other.choice : other.pitch || begin < other.begin || other.end < end;
    }

    // Let what comes after `before` come after this use, and its past.
    void precede(Ref<Clock> &before) const {
        if (epoch == PENDING) return;
        join(before, past);
        raise_clock(before, order->epochs, epoch);
        order->observed = order->observed || epoch == order->epoch();
    }
};

struct Conflict {  // two uses of memory that nothing orders, of which one writes
    Side first, second;
    uint64_t context;  // the id of the first one's null queue
    uint64_t begin, end;  // the bytes that both use
    uint64_t nbytes;  // of the memory
    uint32_t made;  // the line that made it
    uint32_t early = 0;  // the line of a record before the first one, after which the second comes
    bool chosen;  // a kernel may have chosen a part by its arguments
    bool host_between;  // a host function comes between, which may have told the program
    bool foreign;  // the first one's queue is another package's, which may have waited for it
    bool certain;
};

// A command, from before it is submitted until it is settled.
struct Command {
    std::vector<Use> uses;
    Order *queue = nullptr;  // NULL: it has not begun, or is settled
    Ref<Clock> past;  // what precedes it
    Ref<Clock> tells;  // what a host function of it may tell the program
};

struct BeginOfUsage {
    std::atomic<int32_t> references;
    void (*destroy)(BeginOfUsage *usage);
};

struct Memory {
    Ref<BeginOfUsage> usage;  // kept, because other memory could get its address
    uint64_t nbytes = 0;
    uint32_t made = 0;
    std::vector<Use> uses;  // that the host does not know as done, the oldest first
    Ref<Clock> forgotten;  // what comes after the uses that were forgotten because there are too many
    Ref<Clock> creation;  // each use of it comes after that

    explicit Memory(void *usage) : usage(static_cast<BeginOfUsage *>(usage)) {}
    Memory(const Memory &) = delete;

    template <class Condition> void forget(Condition condition) {
        uses.erase(std::remove_if(uses.begin(), uses.end(), condition), uses.end());
    }
};

class State {
    std::unordered_map<uint64_t, Order> queues;
    std::unordered_map<void *, Memory> memories;
    Ref<Clock> told;  // everything that host functions come after
    Ref<Clock> running;  // what the host function that runs now comes after
    uint64_t last_number = 0;
    size_t sweep_at = FIRST_SWEEP;

    // Forget uses that the host knows as done, memory that nothing else has, and queues that are gone.
    void sweep() {
        for (auto place = memories.begin(); place != memories.end();) {
            Memory &memory = place->second;
            memory.forget([](const Use &use) { return use.is_done(); });
            place = memory.usage->references.load(std::memory_order_relaxed) == 1 ? memories.erase(place) : std::next(place);
        }
        for (auto place = queues.begin(); place != queues.end();) {
            Order &queue = place->second;
            bool is_gone = queue.null != &queue && is_empty(queue.epochs) && Py_REFCNT(queue.reference) == 1;
            place = is_gone ? queues.erase(place) : std::next(place);
        }
        sweep_at = std::max(FIRST_SWEEP, 2 * (queues.size() + memories.size()));
    }

    void note(Command &command) {
        for (Use &use : command.uses) {
            use.order = command.queue;
            use.epoch = PENDING;
            use.number = ++last_number;
            use.past = command.past;
            Memory &memory = memory_of(use.memory);
            memory.nbytes = std::max(memory.nbytes, use.end);
            if (memory.uses.size() >= MOST_USES) {
                auto end = memory.uses.begin() + MOST_USES / 4;
                for (auto old = memory.uses.begin(); old != end; ++old) old->precede(memory.forgotten);
                memory.uses.erase(memory.uses.begin(), end);
            }
            memory.uses.push_back(use);
        }
    }

    // Give the uses of a command their place in its queue's order: after all that anything comes after by now.
    void place(Command &command) {
        if (!command.uses.empty()) command.queue->begin_epoch();
        for (Use &use : command.uses) {
            use.epoch = command.queue->epoch();
            if (Memory *memory = known(use.memory))
                for (Use &noted : memory->uses)
                    if (noted.number == use.number) noted.epoch = use.epoch;
        }
    }

    // Whether the null queue's rules order two queues.
    static bool are_ordered(const Order *one, const Order *other) {
        return (one->null == other && one->blocking) || (other->null == one && other->blocking);
    }

    void make_room() {
        if (queues.size() + memories.size() > sweep_at) sweep();
    }

    Memory *known(void *usage) {
        auto found = memories.find(usage);
        return found == memories.end() ? nullptr : &found->second;
    }

  public:
    Order *find(uint64_t id) {
        auto found = queues.find(id);
        return found == queues.end() ? nullptr : &found->second;
    }

    Order *add_queue(uint64_t id, Order *null, bool blocking, bool adopted, PyObject *reference) {
        return make_room(), &queues.try_emplace(id, id, null, blocking, adopted, reference).first->second;
    }

    Memory &memory_of(void *usage) { return make_room(), memories.try_emplace(usage, usage).first->second; }

    // Begin a command of a queue, a record too: it comes after what the null queue's rules say, and on the host thread
    // after what the running function comes after.
    void begin(Command &command, Order *queue, bool on_host_thread) {
        if (command.queue) return;
        command.queue = queue;
        command.past = queue->past;
        if (on_host_thread) join(command.past, running);
        if (queue->null != queue && queue->blocking) queue->null->precede(command.past);
        if (queue->null == queue)
            for (auto &[id, other] : queues)
                if (other.null == queue && &other != queue && other.blocking) other.precede(command.past);
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
            Memory *memory = known(use.memory);
            if (!memory) continue;
            for (const Use &first : memory->uses) {
                uint64_t known = command.queue ? clock_epoch(command.past, first.order->epochs) : 0;
                if (first.epoch <= known || first.is_done() || first.queue == use.queue
                    || (first.epoch == PENDING && command.queue && are_ordered(first.order, command.queue))
                    || !((first.flags | use.flags) & WRITES) || !first.overlaps(use)
                    || first.flags & use.flags & GIVEN)  // what they were given is judged by itself
                    continue;
                Conflict conflict{first, use, first.order->null->id(), std::max(first.begin, use.begin),
                                  std::min(first.end, use.end), memory->nbytes, memory->made};
                auto record = first.order->records.find(known);
                if (record != first.order->records.end()) conflict.early = record->second;
                conflict.chosen = first.may_miss(use);
                conflict.host_between = first.epoch <= clock_epoch(told, first.order->epochs);
                conflict.foreign = first.order->adopted;
                conflict.certain = !conflict.chosen && !conflict.host_between && !conflict.foreign
                    && !(first.flags & use.flags & ATOMIC) && !((first.flags | use.flags) & DOUBTFUL)
                    && (!first.pitch || !use.pitch || first.pitch == use.pitch);
                found.push_back(conflict);
            }
        }
        return found;
    }

    // Judge a command before it is submitted, and note its uses, unless it is refused for what was found.
    std::vector<Conflict> announce(Command &command, Order *queue, bool on_host_thread, uint32_t line) {
        begin(command, queue, on_host_thread);
        for (const Use &use : command.uses)
            if (Memory *memory = known(use.memory)) join(command.past, memory->creation);
        auto found = judge(command, line);
        bool certain = std::any_of(found.begin(), found.end(), [](const Conflict &each) { return each.certain; });
        if (certain && queue->null->raising)
            command.queue = nullptr;
        else
            note(command);
        return found;
    }

    // End a command. If it was submitted, its queue has its order, and its uses stand for earlier ones. If it was
    // refused, it leaves nothing.
    [[gnu::noinline]] void settle(Command &command, bool submitted) {
        if (!command.queue) return;
        if (submitted) {
            command.queue->come_after(command.past);
            if (!command.tells) place(command);
            join(told, command.tells);
        }
        command.queue = nullptr;
        for (Use &use : command.uses) {
            Memory *memory = known(use.memory);
            if (!memory) continue;
            memory->forget([&](const Use &other) {
                if (!submitted || other.number == use.number) return other.number == use.number;
                if (!use.continues(other)) return other.is_done() || use.stands_for(other);
                use.begin = std::min(use.begin, other.begin);
                use.end = std::max(use.end, other.end);
                return true;
            });
            if (submitted) memory->uses.push_back(use);
        }
    }

    // A host function of a command may tell the program all that precedes it. Returns that. It may run before `settle`.
    Ref<Clock> tell(Command &command) {
        if (!command.tells) place(command);
        command.tells = command.past;
        command.queue->precede(command.tells);
        return command.tells;
    }
    void run_function(const Ref<Clock> &past) {  // NULL when it ends
        running = past;
        join(told, past);  // its command may not be settled yet
    }

    // What comes after a record.
    Ref<Clock> record(Order *queue, bool on_host_thread, uint32_t line) {
        Command command;
        begin(command, queue, on_host_thread);
        settle(command, true);
        Ref<Clock> past = queue->moment();
        queue->records[queue->epoch()] = line;
        if (queue->records.size() > MOST_USES) queue->records.erase(queue->records.begin());
        return past;
    }

    // What comes after all uses of memory, or the writes among them. Take it before looking for the uses to wait for,
    // and join it when the wait was made: other threads may submit more meanwhile.
    Ref<Clock> past_of_uses(void *usage, bool writers_only) {
        Memory *memory = known(usage);
        if (!memory) return nullptr;
        Ref<Clock> past = memory->forgotten;
        for (const Use &use : memory->uses)
            if (!writers_only || use.flags & WRITES) use.precede(past);
        return past;
    }

    // A queue waits for a value in memory, which any other queue may write. What it does then is possible only.
    void wait_for_unseen(Order *queue) {
        for (auto &[id, other] : queues)
            if (other.null == queue->null && &other != queue) queue->come_after(other.moment());
        queue->begin_epoch();
        queue->vague = queue->epoch();
    }

    // What the host comes after once it has waited for a queue; for the null queue also the blocking queues, or all of
    // its context. Take it before the wait begins, and `reach` it then.
    Ref<Clock> past_of(uint64_t id, Others others) {
        Ref<Clock> past;
        for (auto &[each, queue] : queues)
            if (each == id || (queue.null->id() == id && (queue.blocking ? others != ALONE : others == ALL)))
                queue.precede(past);
        return past;
    }
    void reach_all(uint64_t null, const Clock *past) {
        reach(past);
        for (auto &[id, queue] : queues)
            if (queue.null->id() == null && queue.vague <= completed_epoch(queue.epochs)) queue.vague = 0;
        sweep();
    }

    std::vector<size_t> counts() const {  // of pieces of memory, their uses, and queues
        size_t uses = 0;
        for (auto &[usage, memory] : memories) uses += memory.uses.size();
        return {memories.size(), uses, queues.size()};
    }
};

}  // namespace forebay::races
