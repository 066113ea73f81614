"""Recorded programs: flat steps over numbered values, what `Backend.compile` is given."""
