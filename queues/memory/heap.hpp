// The heap of a pool: slabs of driver memory, cut into blocks, and the steps that find a free block.
//
// Nothing here calls a driver, needs the GIL or releases a Python object: such objects go to `gone`. The heap's lock is
// taken last and never held across a call.
#pragma once

#include <Python.h>
#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/ownership.hpp"
#include "core/vector_clock.hpp"

namespace forebay {

// Bytes; more than any device has. Check Python sizes against it before conversion to C: a little may be added then.
constexpr size_t NO_MORE_THAN = size_t(1) << 62;

constexpr size_t GRAIN = 512;  // bytes; blocks begin and end at multiples of it
constexpr int BINS = 160;  // four to each doubling of the size
constexpr size_t SMALLEST_SLAB = 64 << 10, LARGEST_SLAB = 32 << 20;
constexpr size_t LARGEST_STEP = 2 << 20;  // between sizes of blocks
constexpr int LOOK_AT = 8;  // blocks of a bin that are examined
constexpr size_t LOOK_AT_LOOSE = 64;  // blocks that an allocation tries to merge before it cuts another one
constexpr size_t MANY_SHELVES = 64;
constexpr size_t MANY_STEPS = 4096;  // over neighbours, before a slab is made instead

inline int highest_bit(uint64_t word) { return 63 - __builtin_clzll(word); }  // `word` is not 0

// Bytes of a block for an allocation: at most a sixteenth more, and at most 2 MiB or 511 bytes.
inline size_t size_class(size_t nbytes) {
    size_t step = GRAIN;
    if (nbytes > 32 * GRAIN) step = std::clamp(size_t(1) << (highest_bit(nbytes - 1) - 4), GRAIN, LARGEST_STEP);
    return std::max((nbytes + step - 1) & ~(step - 1), GRAIN);
}

// Whether a block of `found` bytes is not worth cutting for `nbytes`.
inline bool is_close(size_t found, size_t nbytes) { return found < nbytes + std::max(nbytes / 16, GRAIN); }

inline int bin_of(size_t nbytes) {
    uint64_t grains = nbytes / GRAIN;
    int high = highest_bit(grains);
    if (high < 2) return int(grains);
    return high > 40 ? BINS - 1 : 4 * (high - 2) + int(grains >> (high - 2));
}

template <class T> struct Links {
    T *before, *after;
};

// An intrusive list through the elements' `links[which]`.
template <class T, int which> struct List {
    T *first = nullptr, *last = nullptr;

    void insert(T *thing, T *before) {  // NULL: as the first
        T *after = before ? before->links[which].after : first;
        thing->links[which] = {before, after};
        (before ? before->links[which].after : first) = thing;
        (after ? after->links[which].before : last) = thing;
    }
    void append(T *thing) { insert(thing, last); }
    void remove(T *thing) {
        auto [before, after] = thing->links[which];
        (before ? before->links[which].after : first) = after;
        (after ? after->links[which].before : last) = before;
    }
};

enum ListOfBlocks {
    NEIGHBOURS,  // all of its slab, by address
    IN_BIN,  // free on one queue and of about one size; the last freed at the end
    BY_AGE,  // free on one queue; the last freed at the end
    LOOSE,  // free when it was put there, beside another free one
    LISTS
};

// The point at which a block was freed; the queue is NULL when any queue may have the block.
struct Free : ClockEntry {
    bool on_null = false, on_blocking = false;

    Free() = default;
    Free(Epochs *queue, bool on_null, bool on_blocking)
        : ClockEntry(queue, 0), on_null(on_null), on_blocking(on_blocking) {}
    bool is_known_done() const { return !queue || is_done(); }
};

struct Block {
    Links<Block> links[LISTS];
    struct Slab *slab;
    size_t offset, nbytes;
    bool used = false, loose = false;
    bool seen = false;  // it was handed out before, as it is now
    struct Shelf *shelf = nullptr;  // where it is while it is free
    Free freed;  // the last one
    PyObject *part = nullptr;  // the driver's object for exactly this block, if it has one; owned
    uintptr_t handle = 0;  // of that

    Block(Slab *slab, size_t offset, size_t nbytes) : slab(slab), offset(offset), nbytes(nbytes) {}
    // Note that it is free after everything that this queue has received when the block returns.
    void free_on(Epochs *queue, bool is_null, bool is_blocking) {
        if (freed.queue != queue) freed = Free(queue, is_null, is_blocking);
    }
    Block *before() const { return links[NEIGHBOURS].before; }
    Block *after() const { return links[NEIGHBOURS].after; }
};

inline bool is_free(const Block *block) { return block && !block->used; }

inline bool are_alike(const Block *first, const Block *second) {
    return is_free(first) && is_free(second) && first->freed.queue == second->freed.queue;
}

struct Slab {
    Links<Slab> links[1];  // among those without used blocks
    PyObject *native;  // an OwnedMemory; owned
    uintptr_t handle;
    uint64_t address;
    size_t nbytes;
    size_t used = 0;  // blocks
    List<Block, NEIGHBOURS> blocks;

    Slab(PyObject *native, uintptr_t handle, uint64_t address, size_t nbytes)
        : native(native), handle(handle), address(address), nbytes(nbytes) {}

    // Append the points after which it can be freed.
    void add_points(std::vector<ClockEntry> &points) const {
        for (Block *block = blocks.first; block; block = block->after())
            if (!block->freed.is_known_done()) points.push_back(block->freed);
    }
};

// The free blocks that one queue freed, or that any queue may have.
struct Shelf {
    ClockEntry queue;  // whose; NULL: anyone may have them
    List<Block, IN_BIN> bins[BINS + 1];  // the last stays empty
    uint64_t filled[3] = {0, 0, uint64_t(1) << (BINS & 63)};  // which bins are not empty; the last one's bit stays set
    List<Block, BY_AGE> by_age;  // all

    explicit Shelf(Epochs *epochs) {
        if (epochs) queue = ClockEntry(epochs, 0);
    }
    void add(Block *block) {
        int at = bin_of(block->nbytes);
        block->shelf = this;
        filled[at >> 6] |= uint64_t(1) << (at & 63);
        bins[at].append(block);
        by_age.append(block);
    }
    void remove(Block *block) {
        int at = bin_of(block->nbytes);
        bins[at].remove(block);
        if (!bins[at].first) filled[at >> 6] &= ~(uint64_t(1) << (at & 63));
        by_age.remove(block);
    }

    // Return the block freed last of this size or hardly more, which needs no cutting.
    Block *closest(size_t nbytes) const {
        Block *block = bins[bin_of(nbytes)].last;
        for (int i = 0; block && i < LOOK_AT; i++, block = block->links[IN_BIN].before)
            if (block->nbytes >= nbytes && is_close(block->nbytes, nbytes)) return block;
        return nullptr;
    }

    // Return one of the smallest blocks that are large enough.
    Block *smallest(size_t nbytes) const {
        int at = bin_of(nbytes);
        Block *found = nullptr, *block = bins[at].first;
        for (int i = 0; block && i < LOOK_AT; i++, block = block->links[IN_BIN].after)
            if (block->nbytes >= nbytes && (!found || block->nbytes < found->nbytes)) found = block;
        if (found) return found;
        int word = ++at >> 6;
        uint64_t bits = filled[word] >> (at & 63) << (at & 63);
        while (!bits) bits = filled[++word];
        found = bins[64 * word + __builtin_ctzll(bits)].first;
        return found && found->nbytes >= nbytes ? found : nullptr;  // the last bin has all sizes
    }
};

// The user of an allocation: a queue, or any queue if that is NULL.
struct Taker {
    Epochs *queue = nullptr;
    Ref<Clock> clock;
    bool is_null = false, blocking = false;
    bool adopted = false;  // it receives commands that carry no waits of forebay
    bool follows = false;  // it may have memory freed on a queue that it is ordered after
    bool opportunistic = false;  // it may have memory whose free is known to be done

    // Whether the queue is ordered after a free, by its clock or by the null queue's rules for the memory's next use.
    bool is_after(const Free &freed) const {
        return !adopted && (clock_epoch(clock, freed.queue) >= freed.epoch || (is_null && freed.on_blocking) ||
                            (blocking && freed.on_null));
    }
};

struct Gone {
    PyObject *thing;  // owned; to be released after this point
    ClockEntry point;
};

struct Heap {
    Lock lock;
    const bool splits;  // else each slab is one block: memory without addresses
    Relaxed<size_t> reserved, reserved_peak, used, used_peak;  // bytes; changed under the lock
    Shelf anyone GUARDED_BY(lock){nullptr};
    std::unordered_map<Epochs *, Shelf> shelves GUARDED_BY(lock);  // by the queue
    Shelf *last_shelf GUARDED_BY(lock) = nullptr;
    List<Block, LOOSE> loose GUARDED_BY(lock);
    size_t loose_count GUARDED_BY(lock) = 0;
    List<Slab, 0> idle GUARDED_BY(lock);  // slabs without used blocks
    std::vector<Gone> gone GUARDED_BY(lock);

    explicit Heap(bool splits) : splits(splits) {}

    // -- the steps of an allocation, in order; NULL means none was found. Where the pool must not grow, 4 precedes 3

    // 1. A block of about this size that the queue has freed, as it is.
    Block *take_own(Epochs *queue, size_t nbytes) {
        Guard guard(lock);
        Shelf *shelf = find_shelf(queue);
        return hand_out(shelf ? shelf->closest(nbytes) : nullptr, nbytes);
    }

    // 2. A block that the taker may have without a wait, cut or merged. If there is none, appends to `points`, unless
    // that is NULL, the frees that the driver may know to be done.
    Block *find(const Taker &taker, size_t nbytes, std::vector<ClockEntry> *points) {
        Guard guard(lock);
        if (taker.opportunistic) settle_done();
        merge_loose(LOOK_AT_LOOSE);
        Block *block = take_ordered(taker, nbytes);
        if (!block) {
            merge_loose(loose_count);
            block = take_ordered(taker, nbytes);
        }
        if (!block) block = take_joined(taker.queue, nbytes);
        if (!block && points && taker.queue && taker.opportunistic)
            for (auto &[queue, shelf] : shelves)
                if (Block *other = shelf.smallest(nbytes)) points->push_back(other->freed);
        return block;
    }

    // 3. A block of a new slab, which takes over the reference to `native`.
    Block *add_slab(PyObject *native, uintptr_t handle, uint64_t address, size_t slab_bytes, size_t nbytes) {
        Guard guard(lock);
        Slab *slab = new Slab(native, handle, address, slab_bytes);
        Block *block = new Block(slab, 0, slab_bytes);
        slab->blocks.append(block);
        reserved += slab_bytes;
        reserved_peak = std::max(reserved_peak, reserved);
        idle.insert(slab, nullptr);
        shelve(block);
        return hand_out(block, nbytes);
    }

    // 4. A block freed on some queue, for whose free the caller must wait.
    Block *take_any(size_t nbytes) {
        Guard guard(lock);
        Block *best = nullptr;
        for (auto &[queue, shelf] : shelves) {
            Block *block = shelf.smallest(nbytes);
            if (block && (!best || block->nbytes < best->nbytes)) best = block;
        }
        return hand_out(best, nbytes);
    }

    // Return the slab size for a block: a quarter of what is reserved, for little waste at first and few slabs later.
    size_t slab_size(size_t nbytes) {
        Guard guard(lock);
        size_t size = SMALLEST_SLAB;
        while (size < LARGEST_SLAB && size < reserved / 4) size *= 2;
        return splits ? std::max(size, nbytes) : nbytes;
    }

    // Put a used block on the shelf of the queue that freed it last. `freed`: it is freed now.
    void give_back(Block *block, bool freed) {
        Guard guard(lock);
        if (freed) block->freed.epoch = submitted_epoch(block->freed.queue);
        used -= block->nbytes;
        block->used = false;
        block->seen = true;
        if (--block->slab->used == 0) idle.insert(block->slab, nullptr);
        shelve(block);
        note_loose(block);
    }

    // Take out a slab without used blocks; with `only_done` one that is known to be done. Returns its memory, owned by
    // the caller, and the `points` after which it can be freed; NULL for none.
    PyObject *take_slab(bool only_done, std::vector<ClockEntry> &points) {
        Guard guard(lock);
        Slab *slab = idle.first;
        for (; slab; slab = slab->links[0].after) {
            points.clear();
            slab->add_points(points);
            if (!only_done || points.empty()) break;
        }
        if (!slab) return nullptr;
        PyObject *native = slab->native;
        reserved -= slab->nbytes;
        idle.remove(slab);
        while (Block *block = slab->blocks.first) {
            slab->blocks.remove(block);
            block->shelf->remove(block);
            drop_loose(block);
            drop_part(block);
            delete block;
        }
        delete slab;
        return native;
    }

    // Append the points after which idle slabs can be freed.
    void points_of_idle(std::vector<ClockEntry> &points) {
        Guard guard(lock);
        for (Slab *slab = idle.first; slab; slab = slab->links[0].after) slab->add_points(points);
    }

  private:
    // Return the queue's shelf, or NULL.
    Shelf *find_shelf(Epochs *queue) REQUIRES(lock) {
        if (last_shelf && last_shelf->queue.queue == queue) return last_shelf;
        auto found = shelves.find(queue);
        return found == shelves.end() ? nullptr : last_shelf = &found->second;
    }

    void shelve(Block *block) REQUIRES(lock) {
        Epochs *queue = block->freed.queue;
        Shelf *shelf = queue ? find_shelf(queue) : &anyone;
        if (!shelf) shelf = last_shelf = &shelves.try_emplace(queue, queue).first->second;
        shelf->add(block);
    }

    // Take a free block off its shelf. `freed` stays, so that an unused block can return as it was.
    Block *hand_out(Block *block, size_t nbytes) REQUIRES(lock) {
        if (!block) return nullptr;
        block->shelf->remove(block);
        block->used = true;
        if (splits && !is_close(block->nbytes, nbytes)) cut(block, nbytes);
        if (block->slab->used++ == 0) idle.remove(block->slab);
        used += block->nbytes;
        used_peak = std::max(used_peak, used);
        return block;
    }

    // Cut a block that is on no shelf. The rest is free where the whole was.
    void cut(Block *block, size_t nbytes) REQUIRES(lock) {
        drop_part(block);
        Block *rest = new Block(block->slab, block->offset + nbytes, block->nbytes - nbytes);
        block->slab->blocks.insert(rest, block);
        block->nbytes = nbytes;
        rest->freed = block->freed;
        shelve(rest);
        note_loose(rest);
    }

    // Release the driver's object of a changed block once the commands that used it are done.
    void drop_part(Block *block) REQUIRES(lock) {
        block->seen = false;
        if (!block->part) return;
        gone.push_back(Gone{std::exchange(block->part, nullptr), block->freed});
        block->handle = 0;
    }

    void note_loose(Block *block) REQUIRES(lock) {
        if (block->loose || (!is_free(block->before()) && !is_free(block->after()))) return;
        block->loose = true;
        loose.append(block);
        loose_count++;
    }

    void drop_loose(Block *block) REQUIRES(lock) {
        if (!block->loose) return;
        block->loose = false;
        loose.remove(block);
        loose_count--;
    }

    // Merge a block that is on no shelf with the free one behind it. If one queue freed both, the later free counts.
    void absorb(Block *block) REQUIRES(lock) {
        Block *after = block->after();
        uint64_t epoch = std::max(block->freed.epoch, after->freed.epoch);
        after->shelf->remove(after);
        drop_part(block);
        drop_part(after);
        drop_loose(after);
        if (!block->freed.queue) block->freed = after->freed;
        block->freed.epoch = epoch;
        block->nbytes += after->nbytes;
        block->slab->blocks.remove(after);
        delete after;
    }

    // Merge neighbours that are free for the same queue or for any, looking at `most` loose blocks. A block that still
    // has a free neighbour of another kind stays loose.
    void merge_loose(size_t most) REQUIRES(lock) {
        for (most = std::min(most, loose_count); most && loose.first; most--) {
            Block *block = loose.first;
            drop_loose(block);
            if (block->used) continue;
            while (are_alike(block->before(), block)) block = block->before();
            if (are_alike(block, block->after())) {
                block->shelf->remove(block);
                while (are_alike(block, block->after())) absorb(block);
                shelve(block);
            }
            note_loose(block);
        }
    }

    // Give all queues what is known to be done, and drop shelves that stay empty.
    void settle_done() REQUIRES(lock) {
        for (auto each = shelves.begin(); each != shelves.end();) {
            Shelf &shelf = each->second;
            while (shelf.by_age.first && shelf.by_age.first->freed.is_done()) {
                Block *block = shelf.by_age.first;
                shelf.remove(block);
                block->freed = {};
                shelve(block);
                note_loose(block);
            }
            if (!shelf.by_age.first && shelves.size() > MANY_SHELVES) {
                if (last_shelf == &shelf) last_shelf = nullptr;
                each = shelves.erase(each);
            } else {
                ++each;
            }
        }
    }

    // Take a block of about this size that any queue may have; else the smallest of those, of the queue's own, and of
    // those that it is ordered after.
    Block *take_ordered(const Taker &taker, size_t nbytes) REQUIRES(lock) {
        if (Block *block = anyone.closest(nbytes)) return hand_out(block, nbytes);
        Block *best = anyone.smallest(nbytes);
        if (Shelf *own = find_shelf(taker.queue)) {
            Block *block = own->smallest(nbytes);
            if (block && (!best || block->nbytes <= best->nbytes)) best = block;
        }
        for (auto &[queue, shelf] : shelves) {
            if (!taker.follows || queue == taker.queue || !shelf.by_age.first) continue;
            Block *block = shelf.smallest(nbytes);
            if (block && (!best || block->nbytes < best->nbytes) && taker.is_after(block->freed)) best = block;
        }
        return hand_out(best, nbytes);
    }

    // Take a block merged from neighbours that the queue has freed and that any queue may have. This is a late step,
    // because no other queue can have the rest until the queue's part is done.
    Block *take_joined(Epochs *queue, size_t nbytes) REQUIRES(lock) {
        auto may_join = [queue](const Block *block) {
            return is_free(block) && (!block->freed.queue || block->freed.queue == queue);
        };
        size_t steps = 0;
        for (Block *block = loose.first; block && steps < MANY_STEPS; block = block->links[LOOSE].after, steps++) {
            if (!may_join(block)) continue;
            Block *first = block, *last = block;
            size_t found = block->nbytes;
            for (; found < nbytes && may_join(first->before()); steps++) found += (first = first->before())->nbytes;
            for (; found < nbytes && may_join(last->after()); steps++) found += (last = last->after())->nbytes;
            if (found < nbytes) continue;
            first->shelf->remove(first);
            while (first->nbytes < found) absorb(first);
            shelve(first);
            return hand_out(first, nbytes);
        }
        return nullptr;
    }
};

}  // namespace forebay
