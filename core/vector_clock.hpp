// Epochs and vector clocks. Nothing here needs the GIL.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/ownership.hpp"

namespace forebay {

// The numbers of commands that a queue was given, and that are known to be done. They are separate from the queue, so
// that markers and clocks do not hold it: otherwise two queues that waited for each other would never be freed.
struct Epochs {
    std::atomic<int32_t> references{1};
    uint64_t queue_id;  // never used again, so that a clock cannot mistake a new queue for a dead one
    std::atomic<uint64_t> submitted{0};  // written under the queue's lock, read by anyone
    std::atomic<uint64_t> completed{0};  // only ever raised

    explicit Epochs(uint64_t queue_id) : queue_id(queue_id) {}
    static void destroy(Epochs *epochs) { delete epochs; }
};

inline Ref<Epochs> new_epochs(uint64_t queue_id) { return Ref<Epochs>::adopt(new Epochs(queue_id)); }

inline uint64_t submitted_epoch(const Epochs *epochs) { return epochs->submitted.load(std::memory_order_acquire); }
inline uint64_t completed_epoch(const Epochs *epochs) { return epochs->completed.load(std::memory_order_acquire); }

// Two loads, no lock, no driver call. `completed` is read first, so it never exceeds the `submitted` read after it.
inline bool is_empty(const Epochs *epochs) {
    uint64_t completed = completed_epoch(epochs);
    return completed == submitted_epoch(epochs);
}

// Count a command, or several for one that takes the room of several. Under the queue's lock a plain store is enough.
inline void advance_submitted(Epochs *epochs, uint64_t count = 1) {
    epochs->submitted.store(epochs->submitted.load(std::memory_order_relaxed) + count, std::memory_order_release);
}

// -- vector clocks: the epochs of other queues that a queue is already ordered after. NULL is the empty clock.
//
// A clock is an immutable snapshot, shared by reference count until it changes. Recent changes are in the clock itself,
// the rest is in chunks that clocks share. So a wait beside a thousand busy queues copies a few entries, and now and
// then references to the chunks.

struct ClockEntry {
    Ref<Epochs> queue;
    uint64_t epoch = 0;

    ClockEntry() = default;
    ClockEntry(Epochs *queue, uint64_t epoch) : queue(queue), epoch(epoch) {}
    bool is_done() const { return epoch <= completed_epoch(queue); }
};

struct Chunk {
    static constexpr int BITS = 5;

    uint64_t number;  // of the queue ids divided by the chunk's size, so that all clocks cut at the same places
    std::vector<ClockEntry> entries;  // by ascending queue id, at most one a queue

    explicit Chunk(uint64_t number) : number(number) {}

    // What is done orders nothing; leaving it out keeps clocks small.
    Chunk(const Chunk &other) : number(other.number) {
        entries.reserve(other.entries.size() + 1);
        for (auto &entry : other.entries)
            if (!entry.is_done()) entries.push_back(entry);
    }

    bool is_done() const {
        return std::all_of(entries.begin(), entries.end(), [](const ClockEntry &entry) { return entry.is_done(); });
    }
};

struct Chunks {
    std::vector<std::shared_ptr<Chunk>> each;  // by ascending number; none is empty
    size_t next_look = 0;  // the chunk that the next change of this list looks at, to drop it if it is done
};

// Copy on write: return an object that only the caller has, a copy if it is shared. NULL is an empty one.
template <class T, class... New> T &owned(std::shared_ptr<T> &shared, New... arguments) {
    if (!shared)
        shared = std::make_shared<T>(arguments...);
    else if (shared.use_count() != 1)
        shared = std::make_shared<T>(*shared);
    else
        std::atomic_thread_fence(std::memory_order_acquire);
    return *shared;
}

// Compare by queue or number. Pointers first: they are usually equal, and reading an id is a cache miss.
inline int64_t difference(const ClockEntry &a, const ClockEntry &b) {
    return a.queue == b.queue ? 0 : (int64_t) (a.queue->queue_id - b.queue->queue_id);
}
inline int64_t difference(const std::shared_ptr<Chunk> &a, const std::shared_ptr<Chunk> &b) {
    return a == b ? 0 : (int64_t) (a->number - b->number);
}

// Call `visit` for the elements of two ascending lists, in order, with NULL where the other list has no equal one, as
// long as it returns true. Returns whether it always did.
template <class T, class Visit> bool visit_both(const std::vector<T> &first, const std::vector<T> &second, Visit visit) {
    auto a = first.begin(), b = second.begin();
    while (a != first.end() || b != second.end()) {
        int64_t order = a == first.end() ? 1 : b == second.end() ? -1 : difference(*a, *b);
        if (!visit(order <= 0 ? &*a++ : nullptr, order >= 0 ? &*b++ : nullptr)) return false;
    }
    return true;
}

template <class List> auto place_of_chunk(List &chunks, uint64_t number) {
    auto is_lower = [](const std::shared_ptr<Chunk> &chunk, uint64_t number) { return chunk->number < number; };
    return std::lower_bound(chunks.each.begin(), chunks.each.end(), number, is_lower);
}

inline auto place_of_entry(Chunk &chunk, const Epochs *queue) {
    auto is_lower = [](const ClockEntry &entry, uint64_t id) { return entry.queue->queue_id < id; };
    return std::lower_bound(chunk.entries.begin(), chunk.entries.end(), queue->queue_id, is_lower);
}

inline uint64_t epoch_in(const Chunks &chunks, const Epochs *queue) {
    auto chunk = place_of_chunk(chunks, queue->queue_id >> Chunk::BITS);
    if (chunk == chunks.each.end() || (*chunk)->number != queue->queue_id >> Chunk::BITS) return 0;
    auto entry = place_of_entry(**chunk, queue);
    return entry != (*chunk)->entries.end() && entry->queue == queue ? entry->epoch : 0;
}

// Add an entry that is not done to a list that only the caller has.
inline void raise_in(Chunks &chunks, const ClockEntry &entry) {
    uint64_t number = entry.queue->queue_id >> Chunk::BITS;
    auto place = place_of_chunk(chunks, number);
    if (place == chunks.each.end() || (*place)->number != number) place = chunks.each.emplace(place);
    Chunk &chunk = owned(*place, number);
    auto known = place_of_entry(chunk, entry.queue);
    if (known != chunk.entries.end() && known->queue == entry.queue)
        known->epoch = std::max(known->epoch, entry.epoch);
    else
        chunk.entries.insert(known, entry);
}

// Look at this many chunks of a list that only the caller has, and drop those that are done.
inline void drop_done(std::shared_ptr<Chunks> &chunks, size_t looks) {
    auto &each = chunks->each;
    for (looks = std::min(looks, each.size()); looks; looks--) {
        if (chunks->next_look >= each.size()) chunks->next_look = 0;
        if (each[chunks->next_look]->is_done())
            each.erase(each.begin() + chunks->next_look);
        else
            chunks->next_look++;
    }
    if (each.empty()) chunks.reset();
}

inline std::shared_ptr<Chunk> merged_chunk(const std::shared_ptr<Chunk> &first, const std::shared_ptr<Chunk> &second) {
    auto made = std::make_shared<Chunk>(first->number);
    made->entries.reserve(first->entries.size() + second->entries.size());
    visit_both(first->entries, second->entries, [&](const ClockEntry *a, const ClockEntry *b) {
        const ClockEntry *later = !a || (b && b->epoch > a->epoch) ? b : a;
        if (!later->is_done()) made->entries.push_back(*later);
        return true;
    });
    return made;
}

// A list with the later epoch of each queue. Chunks that the two share, or only one has, are shared.
inline std::shared_ptr<Chunks> merged_chunks(
    const std::shared_ptr<Chunks> &first, const std::shared_ptr<Chunks> &second) {
    if (first == second || !second) return first;
    if (!first) return second;
    auto made = std::make_shared<Chunks>();
    made->each.reserve(first->each.size() + second->each.size());
    visit_both(first->each, second->each, [&](const std::shared_ptr<Chunk> *a, const std::shared_ptr<Chunk> *b) {
        auto chunk = !b || (a && *a == *b) ? *a : !a ? *b : merged_chunk(*a, *b);
        if (!chunk->entries.empty()) made->each.push_back(std::move(chunk));
        return true;
    });
    drop_done(made, 2);
    return made;
}

struct Clock {
    static constexpr size_t RECENT = 8;

    std::atomic<int32_t> references{1};
    std::shared_ptr<Chunks> chunks;
    size_t next_look = 0;  // the chunk that the next change looks at, to see whether it is done
    size_t found_done = 0;  // how many were, since the first
    size_t count = 0;
    ClockEntry recent[RECENT];  // in no order, at most one a queue; later than what the chunks say of that queue

    Clock() = default;
    Clock(const Clock &other)
        : chunks(other.chunks), next_look(other.next_look), found_done(other.found_done), count(other.count) {
        std::copy_n(other.recent, count, recent);
    }
    static void destroy(Clock *clock) { delete clock; }
    bool is_empty() const { return !count && !chunks; }

    uint64_t recent_epoch(const Epochs *queue) const {
        for (size_t i = 0; i < count; i++)
            if (recent[i].queue == queue) return recent[i].epoch;
        return 0;
    }

    // Add this epoch of this queue. This and the next two need a clock without another owner.
    void put(Epochs *queue, uint64_t epoch) {
        if (epoch <= completed_epoch(queue)) return;
        for (size_t i = 0; i < count; i++)
            if (recent[i].queue == queue) {
                recent[i].epoch = std::max(recent[i].epoch, epoch);
                return;
            }
        if (chunks && epoch_in(*chunks, queue) >= epoch) return;
        if (count == RECENT) {
            for (auto &entry : recent) {
                raise_in(owned(chunks), entry);
                entry = ClockEntry();
            }
            forebay::drop_done(chunks, 2 * RECENT);
            next_look = found_done = count = 0;
        }
        recent[count++] = ClockEntry(queue, epoch);
    }

    void put_recent(const Clock *other) {
        for (size_t i = 0; other && i < other->count; i++) put(other->recent[i].queue, other->recent[i].epoch);
    }

    // Drop what is done: recent entries, and chunks once most of them were found to be. Each change looks at two chunks
    // at most, and what is long done does not stay.
    void drop_done() {
        auto done = [](const ClockEntry &entry) { return entry.is_done(); };
        size_t left = std::remove_if(recent, recent + count, done) - recent;
        while (count > left) recent[--count] = ClockEntry();
        if (!chunks) return;
        size_t size = chunks->each.size();
        for (int looks = 0; looks < 2 && next_look < size; looks++) found_done += chunks->each[next_look++]->is_done();
        if (next_look < size) return;
        if (2 * found_done > size) {
            owned(chunks);
            forebay::drop_done(chunks, size);
        }
        next_look = found_done = 0;
    }
};


// The epoch of a queue that this clock is ordered after; 0 when it is not in the clock.
inline uint64_t clock_epoch(const Clock *clock, const Epochs *queue) {
    if (!clock) return 0;
    uint64_t epoch = clock->recent_epoch(queue);
    return epoch || !clock->chunks ? epoch : epoch_in(*clock->chunks, queue);
}

inline bool clock_is_done(const Clock *clock) {
    if (!clock) return true;
    for (size_t i = 0; i < clock->count; i++)
        if (!clock->recent[i].is_done()) return false;
    if (!clock->chunks) return true;
    for (auto &chunk : clock->chunks->each)
        if (!chunk->is_done()) return false;
    return true;
}

// Whether each entry of the other clock is done or covered by this clock.
inline bool covers(const Clock *clock, const Clock *other) {
    static const Chunks no_chunks;
    static const Chunk no_entries(0);
    if (!other || other == clock) return true;
    if (!clock) return clock_is_done(other);
    for (size_t i = 0; i < other->count; i++) {
        const ClockEntry &entry = other->recent[i];
        if (!entry.is_done() && clock_epoch(clock, entry.queue) < entry.epoch) return false;
    }
    if (!other->chunks || other->chunks == clock->chunks) return true;
    auto is_covered = [&](const ClockEntry *own, const ClockEntry *entry) {
        return !entry || (own && own->epoch >= entry->epoch) || entry->is_done()
            || clock->recent_epoch(entry->queue) >= entry->epoch;
    };
    auto &chunks = clock->chunks ? *clock->chunks : no_chunks;
    return visit_both(
        chunks.each, other->chunks->each, [&](const std::shared_ptr<Chunk> *own, const std::shared_ptr<Chunk> *chunk) {
            return !chunk || (own && *own == *chunk)
                || visit_both((own ? **own : no_entries).entries, (*chunk)->entries, is_covered);
        });
}

// Let the clock have the later epoch of each queue.
inline void merge_clock(Ref<Clock> &clock, const Clock *other) {
    Ref<Clock> made = Ref<Clock>::adopt(new Clock());
    made->chunks = merged_chunks(clock ? clock->chunks : nullptr, other ? other->chunks : nullptr);
    made->put_recent(clock);
    made->put_recent(other);
    made->drop_done();
    if (made->is_empty()) made.clear();
    clock = std::move(made);
}

// Add this epoch of this queue, in place when there is no other reference.
inline void raise_clock(Ref<Clock> &clock, Epochs *queue, uint64_t epoch) {
    if (!clock || clock->references.load(std::memory_order_acquire) != 1)
        clock = Ref<Clock>::adopt(clock ? new Clock(*clock) : new Clock());
    clock->drop_done();
    clock->put(queue, epoch);
    if (clock->is_empty()) clock.clear();
}

// A clock that is made when a thread first needs it.
class OnceClock {
    std::atomic<Clock *> made{nullptr};

  public:
    ~OnceClock() { clear(); }
    void clear() {  // no other thread may have it
        if (Clock *clock = made.exchange(nullptr, std::memory_order_relaxed)) release(clock);
    }
    // The clock with this epoch of this queue added; NULL when all of it is done.
    Clock *raised(const Ref<Clock> &clock, Epochs *queue, uint64_t epoch) {
        Clock *known = made.load(std::memory_order_acquire);
        if (known) return known;
        Ref<Clock> raised = clock;
        raise_clock(raised, queue, epoch);
        bool first = raised && made.compare_exchange_strong(known, raised, std::memory_order_acq_rel);
        return first ? raised.take() : known;  // another thread may have made it meanwhile
    }
};

// Raise `completed`, never lower it: a finish that began earlier may report later.
inline void raise_completed(Epochs *epochs, uint64_t epoch) {
    uint64_t known = epochs->completed.load(std::memory_order_relaxed);
    while (known < epoch && !epochs->completed.compare_exchange_weak(known, epoch, std::memory_order_release)) {
    }
}

// Note that the queue has reached this epoch. What the clock names is raised first, without asking a driver, so that a
// thread that sees the queue done sees that done as well. Nothing else raises a queue's `completed`. The clock is the
// queue's at that epoch, or NULL for the queue alone. The null queue speaks for the blocking queues of its device,
// which all have higher ids, so it comes after them here.
inline void note_reached(Epochs *queue, uint64_t epoch, const Clock *clock) {
    if (clock) {
        const ClockEntry *recent[Clock::RECENT], **next = recent, **end = recent;  // the highest queue id first
        for (size_t i = 0; i < clock->count; i++) {
            const ClockEntry **place = end++;
            for (; place != recent && place[-1]->queue->queue_id < clock->recent[i].queue->queue_id; place--)
                *place = place[-1];
            *place = &clock->recent[i];
        }
        auto raise_above = [&](uint64_t id) {
            for (; next != end && (*next)->queue->queue_id > id; next++) raise_completed((*next)->queue, (*next)->epoch);
        };
        if (clock->chunks)
            for (auto chunk = clock->chunks->each.rbegin(); chunk != clock->chunks->each.rend(); ++chunk)
                for (auto entry = (*chunk)->entries.rbegin(); entry != (*chunk)->entries.rend(); ++entry) {
                    raise_above(entry->queue->queue_id);
                    raise_completed(entry->queue, entry->epoch);
                }
        raise_above(0);
    }
    raise_completed(queue, epoch);
}

// Append all entries; of several for one queue the highest counts.
inline void list_entries(const Clock *clock, std::vector<ClockEntry> &into) {
    if (!clock) return;
    if (clock->chunks)
        for (auto &chunk : clock->chunks->each) into.insert(into.end(), chunk->entries.begin(), chunk->entries.end());
    into.insert(into.end(), clock->recent, clock->recent + clock->count);
}

}  // namespace forebay
