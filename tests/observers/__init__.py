"""One module per driver, which watches forebay's calls. `make test` compiles them; nothing installs them."""
