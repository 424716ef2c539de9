import ctypes

CALL_NAMES: tuple[str, ...]

def load(library: ctypes.CDLL) -> None: ...
