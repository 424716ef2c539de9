"""One module per driver that watches forebay's calls of it; `make test` compiles them, and nothing installs them."""
