"""Events, which wrap markers: recorded, waited for, and timed."""
