"""What reading a texture gives, in NumPy: "Texture Fetching" of the CUDA C++ Programming Guide."""

import itertools

import numpy as np

from .conftest import Address


def as_read(values, floats):
    """Elements as a kernel gets them: integers as they are, or from 0 or -1 to 1."""
    if floats and values.dtype.kind != "f" and values.itemsize < 4:
        return np.maximum(values / float(np.iinfo(values.dtype).max), -1)
    return values.astype("f8") if values.dtype.kind == "f" else values


def index(i, n, mode):
    """The element that an index means, and whether there is one."""
    there = np.ones(i.shape, bool)
    if mode == Address.hipAddressModeWrap:
        i = i % n
    elif mode == Address.hipAddressModeMirror:
        i = i % (2 * n)
        i = np.where(i < n, i, 2 * n - 1 - i)
    else:
        there = (i >= 0) & (i < n) if mode == Address.hipAddressModeBorder else there
        i = np.clip(i, 0, n - 1)
    return i, there


def sample(values, coordinates, modes, linear=False, normalized=False, border=(0, 0, 0, 0)):
    """Values of shape (…, channels) with the last dimension but one along x, at coordinates (x, y, z)."""
    border = np.array(border[: values.shape[-1]], "f8")
    if not normalized:
        needs = (Address.hipAddressModeWrap, Address.hipAddressModeMirror)
        modes = [Address.hipAddressModeClamp if mode in needs else mode for mode in modes]
    extents = values.shape[-2::-1]
    places = [np.asarray(x, "f8") * (n if normalized else 1) for x, n in zip(coordinates, extents, strict=False)]

    def at(indices):
        found = [index(i, n, mode) for i, n, mode in zip(indices, extents, modes, strict=False)]
        there = np.all([each for _, each in found], axis=0)
        return np.where(there[:, None], values[tuple(i for i, _ in reversed(found))], border)

    if not linear:
        return at([np.floor(x).astype(int) for x in places])
    below = [np.floor(x - 0.5) for x in places]
    weights = [np.floor((x - 0.5 - i) * 256 + 0.5) / 256 for x, i in zip(places, below, strict=True)]
    total = 0
    for corner in itertools.product((0, 1), repeat=len(places)):
        weight = np.prod([w if side else 1 - w for w, side in zip(weights, corner, strict=True)], axis=0)
        total = total + weight[:, None] * at([i.astype(int) + side for i, side in zip(below, corner, strict=True)])
    return total
