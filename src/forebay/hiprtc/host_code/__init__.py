"""Code of the host in programs for the device: what of it does not compile is left out."""
