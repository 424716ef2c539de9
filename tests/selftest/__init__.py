"""`forebay selftest`: its litmus tests hold, and fail when forebay's waits are lost."""
