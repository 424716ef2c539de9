"""Device, Queue, Kernel, Buffer and the launch path; one folder per driver."""
