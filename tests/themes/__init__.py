"""One suite a theme, for every kind of command: see `tests.helpers.features`."""
