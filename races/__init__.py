"""Races: commands that use the same memory and that no synchronization of the program orders."""
