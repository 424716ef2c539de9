"""HIP's vector types, `float4` and its like: ctypes structures, which a launch takes as they are.

Their sizes are HIP's: `float3` has 12 bytes. A kernel's own ``float3`` has 16 in OpenCL C; a launch knows that.
"""

from __future__ import annotations

import ctypes
from typing import Any

ELEMENTS: dict[str, Any] = {
    "char": ctypes.c_int8,
    "uchar": ctypes.c_uint8,
    "short": ctypes.c_int16,
    "ushort": ctypes.c_uint16,
    "int": ctypes.c_int32,
    "uint": ctypes.c_uint32,
    "long": ctypes.c_int64,
    "ulong": ctypes.c_uint64,
    "longlong": ctypes.c_int64,
    "ulonglong": ctypes.c_uint64,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
}


class Vector(ctypes.Structure):
    """One to four elements, x, y, z and w, given by position or by name; 0 where none is given."""

    @classmethod
    def PROPERTIES(cls) -> list[str]:
        """Return the names of the elements."""
        return [field[0] for field in cls._fields_]

    def c_sizeof(self) -> int:
        """Return its bytes."""
        return ctypes.sizeof(self)

    def as_c_void_p(self) -> ctypes.c_void_p:
        """Return where it is, as a ctypes.c_void_p."""
        return ctypes.c_void_p(ctypes.addressof(self))

    def __getitem__(self, key: Any) -> Any:
        names = self.PROPERTIES()
        return getattr(self, key if key in names else names[key])

    def __len__(self) -> int:
        return len(self._fields_)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={self[name]!r}' for name in self.PROPERTIES())})"


for _element, _c_type in ELEMENTS.items():
    for _count in range(1, 5):
        _name = f"{_element}{_count}"
        _members = {
            "__doc__": f"A vector of {_element}, see `Vector`.",
            "__module__": __name__,
            "_fields_": [(member, _c_type) for member in "xyzw"[:_count]],
        }
        globals()[_name] = type(_name, (Vector,), _members)
