// The race checker's record of queues and memory, in the order that the program gives them. Each public function of
// `State` and of its `Order`s holds the lock of the whole record, and none runs Python code. So no other command comes
// between the judging of a command and the noting of its uses.
#pragma once

#include <Python.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <iterator>
#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "core/ownership.hpp"
#include "core/vector_clock.hpp"

namespace forebay::races {

enum Flags : uint8_t {
    WRITES = 1,  // the use may write
    NOT_CONST = 2,  // likewise, but all that is known is a pointer that is not const
    DOUBTFUL = 4,  // it is unknown whether there is such a use
    ATOMIC = 8,  // only by atomic operations
    GIVEN = 16,  // of memory given to a launch, beside a launch that may use any memory
};

enum Others { ALONE, BLOCKING, ALL };  // the queues that the null queue speaks for beside itself

constexpr size_t MOST_USES = 128;  // of one piece of memory, also records of a queue; the oldest are forgotten
constexpr size_t FIRST_SWEEP = 1024;  // queues and pieces of memory
constexpr uint64_t PENDING = UINT64_MAX;  // epoch of a use whose command is not submitted yet: nothing comes after it

// Join another clock. Returns whether it had anything new.
inline bool join(Ref<Clock> &past, const Clock *other) {
    if (covers(past, other)) return false;
    merge_clock(past, other);
    return true;
}

// Note that the host knows all of this to be done. What any thread has waited for precedes what any thread submits
// later: Python's locks cannot be seen, and without this rule every threaded program would produce false positives.
// Not inlined, as `settle` is not, so that the code around its calls does not grow where nothing is checked.
[[gnu::noinline]] inline void reach(const Clock *past) {
    std::vector<ClockEntry> entries;
    list_entries(past, entries);
    for (auto &entry : entries) raise_completed(entry.queue, entry.epoch);
}

// A queue. Its epochs are the checker's own, because forebay's clocks drop what is done. `submitted` rises only where
// something may have come after it, so uses of one epoch merge. `completed` is what the host has waited for.
struct Order {
    std::recursive_mutex &lock;  // of the record
    Ref<Epochs> epochs;
    Order *null;  // the null queue of its context, which may be itself
    bool blocking, adopted;
    PyObject *reference;  // the Queue's weak reference to itself
    bool observed = false;  // something comes after its epoch that does not come after the next ones
    uint64_t vague = 0;  // if not 0, the first epoch that comes after something unseen
    size_t checking = 0, raising = 0;  // of a null queue: Devices that check its context, and those that want errors
    Ref<Clock> past;  // of its next command, without the null queue's rules
    std::map<uint64_t, uint32_t> records;  // lines of its newest records, by epoch

    Order(std::recursive_mutex &lock, uint64_t id, Order *null, bool blocking, bool adopted, PyObject *reference)
        : lock(lock), epochs(new_epochs(id)), null(null ? null : this), blocking(blocking), adopted(adopted), reference(reference) {
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

    // A wait orders only what it names. A wait for what is done is no command (HIP and forebay drop it), so the null
    // queue's rules then hold for the next command. A queue with a longer past begins an epoch, because what comes
    // after an epoch comes after all of its past.
    void come_after(const Clock *other) {
        std::lock_guard held(lock);
        if (join(past, other)) begin_epoch();
    }

    // Order `before` after all of this queue's commands.
    void precede(Ref<Clock> &before) {
        observed = true;
        join(before, past);
        if (clock_epoch(before, epochs) < epoch()) raise_clock(before, epochs, epoch());
    }

    Ref<Clock> moment() {
        std::lock_guard held(lock);
        Ref<Clock> made;
        precede(made);
        return made;
    }
};

struct Side {  // one of the two uses of a conflict
    uint64_t queue = 0;  // its id; 0 for the host
    uint32_t what = 0, line = 0;  // the checker's numbers
    uint8_t flags = 0;
};

// One command's use of a piece of memory.
struct Use : Side {
    void *memory = nullptr;  // its `Usage`, which identifies it
    uint64_t begin = 0, end = 0;  // bytes
    uint64_t pitch = 0, width = 0;  // bytes between rows, and of a row; 0: all of it
    uint64_t choice = 0;  // which part the kernel may have chosen by its arguments; 0: none
    Order *order = nullptr;  // set when it is noted, as the following
    uint64_t epoch = 0, number = 0;
    Ref<Clock> past;

    bool is_done() const { return epoch <= completed_epoch(order->epochs); }

    int strength() const {
        if (flags & DOUBTFUL) return flags & WRITES;
        return !(flags & WRITES) ? 2 : flags & NOT_CONST ? 3 : 4;
    }

    // Whether any race with an earlier use of the queue is also a race with this one.
    bool stands_for(const Use &earlier) const {
        return queue == earlier.queue && begin <= earlier.begin && earlier.end <= end
            && (!pitch || (pitch == earlier.pitch && width == earlier.width && begin == earlier.begin))
            && (!choice || choice == earlier.choice) && (flags & WRITES) >= (earlier.flags & WRITES)
            && !(flags & ~earlier.flags & (ATOMIC | GIVEN)) && strength() >= earlier.strength();
    }

    // Whether two uses of one epoch are adjacent, and nothing comes after only one of them.
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

    // Order `before` after this use and its past.
    void precede(Ref<Clock> &before) const {
        if (epoch == PENDING) return;
        join(before, past);
        raise_clock(before, order->epochs, epoch);
        order->observed = order->observed || epoch == order->epoch();
    }
};

struct Conflict {  // two uses of memory, at least one writing, that nothing orders
    Side first, second;
    uint64_t context;  // the id of the first one's null queue
    uint64_t begin, end;  // the bytes that both use
    uint64_t nbytes;  // of the memory
    uint32_t made;  // the line that made it
    uint32_t early = 0;  // line of a record before the first use, after which the second comes
    bool chosen;  // a kernel may have chosen a part by its arguments
    bool host_between;  // a host function comes between, and may have informed the program
    bool foreign;  // the first one's queue is another package's, which may have waited for it
    bool certain;
};

// A command, from before its submission until it is settled.
struct Command {
    std::vector<Use> uses;
    Order *queue = nullptr;  // NULL: not begun, or settled
    Ref<Clock> past;  // what precedes it
    Ref<Clock> tells;  // what its host function may report to the program
};

struct BeginOfUsage {
    std::atomic<int32_t> references;
    void (*destroy)(BeginOfUsage *usage);
};

struct Memory {
    Ref<BeginOfUsage> usage;  // retained, because other memory could get its address
    uint64_t nbytes = 0;
    uint32_t made = 0;
    std::vector<Use> uses;  // those that the host does not know to be done, the oldest first
    Ref<Clock> forgotten;  // what comes after the uses that were forgotten, because there were too many
    Ref<Clock> creation;  // precedes each use

    explicit Memory(void *usage) : usage(static_cast<BeginOfUsage *>(usage)) {}
    Memory(const Memory &) = delete;

    template <class Condition> void forget(Condition condition) {
        uses.erase(std::remove_if(uses.begin(), uses.end(), condition), uses.end());
    }
};

class State {
    std::recursive_mutex lock;
    std::unordered_map<uint64_t, Order> queues;
    std::unordered_map<void *, Memory> memories;
    Ref<Clock> told;  // what host functions come after, all together
    Ref<Clock> running;  // what the running host function comes after
    uint64_t last_number = 0;
    size_t sweep_at = FIRST_SWEEP;

    // Forget uses that the host knows to be done, memory without another owner, and queues that are gone.
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

    // Place a command's uses in its queue's order: after everything that anything comes after by now.
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

    Memory &memory_of(void *usage) { return make_room(), memories.try_emplace(usage, usage).first->second; }

  public:
    // The result stays as long as the caller has the Queue.
    Order *find(uint64_t id) {
        std::lock_guard held(lock);
        auto found = queues.find(id);
        return found == queues.end() ? nullptr : &found->second;
    }

    Order *add_queue(uint64_t id, Order *null, bool blocking, bool adopted, PyObject *reference) {
        std::lock_guard held(lock);
        return make_room(), &queues.try_emplace(id, lock, id, null, blocking, adopted, reference).first->second;
    }

    // Return a new reference to a queue's weak reference to itself; NULL for a queue that is gone.
    PyObject *reference_of(uint64_t id) {
        std::lock_guard held(lock);
        Order *queue = find(id);
        return queue ? Py_XNewRef(queue->reference) : nullptr;
    }

    void note_made(void *usage, uint32_t made, uint64_t nbytes) {
        std::lock_guard held(lock);
        Memory &memory = memory_of(usage);
        memory.made = made;
        memory.nbytes = nbytes;
    }
    void copy_made(State &from, void *usage) {
        std::lock_guard held(from.lock);
        Memory &memory = from.memory_of(usage);
        note_made(usage, memory.made, memory.nbytes);
    }
    void note_created(void *usage, Order *queue) {
        std::lock_guard held(lock);
        memory_of(usage).creation = queue->moment();
    }

    // Check the context of a null queue for one Device more or less. Returns whether it is checked still.
    bool change_checking(Order *null, int by, bool raising) {
        std::lock_guard held(lock);
        null->checking += by;
        null->raising += raising ? by : 0;
        return null->checking != 0;
    }
    bool raises(uint64_t null) {
        std::lock_guard held(lock);
        return find(null)->raising != 0;
    }

    // Begin a command of a queue, or a record: it comes after what the null queue's rules say, and on the host thread
    // also after what the running function comes after.
    void begin(Command &command, Order *queue, bool on_host_thread) {
        std::lock_guard held(lock);
        if (command.queue) return;
        command.queue = queue;
        command.past = queue->past;
        if (on_host_thread) join(command.past, running);
        if (queue->null != queue && queue->blocking) queue->null->precede(command.past);
        if (queue->null == queue)
            for (auto &[id, other] : queues)
                if (other.null == queue && &other != queue && other.blocking) other.precede(command.past);
    }

    // Return the conflicts with earlier commands. Without a queue the host itself uses the memory, at once.
    std::vector<Conflict> judge(Command &command, uint32_t line) {
        std::lock_guard held(lock);
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
                    || first.flags & use.flags & GIVEN)  // the memory that they were given is judged separately
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

    // Judge a command before it is submitted. Note its uses, unless what was found refuses it.
    std::vector<Conflict> announce(Command &command, Order *queue, bool on_host_thread, uint32_t line) {
        std::lock_guard held(lock);
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

    // End a command. If submitted, its queue has its order, and its uses stand for earlier ones; else nothing is left.
    [[gnu::noinline]] void settle(Command &command, bool submitted) {
        if (!command.queue) return;
        std::lock_guard held(lock);
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

    // Return what a command's host function may report: all that precedes it. The function may run before `settle`.
    Ref<Clock> tell(Command &command) {
        std::lock_guard held(lock);
        if (!command.tells) place(command);
        command.tells = command.past;
        command.queue->precede(command.tells);
        return command.tells;
    }
    void run_function(const Ref<Clock> &past) {  // NULL when it ends
        std::lock_guard held(lock);
        running = past;
        join(told, past);  // its command may not be settled yet
    }

    // Return what comes after a record.
    Ref<Clock> record(Order *queue, bool on_host_thread, uint32_t line) {
        std::lock_guard held(lock);
        Command command;
        begin(command, queue, on_host_thread);
        settle(command, true);
        Ref<Clock> past = queue->moment();
        queue->records[queue->epoch()] = line;
        if (queue->records.size() > MOST_USES) queue->records.erase(queue->records.begin());
        return past;
    }

    // Return what comes after all uses of memory, or all writes. Call this before looking for the uses to wait for, and
    // join the result after the wait: other threads may submit more meanwhile.
    Ref<Clock> past_of_uses(void *usage, bool writers_only) {
        std::lock_guard held(lock);
        Memory *memory = known(usage);
        if (!memory) return nullptr;
        Ref<Clock> past = memory->forgotten;
        for (const Use &use : memory->uses)
            if (!writers_only || use.flags & WRITES) use.precede(past);
        return past;
    }

    // Note a wait for a value in memory, which any other queue may write. Later conflicts are possible only.
    void wait_for_unseen(Order *queue) {
        std::lock_guard held(lock);
        for (auto &[id, other] : queues)
            if (other.null == queue->null && &other != queue) queue->come_after(other.moment());
        queue->begin_epoch();
        queue->vague = queue->epoch();
    }

    // Return what the host comes after once it has waited for a queue; for the null queue also the blocking queues, or
    // all of its context. Call this before the wait, and `reach` after it.
    Ref<Clock> past_of(uint64_t id, Others others) {
        std::lock_guard held(lock);
        Ref<Clock> past;
        for (auto &[each, queue] : queues)
            if (each == id || (queue.null->id() == id && (queue.blocking ? others != ALONE : others == ALL)))
                queue.precede(past);
        return past;
    }
    void reach_all(uint64_t null, const Clock *past) {
        std::lock_guard held(lock);
        reach(past);
        for (auto &[id, queue] : queues)
            if (queue.null->id() == null && queue.vague <= completed_epoch(queue.epochs)) queue.vague = 0;
        sweep();
    }

    std::vector<size_t> counts() {  // of pieces of memory, their uses, and queues
        std::lock_guard held(lock);
        size_t uses = 0;
        for (auto &[usage, memory] : memories) uses += memory.uses.size();
        return {memories.size(), uses, queues.size()};
    }
};

}  // namespace forebay::races
