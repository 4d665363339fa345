"""Carrying out a study: the plan, what is left of it, and the loop that does it."""
