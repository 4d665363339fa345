"""Logs of evaluation tools: a module per tool, and what puts their answers together."""
