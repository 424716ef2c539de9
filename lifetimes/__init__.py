"""How long things live: what is kept until the device is done with it, and who gives it back."""
