"""The verbs of breadth as Python functions: tables in, tidy frames out.

One module per verb. The command line calls these and prints; nothing but ``cli`` imports this room.
"""

from breadth.verbs.correlate import Correlation, correlate

__all__ = ["Correlation", "correlate"]
