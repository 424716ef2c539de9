CALL_NAMES: dict[int, str]
REASONS: dict[int, str]

def load() -> None: ...
