"""Changes to the SPIR-V that clang makes, and what is found in it."""
