"""Memory that graphs allocate, and free."""
