CALL_NAMES: tuple[str, ...]
REASONS: dict[int, str]

def load() -> None: ...
