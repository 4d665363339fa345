"""A module per tool or kind of file: how it is recognised, what its columns are, and what needs code."""
