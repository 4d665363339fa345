"""Recording inside other libraries' training loops: a module per library, which imports that library.

Import the module itself, as ``from breadth.integrations.transformers import BreadthCallback``. Only ``cli`` and
``reporting`` are above this package, and neither imports it.
"""
