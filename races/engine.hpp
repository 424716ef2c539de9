// What precedes what in a checked program, and what its commands read and write: clocks, uses, conflicts.
//
// Nothing here asks a driver or the runtime's own clocks, which forget what happens to be done. All of it runs with the
// GIL and calls no Python code, so that nobody sees it half changed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace races {

enum : uint8_t { WRITES = 1, NOT_CONST = 2, DOUBTFUL = 4, DECLARED = 8, ATOMIC = 16, GIVEN = 32 };
enum Overlap { APART, MAYBE, SHARED };

constexpr size_t MOST_USES = 128;  // of one piece of memory; what is older is forgotten
constexpr size_t FIRST_SWEEP = 1024;

// Up to which epoch of each queue something comes after it; ascending by queue. Never changed, so clocks share it.
using Entries = std::vector<std::pair<uint64_t, uint64_t>>;
using Past = std::shared_ptr<const Entries>;

inline uint64_t epoch_in(const Past& past, uint64_t queue) {
    if (!past) return 0;
    auto found = std::lower_bound(past->begin(), past->end(), std::make_pair(queue, uint64_t(0)));
    return found != past->end() && found->first == queue ? found->second : 0;
}

// A point of a queue: everything up to it.
struct Moment {
    Past past;
    uint64_t queue = 0;
    uint64_t epoch = 0;
    uint32_t line = 0;  // of the program, where the point was taken
};

// What a command does with a piece of memory.
struct Use {
    void* memory = nullptr;  // by which it is known
    uint64_t lo = 0, hi = 0;  // bytes: the first, and behind the last
    uint64_t pitch = 0, width = 0;  // rows of so many bytes, so far apart; 0: all of it
    uint64_t choice = 0;  // which part the kernel may have chosen by its arguments; 0: none
    uint32_t what = 0;  // the kind of command, and which of its arguments
    uint8_t flags = 0;
    // set when it is noted
    uint32_t line = 0;
    uint64_t queue = 0, epoch = 0;
    uint64_t command = 0;  // a number of the command that noted it
    Past past;
};

// The uses of a command, noted before it is submitted, and the order of its queue before. If it is not submitted after
// all, the destructor takes back what it noted, and restores that order.
struct Announcement : std::vector<Use> {
    void (*withdraw)(const Announcement& announced) = nullptr;
    uint64_t queue = 0;  // 0: nothing has begun
    uint64_t command = 0;
    Past past, past_after, told, told_after;
    uint64_t null_seen = 0, commands_after = 0;  // the count itself stays: others may have seen it
    bool listed = false;
    std::vector<uint64_t> unlisted;  // queues that it took off the null queue's list
    std::vector<Use> replaced;  // uses that its own stand for

    Announcement() = default;
    Announcement(const Announcement&) = delete;
    ~Announcement() {
        if (withdraw) withdraw(*this);
    }
    void submitted() { withdraw = nullptr; }
};

struct Conflict {
    Use first, second;
    bool certain;
    uint32_t made;  // the line that made the memory
    uint64_t nbytes;  // the size of the memory
    bool told = false;  // a host function comes between, which may have told the program
    bool foreign = false;  // the first one's queue is another package's, which may have waited for it
    uint32_t early = 0;  // the line of the newest point of the first one's queue that the second comes after; 0: none
    void* context = nullptr;
};

struct Memory {
    uint64_t nbytes = 0;
    uint32_t made = 0;
    std::vector<Use> uses;  // the oldest first
    Past forgotten;  // of uses that were forgotten because there are too many
};

struct Queue {
    uint64_t id = 0;
    void* context = nullptr;
    bool null = false, blocking = false, adopted = false;
    uint64_t epoch = 1;
    bool observed = false;  // somebody comes after its last epoch, and not after what follows
    bool listed = false;
    bool vague = false;  // what it comes after cannot all be seen
    uint64_t null_seen = 0, commands = 0;
    Past past;
    std::unordered_map<uint64_t, Moment> points;  // the newest of each queue that it comes after
};

struct Context {
    Queue* null = nullptr;
    std::vector<Queue*> listed;  // blocking queues with commands since the last of the null queue
    size_t checking = 0, raising = 0;  // Devices that asked for it, and those of them that want an error
};

inline Overlap contiguous_and_rows(uint64_t lo, uint64_t hi, const Use& rows) {
    uint64_t row = rows.lo;
    if (lo >= rows.lo + rows.width) row += ((lo - rows.lo - rows.width) / rows.pitch + 1) * rows.pitch;
    return row < hi && row < rows.hi ? SHARED : APART;
}

inline Overlap overlap(const Use& one, const Use& other) {
    if (one.hi <= other.lo || other.hi <= one.lo) return APART;
    if (!one.pitch && !other.pitch) return SHARED;
    if (!one.pitch) return contiguous_and_rows(one.lo, one.hi, other);
    if (!other.pitch) return contiguous_and_rows(other.lo, other.hi, one);
    if (one.pitch != other.pitch) return MAYBE;
    uint64_t apart = one.lo <= other.lo ? (other.lo - one.lo) % one.pitch
                                        : (one.pitch - (one.lo - other.lo) % one.pitch) % one.pitch;
    return apart < one.width || apart + other.width > one.pitch ? SHARED : APART;
}

// Whether a kernel may have chosen a part by its arguments that the other use does not touch.
inline bool may_miss(const Use& first, const Use& second) {
    if (first.choice && second.choice) return first.choice != second.choice;
    if (!first.choice && !second.choice) return false;
    const Use& chooser = first.choice ? first : second;
    const Use& other = first.choice ? second : first;
    return other.pitch || chooser.lo < other.lo || other.hi < chooser.hi;
}

// Whether the two surely meet, if nothing orders them.
inline bool is_certain(const Use& first, const Use& second) {
    bool atomic = first.flags & second.flags & ATOMIC;
    return !may_miss(first, second) && !atomic && !((first.flags | second.flags) & DOUBTFUL) && overlap(first, second) == SHARED;
}

struct Engine {
    std::unordered_map<uint64_t, Queue> queues;
    std::unordered_map<void*, Context> contexts;
    std::unordered_map<void*, Memory> memories;
    std::unordered_map<uint64_t, uint64_t> waited;  // by queue: the epoch that some thread has waited for
    Past told;  // everything that host functions come after
    const Moment* running = nullptr;  // of the host function that runs now, on the host's thread
    bool (*is_gone)(void* memory) = nullptr;  // nobody else has it
    void (*retain)(void* memory) = nullptr;
    void (*release)(void* memory) = nullptr;
    size_t sweep_memories = FIRST_SWEEP, sweep_queues = FIRST_SWEEP;
    uint64_t commands = 0;

    uint64_t waited_for(uint64_t queue) const {
        auto found = waited.find(queue);
        return found == waited.end() ? 0 : found->second;
    }

    // -- order

    bool covers(const Past& past, const Past& other) const {
        return std::all_of(other->begin(), other->end(), [&](const auto& entry) {
            return entry.second <= epoch_in(past, entry.first) || entry.second <= waited_for(entry.first);
        });
    }

    Past joined(const Past& past, const Past& other) const {
        if (!other || other == past || covers(past, other)) return past;
        auto made = std::make_shared<Entries>();
        size_t i = 0, j = 0, ours = past ? past->size() : 0;
        while (i < ours || j < other->size()) {
            std::pair<uint64_t, uint64_t> next;
            if (j == other->size() || (i < ours && (*past)[i].first < (*other)[j].first)) next = (*past)[i++];
            else if (i == ours || (*other)[j].first < (*past)[i].first) next = (*other)[j++];
            else next = {(*past)[i].first, std::max((*past)[i].second, (*other)[j].second)}, i++, j++;
            if (next.second > waited_for(next.first)) made->push_back(next);  // or everybody comes after it
        }
        return made;
    }

    Past joined(const Past& past, const Moment& moment) const {
        // What comes after an epoch comes after its past, too.
        if (moment.epoch <= epoch_in(past, moment.queue) || moment.epoch <= waited_for(moment.queue)) return past;
        auto own = std::make_shared<Entries>(1, std::make_pair(moment.queue, moment.epoch));
        return joined(joined(past, moment.past), own);
    }

    Moment moment_of(Queue& queue, uint32_t line = 0) {
        queue.observed = true;
        return Moment{queue.past, queue.id, queue.epoch, line};
    }

    // Whoever comes after an epoch comes after all of its past, so a queue with more of a past has a new epoch.
    void come_after(Queue& queue, const Past& other) {
        Past past = joined(queue.past, other);
        if (past == queue.past) return;
        queue.past = std::move(past);
        if (queue.observed) queue.epoch++;
        queue.observed = false;
    }

    void come_after(Queue& queue, const Moment& moment) {
        if (moment.epoch <= epoch_in(queue.past, moment.queue)) return;
        come_after(queue, joined(nullptr, moment));
    }

    void come_after_all(Queue& queue) {
        for (auto& each : queues)
            if (each.second.context == queue.context && each.first != queue.id)
                come_after(queue, moment_of(each.second));
        queue.vague = true;
    }

    void list(Queue& queue) {
        if (!queue.blocking || queue.null || queue.listed) return;
        contexts[queue.context].listed.push_back(&queue);
        queue.listed = true;
    }

    // A wait orders what it names, and no more. Where that is done already it is no command (HIP's and forebay's are
    // dropped then), so the rules of the null queue hold for the queue's next command. What comes after the null queue's
    // work comes after its waits as well.
    void wait(Queue& queue, const Moment& moment) {
        if (moment.queue && moment.queue != queue.id) {
            come_after(queue, moment);
            if (queue.points.size() >= MOST_USES) queue.points.clear();
            Moment& point = queue.points[moment.queue];
            if (moment.epoch > point.epoch) point = moment;
        }
        if (queue.null) queue.commands++;
        list(queue);
    }

    void save(const Queue& queue, Announcement& before) const {
        if (before.queue) return;
        before.queue = queue.id;
        before.past = queue.past;
        before.told = told;
        before.null_seen = queue.null_seen;
        before.listed = queue.listed;
    }

    // Does nothing if the queue has received another command since.
    void restore(const Announcement& before) {
        auto place = queues.find(before.queue);
        if (place == queues.end()) return;
        Queue& queue = place->second;
        if (queue.past != before.past_after || queue.commands != before.commands_after) return;
        queue.past = before.past;
        queue.null_seen = before.null_seen;
        if (told == before.told_after) told = before.told;
        auto& listed = contexts[queue.context].listed;
        if (queue.listed && !before.listed) {
            listed.erase(std::remove(listed.begin(), listed.end(), &queue), listed.end());
            queue.listed = false;
        }
        for (uint64_t each : before.unlisted) {
            auto other = queues.find(each);
            if (other != queues.end()) list(other->second);
        }
    }

    // What every command does first, records among them: the rules of the null queue. `running` is the host function
    // that submits it; what a host `function` comes after may be told by it.
    void begin(Queue& queue, const Moment* running, Announcement* before = nullptr, bool function = false) {
        Context& context = contexts[queue.context];
        if (before) save(queue, *before);
        if (running) come_after(queue, *running);
        if (queue.null) {
            for (Queue* other : context.listed) {
                come_after(queue, moment_of(*other));
                other->listed = false;
                if (before) before->unlisted.push_back(other->id);
            }
            context.listed.clear();
            queue.commands++;
        } else if (queue.blocking) {
            if (context.null && context.null->commands != queue.null_seen) {
                come_after(queue, moment_of(*context.null));
                queue.null_seen = context.null->commands;
            }
            list(queue);
        }
        if (function) told = joined(told, moment_of(queue));
        if (!before) return;
        before->past_after = queue.past;
        before->commands_after = queue.commands;
        before->told_after = told;
    }

    void wait_on_host(const Past& past) {
        if (!past) return;
        for (auto& [queue, epoch] : *past) {
            uint64_t& known = waited[queue];
            known = std::max(known, epoch);
        }
    }

    void wait_on_host(const Moment& moment) { wait_on_host(joined(nullptr, moment)); }

    void finish_context(void* context, bool blocking_only = false) {
        for (auto& [id, queue] : queues)
            if (queue.context == context && (queue.blocking || !blocking_only)) wait_on_host(moment_of(queue));
        if (!blocking_only) forget_waited();
    }

    // The null queue speaks for the blocking queues too.
    void finish(Queue& queue) {
        if (queue.null) finish_context(queue.context, true);
        wait_on_host(moment_of(queue));
    }

    // -- the Devices that look for races

    void enter(Queue& null, bool raises) {
        Context& context = contexts[null.context];
        if (!context.checking) context = Context();
        context.null = &null;
        context.checking++;
        context.raising += raises;
    }

    // Returns whether it was the last of its context. Whoever checks it again has not seen what was between, so all
    // counts as ordered.
    bool leave(void* key, bool raises) {
        Context& context = contexts[key];
        context.raising -= raises;
        if (--context.checking) return false;
        for (auto& [id, queue] : queues)
            if (queue.context == key) queue.listed = queue.vague = false;
        finish_context(key);
        contexts.erase(key);
        return true;
    }

    // -- conflicts

    Conflict conflict_of(const Use& first, const Use& second) const {
        auto place = memories.find(first.memory);
        static const Memory unknown;
        const Memory& memory = place == memories.end() ? unknown : place->second;
        return {first, second, is_certain(first, second), memory.made, memory.nbytes};
    }

    // `queue` is NULL for what the host itself does, at once.
    void find_conflicts(Queue* queue, std::vector<Use>& uses, std::vector<Conflict>& found) {
        for (auto& use : uses) {
            use.queue = queue ? queue->id : 0;
            if (queue && queue->vague) use.flags |= DOUBTFUL;
            auto place = memories.find(use.memory);
            if (place == memories.end()) continue;
            for (auto& first : place->second.uses) {
                if (!((first.flags | use.flags) & WRITES)) continue;
                if (first.flags & use.flags & GIVEN) continue;  // what they were given is judged by itself
                if (first.epoch <= waited_for(first.queue) || overlap(first, use) == APART) continue;
                if (queue && (first.queue == queue->id || first.epoch <= epoch_in(queue->past, first.queue))) continue;
                const Queue& earlier = queues[first.queue];
                Conflict conflict = conflict_of(first, use);
                conflict.told = first.epoch <= epoch_in(told, first.queue);
                conflict.foreign = earlier.adopted;
                conflict.certain = conflict.certain && !conflict.told && !conflict.foreign;
                conflict.context = earlier.context;
                if (queue && queue->points.count(first.queue)) conflict.early = queue->points[first.queue].line;
                found.push_back(std::move(conflict));
            }
        }
    }

    // A later use of one queue stands for an earlier one of its, if whoever races with that one races with it too.
    static bool stands_for(const Use& later, const Use& earlier) {
        return later.queue == earlier.queue && later.lo <= earlier.lo && earlier.hi <= later.hi
            && (!later.pitch || (later.pitch == earlier.pitch && later.width == earlier.width && later.lo == earlier.lo))
            && (!later.choice || later.choice == earlier.choice) && (later.flags & WRITES) >= (earlier.flags & WRITES)
            && !(later.flags & ~earlier.flags & (ATOMIC | GIVEN)) && strength(later) >= strength(earlier);
    }

    static int strength(const Use& use) {
        if (use.flags & DOUBTFUL) return use.flags & WRITES ? 1 : 0;
        if (!(use.flags & WRITES)) return 2;
        return use.flags & NOT_CONST ? 3 : 4;
    }

    // Uses of one epoch that lie side by side are one: nobody comes after the one and not after the other.
    static bool continues(const Use& later, const Use& earlier) {
        return later.queue == earlier.queue && later.epoch == earlier.epoch && later.line == earlier.line
            && later.what == earlier.what && later.flags == earlier.flags && later.choice == earlier.choice
            && !later.pitch && !earlier.pitch && later.lo <= earlier.hi && earlier.lo <= later.hi;
    }

    // Notes uses whose conflicts were found.
    void note(Queue& queue, Announcement& uses, uint32_t line) {
        if (queue.observed) queue.epoch++;
        queue.observed = false;
        uses.command = ++commands;
        for (auto& use : uses) {
            use.epoch = queue.epoch;
            use.line = line;
            use.command = commands;
            use.past = queue.past;
            Memory& memory = memory_of(use.memory);
            Use noted = use;
            replace(memory.uses, noted, uses.replaced);
            memory.nbytes = std::max(memory.nbytes, noted.hi);
            if (memory.uses.size() >= MOST_USES) forget_oldest(memory);
            memory.uses.push_back(std::move(noted));
        }
        if (memories.size() > sweep_memories) forget_waited();
    }

    // Takes those out that a use stands for. It grows where it continues one.
    void replace(std::vector<Use>& there, Use& by, std::vector<Use>& replaced) {
        size_t left = 0;
        for (auto& use : there) {
            bool kept = false;
            if (use.epoch <= waited_for(use.queue)) continue;
            if (continues(by, use)) {
                by.lo = std::min(by.lo, use.lo);
                by.hi = std::max(by.hi, use.hi);
            } else {
                kept = !stands_for(by, use);
            }
            if (kept && &there[left++] != &use) there[left - 1] = std::move(use);
            if (!kept && use.command != by.command) replaced.push_back(std::move(use));
        }
        there.resize(left);
    }

    void forget_oldest(Memory& memory) {
        size_t many = MOST_USES / 4;
        for (size_t i = 0; i < many; i++) {
            Use& use = memory.uses[i];
            memory.forgotten = joined(memory.forgotten, Moment{use.past, use.queue, use.epoch, use.line});
        }
        memory.uses.erase(memory.uses.begin(), memory.uses.begin() + many);
    }

    void withdraw(const Announcement& announced) {
        restore(announced);
        for (auto& use : announced) {
            auto place = memories.find(use.memory);
            if (place == memories.end()) continue;
            auto& there = place->second.uses;
            auto is_own = [&](const Use& each) { return each.command == announced.command; };
            there.erase(std::remove_if(there.begin(), there.end(), is_own), there.end());
        }
        for (auto& use : announced.replaced)
            if (memories.count(use.memory)) memories[use.memory].uses.push_back(use);
    }

    // -- memory

    Memory& memory_of(void* key) {
        auto place = memories.find(key);
        if (place != memories.end()) return place->second;
        retain(key);
        return memories[key];
    }

    void made(void* key, uint32_t line, uint64_t nbytes) {
        Memory& memory = memory_of(key);
        memory.made = line;
        memory.nbytes = nbytes;
    }

    // Everything that comes before the uses of a piece of memory, and these: somebody is about to come after that.
    Past past_of(void* key, bool writers_only) {
        Past past;
        auto place = memories.find(key);
        if (place == memories.end()) return past;
        for (auto& use : place->second.uses)
            if (!writers_only || use.flags & WRITES) past = joined(past, Moment{use.past, use.queue, use.epoch, 0});
        past = joined(past, place->second.forgotten);
        if (past)
            for (auto& entry : *past) {
                auto queue = queues.find(entry.first);
                if (queue != queues.end() && queue->second.epoch == entry.second) queue->second.observed = true;
            }
        return past;
    }

    void forget_waited() {
        std::vector<void*> gone;
        for (auto each = memories.begin(); each != memories.end();) {
            auto& uses = each->second.uses;
            auto is_waited_for = [&](const Use& use) { return use.epoch <= waited_for(use.queue); };
            uses.erase(std::remove_if(uses.begin(), uses.end(), is_waited_for), uses.end());
            if (uses.empty()) uses.shrink_to_fit();
            if (is_gone(each->first)) {
                gone.push_back(each->first);
                each = memories.erase(each);
            } else {
                ++each;
            }
        }
        for (void* memory : gone) release(memory);
        sweep_memories = std::max(FIRST_SWEEP, 2 * memories.size());
    }

    Queue& add(uint64_t id, void* context, bool null, bool blocking, bool adopted) {
        return queues[id] = Queue{id, context, null, blocking, adopted};
    }

    // Queues that nobody has and that some thread has waited for. No use of theirs is left.
    void forget_queues(const std::unordered_set<uint64_t>& alive) {
        forget_waited();
        for (auto each = queues.begin(); each != queues.end();) {
            Queue& queue = each->second;
            if (!queue.null && !queue.listed && !alive.count(queue.id) && queue.epoch <= waited_for(queue.id)) {
                waited.erase(queue.id);
                each = queues.erase(each);
            } else {
                ++each;
            }
        }
        sweep_queues = std::max(FIRST_SWEEP, 2 * queues.size());
    }
};

}  // namespace races
