"""What watches forebay from inside: its driver calls and its clocks. `make test` compiles this; nothing installs it."""
