// Objects by the address at which each begins: sorted vectors, none of them long, so that a change moves little.
#pragma once

#include <Python.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace forebay_hip {

struct Entry {
    uint64_t base;
    PyObject *thing;  // owned
};

class ByAddress {
    static constexpr size_t most = 256;  // in a piece
    using Piece = std::vector<Entry>;

    std::vector<Piece> pieces;  // none is empty; by ascending base, as their entries are
    Piece *last = nullptr;      // where an entry was found last; nullptr when that has moved
    size_t at = 0;

    bool is_last(uint64_t address) const {
        if (!last || (*last)[at].base > address) return false;
        return at + 1 < last->size() ? address < (*last)[at + 1].base : last == &pieces.back();
    }

    static Entry *after(Piece &piece, uint64_t address) {
        return std::upper_bound(piece.data(), piece.data() + piece.size(), address,
                                [](uint64_t a, const Entry &each) { return a < each.base; });
    }

public:
    // The entry with the highest base up to this address, which is good until a change; nullptr for none.
    Entry *below(uint64_t address) {
        if (!is_last(address)) {
            if (pieces.empty() || pieces.front().front().base > address) return nullptr;
            last = &pieces.front();
            if (last != &pieces.back())
                last = std::upper_bound(last, last + pieces.size(), address,
                                        [](uint64_t a, const Piece &each) { return a < each.front().base; }) - 1;
            at = after(*last, address) - last->data() - 1;
        }
        return last->data() + at;
    }

    // The entry of this base; nullptr for none.
    Entry *at_base(uint64_t base) {
        Entry *found = below(base);
        return found && found->base == base ? found : nullptr;
    }

    // Put in what has no entry yet.
    void insert(uint64_t base, PyObject *thing) {
        if (pieces.empty()) {
            pieces.push_back({{base, thing}});
            return;
        }
        bool is_first = !below(base);
        Piece *piece = is_first ? &pieces.front() : last;
        size_t place = is_first ? 0 : at + 1;
        if (piece->size() == most) {
            Piece upper(piece->begin() + most / 2, piece->end());
            size_t index = piece - pieces.data();
            last = nullptr;
            pieces.insert(pieces.begin() + index + 1, std::move(upper));
            pieces[index].resize(most / 2);
            bool is_upper = place > most / 2;
            piece = &pieces[index + is_upper];
            place -= is_upper ? most / 2 : 0;
        }
        piece->insert(piece->begin() + place, {base, thing});
        last = piece;
        at = place;
    }

    // Take out the entry that was found last.
    void remove() {
        last->erase(last->begin() + at);
        if (at > 0) {
            --at;
            return;
        }
        if (last->empty()) pieces.erase(pieces.begin() + (last - pieces.data()));
        last = nullptr;
    }

    std::vector<uint64_t> bases() const {
        std::vector<uint64_t> all;
        for (const Piece &each : pieces)
            for (const Entry &entry : each) all.push_back(entry.base);
        return all;
    }
};

}  // namespace forebay_hip
