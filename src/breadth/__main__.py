"""``python -m breadth`` is the same as ``breadth``."""

from breadth.cli import main

main()
