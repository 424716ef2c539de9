from typing import SupportsIndex

from typing_extensions import Buffer

class Local:
    def __init__(self, nbytes: SupportsIndex) -> None: ...
    @property
    def nbytes(self) -> int: ...

local = Local

class ByValue:
    def __init__(self, value: Buffer) -> None: ...
    @property
    def value(self) -> Buffer: ...

by_value = ByValue
