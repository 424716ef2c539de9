"""Steps: what a program repeats is compared with a record, and runs of launches are submitted by one driver call."""
