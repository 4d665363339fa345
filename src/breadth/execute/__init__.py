"""Carrying out a study: its data, the plan and what it costs, and the loop that does what is left of it.

Imports ``study``, ``lm``, ``datasets``, ``difficulty`` and ``records``; the verb ``run`` imports it.

"""
