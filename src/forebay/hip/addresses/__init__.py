"""What is known of memory and of pointers to it: attributes, hints, registered memory, pools, other processes."""
