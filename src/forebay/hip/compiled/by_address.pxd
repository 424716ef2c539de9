"""Objects by the address at which something begins: sorted arrays, none of them long, so that a change moves little."""

from cpython.object cimport PyObject
from libc.stdint cimport uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memmove
from libcpp.vector cimport vector

cdef enum:
    MOST_IN_PIECE = 256


cdef struct Entry:
    uint64_t base
    PyObject* thing


cdef struct Piece:
    Py_ssize_t count  # never 0
    Entry entries[MOST_IN_PIECE]  # by ascending base


cdef cppclass ByAddress:
    vector[Piece*] pieces  # by ascending base; owned
    Piece* piece  # that of the last hit; NULL for none
    Py_ssize_t at


cdef inline size_t piece_below(ByAddress& map, uint64_t address) noexcept nogil:
    """Return the last piece that begins up to this address; the first when all begin above it."""
    cdef size_t low = 0, high = map.pieces.size(), middle
    while high - low > 1:
        middle = (low + high) // 2
        if map.pieces[middle].entries[0].base <= address:
            low = middle
        else:
            high = middle
    return low


cdef inline Py_ssize_t first_above(const Piece* piece, uint64_t address) noexcept nogil:
    cdef Py_ssize_t low = 0, high = piece.count, middle
    while low < high:
        middle = (low + high) // 2
        if piece.entries[middle].base <= address:
            low = middle + 1
        else:
            high = middle
    return low


cdef inline bint is_last_hit(ByAddress& map, uint64_t address) noexcept nogil:
    if map.piece == NULL or map.piece.entries[map.at].base > address:
        return False
    if map.at + 1 < map.piece.count:
        return address < map.piece.entries[map.at + 1].base
    return map.piece == map.pieces.back()


cdef inline Entry* below(ByAddress& map, uint64_t address) noexcept nogil:
    """Return the entry with the highest base up to this address, which is good until a change; NULL for none."""
    cdef Piece* piece
    cdef Py_ssize_t above
    if not is_last_hit(map, address):
        if map.pieces.empty():
            return NULL
        piece = map.pieces[piece_below(map, address)]
        above = first_above(piece, address)
        if above == 0:
            return NULL
        map.piece, map.at = piece, above - 1
    return &map.piece.entries[map.at]


cdef inline Entry* at_base(ByAddress& map, uint64_t base) noexcept nogil:
    """Return the entry of this base; NULL for none."""
    cdef Entry* found = below(map, base)
    return found if found != NULL and found.base == base else NULL


cdef inline bint split(ByAddress& map, size_t index) noexcept nogil:
    """Move the upper half of a piece to a new one. False without memory."""
    cdef Piece* piece = map.pieces[index]
    cdef Piece* upper = <Piece*> malloc(sizeof(Piece))
    if upper == NULL:
        return False
    piece.count //= 2
    upper.count = MOST_IN_PIECE - piece.count
    memcpy(upper.entries, piece.entries + piece.count, upper.count * sizeof(Entry))
    map.pieces.insert(map.pieces.begin() + index + 1, upper)
    return True


cdef inline bint insert_above(ByAddress& map, const Entry* found, uint64_t base, PyObject* thing) noexcept nogil:
    """Put in what has no entry yet, next to what `below` has found for it, and make it the last hit. False without
    memory.
    """
    cdef Piece* piece
    cdef Py_ssize_t at = 0
    if found != NULL:
        piece, at = map.piece, map.at + 1
    elif not map.pieces.empty():
        piece = map.pieces.front()
    else:
        piece = <Piece*> malloc(sizeof(Piece))
        if piece == NULL:
            return False
        piece.count = 0
        map.pieces.push_back(piece)
    if piece.count == MOST_IN_PIECE:
        if not split(map, piece_below(map, piece.entries[0].base)):
            return False
        if at > piece.count:
            at -= piece.count
            piece = map.pieces[piece_below(map, piece.entries[0].base) + 1]
    memmove(piece.entries + at + 1, piece.entries + at, (piece.count - at) * sizeof(Entry))
    piece.entries[at].base = base
    piece.entries[at].thing = thing
    piece.count += 1
    map.piece, map.at = piece, at
    return True


cdef inline void remove(ByAddress& map, Entry* entry) noexcept nogil:
    """Take out the last hit, which `entry` is."""
    cdef Piece* piece = map.piece
    piece.count -= 1
    memmove(entry, entry + 1, (piece.count - map.at) * sizeof(Entry))
    if map.at > 0:
        map.at -= 1
        return
    map.piece = NULL
    if piece.count == 0:
        map.pieces.erase(map.pieces.begin() + piece_below(map, entry.base))
        free(piece)
