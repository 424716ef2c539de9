"""The drivers, each in a folder of its own; which there are, and what all of them share."""
